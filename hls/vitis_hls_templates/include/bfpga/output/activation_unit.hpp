// The function unit (BFP 4.4, R11): arithmetic on accumulators, and tables with interpolation between their points.
//
// The rows of bfpga/contract/functions.py list the functions; arithmetic ones have their lines in `apply_function`.
// Functions that a configuration omits cost nothing: their branches are constant. All tables of a build share the
// shifter that aligns the argument to their grid, the multiplier and its rounding.
#pragma once
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/output/table_dispatch.hpp"

namespace bfpga {

// What the collector's bins are counted from, for accumulators with an exponent.
template <class Config>
inline exponent_t collected_exponent(Function function, exponent_t exponent) {
#pragma HLS INLINE
    return in_set<Config, kFunctionsInTableUnit>(function) ? static_cast<exponent_t>(kActivationExponent) : exponent;
}

// Exponent of the results of a function of values with an exponent.
template <class Config>
inline exponent_t result_exponent(Function function, exponent_t exponent) {
#pragma HLS INLINE
    const bool coarse = in_set<Config, kFunctionsInFinerUnit>(function) && exponent > kActivationExponent;
    return coarse ? static_cast<exponent_t>(kActivationExponent) : collected_exponent<Config>(function, exponent);
}

// value * 2**exponent on the grid of the tables, within their limits and a little beyond.
template <int ACC>
inline argument_t grid_argument(int_t<ACC> value, exponent_t exponent) {
#pragma HLS INLINE
    return shift_saturate<Rounding::Rne, Saturation::Full, kArgumentBits, ACC>(
               value, static_cast<exponent_t>(-(exponent + kGridBits)))
        .value;
}

// The value of a table between two points, in its unit.
inline int_t<16> interpolate(const TableStep& step) {
#pragma HLS INLINE
    const int_t<23> product = static_cast<factor_t<23, 16>>(step.slope) * step.part;
// Logic: the DSP slices are for the tiles, and 16 x 7 bits are small.
#pragma HLS BIND_OP variable=product op=mul impl=fabric
    return static_cast<int_t<16>>(step.start + round_right<Rounding::Rne, 23>(product, static_cast<amount_t>(6)));
}

// A value that is not negative less a table's number, in the finer of their units: the other one moves left, at most to
// the largest value. One shifter serves both.
template <int ACC>
inline int_t<ACC> less_table(int_t<ACC> positive, int_t<16> number, exponent_t exponent) {
#pragma HLS INLINE
    static_assert(ACC >= 16, "an accumulator holds the numbers of a table");
    constexpr int64_t largest = (static_cast<int64_t>(1) << (ACC - 1)) - 1;
    const int distance = static_cast<int>(exponent) - kActivationExponent;
    const bool coarse = distance > 0;
    const int bits = coarse ? distance : -distance;
    const amount_t amount = static_cast<amount_t>(bits > ACC ? ACC : bits);
    const int_t<ACC> moving = coarse ? positive : static_cast<int_t<ACC>>(number);
    const int_t<ACC + 1> most = static_cast<int_t<ACC + 1>>(static_cast<int_t<ACC + 1>>(largest) >> amount);
    const int_t<ACC> moved = moving > most ? static_cast<int_t<ACC>>(largest) : shifted_left<ACC>(moving, amount);
    // One adder behind the choice of what it takes.
    const int_t<ACC> whole = coarse ? moved : positive;
    const int_t<ACC> less = coarse ? static_cast<int_t<ACC>>(number) : moved;
    return static_cast<int_t<ACC>>(whole - less);
}

// A value that is not negative, rounded to the unit of the tables, and a table's number; saturates.
template <int ACC>
inline int_t<ACC> more_table(int_t<ACC> positive, int_t<16> number, exponent_t exponent) {
#pragma HLS INLINE
    constexpr int64_t largest = (static_cast<int64_t>(1) << (ACC - 1)) - 1;
    const exponent_t distance = static_cast<exponent_t>(kActivationExponent - exponent);
    const int_t<ACC> moved = shift_saturate<Rounding::Rne, Saturation::Full, ACC, ACC>(positive, distance).value;
    const int_t<ACC + 1> sum = static_cast<int_t<ACC + 1>>(moved + number);
    return sum > largest ? static_cast<int_t<ACC>>(largest) : static_cast<int_t<ACC>>(sum);
}

// Clip's upper bound argument * 2**-distance, in the accumulator's range.
template <class Config>
inline int_t<Config::accumulator_bits> clip_bound(int32_t argument, exponent_t distance) {
#pragma HLS INLINE
    if (((Config::functions >> static_cast<int>(Function::Clip)) & 1) == 0) {
        return 0;
    }
    return shift_saturate<Config::rounding, Saturation::Full, Config::accumulator_bits, 32>(argument, distance).value;
}

// The function of value * 2**exponent. `argument`: right shift of leaky ReLU; `bound`: see clip_bound.
template <class Config>
inline int_t<Config::accumulator_bits> apply_function(Function function, int32_t argument,
                                                      int_t<Config::accumulator_bits> bound,
                                                      int_t<Config::accumulator_bits> value, exponent_t exponent) {
#pragma HLS INLINE
    constexpr int ACC = Config::accumulator_bits;
    using value_t = int_t<ACC>;
    const bool negative = value < 0;
    const value_t positive = negative ? static_cast<value_t>(0) : value;
    const bool clips = is_function<Config, Function::Clip>(function);
    if (clips || is_function<Config, Function::Relu>(function)) {
        // max(value, 0) compared with the bound, without a multiplexer before the comparison.
        const bool beyond = clips && (negative ? bound < 0 : value > bound);
        return beyond ? bound : positive;
    }
    if (is_function<Config, Function::LeakyRelu>(function)) {
        const amount_t amount = static_cast<amount_t>(argument > ACC + 1 ? ACC + 1 : argument);
        const value_t leaked = round_right<Config::rounding, ACC, ACC + 1>(value, amount);
        return value < 0 ? leaked : value;
    }
    // A function by arithmetic that has no line above would be computed as the last one below.
    static_assert(kFunctionsByArithmetic ==
                      ((1 << static_cast<int>(Function::None)) | (1 << static_cast<int>(Function::Relu)) |
                       (1 << static_cast<int>(Function::LeakyRelu)) | (1 << static_cast<int>(Function::Clip))),
                  "each function by arithmetic has its lines here");
    if (in_set<Config, kFunctionsWithTable>(function)) {
        static_assert((Config::functions & kFunctionsWithTable) == 0 || ACC >= 16,
                      "an accumulator holds the results of a table");
        const int_t<16> number = interpolate(table_step_of<Config>(function, grid_argument<ACC>(value, exponent)));
        if (in_set<Config, kFunctionsBelowRelu>(function)) {
            return less_table<ACC>(positive, number, exponent);
        }
        if (in_set<Config, kFunctionsAboveRelu>(function)) {
            return more_table<ACC>(positive, number, exponent);
        }
        const bool mirrored = in_set<Config, kFunctionsWithOddTable>(function) && negative;
        return mirrored ? static_cast<value_t>(-number) : static_cast<value_t>(number);
    }
    return value;
}

}  // namespace bfpga
