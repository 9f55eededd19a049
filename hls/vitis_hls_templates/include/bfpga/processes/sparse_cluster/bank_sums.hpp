// The accumulators of a piece in kernel rows x kernel columns banks, one for each cell of a block (SC R115).
//
// A rectangle of cells as large as a block has a cell in every bank, wherever it begins: the products of a value and
// all weights of a kernel fill one, as do those of a weight and all values of a block.
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// Cycles from a word's sum to its next one at least: reading, adding, writing.
constexpr int sum_distance = 4;

// Cycles that a product waits at most where two of them meet in a bank (merge.hpp).
constexpr int merge_delay = 1;

// Steps from one of a kernel to its next one at least where a step takes as long as a sum or longer (shift_window.hpp).
constexpr int window_distance = 2;

// What a unit sends that has the banks itself: a block where one leaves.
template <class Config>
struct SentBlocks {
    using Beat = BlockBeat<Config>;
    static constexpr int distance = sum_distance;  // cycles between two steps of a kernel at least
    static constexpr bool sends_all = false;       // something leaves in each cycle of a step or a pause

    static void stop(Beat&, bool) {}
};

// The destination blocks of products whose row or column is past the block of their value.
template <class Config>
struct BlocksAround {
    using place_t = typename ClusterUnitTypes<Config>::place_t;
    place_t here, beside, below, across;

    // `pitch`: blocks per row.
    BlocksAround(place_t place, place_t pitch)
        : here(place),
          beside(ClusterUnitTypes<Config>::behind(place, 1)),
          below(ClusterUnitTypes<Config>::behind(place, pitch)),
          across(ClusterUnitTypes<Config>::behind(below, 1)) {}

    place_t block(bool next_row, bool next_column) const {
#pragma HLS INLINE
        return next_row ? (next_column ? across : below) : (next_column ? beside : here);
    }
};

// `Distance`: cycles from an access of a sum to its next one at least.
template <class Config, int Distance = sum_distance>
class BankSums {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int memory_words = T::words * T::planes;
    using address_t = uint_t<bit_length(memory_words - 1)>;

   public:
    BankSums() {
        static_assert(Distance >= 4, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A sum is read again `Distance` cycles later at the earliest: its write has to have left the pipeline by then.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=4 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // All sums are zero; each is again when it has been taken (SC R77).
    void clear() {
#pragma HLS INLINE
        PipelinedLoop loop("Sums_Clear");
    Sums_Clear:
        for (int word = 0; word < memory_words; ++word) {
// II=1: a word of every bank a cycle.
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

    // Adds a product to each bank, or takes the sums of a block, which start anew. `place`: the block of each bank.
    void step(bool adds, bool takes, const place_t (&place)[T::cells], typename T::plane_t plane,
              const typename T::product_t (&product)[T::cells], BlockBeat<Config>& taken) {
#pragma HLS INLINE
    Banks_Step:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool used = adds || takes;
            taken.sum[n] = read(n, place[n], plane, used);
            write(n, place[n], plane, used, takes ? static_cast<accumulator_t>(0) : added(taken.sum[n], product[n]));
        }
    }

    // A sum of a bank. `used`: something is done with it.
    accumulator_t read(int bank, place_t place, typename T::plane_t plane, bool used) const {
#pragma HLS INLINE
        const int word = static_cast<int>(address(place, plane));
        if (used) {
            cell_waiver_.reads(bank * memory_words + word);
        }
        return cell_[bank][word];
    }

    void write(int bank, place_t place, typename T::plane_t plane, bool used, accumulator_t sum) {
#pragma HLS INLINE
        const int word = static_cast<int>(address(place, plane));
        if (used) {
            cell_waiver_.writes(bank * memory_words + word);
            cell_[bank][word] = sum;
        }
    }

    // A sum and a product; or a sum of two products.
    template <class Product>
    static accumulator_t added(accumulator_t sum, Product product) {
#pragma HLS INLINE
        return low_bits<Config::accumulator_bits>(static_cast<int_t<Config::accumulator_bits + 1>>(sum) + product);
    }

   private:
    static address_t address(place_t place, typename T::plane_t plane) {
#pragma HLS INLINE
        return T::planes == 1
                   ? static_cast<address_t>(place)
                   : static_cast<address_t>(static_cast<address_t>(place) * static_cast<address_t>(T::planes) + plane);
    }

    accumulator_t cell_[T::cells][memory_words];
    mutable Waiver<InterRawDistance<4>, T::cells * memory_words> cell_waiver_;
};

}  // namespace bfpga
