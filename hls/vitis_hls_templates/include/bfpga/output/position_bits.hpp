// One-hot positions of the highest and the lowest bit of a number: no adder, no comparison (FP R10).
//
// Bit 0 means "none", bit i + 1 position i, so exactly one bit is set for every number.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// All bits at and below the highest one that is set, in log2(N) levels.
template <int N>
inline uint_t<N> spread_down(uint_t<N> bits) {
#pragma HLS INLINE
    static_assert(N >= 1 && N <= 64, "six levels spread over 64 bits");
Levels_Spread:
    for (int level = 0; level < 6; ++level) {
#pragma HLS UNROLL
        const int distance = (1 << level) < N ? (1 << level) : 0;
        bits = static_cast<uint_t<N>>(bits | (bits >> distance));
    }
    return bits;
}

// The bits of a number that differ from its sign.
template <int N>
inline uint_t<N> differing_bits(int_t<N> value) {
#pragma HLS INLINE
    return value < 0 ? static_cast<uint_t<N>>(-1 - value) : static_cast<uint_t<N>>(value);
}

// All bins at and below that of the highest of the bits; bin 0 is always among them.
template <int N>
inline uint_t<N + 1> bins_below(uint_t<N> bits) {
#pragma HLS INLINE
    const uint_t<N + 1> wide = bits;
    return spread_down<N + 1>(static_cast<uint_t<N + 1>>((wide << 1) | 1));
}

// Bin of the highest bit that differs from the sign.
template <int N>
inline uint_t<N + 1> highest_bin(int_t<N> value) {
#pragma HLS INLINE
    const uint_t<N + 1> below = bins_below<N>(differing_bits<N>(value));
    return static_cast<uint_t<N + 1>>(below ^ (below >> 1));
}

// Bin of the lowest bit that is set.
template <int N>
inline uint_t<N + 1> lowest_bin(int_t<N> value) {
#pragma HLS INLINE
    const uint_t<N> bits = static_cast<uint_t<N>>(value);
    const uint_t<N> lowest = static_cast<uint_t<N>>(bits & (0 - bits));
    const uint_t<N + 1> wide = lowest;
    return static_cast<uint_t<N + 1>>((wide << 1) | (value == 0 ? 1 : 0));
}

}  // namespace bfpga
