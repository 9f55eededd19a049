// The weights of one cycle, decoded for the columns that use them.
#pragma once
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// The format of a layer's weights.
struct WeightMode {
    bool two_hot;
    bool power_of_two;
};

// All columns have the same multipliers. `mixed_columns.hpp` has the columns of an array of two kinds.
template <class Config, bool Mixed = (Config::shift_columns > 0)>
class ColumnWeights {
    static_assert(!Mixed, "the configuration of an array with shift columns includes mixed_columns.hpp");
    using weight_t = typename Geometry<Config>::weight_t;
    using mantissa_t = typename Geometry<Config>::mantissa_t;

   public:
    ColumnWeights() {}
    ColumnWeights(const weight_t (&w)[Config::rows][Config::lanes], WeightMode mode) : ready_(w, mode.power_of_two) {}

    // Adds the products of one cycle to column `index`; `first`: it begins with them.
    template <class Column>
    void accumulate(int, Column& column, const mantissa_t (&x)[Config::lanes], bool first) const {
#pragma HLS INLINE
        ready_.accumulate(column, x, first);
    }

    // As above; every row pair has operands of its own.
    template <class Column>
    void accumulate(Column& column, const mantissa_t (&x)[(Config::rows + 1) / 2][Config::lanes], bool first) const {
#pragma HLS INLINE
        ready_.accumulate(column, x, first);
    }

    // Adds the products of one cycle to two columns that share multipliers: of words of lanes, or of those of row
    // pairs.
    template <class Column, class Operands>
    void accumulate(Column& low_column, Column& high_column, const Operands& low, const Operands& high,
                    bool first) const {
#pragma HLS INLINE
        ready_.accumulate(low_column, high_column, low, high, first);
    }

   private:
    typename Config::Multiplier::template Weights<Config> ready_;
};

}  // namespace bfpga
