// The store process: header and words of stored tensors become beats of the output stream.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/kernel/transfers.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config>
class StoreProcess {
    using Words = BeatWords<Config>;
    using beat_t = bits_t<Config::stream_bits>;

   public:
    // Until the start ends. `exponents`: one of each STORE; `credits`: one word for each group taken.
    template <class Sink>
    void run(stream<command_t>& commands, stream<int_t<32>>& exponents, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Sink& sink, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        CheckedSink<Config::stream_bits, Sink> output(sink);
        phase_ = Phase::Command;
        index_ = 0;
        bool running = true;
        PipelinedLoop loop("Store");
    Store:
        while (running) {
// II=1: one word or one group is read, one beat written at most. Carried: the beat that is filled group by group, and
// counters with registered ends.
#pragma HLS PIPELINE II=1
            loop.iteration();
            bool writes = false;
            bool ends = false;
            if (phase_ == Phase::Command) {
                running = take(static_cast<int32_t>(commands.read()));
            } else if (phase_ == Phase::Header) {
                beat_ = 0;
                set_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent,
                                                              static_cast<int64_t>(exponents.read()));
                writes = true;
            } else {
                const GroupBeat<Config> group = from_wire<GroupBeat<Config>>(stored.read());
                credits.write(true);
                Words::set(beat_, static_cast<int>(part_), group.word);
                writes = part_ == Words::groups - 1 || groups_.last();
                ends = groups_.last() && tensor_.has(Flag::EndPacket);
            }
            if (writes) {
                output.write(beat_, ends);
                beat_ = 0;
            }
            next();
        }
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(output.checksum())));
    }

   private:
    enum class Phase { Command, Header, Groups };

    // A word of the command; whether the start goes on.
    bool take(int32_t word) {
#pragma HLS INLINE
        StoreCommand::set(tensor_, static_cast<int>(index_), word);
        const bool complete = index_ == StoreCommand::words - 1;
        index_ = complete ? static_cast<uint_t<7>>(0) : static_cast<uint_t<7>>(index_ + 1);
        complete_ = complete;
        return !(complete && tensor_.operation == 0);
    }

    void next() {
#pragma HLS INLINE
        switch (phase_) {
            case Phase::Command:
                phase_ = complete_ ? Phase::Header : Phase::Command;
                break;
            case Phase::Header:
                part_ = 0;
                groups_.start(tensor_.output_pixels, tensor_.output_width, tensor_.input_pixel_words);
                phase_ = groups_.any() ? Phase::Groups : Phase::Command;
                break;
            default:
                part_ = part_ == Words::groups - 1 ? static_cast<part_t>(0) : static_cast<part_t>(part_ + 1);
                phase_ = groups_.last() ? Phase::Command : Phase::Groups;
                groups_.next();
        }
    }

    using part_t = uint_t<bit_length(Words::groups) + 1>;

    Phase phase_;
    bool complete_;
    uint_t<7> index_;  // of the word of the command
    part_t part_;      // group of the beat
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
};

}  // namespace bfpga
