// The program memory before the sequencer: descriptors are sent once, and every sample repeats them.
//
// The host sends a header (contract/program_header.hpp), descriptors if they are not there yet, and the tensors of all
// samples. To the sequencer go the beats that a host would have sent without this process. A start is a number of rows
// of descriptors, each the same (engines/kernel/order.py): with operations of the sample before, `previous` to `rest`,
// which the first row lacks and which alone are the last one. What operations wait for counts from the begin of the
// start: each row adds its `period`. The last row alone ends the packet.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/contract/program_header.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/program/beats.hpp"
#include "bfpga/processes/program/memory.hpp"

namespace bfpga {

template <class Config>
class ProgramProcess {
    using Memory = ProgramMemory<Config>;
    using Beat = PlainBeat<Config>;
    using beat_t = bits_t<Config::stream_bits>;
    using address_t = ProgramHeader::address_t;
    using count_t = ProgramHeader::count_t;
    using tensor_t = uint_t<ProgramHeader::tensor_bits>;
    static constexpr int words_per_beat = Memory::words_per_beat;
    static constexpr int beats = Descriptor::words / words_per_beat;  // of a descriptor
    static_assert(Descriptor::words % words_per_beat == 0, "a descriptor is a whole number of beats");
    static_assert(ProgramHeader::words % words_per_beat == 0, "a header is a whole number of beats");
    // Clocks from a descriptor's first beat, which the memory gives late, to its last one: what follows it takes
    // registers one behind the other.
    static constexpr int stages = beats < 8 ? beats - 2 : 6;
    static_assert(beats >= 5, "three registers fit between the first beat of a descriptor and its last one");

   public:
    // One start; `reports` gets the checksum of what the host has sent.
    template <class Source>
    void run(Source& source, stream<wire_t<Beat>>& to, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        CheckedSource<Config::stream_bits, Source> input(source);
        read_header(input);
        fill(input);
        start();
        PipelinedLoop loop("Program");
    Program:
        do {
// II=1: a beat is read at most, of the host or of the memory, and one is written. Carried: what the next beat is, by
// flags with registered ends, and the descriptor after this one, found while its beats leave.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Turn now = turn_;
            running_ = !over_;
            const beat_t stored = memory_.at(at_);
            beat_t beat = 0;
            input.expect(1, "what a program reads, of row", row_);
            const bool goes = !over_ && (!now.reads || input.read_nb(beat));
            if (goes) {
                const beat_t found = now.reads ? beat : stored;
                Beat sent;
                sent.data = now.word ? patched(now, found) : found;
                to.write(to_wire(sent));
                next(now);
                if (now.first) {
                    take(found);
                }
            }
        } while (running_);
        loop.ended();
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(input.checksum())));
    }

   private:
    // What a beat is: of a descriptor (`first`, `last` of it; `flags`: has its flags), or of a tensor; `reads`: it is
    // the host's.
    struct Turn {
        bool word, first, last, flags, reads;
        uint_t<bit_length(beats)> number;  // of the descriptor's beat
    };

    using place_t = uint_t<Memory::address_bits>;

    // Whether a tensor follows a descriptor; `single`: of one beat.
    struct Tensor {
        bool any, single;
    };

    template <class Input>
    void read_header(Input& input) {
#pragma HLS INLINE
        input.expect(ProgramHeader::words / words_per_beat, "the header of a program", 0);
        PipelinedLoop loop("Header");
    Header:
        for (int n = 0; n < ProgramHeader::words / words_per_beat; ++n) {
// II=1: a beat is read, its words are registers.
#pragma HLS PIPELINE II=1
            loop.iteration();
            const beat_t beat = input.read();
        Words_Take:
            for (int word = 0; word < words_per_beat; ++word) {
#pragma HLS UNROLL
                header_.set(n * words_per_beat + word, static_cast<int32_t>(get_signed<32>(beat, 32 * word)));
            }
        }
        loop.ended();
    }

    // Descriptors that come with the start.
    template <class Input>
    void fill(Input& input) {
#pragma HLS INLINE
        const address_t count = header_.sent;
        simulation_check(static_cast<int>(header_.base) + static_cast<int>(count) <= Memory::beats || count == 0,
                         "a program", "is longer than its memory, with beats", static_cast<long long>(count));
        input.expect(static_cast<long long>(count), "a program", 0);
        PipelinedLoop loop("Fill");
    Fill:
        for (address_t n = 0; n < count; ++n) {
// II=1: a beat is read and written.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=0 max=65536
            loop.iteration();
            memory_.set(static_cast<place_t>(header_.base + n), input.read());
        }
        loop.ended();
    }

    void start() {
#pragma HLS INLINE
        begin_ = header_.base;
        at_ = static_cast<place_t>(begin_);
        streamed_ = header_.streamed != 0;
        laps_ = header_.previous != header_.rest;
        rows_ = header_.rows;
        first_row_ = true;
        last_row_ = header_.rows == 1;
        last_behind_ = header_.rows == 2;
        row_ = 0;
        over_ = false;
        running_ = true;
        turn_.word = true;
        turn_.first = true;
        turn_.last = false;
        turn_.flags = flags_in == 0;
        turn_.reads = streamed_;
        turn_.number = 0;
    Offsets_Clear:
        for (int n = 0; n < ProgramHeader::counts; ++n) {
#pragma HLS UNROLL
            offset_[n] = 0;
        }
    }

    // The first beat of a descriptor.
    void take(const beat_t& beat) {
#pragma HLS INLINE
        const uint32_t word = static_cast<uint32_t>(get_signed<32>(beat, 0));
        told_ = static_cast<tensor_t>(word >> ProgramHeader::tensor_first);
    }

    // A beat of a descriptor as the sequencer gets it.
    beat_t patched(const Turn& now, const beat_t& beat) const {
#pragma HLS INLINE
        beat_t to = beat;
        constexpr uint32_t operation = (static_cast<uint32_t>(1) << ProgramHeader::tensor_first) - 1;
    Words_Patch:
        for (int word = 0; word < words_per_beat; ++word) {
#pragma HLS UNROLL
            const uint32_t old = static_cast<uint32_t>(get_signed<32>(beat, 32 * word));
            count_t added = 0;
            bool counts = false;
        Counts_Add:
            for (int n = 0; n < ProgramHeader::counts; ++n) {
#pragma HLS UNROLL
                const bool here = ProgramHeader::count_word(n) % words_per_beat == word &&
                                  now.number == ProgramHeader::count_word(n) / words_per_beat;
                added = here ? offset_[n] : added;
                counts = counts || here;
            }
            const count_t sum = static_cast<count_t>(static_cast<count_t>(old) + added);
            uint32_t changed = counts ? static_cast<uint32_t>(sum) : old;
            if (word == 0) {
                changed = now.first ? old & operation : changed;
            }
            if (word == 1 % words_per_beat) {
                const uint32_t open = old & ~static_cast<uint32_t>(Flag::EndPacket);
                changed = now.flags && !last_row_ ? open : changed;
            }
            set_signed<32>(to, 32 * word, static_cast<int64_t>(static_cast<int32_t>(changed)));
        }
        return to;
    }

    // One beat has left. Each register follows from others of the beat before.
    void next(const Turn& now) {
#pragma HLS INLINE
        const Tensor tensor = tensor_[stages - 1];
        const bool to_tensor = now.last && tensor.any;
        const bool tensor_ends = !now.word && last_beat_;
        const bool done = tensor_ends || (now.last && !tensor.any);
        const bool within = now.word && !now.last;
        turn_.word = within || done;
        turn_.first = done;
        turn_.last = within && now.number == beats - 2;
        turn_.flags = done ? flags_in == 0 : flags_in == 1 && now.first;
        turn_.reads = streamed_ || !(within || done);
        turn_.number =
            within ? static_cast<uint_t<bit_length(beats)>>(now.number + 1) : static_cast<uint_t<bit_length(beats)>>(0);
        last_beat_ = to_tensor ? tensor.single : left_ == 2;
        left_ = to_tensor ? length_ : static_cast<tensor_t>(left_ - 1);
        length_ = before_length_;
        before_length_ = told_;
    Tensors_Delay:
        for (int n = stages - 1; n > 0; --n) {
#pragma HLS UNROLL
            tensor_[n] = tensor_[n - 1];
        }
        tensor_[0].any = told_ != 0;
        tensor_[0].single = told_ == 1;
        over_ = done && row_ends_ && last_row_;
        // Where the host sends descriptors the memory is not read, and its address stays what it was.
        at_ = streamed_ ? at_ : done ? static_cast<place_t>(next_) : within ? static_cast<place_t>(at_ + 1) : at_;
        walk(done);
    }

    // The descriptor behind this one, in three clocks from its first beat on; `done`: it is the next one.
    void walk(bool done) {
#pragma HLS INLINE
        const bool row = done && row_ends_;
        const address_t following = next_;
        row_ends_ = is_end_;
        next_ = is_end_ ? row_begin_ : is_jump_ ? header_.rest : behind_;
        is_end_ = behind_ == row_end_;
        is_jump_ = first_row_ && laps_ && behind_ == header_.previous;
        behind_ = static_cast<address_t>(begin_ + beats);
        begin_ = done ? following : begin_;
        row_end_ = laps_ && last_row_ ? header_.rest : header_.end;
        row_begin_ = laps_ && last_behind_ ? header_.previous : header_.base;
        if (row) {
            first_row_ = false;
            last_row_ = last_behind_;
            last_behind_ = rows_ == 3;
            rows_ = static_cast<int_t<32>>(rows_ - 1);
            row_ = row_ + 1;
        Offsets_Step:
            for (int n = 0; n < ProgramHeader::counts; ++n) {
#pragma HLS UNROLL
                offset_[n] = static_cast<count_t>(offset_[n] + header_.period[n]);
            }
        }
    }

    // The beat of a descriptor's flags, its second word.
    static constexpr int flags_in = 1 / words_per_beat;

    ProgramHeader header_;
    Memory memory_;
    Turn turn_;
    Tensor tensor_[stages];
    bool running_, over_;
    bool streamed_, laps_;                     // descriptors are the host's; rows have operations of the sample before
    bool first_row_, last_row_, last_behind_;  // the row; whether the next one is the last
    bool last_beat_;                           // of the tensor
    tensor_t left_;                            // beats of the tensor
    int_t<32> rows_;                           // from this one on
    int32_t row_;                              // for a simulation's messages
    place_t at_;                               // of the beat
    // Beats of the tensor: as the first beat of the descriptor tells, and one and two clocks later.
    tensor_t told_, before_length_, length_;
    address_t begin_;  // of the descriptor
    address_t behind_, next_, row_end_, row_begin_;
    bool is_end_, is_jump_, row_ends_;
    count_t offset_[ProgramHeader::counts];
};

}  // namespace bfpga
