// The array in a simulation of a kernel, with the process of its weights and the streams between the two.
#pragma once
#include <string>
#include <vector>

#include "bfpga/processes/operand_words.hpp"
#include "bfpga/processes/scratchpad/chunks.hpp"
#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/systolic/array.hpp"
#include "bfpga/processes/weights.hpp"

namespace bfpga {

// A systolic array. Its replacements have the same interface.
template <class Config, class Storage>
class SystolicMultiplying {
   public:
    // Calls `join` with each stream and the words that it holds.
    template <class Join>
    void join(const Join& join) {
        join(weight_words_, Config::weight_words_depth);
        operand_words_.join(join);
    }

    // The commands from the sequencer to the array.
    NoArrayCommands& commands() { return commands_; }

    // Runs the scratchpad between its `streams`, and its streams to the array.
    template <class Scratchpad, class Trace, class Commands, class Loads, class Operands, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Commands& commands,
                        Loads& loads, Operands& operands, Streams&... streams) {
        NoOperands none;
        decltype(operand_words_.beside(none)) beside = operand_words_.beside(none);
        NoWindows windows;
        scratchpad.run(commands, loads, operands, beside, streams..., windows, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        weights_.run_beside(operand_words_.words(), commands, source, parameters, reports, trace, weight_words_);
    }

    static void name_arrays(std::vector<std::string>& names) { names.push_back("array"); }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &operands, &sums] { array_.run(operands, weight_words_, sums); });
    }

    template <class Post, class Commands, class Sums, class... Streams>
    void run_post(Post& post, Commands& commands, Sums& sums, Streams&... streams) {
        post.run(commands, sums, streams...);
    }

    template <class Store, class... Streams>
    void run_store(Store& store, Streams&... streams) {
        store.run(streams...);
    }

    // As after the reset that a board needs when a start has failed: no sum is left in the pipeline.
    void reset() { array_ = ArrayProcess<Config, Storage>(); }

   private:
    NoArrayCommands commands_;
    WeightsProcess<Config> weights_;
    ArrayProcess<Config, Storage> array_;
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"};
    OperandLink<Config> operand_words_;
};

}  // namespace bfpga
