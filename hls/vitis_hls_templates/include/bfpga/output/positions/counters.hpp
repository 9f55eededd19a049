// Counters of bins for results that many lanes deliver in every clock (FP R10, R14).
//
// Each counter is a register of its own: it is read, raised and written in one clock, which a memory cannot do, and
// lanes may meet in a bin. A bin's lanes are counted first, so every counter has one adder.
#pragma once
#include "bfpga/output/position_bits.hpp"
#include "bfpga/output/positions/types.hpp"

namespace bfpga {

// Lanes whose bin is among `bins`.
template <class Config>
inline typename PositionTypes<Config>::lanes_t lanes_within(
    const typename PositionTypes<Config>::one_hot_t (&bin)[Config::lanes],
    typename PositionTypes<Config>::one_hot_t bins) {
#pragma HLS INLINE
    using lanes_t = typename PositionTypes<Config>::lanes_t;
    lanes_t found = 0;
Lanes_Count:
    for (int lane = 0; lane < Config::lanes; ++lane) {
#pragma HLS UNROLL
        found = static_cast<lanes_t>(found + ((bin[lane] & bins) != 0 ? 1 : 0));
    }
    return found;
}

// N counters, each in a register.
template <class Config, int N>
class CounterRegisters {
   public:
    void clear() {
#pragma HLS INLINE
    Counters_Clear:
        for (int number = 0; number < N; ++number) {
#pragma HLS UNROLL
            count_.set(number, 0);
        }
    }

   protected:
    typename Config::RegisterSets::template Set<typename PositionTypes<Config>::count_t, N> count_;
};

// A counter for every bin.
template <class Config>
class BinCounters : public CounterRegisters<Config, PositionTypes<Config>::bins> {
    using T = PositionTypes<Config>;
    using count_t = typename T::count_t;
    using one_hot_t = typename T::one_hot_t;
    using CounterRegisters<Config, T::bins>::count_;

   public:
    void add(const one_hot_t (&bin)[Config::lanes]) {
#pragma HLS INLINE
    Bins_Add:
        for (int number = 0; number < T::bins; ++number) {
#pragma HLS UNROLL
            const one_hot_t this_bin = static_cast<one_hot_t>(static_cast<one_hot_t>(1) << number);
            count_.set(number, static_cast<count_t>(count_.get(number) + lanes_within<Config>(bin, this_bin)));
        }
    }

    template <class Other>
    void merge(const Other& other) {
#pragma HLS INLINE
    Bins_Merge:
        for (int bin = 0; bin < T::bins; ++bin) {
#pragma HLS UNROLL
            count_.set(bin, static_cast<count_t>(count_.get(bin) + other.at(bin)));
        }
    }

    count_t at(int bin) const {
#pragma HLS INLINE
        return count_.get(bin);
    }
};

// Counters of the uppermost eight positions only (FP 7): a third of the registers, and no shifting when the largest
// position rises. Position i is counted in register i mod 8; what rises above the old positions takes over the
// registers of those that fall out below.
//
// `below`: all bins at and below that of the largest position so far.
template <class Config>
class CoarseCounters : public CounterRegisters<Config, kCoarsePositions> {
    using T = PositionTypes<Config>;
    using count_t = typename T::count_t;
    using one_hot_t = typename T::one_hot_t;
    using CounterRegisters<Config, kCoarsePositions>::count_;

   public:
    void add(const one_hot_t (&bin)[Config::lanes], one_hot_t below_before, one_hot_t below) {
#pragma HLS INLINE
        const one_hot_t counted = counted_bins(below);
    Slots_Add:
        for (int slot = 0; slot < kCoarsePositions; ++slot) {
#pragma HLS UNROLL
            const one_hot_t here = static_cast<one_hot_t>(counted & bins_of(slot));
            const count_t kept = kept_count(slot, below_before, below);
            count_.set(slot, static_cast<count_t>(kept + lanes_within<Config>(bin, here)));
        }
    }

    template <class Other>
    void merge(const Other& other, one_hot_t below_own, one_hot_t below_other) {
#pragma HLS INLINE
        const one_hot_t below = static_cast<one_hot_t>(below_own | below_other);
    Slots_Merge:
        for (int slot = 0; slot < kCoarsePositions; ++slot) {
#pragma HLS UNROLL
            const count_t own = kept_count(slot, below_own, below);
            count_.set(slot, static_cast<count_t>(own + other.kept_count(slot, below_other, below)));
        }
    }

    // What the register of a slot still counts when the bins up to the largest grow from `before` to `below`.
    count_t kept_count(int slot, one_hot_t before, one_hot_t below) const {
#pragma HLS INLINE
        const one_hot_t risen = static_cast<one_hot_t>(below & ~before & bins_of(slot));
        return risen != 0 ? static_cast<count_t>(0) : count_.get(slot);
    }

    count_t at(int bin, one_hot_t below) const {
#pragma HLS INLINE
        const bool counted = ((counted_bins(below) >> bin) & 1) != 0;
        return counted ? count_.get(bin & (kCoarsePositions - 1)) : static_cast<count_t>(0);
    }

   private:
    // The uppermost eight of the bins, without bin 0, which is no position.
    static one_hot_t counted_bins(one_hot_t below) {
#pragma HLS INLINE
        const one_hot_t lower = static_cast<one_hot_t>(below >> kCoarsePositions);
        return static_cast<one_hot_t>((below ^ lower) >> 1 << 1);
    }

    // All bins that a slot may count; wiring.
    static one_hot_t bins_of(int slot) {
#pragma HLS INLINE
        one_hot_t bins = 0;
    Bins_OfSlot:
        for (int bin = 0; bin < T::bins; ++bin) {
#pragma HLS UNROLL
            const bool belongs = (bin & (kCoarsePositions - 1)) == slot;
            bins = static_cast<one_hot_t>(bins | (static_cast<one_hot_t>(belongs ? 1 : 0) << bin));
        }
        return bins;
    }
};

}  // namespace bfpga
