// Variant D: as variant C, but two products that meet are added on their way (SC R106-R112).
#pragma once
#include "bfpga/sparse_cluster/units/merge_fifo.hpp"

namespace bfpga {

// Products that leave are sorted by their words, so that the two of a word are neighbours; all sums of neighbours are
// formed before it is known which are needed, and each place then takes its product or a sum.
template <class Config>
struct PairExit {
    static constexpr bool pairs = true;

    static void collect(const LaneProduct<Config> (&lane)[Config::lanes], const Arbitration<Config>& result,
                        LaneProduct<Config> (&out)[Config::lanes]) {
#pragma HLS INLINE
        LaneProduct<Config> sorted[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=sorted complete dim=0
        sort(lane, result, sorted);
        typename TileUnitTypes<Config>::pair_t sum[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
    Neighbours_Add:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            // A sum around the ring (last and first) is never needed: they are sorted.
            const int next = l + 1 < Config::lanes ? l + 1 : l;
            sum[l] = static_cast<typename TileUnitTypes<Config>::pair_t>(sorted[l].value + sorted[next].value);
        }
    Places_Select:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            const bool with_next = l + 1 < Config::lanes && meet(sorted[l], sorted[l + 1 < Config::lanes ? l + 1 : l]);
            const bool with_last = l > 0 && meet(sorted[l], sorted[l > 0 ? l - 1 : 0]);
            out[l] = sorted[l];
            out[l].value = with_next ? sum[l] : sorted[l].value;
            // The other place of the pair holds the same sum and does not write it (SC R109).
            out[l].valid = sorted[l].valid && !with_last;
        }
    }

   private:
    static bool meet(const LaneProduct<Config>& a, const LaneProduct<Config>& b) {
#pragma HLS INLINE
        return a.valid && b.valid && a.row == b.row && a.column == b.column;
    }

    // A product's place is the number of those before it: of smaller words, or the partner that it joins.
    static void sort(const LaneProduct<Config> (&lane)[Config::lanes], const Arbitration<Config>& result,
                     LaneProduct<Config> (&sorted)[Config::lanes]) {
#pragma HLS INLINE
        int place[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=place complete dim=0
        bool goes[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=goes complete dim=0
    Lanes_Go:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            goes[l] = result.leaves[l] || result.joins[l];
        }
    Lanes_Rank:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            place[l] = 0;
        Others_Rank:
            for (int other = 0; other < Config::lanes; ++other) {
#pragma HLS UNROLL
                const bool lower = lane[other].row < lane[l].row ||
                                   (lane[other].row == lane[l].row && lane[other].column < lane[l].column);
                const bool partner = result.joins[l] && result.leaves[other] && lane[other].row == lane[l].row &&
                                     lane[other].column == lane[l].column;
                place[l] += goes[other] && (lower || partner) ? 1 : 0;
            }
        }
    Places_Fill:
        for (int n = 0; n < Config::lanes; ++n) {
#pragma HLS UNROLL
            sorted[n] = lane[0];
            sorted[n].valid = false;
        Lanes_Place:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                if (goes[l] && place[l] == n) {
                    sorted[n] = lane[l];
                }
            }
        }
    }
};

template <class Config, class Sums = TileWindowSums<Config>>
using PairAdderUnit = TileUnit<Config, PackedRounds<Config, Sums, PairExit>>;

}  // namespace bfpga
