// Adds the products of rounds to the sums of a piece: an arbiter in front of each bank lets one of its products leave a
// cycle, and holds the later one back (SC R99-R101).
//
// A weight has one product for a bank at most, so a round has two. What is held enters the next round first and leaves
// with it (SC R102): of that round the bank has room for one product, and a round with two of them waits a cycle. So
// a place for each bank is enough, a product leaves every cycle, and no product is later than by `merge_delay` cycles
// (SC R103). Where two products are of one cell, the later one takes the sum of the other from a register: the memory
// has it some cycles later. In variant D two products of one cell are added on the way: the adder of a bank sums its
// two products before it is known whether they are of one cell (SC R106-R108), and both leave as one (SC R109).
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/pair_beats.hpp"
#include "bfpga/processes/sparse_cluster/unit_process.hpp"

namespace bfpga {

// A product for a bank, or the sum of two.
template <class Config>
struct BankProduct {
    using T = ClusterUnitTypes<Config>;
    using sum_t = int_t<T::product_bits + (Config::adds_pairs ? 1 : 0)>;

    sum_t sum;
    typename T::place_t block;

    BankProduct() : sum(0), block(0) {}
};

template <class Config>
class MergeProcess {
    using T = ClusterUnitTypes<Config>;
    using Round = RoundBeat<Config>;
    using Blocks = BlockBeat<Config>;
    using Product = BankProduct<Config>;
    using sum_t = typename Product::sum_t;
    using place_t = typename T::place_t;
    using plane_t = typename T::plane_t;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int products = Config::products;

   public:
    MergeProcess() {
#pragma HLS ARRAY_PARTITION variable=waits_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=waiting_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=plane_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=follows_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=last_ complete dim=0
        clear();
    }

    // Adds until a round with `stop` has come, without reports.
    void run(stream<wire_t<Round>>& rounds, stream<wire_t<Blocks>>& sums) {
#pragma HLS INLINE
        NoReports reports;
        run(rounds, sums, reports);
    }

    // As above; `reports`: products that were held back, and cycles in which a round waited (SC R153).
    template <class Reports>
    void run(stream<wire_t<Round>>& rounds, stream<wire_t<Blocks>>& sums, Reports& reports) {
#pragma HLS INLINE
        clear();
        banks_.clear();
        bool running = true;
        PipelinedLoop loop("Merge");
    Merge:
        while (running) {
// II=1: whether a round enters depends on flags of the one before and on its own, which came with it; a sum is met
// again `sum_distance` cycles later at the earliest.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool clashes = round_.there() && full();
            const bool enters = round_.there() && !clashes;
            running = !(enters && round_.beat().stop);
            merge(enters, sums);
            stalls_ += clashes ? 1 : 0;
            if (!clashes) {
                round_.next(rounds);
            }
        }
        loop.ended();
        reports.write(held_);
        reports.write(stalls_);
    }

   private:
    void clear() {
#pragma HLS INLINE
        held_ = 0;
        stalls_ = 0;
    Banks_Clear:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            waits_[n] = false;
            follows_[n] = false;
        }
    }

    // Whether some bank has no room for what the round has.
    bool full() const {
#pragma HLS INLINE
        bool found = false;
    Banks_Full:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            found = found || (waits_[n] && round_.beat().clashes[n]);
        }
        return found;
    }

    // What leaves of each bank, or the block that does.
    void merge(bool enters, stream<wire_t<Blocks>>& sums) {
#pragma HLS INLINE
        const Round& round = round_.beat();
        const bool takes = enters && round.takes;
        Blocks block;
    Banks_Merge:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            bool first = false;
            bool second = false;
            const Product one = product_of(round, 0, n, first);
            const Product other = product_of(round, products, n, second);
            const bool joins = Config::adds_pairs && first && second && !round.clashes[n];
            Product entering = first ? one : other;
            const sum_t both = static_cast<sum_t>(one.sum + other.sum);
            entering.sum = joins ? both : entering.sum;
            const bool any = enters && (first || second);
            const bool holds = enters && (waits_[n] ? first || second : first && second && !joins);
            simulation_check(!takes || !waits_[n], "a product", "waits while sums leave, of bank", n);
            const Product leaving = waits_[n] ? waiting_[n] : entering;
            const place_t place = takes ? round.place : leaving.block;
            const plane_t plane = waits_[n] ? plane_[n] : round.plane;
            const bool adds = waits_[n] || any;
            const accumulator_t stored = banks_.read(n, place, plane, takes || (adds && !follows_[n]));
            const accumulator_t sum = BankSums<Config>::added(follows_[n] ? last_[n] : stored, leaving.sum);
            banks_.write(n, place, plane, takes || adds, takes ? static_cast<accumulator_t>(0) : sum);
            block.sum[n] = stored;
            last_[n] = sum;
            follows_[n] = !waits_[n] && holds && one.block == other.block;
            waiting_[n] = waits_[n] ? entering : other;
            plane_[n] = round.plane;
            waits_[n] = holds;
            held_ += holds ? 1 : 0;
        }
        if (takes) {
            sums.write(to_wire(block));
        }
    }

    // The product that the lanes of a weight, from lane `from` on, have for a bank; `there`: whether they have one.
    static Product product_of(const Round& round, int from, int bank, bool& there) {
#pragma HLS INLINE
        Product found;
    Lanes_Choose:
        for (int l = 0; l < products; ++l) {
#pragma HLS UNROLL
            const int lane = from + l;
            const bool here = round.valid[lane] && round.bank[lane] == bank;
            simulation_check(!here || !there, "a weight", "has two products for bank", bank);
            there = there || here;
            // One lane at most has a product for the bank: what the lanes have is one number.
            found.sum = static_cast<sum_t>(found.sum |
                                           (here ? static_cast<sum_t>(round.product[lane]) : static_cast<sum_t>(0)));
            found.block = static_cast<place_t>(found.block | (here ? round.block[lane] : static_cast<place_t>(0)));
        }
        return found;
    }

    HeldBeat<Round> round_;
    BankSums<Config> banks_;
    bool waits_[T::cells];          // a product of the bank is held back
    Product waiting_[T::cells];     // it
    plane_t plane_[T::cells];       // its kernel
    bool follows_[T::cells];        // the one before it was of the same cell
    accumulator_t last_[T::cells];  // the sum of the one before
    int_t<32> held_, stalls_;
};

}  // namespace bfpga
