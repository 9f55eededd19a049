// The products of one weight and values of a micro-tile, each added at its index (SC R91-R93).
//
// Tiles are blocks, so one weight moves all their cells alike into a rectangle as large as a block: two products never
// meet in a bank, and no product is reordered or stalled before it is added (SC R96). Adders are at the banks: one
// crossbar from lanes to banks replaces a read network and a write network.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/tile_beats.hpp"

namespace bfpga {

// Where a product goes along one axis of the blocks: the line of the banks, in this block or in the next one.
template <class Config, int Lines>
struct ProductLine {
    using phase_t = typename ClusterUnitTypes<Config>::phase_t;
    phase_t bank;
    bool next;

    ProductLine() : bank(0), next(false) {}

    void find(phase_t phase, phase_t offset) {
#pragma HLS INLINE
        const phase_t line = static_cast<phase_t>(phase + offset);
        next = static_cast<int>(line) >= Lines;
        bank = next ? static_cast<phase_t>(line - Lines) : line;
    }
};

template <class Config>
class IndexedSums : public SentBlocks<Config> {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    using product_t = typename T::product_t;
    static constexpr int products = Config::products;

   public:
    void clear() {
#pragma HLS INLINE
        banks_.clear();
    }

    // Adds the values of a group times a weight, or takes the sums of a block. `place`: the block of the values, or the
    // one that is taken; `pitch`: blocks per row.
    void step(bool adds, bool takes, place_t place, place_t pitch, typename T::plane_t plane,
              const TileBeat<Config>& group, const WeightEntry<Config>& entry, BlockBeat<Config>& taken) {
#pragma HLS INLINE
        if (native_integers && !adds && !takes) {  // a simulation saves the time
            return;
        }
        product_t of_lane[products];
#pragma HLS ARRAY_PARTITION variable=of_lane complete dim=0
        Config::Multiplier::template multiply<Config::value_bits, Config::weight_bits, products>(group.value,
                                                                                                 entry.weight, of_lane);
        ProductLine<Config, T::rows> row[products];
#pragma HLS ARRAY_PARTITION variable=row complete dim=0
        ProductLine<Config, T::columns> column[products];
#pragma HLS ARRAY_PARTITION variable=column complete dim=0
    Lanes_Index:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
            row[p].find(group.row_phase[p], entry.row_offset);
            column[p].find(group.column_phase[p], entry.column_offset);
        }
        const BlocksAround<Config> around(place, pitch);
        product_t of_bank[T::cells];
#pragma HLS ARRAY_PARTITION variable=of_bank complete dim=0
        place_t block[T::cells];
#pragma HLS ARRAY_PARTITION variable=block complete dim=0
    Banks_Choose:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            bool hit = false;
            bool next_row = false;
            bool next_column = false;
            of_bank[n] = 0;
        Lanes_Choose:
            for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
                const bool here =
                    group.value[p] != 0 && row[p].bank == n / T::columns && column[p].bank == n % T::columns;
                simulation_check(!adds || !here || !hit, "a step", "adds twice to bank", n);
                hit = hit || here;
                // One lane at most has a product for the bank: what the lanes have is one number.
                of_bank[n] = static_cast<product_t>(of_bank[n] | (here ? of_lane[p] : static_cast<product_t>(0)));
                next_row = next_row || (here && row[p].next);
                next_column = next_column || (here && column[p].next);
            }
            block[n] = around.block(!takes && next_row, !takes && next_column);
        }
        banks_.step(adds, takes, block, plane, of_bank, taken);
    }

   private:
    BankSums<Config> banks_;
};

}  // namespace bfpga
