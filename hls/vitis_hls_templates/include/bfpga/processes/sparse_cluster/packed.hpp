// A unit of the sparse cluster, variants C and D: values of a micro-tile meet two weights of a kernel a step, so lanes
// that would idle take the next weight (SC R70, R98).
//
// Groups have half as many values as there are lanes: the first half of the lanes has the first weight, the other half
// the second one. What the products of a round are added to is decided downstream (merge.hpp): two of them may share a
// bank, and the next round must not stall for that here.
#pragma once
#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/pair_beats.hpp"

namespace bfpga {

template <class Config>
class PairRounds {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    static constexpr int products = Config::products;
    static constexpr int weights = Config::weights;
    static_assert(weights == 2, "a bank has two products of a round at most");

   public:
    using Beat = RoundBeat<Config>;
    static constexpr int distance = sum_distance + merge_delay;
    static constexpr bool sends_all = true;

    void clear() {}

    static void stop(Beat& round, bool stops) { round.stop = stops; }

    // The products of a group and the weights of a step, or the block whose sums leave. `place`: the block of the
    // values, or the one that leaves; `pitch`: blocks per row.
    void step(bool adds, bool takes, place_t place, place_t pitch, typename T::plane_t plane,
              const TileBeat<Config>& group, const PairEntry<Config>& entry, Beat& round) {
#pragma HLS INLINE
        round.plane = plane;
        round.place = place;
        round.takes = takes;
        round.stop = false;
        const BlocksAround<Config> around(place, pitch);
    Weights_Multiply:
        for (int w = 0; w < weights; ++w) {
#pragma HLS UNROLL
            multiply(w, adds, around, group, entry, round);
        }
    Banks_Compare:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            round.clashes[n] = clash(n, round);
        }
    }

   private:
    // The lanes of a weight.
    static void multiply(int weight, bool adds, const BlocksAround<Config>& around, const TileBeat<Config>& group,
                         const PairEntry<Config>& entry, Beat& round) {
#pragma HLS INLINE
        typename T::product_t product[products];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::Multiplier::template multiply<Config::value_bits, Config::weight_bits, products>(
            group.value, entry.weight[weight], product);
    Lanes_Index:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
            const int lane = weight * products + p;
            ProductLine<Config, T::rows> row;
            ProductLine<Config, T::columns> column;
            row.find(group.row_phase[p], entry.row_offset[weight]);
            column.find(group.column_phase[p], entry.column_offset[weight]);
            round.product[lane] = product[p];
            round.bank[lane] = static_cast<typename Beat::bank_t>(row.bank * T::columns + column.bank);
            round.block[lane] = around.block(row.next, column.next);
            round.valid[lane] = adds && group.value[p] != 0 && entry.weight[weight] != 0;
        }
    }

    // Whether a bank has two products that cannot leave at once (SC R99): in variant C any two, in D those of different
    // cells, since others are added to each other (SC R108).
    static bool clash(int bank, const Beat& round) {
#pragma HLS INLINE
        bool both = false;
    Lanes_Compare:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
        Others_Compare:
            for (int q = products; q < weights * products; ++q) {
#pragma HLS UNROLL
                const bool here = round.valid[p] && round.bank[p] == bank;
                const bool other = round.valid[q] && round.bank[q] == bank;
                both = both || (here && other && !(Config::adds_pairs && round.block[p] == round.block[q]));
            }
        }
        return both;
    }
};

template <class Config>
using PackedProcess =
    UnitProcess<Config, GroupReader<TileBeat<Config>>, StepTable<Config, PairEntry<Config>>, PairRounds<Config>>;

}  // namespace bfpga
