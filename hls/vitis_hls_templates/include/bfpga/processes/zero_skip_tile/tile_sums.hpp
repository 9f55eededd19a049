// The sums of a tile for all kernels in flight: products of one weight are added in place (ZS R6, R37-R41).
//
// A word has the sums of a group of rows for one kernel. It is written as zero in the cycle in which the last of its
// blocks leaves.
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/zero_skip_tile/types.hpp"

namespace bfpga {

template <class Config>
class TileSums {
    using D = TileTypes<Config>;
    using T = typename D::T;
    using accumulator_t = typename D::accumulator_t;
    using group_t = typename D::group_t;
    using plane_t = typename D::plane_t;
    using sum_t = int_t<D::C::accumulator_bits + 1>;
    static constexpr int words = D::groups * T::planes;
    using address_t = uint_t<bit_length(words - 1)>;

   public:
    TileSums() {
        static_assert(sum_distance >= 4, "the distance that the pragma states");
#pragma HLS ARRAY_RESHAPE variable=cell_ complete dim=2
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A word is read again `sum_distance` cycles later at the earliest: its write has to have left the pipeline by then.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=4 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // All sums are zero.
    void clear() {
#pragma HLS INLINE
        PipelinedLoop loop("Sums_Clear");
    Sums_Clear:
        for (int word = 0; word < words; ++word) {
// II=1: a word a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
            cell_waiver_.writes(word);
        Lanes_Clear:
            for (int l = 0; l < D::lanes; ++l) {
#pragma HLS UNROLL
                cell_[word][l] = 0;
            }
        }
    }

    // Adds a product to each sum of a word, or takes the word: `taken`; `clears`: for the last time.
    void step(bool adds, bool takes, bool clears, group_t group, plane_t plane,
              const typename D::product_t (&product)[D::lanes], accumulator_t (&taken)[D::lanes]) {
#pragma HLS INLINE
        const int word = static_cast<int>(static_cast<address_t>(static_cast<address_t>(group) * T::planes + plane));
        if (adds || takes) {
            cell_waiver_.reads(word);
        }
        const bool writes = adds || clears;
        if (writes) {
            cell_waiver_.writes(word);
        }
    Lanes_Read:
        for (int l = 0; l < D::lanes; ++l) {
#pragma HLS UNROLL
            taken[l] = cell_[word][l];
        }
        if (writes) {
        Lanes_Write:
            for (int l = 0; l < D::lanes; ++l) {
#pragma HLS UNROLL
                const accumulator_t more =
                    low_bits<D::C::accumulator_bits>(static_cast<sum_t>(static_cast<sum_t>(taken[l]) + product[l]));
                cell_[word][l] = clears ? static_cast<accumulator_t>(0) : more;
            }
        }
    }

   private:
    accumulator_t cell_[words][D::lanes];
    mutable Waiver<InterRawDistance<4>, words> cell_waiver_;
};

}  // namespace bfpga
