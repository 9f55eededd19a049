// Configurations of the unit tests: the numbers an output stage reads, as template arguments.
#pragma once
#include "bfpga/numeric/numeric.hpp"

template <int MW, bfpga::Rounding ROUNDING, bfpga::Saturation SATURATION, bfpga::LogMode LOG, int ACC, int BIAS,
          int EW = 8>
struct UnitConfig {
    static constexpr int mantissa_bits = MW;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int exponent_min = -(1 << (EW - 1));
    static constexpr int exponent_max = (1 << (EW - 1)) - 1;
    static constexpr bfpga::Rounding rounding = ROUNDING;
    static constexpr bfpga::Saturation saturation = SATURATION;
    static constexpr bfpga::LogMode log = LOG;
    static constexpr int accumulator_bits = ACC;
    static constexpr int bias_bits = BIAS;
    static constexpr int columns = 3;
    static constexpr int post_columns = 0;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int position_bins = 0;
    static constexpr int wide_words = 0;
    static constexpr int functions = 0x7fffffff;  // all
};
