// One group of the skip array: an entry a cycle times a wide word of pixels, sums in registers.
#pragma once
#include "bfpga/processes/skip_array/forwarder.hpp"
#include "bfpga/processes/skip_array/window.hpp"

namespace bfpga {

template <class Config, class Storage, class Source>
class SkipGroup {
    using Forwarder = SumForwarder<Config, Storage>;
    using T = WindowTypes<Config>;
    using address_t = typename T::address_t;
    static constexpr int halves = Config::skip_halves;

   public:
    SkipGroup() {
#pragma HLS ARRAY_PARTITION variable=sums_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=pending_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        chunk_ = 0;
        base_ = 0;
    Chunks_Clear:
        for (int c = 0; c < T::chunks; ++c) {
#pragma HLS UNROLL
            pending_[c] = false;
        }
    }

    // Whether it needs a chunk.
    bool pending(int chunk) const { return pending_[chunk]; }

    // One cycle: multiplies the waiting entry, if its chunk is there and, at an end, the forwarder is free. `loaded`:
    // of each chunk, whether it can be read from now on; `base`: where its window begins. Returns what ends with the
    // entry.
    template <class Stream>
    void step(const WindowMemory<Config>& window, Forwarder& forwarder, int number, const bool (&loaded)[T::chunks],
              const address_t (&base)[T::chunks], Stream& entries, bool& finishes, bool& ends) {
#pragma HLS INLINE
        const typename Source::Beat& entry = source_.entry();
        const bool marked = entry.last || entry.ends;
        const bool chunk_there = pending_[static_cast<int>(chunk_)];
        const bool fires = source_.there() && chunk_there && !(marked && forwarder.shut(number));
        finishes = fires && entry.last;
        ends = fires && entry.ends;
        if (fires || !native_integers) {  // a simulation saves the time
            multiply(window, forwarder, number, fires, entry, T::behind(base_, static_cast<address_t>(entry.position)));
        }
        if (finishes) {
            forwarder.keep_row(number, row_);
        }
        if (fires && entry.begins()) {
            row_ = entry.position;
        }
    Chunks_Step:
        for (int c = 0; c < T::chunks; ++c) {
#pragma HLS UNROLL
            const bool leaves = ends && chunk_ == c;
            pending_[c] = loaded[c] || (pending_[c] && !leaves);
        }
        // A chunk's base is valid long before its words can be read.
        const typename T::chunk_t next = T::next(chunk_);
        base_ = base[static_cast<int>(ends ? next : chunk_)];
        chunk_ = ends ? next : chunk_;
        source_.step(fires, entries);
    }

   private:
    // A valid entry: adds value * x in all lanes, to zero where a kernel begins. An invalid one adds zero, so that the
    // sums need no bypass of the adder.
    template <class Beat>
    void multiply(const WindowMemory<Config>& window, Forwarder& forwarder, int number, bool fires, const Beat& entry,
                  address_t address) {
#pragma HLS INLINE
        const bool begins = fires && entry.begins();
        const typename Beat::value_t value = fires ? entry.value : static_cast<typename Beat::value_t>(0);
    Halves_Multiply:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            const PairWord<Config> word = window.read(number, h, address, fires && !begins);
        Pairs_Multiply:
            for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
                sums_[h][p].accumulate(word.pair[p], value, begins);
                if (fires && entry.last) {
                    forwarder.keep(number, h, p, sums_[h][p].kept());
                }
            }
        }
    }

    Source source_;
    KernelPair<Config> sums_[halves][T::pairs];
    bool pending_[T::chunks];
    typename T::chunk_t chunk_;  // that the next entry is of
    address_t base_;             // where its window begins
    typename Forwarder::row_t row_;
};

}  // namespace bfpga
