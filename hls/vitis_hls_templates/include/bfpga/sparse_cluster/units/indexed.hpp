// Variant B: one weight a round, every lane with its own value and the index of its product (SC R91-R97).
#pragma once
#include "bfpga/sparse_cluster/units/tiles.hpp"
#include "bfpga/sparse_cluster/units/window.hpp"

namespace bfpga {

// Multiplies a group of a tile's cells by one weight. Lanes without a cell are not valid; returns how many are.
template <class Config>
inline int multiply_group(const TileCells<Config>& cells, int first, const IssuedWeights<Config>& weights, int number,
                          LaneProduct<Config> (&lane)[Config::lanes]) {
#pragma HLS INLINE
    using T = TileUnitTypes<Config>;
    typename T::value_t x[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=x complete dim=0
    typename T::product_t product[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
    int used = 0;
Lanes_Load:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        const bool valid = first + l < cells.count;
        const int cell = valid ? first + l : 0;
        x[l] = valid ? cells.value[cell] : static_cast<typename T::value_t>(0);
        lane[l].row = cells.row[cell] + weights.row_offset(number);
        lane[l].column = cells.column[cell] + weights.column_offset(number);
        lane[l].valid = valid;
        used += valid ? 1 : 0;
    }
    Config::Multiplier::template multiply<Config::input_bits, Config::weight_bits, Config::lanes>(
        x, weights.value(number), product);
Lanes_Collect:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        lane[l].value = product[l];
    }
    return used;
}

// `Sums`: BankedSums or TileWindowSums. Two products of one weight have different indices, so nothing has to be ordered
// before it is written (SC R96).
template <class Config, class Sums = BankedSums<Config>>
class IndexedRounds {
    using T = TileUnitTypes<Config>;

   public:
    void tile(const TileCells<Config>& cells, const IssuedWeights<Config>& weights, int row, int column,
              TileUnitCounters& counters) {
        sums_.open(row, column, counters);
        int number = 0;
        int first = 0;
    Rounds:
        while (number < weights.count()) {
// II=1: a sum is read, added and written in one clock, so rounds may follow each other to the same word. Values stay in
// their registers, the weight is one of a register file.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=64
            LaneProduct<Config> lane[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=lane complete dim=0
            const int used = multiply_group(cells, first, weights, number, lane);
            sums_.add(lane);
            ++counters.rounds;
            counters.issued += used;
            counters.idle += Config::lanes - used;
            first += Config::lanes;
            if (first >= cells.count) {
                first = 0;
                ++number;
            }
        }
        sums_.close(counters);
    }

    void clear() { sums_.clear(); }
    typename T::accumulator_t take(int row, int column) { return sums_.take(row, column); }

   private:
    Sums sums_;
};

template <class Config, class Sums = BankedSums<Config>>
using IndexedUnit = TileUnit<Config, IndexedRounds<Config, Sums>>;

}  // namespace bfpga
