// Tiles that multiply by shifting: weights are sums of two powers of two, or two powers of two for two output rows.
//
// The layout of a word and its meaning are those of `bfpga.formats.shift_format` (SM 2.2 to 2.4). No multiplier and no
// DSP slice: two barrel shifters and an adder for each lane.
#pragma once
#include "bfpga/geometry.hpp"
#include "bfpga/shift_product.hpp"

namespace bfpga {

// The shift units of one weight word, ready for all columns; `accumulate` serves one column.
struct ShiftUnits {
    // The integer that a two-hot word stands for.
    template <class Config>
    static int_t<Config::weight_bits + 16> value(typename Geometry<Config>::weight_t word) {
#pragma HLS INLINE
        using Multiplier = ShiftMultiplier<Config>;
        return Multiplier::multiply(static_cast<int_t<Config::mantissa_bits>>(1), Multiplier::split(word), false).first;
    }

    template <class Config>
    class Weights {
        using mantissa_t = int_t<Config::mantissa_bits>;
        using weight_t = typename Geometry<Config>::weight_t;
        using Multiplier = ShiftMultiplier<Config>;

       public:
        Weights(const weight_t (&w)[Config::rows][Config::lanes], bool power_of_two) : power_of_two_(power_of_two) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
        Rows_Split:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
            Lanes_Split:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    word_[r][l] = Multiplier::split(w[r][l]);
                }
            }
        }

        // Row r takes the two-hot products, or the products of field 2; row rows + r those of field 1 (SM R17, R20).
        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[Config::lanes]) const {
#pragma HLS INLINE
            using accumulator_t = int_t<Config::accumulator_bits>;
        Rows_Multiply:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                accumulator_t first = column.get(r);
                accumulator_t second = 0;
                if (Config::accumulator_rows > Config::rows) {
                    second = column.get(Config::accumulator_rows - Config::rows + r);
                }
            Lanes_Multiply:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    const typename Multiplier::Products product = Multiplier::multiply(x[l], word_[r][l], power_of_two_);
                    first = static_cast<accumulator_t>(first + product.first);
                    second = static_cast<accumulator_t>(second + product.second);
                }
                column.set(r, first);
                if (Config::accumulator_rows > Config::rows && power_of_two_) {
                    column.set(Config::accumulator_rows - Config::rows + r, second);
                }
            }
        }

       private:
        typename Multiplier::Word word_[Config::rows][Config::lanes];
        bool power_of_two_;
    };
};

}  // namespace bfpga
