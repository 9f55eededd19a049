// The commands of a sparse cluster in the place of the array, as the sequencer sends them.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

class ArrayCommands {
   public:
    explicit ArrayCommands(stream<command_t>& to) : to_(to), hears_(false) {}

    // Word `index` of a descriptor; `ends`: of the commands that end the start; `skips`: the descriptor is skipped.
    void send(command_t word, int index, bool first, bool ends, bool skips) {
#pragma HLS INLINE
        if (first) {
            hears_ = !ends && ArrayCommand::hears(static_cast<int32_t>(word)) && !skips;
        }
        // A single word ends the start: nobody reads another one before the next start, whose first it would be.
        if ((first && ends) || (hears_ && ArrayCommand::has(index))) {
            to_.write(word);
        }
    }

   private:
    stream<command_t>& to_;
    bool hears_;
};

}  // namespace bfpga
