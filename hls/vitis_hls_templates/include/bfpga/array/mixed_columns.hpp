// Arrays of two kinds of columns: the first multiply with DSP slices, the last with shift units.
#pragma once
#include "bfpga/array/column_weights.hpp"
#include "bfpga/array/shift_tiles.hpp"

namespace bfpga {

// The last columns shift, the others multiply. Two-hot words are decoded once for all columns that multiply; their
// values are mantissas, so both kinds give the same sums.
template <class Config>
class ColumnWeights<Config, true> {
    using weight_t = typename Geometry<Config>::weight_t;
    using mantissa_t = typename Geometry<Config>::mantissa_t;

    struct Mantissas {
        mantissa_t cell[Config::rows][Config::lanes];

        Mantissas(const weight_t (&w)[Config::rows][Config::lanes], bool two_hot) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
        Rows_Decode:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
            Lanes_Decode:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    cell[r][l] = two_hot ? static_cast<mantissa_t>(ShiftUnits::template value<Config>(w[r][l]))
                                         : static_cast<mantissa_t>(w[r][l]);
                }
            }
        }
    };

   public:
    ColumnWeights() {}
    ColumnWeights(const weight_t (&w)[Config::rows][Config::lanes], WeightMode mode)
        : multiplied_(Mantissas(w, mode.two_hot).cell, false), shifted_(w, false) {}

    // Adds the products of one cycle to column `index`; `first`: it begins with them.
    template <class Column>
    void accumulate(int index, Column& column, const mantissa_t (&x)[Config::lanes], bool first) const {
#pragma HLS INLINE
        if (index < Config::columns - Config::shift_columns) {
            multiplied_.accumulate(column, x, first);
        } else {
            shifted_.accumulate(column, x, first);
        }
    }

   private:
    typename Config::Multiplier::template Weights<Config> multiplied_;
    ShiftUnits::Weights<Config> shifted_;
};

}  // namespace bfpga
