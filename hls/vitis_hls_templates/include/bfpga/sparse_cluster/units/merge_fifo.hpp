// Variant C: several weights a round; of products that meet, one leaves and the others wait (SC R98-R105).
//
// A round holds the products that wait, in their order, and then new pairs of (value, weight), weight by weight. Which
// products leave depends on their indices only. The queue ends empty with every tile (R104).
#pragma once
#include "bfpga/sparse_cluster/units/tiles.hpp"
#include "bfpga/sparse_cluster/units/window.hpp"

namespace bfpga {

// Pairs of the values and weights of a tile: for each weight all values (SC R70, R98).
template <class Config>
class PairWalk {
    using T = TileUnitTypes<Config>;

   public:
    PairWalk() {
#pragma HLS ARRAY_PARTITION variable=values_ complete dim=0
    }

    void start(int values, int weights) {
#pragma HLS INLINE
        weight_ = 0;
        value_ = 0;
        weights_ = weights;
        int multiple = 0;
    Multiples_Start:
        for (int j = 0; j < T::weight_cap; ++j) {
#pragma HLS UNROLL
            multiple += values;
            values_[j] = multiple;
        }
    }

    bool finished() const { return weight_ >= weights_; }

    // The pair `ahead` pairs behind the next one. False if it does not exist, or belongs to more than `cap` weights of
    // a round (SC R71): no division, the end of every weight that a round can reach is known.
    bool pair(int ahead, int cap, int& value, int& weight) const {
#pragma HLS INLINE
        const int passed = weights_passed(value_ + ahead);
        value = value_ + ahead - (passed > 0 ? static_cast<int>(values_[passed > 0 ? passed - 1 : 0]) : 0);
        weight = weight_ + passed;
        return passed < cap && weight < weights_;
    }

    void advance(int pairs) {
#pragma HLS INLINE
        const int passed = weights_passed(value_ + pairs);
        value_ = value_ + pairs - (passed > 0 ? static_cast<int>(values_[passed > 0 ? passed - 1 : 0]) : 0);
        weight_ += passed;
    }

   private:
    int weights_passed(int position) const {
#pragma HLS INLINE
        int passed = 0;
    Multiples_Compare:
        for (int j = 0; j < T::weight_cap; ++j) {
#pragma HLS UNROLL
            passed += position >= values_[j] ? 1 : 0;
        }
        return passed;
    }

    int32_t values_[T::weight_cap] = {};  // values of 1, 2, ... weights
    int32_t value_ = 0, weight_ = 0, weights_ = 0;
};

// What becomes of the product of each lane: it leaves, joins the one that leaves, or waits.
template <class Config>
struct Arbitration {
    bool leaves[Config::lanes];
    bool joins[Config::lanes];
    bool waits[Config::lanes];
};

// Compares every lane with all others (SC R99-R101). Pairs: two products of a word may leave as one sum. ByBank:
// products of different words of a bank clash too.
template <class Config, bool Pairs, bool ByBank>
inline void arbitrate(const LaneProduct<Config> (&lane)[Config::lanes], MergePolicy policy, Arbitration<Config>& result,
                      TileUnitCounters& counters) {
#pragma HLS INLINE
    bool same_word[Config::lanes][Config::lanes];
#pragma HLS ARRAY_PARTITION variable=same_word complete dim=0
    int before_word[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=before_word complete dim=0
Lanes_Compare:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        int before_bank = 0;
        before_word[l] = 0;
    Others_Compare:
        for (int other = 0; other < Config::lanes; ++other) {
#pragma HLS UNROLL
            const bool before =
                (policy == MergePolicy::DeferLater ? other < l : other > l) && lane[l].valid && lane[other].valid;
            same_word[l][other] = before && lane[l].row == lane[other].row && lane[l].column == lane[other].column;
            before_word[l] += same_word[l][other] ? 1 : 0;
            const bool same_bank = static_cast<int>(lane[l].row) % Config::tile_rows ==
                                       static_cast<int>(lane[other].row) % Config::tile_rows &&
                                   static_cast<int>(lane[l].column) % Config::tile_columns ==
                                       static_cast<int>(lane[other].column) % Config::tile_columns;
            before_bank += before && same_bank ? 1 : 0;
        }
        result.leaves[l] = lane[l].valid && (ByBank ? before_bank : before_word[l]) == 0;
    }
Lanes_Judge:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        bool partner_leaves = false;
    Others_Join:
        for (int other = 0; other < Config::lanes; ++other) {
#pragma HLS UNROLL
            partner_leaves = partner_leaves || (same_word[l][other] && result.leaves[other]);
        }
        result.joins[l] = Pairs && !result.leaves[l] && before_word[l] == 1 && partner_leaves;
        result.waits[l] = lane[l].valid && !result.leaves[l] && !result.joins[l];
        counters.merged += result.joins[l] ? 1 : 0;
        counters.conflicts += result.waits[l] || (!ByBank && result.joins[l]) ? 1 : 0;
    }
}

// What leaves in variant C: products alone.
template <class Config>
struct SingleExit {
    static constexpr bool pairs = false;

    static void collect(const LaneProduct<Config> (&lane)[Config::lanes], const Arbitration<Config>& result,
                        LaneProduct<Config> (&out)[Config::lanes]) {
#pragma HLS INLINE
    Lanes_Leave:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            out[l] = lane[l];
            out[l].valid = result.leaves[l];
        }
    }
};

// Rounds of variants C and D. `Exit`: SingleExit, or PairExit of cluster_pair_adder.hpp.
template <class Config, class Sums, template <class> class Exit>
class PackedRounds {
    using T = TileUnitTypes<Config>;
    static constexpr int lanes = Config::lanes;

   public:
    PackedRounds() {
#pragma HLS ARRAY_PARTITION variable=waiting_ complete dim=0
    }

    // The cap on distinct new weights of a round, and whose product waits.
    void configure(int cap, MergePolicy policy) {
#pragma HLS INLINE
        simulation_check(cap >= 1 && cap <= T::weight_cap, "the weights of a round", "must fit the build; they are",
                         cap);
        cap_ = cap;
        policy_ = policy;
    }

    void tile(const TileCells<Config>& cells, const IssuedWeights<Config>& weights, int row, int column,
              TileUnitCounters& counters) {
        sums_.open(row, column, counters);
        walk_.start(cells.count, weights.count());
        held_ = 0;
    Rounds:
        while (!walk_.finished() || held_ > 0) {
// II=1: which products wait depends on indices alone, so one clock compares, counts and moves them; what multiplies
// stands behind. A sum is read, added and written in one clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=64
            LaneProduct<Config> lane[lanes];
#pragma HLS ARRAY_PARTITION variable=lane complete dim=0
            const int taken = fill(cells, weights, lane);
            walk_.advance(taken);
            ++counters.rounds;
            counters.issued += taken;
            counters.idle += lanes - held_ - taken;
            Arbitration<Config> result;
#pragma HLS ARRAY_PARTITION variable=result.leaves complete dim=0
#pragma HLS ARRAY_PARTITION variable=result.joins complete dim=0
#pragma HLS ARRAY_PARTITION variable=result.waits complete dim=0
            arbitrate<Config, Exit<Config>::pairs, Sums::clash_by_bank>(lane, policy_, result, counters);
            LaneProduct<Config> out[lanes];
#pragma HLS ARRAY_PARTITION variable=out complete dim=0
            Exit<Config>::collect(lane, result, out);
            sums_.add(out);
            hold(lane, result, counters);
        }
        sums_.close(counters);
    }

    void clear() { sums_.clear(); }
    typename T::accumulator_t take(int row, int column) { return sums_.take(row, column); }

   private:
    // What waits enters first, new pairs take the other lanes (SC R102). Returns the new pairs.
    int fill(const TileCells<Config>& cells, const IssuedWeights<Config>& weights, LaneProduct<Config> (&lane)[lanes]) {
#pragma HLS INLINE
        int taken = 0;
    Lanes_Fill:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const bool waits = l < held_;
            int value = 0;
            int weight = 0;
            const bool exists = walk_.pair(waits ? 0 : l - held_, cap_, value, weight);
            const bool fresh = !waits && exists;
            const LaneProduct<Config> pair = product(cells, fresh ? value : 0, weights, fresh ? weight : 0);
            lane[l] = waits ? waiting_[l] : pair;
            lane[l].valid = waits || fresh;
            taken += fresh ? 1 : 0;
        }
        return taken;
    }

    static LaneProduct<Config> product(const TileCells<Config>& cells, int value, const IssuedWeights<Config>& weights,
                                       int weight) {
#pragma HLS INLINE
        const typename T::value_t x[1] = {cells.value[value]};
        typename T::product_t product[1];
        Config::Multiplier::template multiply<Config::input_bits, Config::weight_bits, 1>(x, weights.value(weight),
                                                                                          product);
        LaneProduct<Config> result;
        result.value = product[0];
        result.row = cells.row[value] + weights.row_offset(weight);
        result.column = cells.column[value] + weights.column_offset(weight);
        result.valid = false;
        return result;
    }

    // Products that wait move up, in their order (SC R100). One leaves at least, so lanes - 1 places are enough (R103).
    void hold(const LaneProduct<Config> (&lane)[lanes], const Arbitration<Config>& result, TileUnitCounters& counters) {
#pragma HLS INLINE
        int held = 0;
    Lanes_Hold:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            if (result.waits[l]) {
                waiting_[held] = lane[l];
                ++held;
            }
        }
        simulation_check(held < lanes, "the merge queue", "holds as many products as there are lanes:", held);
        held_ = held;
        counters.fifo_peak = counters.fifo_peak > held ? counters.fifo_peak : static_cast<int64_t>(held);
    }

    PairWalk<Config> walk_;
    Sums sums_;
    LaneProduct<Config> waiting_[lanes] = {};
    int32_t held_ = 0, cap_ = 1;
    MergePolicy policy_ = MergePolicy::DeferLater;
};

template <class Config, class Sums = TileWindowSums<Config>>
using MergeFifoUnit = TileUnit<Config, PackedRounds<Config, Sums, SingleExit>>;

}  // namespace bfpga
