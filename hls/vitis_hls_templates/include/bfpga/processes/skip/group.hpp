// One group of the skip array: an entry a clock times a wide word of pixels, sums in registers.
#pragma once
#include "bfpga/processes/skip/forwarder.hpp"
#include "bfpga/processes/skip/window.hpp"

namespace bfpga {

template <class Config, class Storage, class Source>
class SkipGroup {
    using accumulator_t = int_t<Config::accumulator_bits>;
    using Forwarder = SumForwarder<Config, Storage>;
    using T = WindowTypes<Config>;
    using address_t = typename T::address_t;
    static constexpr int halves = Config::skip_halves;

   public:
    SkipGroup() {
#pragma HLS ARRAY_PARTITION variable=sum_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=pending_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        source_.clear();
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

    // A clock: multiplies the entry that waits, if its chunk is there and, at an end, the forwarder is free.
    // `loaded`: of each chunk, whether it can be read from now on; `next_base`: where the one behind it begins. Says
    // what ends with the entry.
    template <class Stream>
    void step(const WindowMemory<Config>& window, Forwarder& forwarder, int number, const bool (&loaded)[T::chunks],
              const address_t (&next_base)[T::chunks], Stream& entries, bool& finishes, bool& ends) {
#pragma HLS INLINE
        const typename Source::Beat& entry = source_.entry();
        const bool marked = entry.last || entry.ends;
        const bool chunk_there = pending_[static_cast<int>(chunk_)];
        const bool fires = source_.there() && chunk_there && !(marked && forwarder.shut(number));
        finishes = fires && entry.last;
        ends = fires && entry.ends;
        if (fires) {
            multiply(window, forwarder, number, entry, T::behind(base_, entry.position));
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
        if (ends) {
            base_ = next_base[static_cast<int>(chunk_)];
            chunk_ = T::next(chunk_);
        }
        source_.step(fires, entries);
    }

   private:
    // sum = (a kernel begins ? 0 : sum) + value * x in all lanes.
    template <class Beat>
    void multiply(const WindowMemory<Config>& window, Forwarder& forwarder, int number, const Beat& entry,
                  address_t address) {
#pragma HLS INLINE
    Halves_Multiply:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            const PairWord<Config> word = window.read(number, h, address, !entry.begins());
        Pairs_Multiply:
            for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
                const PixelPairs::product_t both = PixelPairs::multiply(word.pair[p], entry.value);
                accumulator_t& low = sum_[h][2 * p];
                accumulator_t& high = sum_[h][2 * p + 1];
                low = PixelPairs::add_low<Config::accumulator_bits>(start(low, entry.begins()), both);
                high = PixelPairs::add_high<Config::accumulator_bits>(start(high, entry.begins()), both);
                if (entry.last) {
                    forwarder.keep(number, h, 2 * p, low);
                    forwarder.keep(number, h, 2 * p + 1, high);
                }
            }
        }
    }

    // What an entry is added to.
    static accumulator_t start(accumulator_t sum, bool begins) {
#pragma HLS INLINE
        return begins ? static_cast<accumulator_t>(0) : sum;
    }

    Source source_;
    accumulator_t sum_[halves][Config::columns];
    bool pending_[T::chunks];
    typename T::chunk_t chunk_;  // that the next entry is of
    address_t base_;             // where it begins
    typename Forwarder::row_t row_;
};

}  // namespace bfpga
