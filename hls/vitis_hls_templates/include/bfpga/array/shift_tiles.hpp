// Tiles that multiply by shifting: weights are sums of two powers of two, or two powers of two for two output rows.
//
// A tile is `lanes` multipliers of `shift_multiplier.hpp` whose products are added to the accumulators of the array. No
// DSP slice: two barrel shifters and an adder for each lane.
#pragma once
#include "bfpga/array/shift_multiplier.hpp"
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// The multipliers of an array: activations are mantissas, weight words as the array is configured.
template <class Config>
struct ShiftNumbers : ShiftDefaults {
    static constexpr int x_width = Config::mantissa_bits;
    static constexpr int exp_width = Config::shift_exp_width;
    static constexpr int d = Config::shift_d;
    static constexpr int base_log2 = Config::shift_base_log2;
    static constexpr ZeroCode zero_code = Config::shift_zero_code;
    static constexpr ZeroScope zero_scope = Config::shift_zero_scope;
    static constexpr SignMode sign_mode = Config::shift_sign_mode;
    // Shift columns next to DSP columns support two-hot weights only (SM R16).
    static constexpr ShiftModes modes = Config::accumulator_rows > Config::rows ? ShiftModes::Both : ShiftModes::TwoHot;
};

// The shift units of one weight word, ready for all columns; `accumulate` serves one column.
struct ShiftUnits {
    static constexpr int columns = 1;

    // The integer value of a two-hot word.
    template <class Config>
    static int_t<ShiftTypes<ShiftNumbers<Config>>::product_bits + 1> value(typename Geometry<Config>::weight_t word) {
#pragma HLS INLINE
        return products<Config>(static_cast<int_t<Config::mantissa_bits>>(1), word, kModeTwoHot).signed0();
    }

    template <class Config>
    static ShiftProducts<ShiftNumbers<Config>> products(int_t<Config::mantissa_bits> x,
                                                        typename Geometry<Config>::weight_t word, bool pow2) {
#pragma HLS INLINE
        using Multiplier = ShiftMultiplier<ShiftNumbers<Config>>;
        using word_t = typename Multiplier::Types::word_t;
        // A weight of the memory is signed and may be wider than a word.
        const word_t bits = static_cast<word_t>(word & ((1 << Multiplier::Types::word_bits) - 1));
        const bool mode = Multiplier::mode_of(bits, pow2);
        return ShiftProducts<ShiftNumbers<Config>>::route(Multiplier::multiply(x, bits, mode, 0), mode, false);
    }

    template <class Config>
    class Weights {
        using mantissa_t = int_t<Config::mantissa_bits>;
        using weight_t = typename Geometry<Config>::weight_t;
        // First row of accumulator 1; in an array without them row 0, which is then not written.
        static constexpr int second_row = Config::accumulator_rows - Config::rows;
        using accumulator_t = int_t<Config::accumulator_bits>;

       public:
        Weights() {}
        Weights(const weight_t (&w)[Config::rows][Config::lanes], bool pow2) : pow2_(pow2) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=w_ complete dim=0
        Rows_Hold:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
            Lanes_Hold:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    w_[r][l] = w[r][l];
                }
            }
        }

        // Row r takes the two-hot products, or those of field 2; row rows + r those of field 1 (SM R17, R20), which are
        // zero in two-hot mode.
        void sums(const mantissa_t (&x)[Config::lanes], accumulator_t (&sum)[Config::accumulator_rows]) const {
#pragma HLS INLINE
        Rows_Multiply:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                accumulator_t first = 0;
                accumulator_t second = 0;
            Lanes_Multiply:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    const ShiftProducts<ShiftNumbers<Config>> product = products<Config>(x[l], w_[r][l], pow2_);
                    first = static_cast<accumulator_t>(first + product.signed0());
                    second = static_cast<accumulator_t>(second + product.signed1());
                }
                // Without rows for field 1 its place is row r's, which comes last.
                sum[second_row + r] = second;
                sum[r] = first;
            }
        }

        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[Config::lanes], bool first) const {
#pragma HLS INLINE
            accumulator_t sum[Config::accumulator_rows];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
            sums(x, sum);
        Rows_Add:
            for (int r = 0; r < Config::accumulator_rows; ++r) {
#pragma HLS UNROLL
                const accumulator_t before = first ? static_cast<accumulator_t>(0) : column.get(r);
                column.set(r, static_cast<accumulator_t>(before + sum[r]));
            }
        }

       private:
        weight_t w_[Config::rows][Config::lanes];
        bool pow2_;
    };
};

}  // namespace bfpga
