// The store process: header and words of stored tensors become beats of the output stream.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/ports/beat_words.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config>
class StoreProcess {
    using Words = BeatWords<Config>;
    using beat_t = bits_t<Config::stream_bits>;
    using index_t = uint_t<7>;
    static constexpr bool counts = Config::count_registers > 0;
    static_assert(!counts || Config::stream_bits >= TensorHeaderFields::choices + TensorHeaderFields::choices_bits,
                  "a header holds what count registers tell");

   public:
    // Until the start ends. `exponents`: one of each STORE; `credits`: one word for each group taken.
    template <class Sink>
    void run(stream<command_t>& commands, stream<int_t<32>>& exponents, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Sink& sink, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        CheckedSink<Config::stream_bits, Sink> output(sink);
        start();
        bool running = true;
        PipelinedLoop loop("Store");
    Store:
        do {
// II=1: one word or one group is read, one beat written at most. Carried: the beat that is filled group by group,
// flags, and counters with registered ends.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Clock now = clock_;
            const bool last = groups_.last();
            const bool full = now.part == Words::groups - 1;
            running = !(now.command && now.last_word && ends_);
            next(now, full, last);
            if (now.command) {
                take(now, static_cast<int32_t>(commands.read()));
            }
            if (now.header) {
                beat_ = 0;
                set_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent,
                                                              static_cast<int64_t>(exponents.read()));
                if (counts) {
                    set_signed<TensorHeaderFields::choices_bits>(beat_, counts ? TensorHeaderFields::choices : 0,
                                                                 static_cast<int64_t>(choices_));
                }
            }
            if (now.group) {
                const GroupBeat<Config> group = from_wire<GroupBeat<Config>>(stored.read());
                credits.write(true);
                Words::set(beat_, static_cast<int>(now.part), group.word);
            }
            if (now.header || (now.group && (full || last))) {
                output.write(beat_, now.group && last && tensor_.has(Flag::EndPacket));
                beat_ = 0;
            }
        } while (running);
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(output.checksum())));
    }

   private:
    using part_t = uint_t<bit_length(Words::groups)>;

    // What a clock does: it takes a word of the command, prepares for the tensor, sends its header, or moves a group.
    struct Clock {
        bool command, begin, header, group;
        bool last_word;  // of the command
        index_t index;   // of the word of the command
        part_t part;     // group of the beat
    };

    void start() {
#pragma HLS INLINE
        clock_.command = true;
        clock_.begin = false;
        clock_.header = false;
        clock_.group = false;
        clock_.last_word = StoreCommand::words == 1;
        clock_.index = 0;
        clock_.part = 0;
        ends_ = false;
    }

    // A word of the command. The first one tells whether the start ends, and what count registers tell.
    void take(const Clock& now, int32_t word) {
#pragma HLS INLINE
        if (now.index == 0) {
            ends_ = word == 0;
            choices_ = static_cast<uint_t<16>>(static_cast<uint32_t>(word) >> operation_bits);
        }
        StoreCommand::set(tensor_, static_cast<int>(now.index), word);
    }

    // What the next clock does.
    void next(const Clock& now, bool full, bool last) {
#pragma HLS INLINE
        const bool any = groups_.any();
        clock_.command = (now.command && !now.last_word) || (now.header && !any) || (now.group && last);
        clock_.begin = now.command && now.last_word;
        clock_.header = now.begin;
        clock_.group = (now.header && any) || (now.group && !last);
        clock_.part = !now.group || full ? static_cast<part_t>(0) : static_cast<part_t>(now.part + 1);
        clock_.index = now.command && !now.last_word ? static_cast<index_t>(now.index + 1) : static_cast<index_t>(0);
        clock_.last_word = now.command && now.index == StoreCommand::words - 2;
        groups_.step(now.group, now.header);
        if (now.begin) {
            groups_.set(tensor_.output_pixels, tensor_.output_width, tensor_.input_pixel_words);
        }
    }

    Clock clock_;
    bool ends_;  // the command ends the start
    uint_t<16> choices_;
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
};

}  // namespace bfpga
