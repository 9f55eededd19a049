// The function unit: none, ReLU, leaky ReLU, clip, and sigmoid and tanh from 257-entry tables (BFP 4.4, R11).
//
// Functions that a configuration leaves out cost nothing: their branches are constant.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/output/activation_tables.hpp"

namespace bfpga {

// Exponent of the results of sigmoid and tanh; fraction bits of the grid their argument is rounded to.
constexpr int kActivationExponent = -14;
constexpr int kGridBits = 10;

// True if the results of `function` come from a table: their exponent is kActivationExponent.
template <class Config>
inline bool uses_table(Function function) {
#pragma HLS INLINE
    return (Config::has_sigmoid && function == Function::Sigmoid) || (Config::has_tanh && function == Function::Tanh);
}

// Linear interpolation between 257 points over [-LIMIT, LIMIT] at value * 2**exponent; the result has the unit of the
// table.
template <int LIMIT, int ACC>
inline int_t<ACC> interpolate(const int16_t (&table)[257], int_t<ACC> value, exponent_t exponent) {
#pragma HLS INLINE
    static_assert(LIMIT == 8 || LIMIT == 4, "256 steps over the grid are powers of two for the limits 8 and 4");
    static_assert(ACC >= 16, "an accumulator holds the results of a table");
    constexpr int limit = LIMIT << kGridBits;
    constexpr int fraction_bits = LIMIT == 8 ? 6 : 5;
    constexpr int argument_bits = 15;
    const int_t<argument_bits> rounded = shift_saturate<Rounding::Rne, Saturation::Full, argument_bits, ACC>(
                                             value, static_cast<exponent_t>(-(exponent + kGridBits)))
                                             .value;
    const int argument = rounded > limit ? limit : rounded < -limit ? -limit : static_cast<int>(rounded);
    const int offset = argument + limit;
    const int step = offset >> fraction_bits;
    const int_t<7> fraction = static_cast<int_t<7>>(offset & ((1 << fraction_bits) - 1));
    const int_t<16> start = table[step];
    // At the last point the fraction is zero, so its neighbour does not matter.
    const int_t<16> slope = static_cast<int_t<16>>(table[step == 256 ? 256 : step + 1] - start);
    const int_t<23> product = static_cast<factor_t<23, 16>>(slope) * fraction;
    return static_cast<int_t<ACC>>(start +
                                   round_right<Rounding::Rne, 23>(product, static_cast<amount_t>(fraction_bits)));
}

// Clip's upper bound argument * 2**-distance, in the accumulator's range.
template <class Config>
inline int_t<Config::accumulator_bits> clip_bound(int32_t argument, exponent_t distance) {
#pragma HLS INLINE
    if (!Config::has_clip) {
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
    const value_t positive = value < 0 ? static_cast<value_t>(0) : value;
    if (Config::has_relu && function == Function::Relu) {
        return positive;
    }
    if (Config::has_leaky_relu && function == Function::LeakyRelu) {
        const amount_t amount = static_cast<amount_t>(argument > ACC + 1 ? ACC + 1 : argument);
        const value_t leaked = round_right<Config::rounding, ACC>(value, amount);
        return value < 0 ? leaked : value;
    }
    if (Config::has_clip && function == Function::Clip) {
        return positive > bound ? bound : positive;
    }
    if (Config::has_sigmoid && function == Function::Sigmoid) {
        return interpolate<sigmoid_limit, ACC>(sigmoid_table, value, exponent);
    }
    if (Config::has_tanh && function == Function::Tanh) {
        return interpolate<tanh_limit, ACC>(tanh_table, value, exponent);
    }
    return value;
}

}  // namespace bfpga
