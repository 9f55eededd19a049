// Places in the tables of the function unit (BFP 4.4, R11). All tables of a build share what follows the place: the
// product of slope and part, and its rounding.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/output/activation_tables.hpp"

namespace bfpga {

// Whether `function` is F and the configuration has it.
template <class Config, Function F>
inline bool is_function(Function function) {
#pragma HLS INLINE
    return ((Config::functions >> static_cast<int>(F)) & 1) != 0 && function == F;
}

// Whether `function` is in a set of bits and the configuration has it.
template <class Config, int SET>
inline bool in_set(Function function) {
#pragma HLS INLINE
    const uint_t<5> code = static_cast<uint_t<5>>(static_cast<int>(function) & 31);
    return (((Config::functions & SET) >> code) & 1) != 0;
}

// A number on the grid of the tables.
using argument_t = int_t<kArgumentBits>;

// An argument's position in a table: the point below it, the step to the next point, and the fraction of it in 1/64.
struct TableStep {
    int_t<16> start;
    int_t<16> slope;
    uint_t<7> part;
};

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// A place in a table of 257 points with 2**FRACTION_BITS places of the grid from one to the next.
template <int FRACTION_BITS>
inline TableStep step_at(const int16_t (&table)[257], int offset) {
#pragma HLS INLINE
    static_assert(FRACTION_BITS >= 0 && FRACTION_BITS <= 6, "a part of a step is in 1/64");
    const int step = offset >> FRACTION_BITS;
    TableStep result;
    result.start = table[step];
    // At the last point the fraction is zero, so the next point does not matter.
    result.slope = static_cast<int_t<16>>(table[step == 256 ? 256 : step + 1] - result.start);
    result.part = static_cast<uint_t<7>>((offset & ((1 << FRACTION_BITS) - 1)) << (6 - FRACTION_BITS));
    return result;
}

// The place of an argument in a table over [-LIMIT, LIMIT].
template <int LIMIT>
inline TableStep table_step(const int16_t (&table)[257], argument_t argument) {
#pragma HLS INLINE
    constexpr int limit = LIMIT << kGridBits;
    const int limited = argument > limit ? limit : argument < -limit ? -limit : static_cast<int>(argument);
    return step_at<log2_of(LIMIT) + kGridBits - 7>(table, limited + limit);
}

// The place of an argument's magnitude in an even or odd table over [0, LIMIT].
template <int LIMIT>
inline TableStep half_step(const int16_t (&table)[257], argument_t argument) {
#pragma HLS INLINE
    constexpr int limit = LIMIT << kGridBits;
    const int magnitude = argument < 0 ? -static_cast<int>(argument) : static_cast<int>(argument);
    return step_at<log2_of(LIMIT) + kGridBits - 8>(table, magnitude > limit ? limit : magnitude);
}

}  // namespace bfpga
