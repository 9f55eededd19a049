// Slices of the columns: the output stage computes `post_columns` columns at once, so a row of all columns takes a turn
// for each slice. Layers whose sums take longer than that do not notice, and the stage is as much smaller.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Columns that the output stage computes at once, and turns of a row; without `post_columns` it computes all.
template <class Config>
struct StageColumns {
    static constexpr int count = Config::post_columns > 0 ? Config::post_columns : Config::columns;
    static_assert(Config::columns % count == 0, "slices of the columns are equal");
    static constexpr int turns = Config::columns / count;
};

// The slice whose turn it is.
template <class Config>
class ColumnSlices {
    static constexpr int columns = StageColumns<Config>::count;
    static constexpr int turns = StageColumns<Config>::turns;
    static constexpr int bits = bit_length(turns - 1);

   public:
    void start() {
#pragma HLS INLINE
        number_ = 0;
        first_ = true;
        last_ = turns == 1;
    }

    bool first() const { return turns == 1 || first_; }
    bool last() const { return turns == 1 || last_; }
    bool is(int slice) const { return turns == 1 || static_cast<int>(number_) == slice; }

    // The kernel's column that column `i` of the stage is in a slice.
    static constexpr int column(int slice, int i) { return slice * columns + i; }

    // What the slice has of values of all slices: a binary tree of multiplexers.
    template <class T>
    T of(const T (&value)[turns]) const {
#pragma HLS INLINE
        T left[turns];
#pragma HLS ARRAY_PARTITION variable=left complete dim=0
    Slices_Copy:
        for (int s = 0; s < turns; ++s) {
#pragma HLS UNROLL
            left[s] = value[s];
        }
    Slices_Halve:
        for (int bit = 0; bit < bits; ++bit) {
#pragma HLS UNROLL
            const bool upper = ((number_ >> bit) & 1) != 0;
        Slices_Choose:
            for (int s = 0; 2 * s < turns; ++s) {
#pragma HLS UNROLL
                const int other = 2 * s + 1 < turns ? 2 * s + 1 : 2 * s;
                left[s] = upper ? left[other] : left[2 * s];
            }
        }
        return left[0];
    }

    void next() {
#pragma HLS INLINE
        const bool again = last();
        number_ = again ? static_cast<number_t>(0) : static_cast<number_t>(number_ + 1);
        last_ = turns == 1 || (!again && static_cast<int>(number_) == turns - 1);
        first_ = again;
    }

   private:
    using number_t = uint_t<(turns > 1 ? bits : 1)>;

    number_t number_;
    bool first_, last_;
};

}  // namespace bfpga
