// The products of one value and all weights of a kernel, each for the bank where it is added.
//
// They fill a rectangle as large as a block, so every bank gets one of them. The place of the value in its block
// selects which one: the weights rotate, the banks are fixed.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/piece_reader.hpp"

namespace bfpga {

// Weights for the banks, of a value with some place in its block: bank (i, j) gets the weight whose product goes there.
template <class Config>
struct TurnedWeights {
    using T = ClusterUnitTypes<Config>;
    typename T::weight_t weight[T::cells];

    void turn(const typename T::weight_t (&given)[T::cells], typename T::phase_t row, typename T::phase_t column) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=weight complete dim=0
        typename T::weight_t turned[T::cells];
#pragma HLS ARRAY_PARTITION variable=turned complete dim=0
    Rows_Turn:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            turned[n] = given[from(n / T::columns, 0, T::rows) * T::columns + n % T::columns];
        Rows_Choose:
            for (int phase = 1; phase < T::rows; ++phase) {
#pragma HLS UNROLL
                const int other = from(n / T::columns, phase, T::rows) * T::columns + n % T::columns;
                turned[n] = row == phase ? given[other] : turned[n];
            }
        }
    Columns_Turn:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            weight[n] = turned[n / T::columns * T::columns + from(n % T::columns, 0, T::columns)];
        Columns_Choose:
            for (int phase = 1; phase < T::columns; ++phase) {
#pragma HLS UNROLL
                const int other = n / T::columns * T::columns + from(n % T::columns, phase, T::columns);
                weight[n] = column == phase ? turned[other] : weight[n];
            }
        }
    }

   private:
    // The line of a kernel of `lines` whose product meets line `bank` of the blocks (SC E2).
    // lint: allow(division) known when the kernel is compiled
    static constexpr int from(int bank, int phase, int lines) { return lines - 1 - (bank - phase + lines) % lines; }
};

// The sums of a unit that takes one value and the weights of a kernel a cycle.
template <class Config>
class TurnedSums : public SentBlocks<Config> {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;

   public:
    void clear() {
#pragma HLS INLINE
        banks_.clear();
    }

    // Adds the value times the weights of a kernel, or takes the sums of a block. `place`: the block of the value, or
    // the one that is taken; `pitch`: blocks per row.
    void step(bool adds, bool takes, place_t place, place_t pitch, typename T::plane_t plane,
              const PieceTask<Config>& task, const StepBeat<Config>& step, BlockBeat<Config>& taken) {
#pragma HLS INLINE
        if (native_integers && !adds && !takes) {  // a simulation saves the time
            return;
        }
        TurnedWeights<Config> turned;
        turned.turn(step.weight, task.row_phase, task.column_phase);
        const BlocksAround<Config> around(place, pitch);
        typename T::product_t product[T::cells];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::Multiplier::template multiply<Config::weight_bits, Config::value_bits, T::cells>(turned.weight,
                                                                                                 task.value, product);
        place_t of_bank[T::cells];
#pragma HLS ARRAY_PARTITION variable=of_bank complete dim=0
    Banks_Place:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            of_bank[n] = around.block(!takes && n / T::columns < static_cast<int>(task.row_phase),
                                      !takes && n % T::columns < static_cast<int>(task.column_phase));
        }
        banks_.step(adds, takes, of_bank, plane, product, taken);
    }

   private:
    BankSums<Config> banks_;
};

}  // namespace bfpga
