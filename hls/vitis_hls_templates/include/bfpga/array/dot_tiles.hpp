// The dot tiles: rows x columns accumulators, and the forwarder that keeps a finished pass while the next one computes.
//
// A tile adds `lanes` products of one weight row and one operand column in a clock (BFP R59). Row r of a column is row
// r of the weight word; all columns share the weight word, all rows of a column share its operands.
#pragma once
#include "bfpga/array/column_weights.hpp"
#include "bfpga/memory/activation_memory.hpp"
#include "bfpga/memory/weight_memory.hpp"
#include "bfpga/numeric/numeric.hpp"

namespace bfpga {

template <class Config, class RegisterSets>
class DotTiles {
   public:
    using accumulator_t = int_t<Config::accumulator_bits>;
    using mantissa_t = typename Geometry<Config>::mantissa_t;

    DotTiles() {
#pragma HLS ARRAY_PARTITION variable=accumulator_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=finished_ complete dim=0
    }

    // acc += w * x in every tile; with `first` the accumulators start at zero (BFP R63).
    void multiply(bool first, WeightMode mode, const WeightWord<Config>& weights,
                  const Word<Config> (&operand)[Config::columns]) {
#pragma HLS INLINE
        const ColumnWeights<Config> ready(weights.row, mode);
    Columns_Multiply:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            if (first) {
            Rows_Start:
                for (int r = 0; r < Config::accumulator_rows; ++r) {
#pragma HLS UNROLL
                    accumulator_[i].set(r, static_cast<accumulator_t>(0));
                }
            }
            ready.accumulate(i, accumulator_[i], operand[i].lane);
        }
    }

    // acc = max(acc, x) in the rows of channel word j, in the columns whose tap lies inside the image.
    void maximum(bool first, int j, const Word<Config> (&operand)[Config::columns],
                 const bool (&present)[Config::columns]) {
#pragma HLS INLINE
        const accumulator_t smallest = static_cast<accumulator_t>(-(1 << (Config::mantissa_bits - 1)));
    Columns_Maximum:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
        Rows_Maximum:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                const accumulator_t before = first ? smallest : accumulator_[i].get(r);
                const accumulator_t x = operand[i].lane[r % Config::lanes];
                const bool larger = present[i] && r / Config::lanes == j && x > before;
                accumulator_[i].set(r, larger ? x : before);
            }
        }
    }

    // acc += or -= x / 2**shift, rounded, in the rows of channel word j (BFP R46, R47).
    void sum(bool first, int j, const Word<Config> (&operand)[Config::columns], int shift, bool negate) {
#pragma HLS INLINE
        const uint_t<6> amount =
            static_cast<uint_t<6>>(shift > Config::mantissa_bits ? Config::mantissa_bits + 1 : shift);
    Columns_Sum:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            accumulator_t term[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=term complete dim=0
        Lanes_Align:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const accumulator_t aligned =
                    round_right<Config::rounding, Config::mantissa_bits>(operand[i].lane[l], amount);
                term[l] = negate ? static_cast<accumulator_t>(-aligned) : aligned;
            }
        Rows_Sum:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                const accumulator_t before = first ? static_cast<accumulator_t>(0) : accumulator_[i].get(r);
                const bool mine = r / Config::lanes == j;
                accumulator_[i].set(r, mine ? static_cast<accumulator_t>(before + term[r % Config::lanes]) : before);
            }
        }
    }

    // A finished pass moves to the forwarder.
    void forward() {
#pragma HLS INLINE
    Columns_Forward:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            finished_[i] = accumulator_[i];
        }
    }

    accumulator_t result(int row, int column) const {
#pragma HLS INLINE
        return finished_[column].get(row);
    }

   private:
    using Column = typename RegisterSets::template Set<accumulator_t, Config::accumulator_rows>;

    Column accumulator_[Config::columns];
    Column finished_[Config::columns];
};

}  // namespace bfpga
