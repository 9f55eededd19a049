// The sums of a piece in kernel rows x kernel columns banks, one for each cell of a block (SC R115).
//
// The products of a value and all weights of a kernel lie in a rectangle as large as a block, so every bank gets one of
// them. Which one, the place of the value in its block says: the weights turn around, the banks stand.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/cluster/piece_reader.hpp"

namespace bfpga {

// Clocks from a word's sum to its next one at least: reading, adding, writing.
constexpr int sum_distance = 4;

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
    static constexpr int from(int bank, int phase, int lines) { return lines - 1 - (bank - phase + lines) % lines; }
};

template <class Config>
class BankSums {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    static constexpr int memory_words = T::words * T::planes;
    using address_t = uint_t<bit_length(memory_words - 1)>;

   public:
    BankSums() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A sum is read again `sum_distance` clocks later at the earliest; its write has left the pipeline then.
#pragma HLS DEPENDENCE variable=cell_ inter false
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // All sums are zero; each is again when it has been taken (SC R77).
    void clear() {
#pragma HLS INLINE
        PipelinedLoop loop("Sums_Clear");
    Sums_Clear:
        for (int word = 0; word < memory_words; ++word) {
// II=1: a word of every bank a clock.
#pragma HLS PIPELINE II=1
            loop.iteration();
        Banks_Clear:
            for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
                cell_waiver_.writes(n * memory_words + word);
                cell_[n][word] = 0;
            }
        }
    }

    // Adds `value` times the weights of a kernel, or takes the sums of a block, which start anew. `place`: the block of
    // the value, or the one that is taken; `pitch`: blocks beside each other.
    void step(bool adds, bool takes, place_t place, place_t pitch, typename T::plane_t plane,
              const PieceTask<Config>& task, const StepBeat<Config>& step, BlockBeat<Config>& taken) {
#pragma HLS INLINE
        if (native_integers && !adds && !takes) {  // a simulation saves the time
            return;
        }
        TurnedWeights<Config> turned;
        turned.turn(step.weight, task.row_phase, task.column_phase);
        const place_t below = T::behind(place, pitch);
        const place_t beside[2] = {T::behind(place, 1), T::behind(below, 1)};
        typename T::product_t product[T::cells];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::Multiplier::template multiply<Config::weight_bits, Config::value_bits, T::cells>(turned.weight,
                                                                                                 task.value, product);
    Banks_Step:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool next_row = !takes && n / T::columns < static_cast<int>(task.row_phase);
            const bool next_column = !takes && n % T::columns < static_cast<int>(task.column_phase);
            const place_t of_bank = next_row ? (next_column ? beside[1] : below) : (next_column ? beside[0] : place);
            const int word = static_cast<int>(address(of_bank, plane));
            if (adds || takes) {
                cell_waiver_.reads(n * memory_words + word);
                cell_waiver_.writes(n * memory_words + word);
            }
            const typename T::accumulator_t old = cell_[n][word];
            const typename T::accumulator_t sum =
                low_bits<Config::accumulator_bits>(static_cast<int_t<Config::accumulator_bits + 1>>(old) + product[n]);
            if (adds || takes) {
                cell_[n][word] = takes ? static_cast<typename T::accumulator_t>(0) : sum;
            }
            taken.sum[n] = old;
        }
    }

   private:
    static address_t address(place_t place, typename T::plane_t plane) {
#pragma HLS INLINE
        return T::planes == 1
                   ? static_cast<address_t>(place)
                   : static_cast<address_t>(static_cast<address_t>(place) * static_cast<address_t>(T::planes) + plane);
    }

    typename T::accumulator_t cell_[T::cells][memory_words];
    mutable Waiver<InterFalseBefore<sum_distance>, T::cells * memory_words> cell_waiver_;
};

}  // namespace bfpga
