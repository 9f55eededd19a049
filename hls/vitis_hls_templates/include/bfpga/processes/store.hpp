// The store process: header and words of stored tensors become beats of the output stream. In a kernel with a sparse
// cluster the records of maps that a STORE names follow its tensor (cluster/map_record.hpp).
#pragma once
#include <type_traits>

#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/ports/beat_words.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/maps/ends.hpp"
#include "bfpga/processes/sparse_cluster/map_record.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config>
class StoreProcess {
    using Words = BeatWords<Config>;
    using beat_t = bits_t<Config::stream_bits>;
    using index_t = uint_t<7>;
    static constexpr int words_per_beat = Config::stream_bits / 32;
    static constexpr int told_bits = 16;
    static constexpr bool counts = Config::count_registers > 0;
    static_assert(!counts || Config::stream_bits >= TensorHeaderFields::choices + TensorHeaderFields::choices_bits,
                  "a header holds what count registers tell");

   public:
    // Until the start ends. `exponents`: one of each STORE; `credits`: one word for each group taken.
    template <class Sink>
    void run(stream<command_t>& commands, stream<int_t<32>>& exponents, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Sink& sink, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        NoRecords none;
        run(commands, exponents, stored, credits, sink, reports, none);
    }

    // `told`: the words of records.
    template <class Sink, class Told>
    void run(stream<command_t>& commands, stream<int_t<32>>& exponents, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Sink& sink, stream<int_t<32>>& reports, Told& told) {
#pragma HLS INLINE
        constexpr bool tells = !std::is_same<Told, NoRecords>::value;
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
            // A cycle whose word has not come is idle.
            Clock now = clock_;
            command_t word = 0;
            now.command = now.command && commands.read_nb(word);
            int_t<32> exponent = 0;
            now.header = now.header && exponents.read_nb(exponent);
            wire_t<GroupBeat<Config>> group = {};
            now.group = now.group && stored.read_nb(group);
            int_t<32> record = 0;
            now.word = tells && now.word && told.read_nb(record);
            const bool last = groups_.last();
            const bool full = now.part == Words::groups - 1;
            const bool last_word = tells && now.word && told_.last();
            running = !(now.command && now.last_word && ends_);
            if (now.begin || now.command || now.header || now.group || now.word) {
                next(now, full, last, tells);
            }
            if (now.command) {
                take(now, static_cast<int32_t>(word));
            }
            if (now.header) {
                beat_ = 0;
                set_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent,
                                                              static_cast<int64_t>(exponent));
                if (counts) {
                    set_signed<TensorHeaderFields::choices_bits>(beat_, counts ? TensorHeaderFields::choices : 0,
                                                                 static_cast<int64_t>(choices_));
                }
            }
            if (now.group) {
                credits.write(true);
                Words::set(beat_, static_cast<int>(now.part), from_wire<GroupBeat<Config>>(group).word);
            }
            if (tells && now.word) {
                put_word(now.part, record);
            }
            const bool full_words = now.part == words_per_beat - 1;
            if (now.header || (now.group && (full || last)) || (tells && now.word && (full_words || last_word))) {
                const bool ends_tensor = now.group && last && !(tells && tells_);
                // For maps sent compressed; header and records never are.
                mark_beat(sink, now.group && tensor_.has(Flag::Compressed),
                          now.header || (now.group && last) || last_word);
                output.write(beat_, (ends_tensor || last_word) && tensor_.has(Flag::EndPacket));
                beat_ = 0;
            }
        } while (running);
        loop.ended();
        end_beats(sink);
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(output.checksum())));
    }

   private:
    static constexpr int parts = Words::groups > words_per_beat ? Words::groups : words_per_beat;
    using part_t = uint_t<bit_length(parts)>;

    // The action of a cycle: it takes a word of the command, prepares for the tensor, sends its header, moves a group,
    // or a word of a record.
    struct Clock {
        bool command, begin, header, group, word;
        bool last_word;  // of the command
        index_t index;   // of the word of the command
        part_t part;     // group or word of the beat
    };

    void start() {
#pragma HLS INLINE
        clock_.command = true;
        clock_.begin = false;
        clock_.header = false;
        clock_.group = false;
        clock_.word = false;
        clock_.last_word = StoreCommand::words == 1;
        clock_.index = 0;
        clock_.part = 0;
        ends_ = false;
    }

    // A word of the command. The first one flags the end of the start, and carries the values of the count registers.
    void take(const Clock& now, int32_t word) {
#pragma HLS INLINE
        if (now.index == 0) {
            ends_ = word == 0;
            choices_ = static_cast<uint_t<16>>(static_cast<uint32_t>(word) >> operation_bits);
        }
        StoreCommand::set(tensor_, static_cast<int>(now.index), word);
    }

    // The next cycle's action.
    void next(const Clock& now, bool full, bool last, bool tells) {
#pragma HLS INLINE
        const bool any = groups_.any();
        const bool tensor_done = (now.header && !any) || (now.group && last);
        const bool to_words = tells && tensor_done && tells_;
        const bool words_done = tells && now.word && told_.last();
        const bool full_words = now.part == words_per_beat - 1;
        clock_.command = (now.command && !now.last_word) || (tensor_done && !to_words) || words_done;
        clock_.word = to_words || (tells && now.word && !words_done);
        clock_.begin = now.command && now.last_word;
        clock_.header = now.begin;
        clock_.group = (now.header && any) || (now.group && !last);
        const bool goes_on = (now.group && !full && !last) || (tells && now.word && !full_words);
        clock_.part = goes_on ? static_cast<part_t>(now.part + 1) : static_cast<part_t>(0);
        clock_.index = now.command && !now.last_word ? static_cast<index_t>(now.index + 1) : static_cast<index_t>(0);
        clock_.last_word = now.command && now.index == StoreCommand::words - 2;
        groups_.step(now.group, now.header);
        if (now.begin) {
            groups_.set(tensor_.output_pixels, tensor_.output_width, tensor_.input_pixel_words);
        }
        if (tells) {
            told_.step(now.word, now.header);
            if (now.begin) {
                told_.set(static_cast<int_t<told_bits>>(tensor_.told_words));
                tells_ = tensor_.told_words != 0;
            }
        }
    }

    // A word of a record in its place of the beat.
    void put_word(part_t part, int_t<32> word) {
#pragma HLS INLINE
    Words_Place:
        for (int n = 0; n < words_per_beat; ++n) {
#pragma HLS UNROLL
            if (part == n) {
                set_signed<32>(beat_, 32 * n, static_cast<int64_t>(word));
            }
        }
    }

    Clock clock_;
    bool ends_;  // the command ends the start
    uint_t<16> choices_;
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
    bool tells_;             // records follow the tensor,
    Turns<told_bits> told_;  // and their words
};

}  // namespace bfpga
