// Entries of the skip array: a nonzero value, and the wide word of its window that it multiplies.
//
// Each group takes its own entries from a stream, whose FIFO is the group's queue: its depth bounds how far groups run
// ahead of each other. A kernel begins, in every chunk, with an entry of value zero that holds its row; one without a
// value in the chunk has another one, with which its sums leave.
#pragma once
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

template <class Config>
struct Entry {
    static_assert(Config::skip_chunk >= Config::lanes && (Config::skip_chunk & (Config::skip_chunk - 1)) == 0 &&
                      Config::skip_chunk % Config::lanes == 0,
                  "a chunk has a power of two of wide words, whole words of channels");
    static constexpr int position_bits = bit_length(Config::skip_chunk - 1);
    static_assert(Config::rows < (1 << position_bits), "a position can say a row, counted from one");
    static constexpr int marks_from = Config::weight_bits + position_bits;
    static constexpr int bits = marks_from + 2;
    using value_t = int_t<Config::weight_bits>;
    using position_t = uint_t<position_bits>;

    value_t value;
    position_t position;  // of the wide word in its chunk; where a kernel begins: its row, counted from one
    bool last;            // of the kernel in this chunk: its sums leave
    bool ends;            // of the group in this chunk

    // Whether a kernel begins: the only entry that neither adds nor ends anything.
    bool begins() const {
#pragma HLS INLINE
        return value == 0 && !last && !ends;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<Config::weight_bits>(to, 0, static_cast<int64_t>(value));
        set_signed<position_bits>(to, Config::weight_bits, static_cast<int64_t>(position));
        const bool mark[2] = {last, ends};
        PackedFlags<2>::pack(to, marks_from, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        value = static_cast<value_t>(get_signed<Config::weight_bits>(from, 0));
        position = static_cast<position_t>(get_signed<position_bits>(from, Config::weight_bits) &
                                           static_cast<int64_t>(Config::skip_chunk - 1));
        last = flag_at(from, marks_from);
        ends = flag_at(from, marks_from + 1);
    }
};

// The source of a group that multiplies by stored weights: its next entry, if there is one. That of the next start may
// be there before this one has ended.
template <class Config>
class StoredEntries {
   public:
    using Beat = Entry<Config>;

    bool there() const { return head_.there(); }
    const Beat& entry() const { return head_.beat(); }

    // One cycle; `used`: the entry that was there.
    void step(bool used, stream<wire_t<Beat>>& entries) {
#pragma HLS INLINE
        if (used || !head_.there()) {
            head_.next(entries);
        }
    }

   private:
    HeldBeat<Beat> head_;
};

}  // namespace bfpga
