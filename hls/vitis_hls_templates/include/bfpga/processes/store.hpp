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
    using index_t = uint_t<7>;

   public:
    // Until the start ends. `exponents`: one of each STORE; `credits`: one word for each group taken.
    template <class Sink>
    void run(stream<command_t>& commands, stream<int_t<32>>& exponents, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Sink& sink, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        CheckedSink<Config::stream_bits, Sink> output(sink);
        phase_ = Phase::Command;
        index_ = 0;
        part_ = 0;
        bool running = true;
        PipelinedLoop loop("Store");
    Store:
        while (running) {
// II=1: one word or one group is read, one beat written at most. Carried: the beat that is filled group by group, and
// counters with registered ends.
#pragma HLS PIPELINE II=1
            loop.iteration();
            const Phase now = phase_;
            const bool last = groups_.last();
            const part_t part = part_;
            const bool full = part == Words::groups - 1;
            const index_t index = index_;
            const bool complete = index == StoreCommand::words - 1;
            running = !(now == Phase::Command && complete && ends_);
            next(now, complete, full, last);
            if (now == Phase::Command) {
                take(index, static_cast<int32_t>(commands.read()));
            }
            bool writes = now == Phase::Header;
            if (now == Phase::Header) {
                beat_ = 0;
                set_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent,
                                                              static_cast<int64_t>(exponents.read()));
            }
            if (now == Phase::Groups) {
                const GroupBeat<Config> group = from_wire<GroupBeat<Config>>(stored.read());
                credits.write(true);
                Words::set(beat_, static_cast<int>(part), group.word);
                writes = full || last;
            }
            if (writes) {
                output.write(beat_, now == Phase::Groups && last && tensor_.has(Flag::EndPacket));
                beat_ = 0;
            }
        }
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(output.checksum())));
    }

   private:
    enum class Phase { Command, Begin, Header, Groups };

    // A word of the command. The first one tells whether the start ends.
    void take(index_t index, int32_t word) {
#pragma HLS INLINE
        if (index == 0) {
            ends_ = word == 0;
        }
        StoreCommand::set(tensor_, static_cast<int>(index), word);
    }

    // What the next clock does.
    void next(Phase now, bool complete, bool full, bool last) {
#pragma HLS INLINE
        const bool groups = now == Phase::Groups;
        const bool any = groups_.any();
        if (now == Phase::Command) {
            index_ = complete ? static_cast<index_t>(0) : static_cast<index_t>(index_ + 1);
        }
        part_ = !groups || full ? static_cast<part_t>(0) : static_cast<part_t>(part_ + 1);
        groups_.step(groups);
        if (now == Phase::Begin) {
            groups_.start(tensor_.output_pixels, tensor_.output_width, tensor_.input_pixel_words);
        }
        if (now == Phase::Command) {
            phase_ = complete ? Phase::Begin : Phase::Command;
        } else if (now == Phase::Begin) {
            phase_ = Phase::Header;
        } else if (now == Phase::Header) {
            phase_ = any ? Phase::Groups : Phase::Command;
        } else {
            phase_ = last ? Phase::Command : Phase::Groups;
        }
    }

    using part_t = uint_t<bit_length(Words::groups) + 1>;

    Phase phase_;
    bool ends_;      // the command ends the start
    index_t index_;  // of the word of the command
    part_t part_;    // group of the beat
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
};

}  // namespace bfpga
