// An accumulator as a word of the activation memory: its bits, lowest first, over the mantissas of the lanes (FP R24).
#pragma once
#include "bfpga/memory/word.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// A kernel whose memory has no accumulators.
template <class Config, bool Present = Config::wide_memory>
struct AccumulatorWord {
    static Word<Config> word(int_t<Config::accumulator_bits>) { return Word<Config>::zero(); }
    static int_t<Config::accumulator_bits> accumulator(const Word<Config>&) { return 0; }
};

template <class Config>
struct AccumulatorWord<Config, true> {
    static constexpr int lane_bits = Config::mantissa_bits;
    static constexpr int bits = Config::lanes * lane_bits;
    static_assert(Config::accumulator_bits <= bits && bits <= 64, "a word of the activation memory has an accumulator");
    using accumulator_t = int_t<Config::accumulator_bits>;

    static Word<Config> word(accumulator_t value) {
#pragma HLS INLINE
        const int_t<bits> wide = value;
        Word<Config> result;
    Lanes_Word:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            result.lane[l] = low_bits<lane_bits>(wide >> (l * lane_bits));
        }
        return result;
    }

    static accumulator_t accumulator(const Word<Config>& word) {
#pragma HLS INLINE
        bits_t<bits> joined = 0;
    Lanes_Accumulator:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            set_signed<lane_bits>(joined, l * lane_bits, static_cast<int64_t>(word.lane[l]));
        }
        return static_cast<accumulator_t>(get_signed<Config::accumulator_bits>(joined, 0));
    }
};

}  // namespace bfpga
