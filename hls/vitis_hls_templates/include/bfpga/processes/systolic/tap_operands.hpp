// The operands of the row pairs of a column: its own word, or its own pixel with those of the adjacent columns.
//
// Row pair j computes channel j of a word then: lane j keeps the column's own operand, the next lane multiplies the
// pixel to the left, the one after it the pixel to the right. So two lanes of a row pair have another operand, not all.
#pragma once
#include "bfpga/array/column_weights.hpp"
#include "bfpga/memory/word.hpp"

namespace bfpga {

// The word of a column, and those to its left and right.
template <class Config>
struct AdjacentWords {
    Word<Config> own, left, right;
};

template <class Config, bool Reuse = Config::tap_reuse>
struct TapOperands {
    // Adds the products of a step to a column: `own`, and the words to its left and right if they are in its row.
    template <class Column>
    static void accumulate(const ColumnWeights<Config>& weights, int index, Column& column, const Word<Config>& own,
                           const Word<Config>&, const Word<Config>&, bool, bool first) {
#pragma HLS INLINE
        weights.accumulate(index, column, own.lane, first);
    }

    // As above for two columns that share multipliers.
    template <class Column>
    static void accumulate(const ColumnWeights<Config>& weights, Column& low_column, Column& high_column,
                           const AdjacentWords<Config>& low, const AdjacentWords<Config>& high, bool, bool first) {
#pragma HLS INLINE
        weights.accumulate(low_column, high_column, low.own.lane, high.own.lane, first);
    }
};

template <class Config>
struct TapOperands<Config, true> {
    using mantissa_t = typename Geometry<Config>::mantissa_t;
    static constexpr int lanes = Config::lanes;
    static constexpr int pairs = (Config::rows + 1) / 2;
    static_assert(Config::shift_columns == 0 && lanes >= 3 && pairs >= lanes, "a row pair for each channel of a word");

    template <class Column>
    static void accumulate(const ColumnWeights<Config>& weights, int, Column& column, const Word<Config>& own,
                           const Word<Config>& left, const Word<Config>& right, bool reuses, bool first) {
#pragma HLS INLINE
        mantissa_t x[pairs][lanes];
#pragma HLS ARRAY_PARTITION variable=x complete dim=0
        choose(x, own, left, right, reuses);
        weights.accumulate(column, x, first);
    }

    // As above for two columns that share multipliers.
    template <class Column>
    static void accumulate(const ColumnWeights<Config>& weights, Column& low_column, Column& high_column,
                           const AdjacentWords<Config>& low, const AdjacentWords<Config>& high, bool reuses,
                           bool first) {
#pragma HLS INLINE
        mantissa_t x_low[pairs][lanes], x_high[pairs][lanes];
#pragma HLS ARRAY_PARTITION variable=x_low complete dim=0
#pragma HLS ARRAY_PARTITION variable=x_high complete dim=0
        choose(x_low, low.own, low.left, low.right, reuses);
        choose(x_high, high.own, high.left, high.right, reuses);
        weights.accumulate(low_column, high_column, x_low, x_high, first);
    }

   private:
    // The operands of the row pairs of a column.
    static void choose(mantissa_t (&x)[pairs][lanes], const Word<Config>& own, const Word<Config>& left,
                       const Word<Config>& right, bool reuses) {
#pragma HLS INLINE
    Pairs_Choose:
        for (int j = 0; j < pairs; ++j) {
#pragma HLS UNROLL
        Lanes_Choose:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                const int channel = j < lanes ? j : 0;
                const bool to_left = reuses && j < lanes && l == (j + 1) % lanes;
                const bool to_right = reuses && j < lanes && l == (j + 2) % lanes;
                x[j][l] = to_left ? left.lane[channel] : to_right ? right.lane[channel] : own.lane[l];
            }
        }
    }
};

}  // namespace bfpga
