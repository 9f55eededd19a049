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
    static constexpr int halves = Config::skip_halves;

   public:
    SkipGroup() {
#pragma HLS ARRAY_PARTITION variable=sum_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=pending_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        source_.clear();
        pending_[0] = false;
        pending_[1] = false;
        buffer_ = false;
    }

    // Whether it needs a buffer's chunk.
    bool pending(int buffer) const { return pending_[buffer]; }

    // A clock: multiplies the entry that waits, if its chunk is there and, at an end, the forwarder is free.
    // `loaded`: of each buffer, whether its chunk can be read from now on. Says what ends with the entry.
    template <class Stream>
    void step(const WindowMemory<Config>& window, Forwarder& forwarder, int number, const bool (&loaded)[T::buffers],
              Stream& entries, bool& finishes, bool& ends) {
#pragma HLS INLINE
        const auto& entry = source_.entry();
        const bool marked = entry.last || entry.ends;
        const bool chunk_there = buffer_ ? pending_[1] : pending_[0];
        const bool fires = source_.there() && chunk_there && !(marked && forwarder.shut(number));
        finishes = fires && entry.last;
        ends = fires && entry.ends;
        if (fires) {
            multiply(window, forwarder, number, entry, T::address(buffer_, entry.position));
        }
        if (finishes) {
            forwarder.keep_row(number, row_);
        }
        if (fires && entry.begins()) {
            row_ = entry.position;
        }
    Buffers_Step:
        for (int b = 0; b < T::buffers; ++b) {
#pragma HLS UNROLL
            const bool leaves = ends && buffer_ == (b == 1);
            pending_[b] = loaded[b] || (pending_[b] && !leaves);
        }
        buffer_ = buffer_ != ends;
        source_.step(fires, entries);
    }

   private:
    // sum = (a kernel begins ? 0 : sum) + value * x in all lanes.
    template <class Beat>
    void multiply(const WindowMemory<Config>& window, Forwarder& forwarder, int number, const Beat& entry,
                  typename T::address_t address) {
#pragma HLS INLINE
    Halves_Multiply:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            const PairWord<Config> word = window.read(number, h, address);
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
    bool pending_[T::buffers];
    bool buffer_;  // whose chunk the next entry is of
    typename Forwarder::row_t row_;
};

}  // namespace bfpga
