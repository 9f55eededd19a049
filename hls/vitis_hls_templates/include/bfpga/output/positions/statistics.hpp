// Statistics of exact wide results: collector of all lanes, aggregator, storage (FP 2.2, R10, R14, R15).
//
// The numpy side is formats/wide_statistics.py. Collecting takes one clock: nothing but counters and ORs depends on the
// clock before.
#pragma once
#include "bfpga/output/positions/counters.hpp"

namespace bfpga {

// Counts of the highest bits, in the form that a build keeps.
template <class Config, NsbKept Kept>
class NsbCounts;

template <class Config>
class NsbCounts<Config, NsbKept::Maximum> {
    using T = PositionTypes<Config>;
    using one_hot_t = typename T::one_hot_t;

   public:
    void clear() {}
    void add(const one_hot_t (&)[Config::lanes], one_hot_t, one_hot_t) {}
    template <class Other>
    void merge(const Other&, one_hot_t, one_hot_t) {}
    typename T::count_t at(int, one_hot_t) const { return 0; }
};

template <class Config>
class NsbCounts<Config, NsbKept::Coarse> : public CoarseCounters<Config> {};

template <class Config>
class NsbCounts<Config, NsbKept::Histogram> {
    using T = PositionTypes<Config>;
    using one_hot_t = typename T::one_hot_t;

   public:
    void clear() {
#pragma HLS INLINE
        counters_.clear();
    }

    void add(const one_hot_t (&bin)[Config::lanes], one_hot_t, one_hot_t) {
#pragma HLS INLINE
        counters_.add(bin);
    }

    template <class Other>
    void merge(const Other& other, one_hot_t, one_hot_t) {
#pragma HLS INLINE
        counters_.merge(other.counters());
    }

    typename T::count_t at(int bin, one_hot_t) const {
#pragma HLS INLINE
        return counters_.at(bin);
    }

    const BinCounters<Config>& counters() const { return counters_; }

   private:
    BinCounters<Config> counters_;
};

// Counts of the lowest bits.
template <class Config, LsbKept Kept>
class LsbCounts {
    using T = PositionTypes<Config>;

   public:
    void clear() {}
    void add(const typename T::one_hot_t (&)[Config::lanes]) {}
    template <class Other>
    void merge(const Other&) {}
    typename T::count_t at(int) const { return 0; }
};

template <class Config>
class LsbCounts<Config, LsbKept::Histogram> : public BinCounters<Config> {};

// What one unit has seen. Units with other numbers of lanes may be merged if the rest of their builds is the same.
template <class Config>
class PositionStatistics {
    using T = PositionTypes<Config>;
    using one_hot_t = typename T::one_hot_t;
    static constexpr int AW = Config::acc_width;

   public:
    using wide_t = typename T::wide_t;
    using count_t = typename T::count_t;
    static constexpr bool has_lsb = Config::lsb != LsbKept::None;

    // After power-up nothing has been seen (FP 4.3).
    PositionStatistics() { clear(); }

    // The start of a statistics pass (FP R15).
    void clear() {
#pragma HLS INLINE
        count_ = 0;
        differing_ = 0;
        set_ = 0;
        nsb_.clear();
        lsb_.clear();
    }

    // The results of a clock, before any narrowing; lanes that are not valid are not seen.
    void collect(const wide_t (&value)[Config::lanes], const bool (&valid)[Config::lanes]) {
#pragma HLS INLINE
        one_hot_t highest[Config::lanes];
        one_hot_t lowest[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=highest complete dim=0
#pragma HLS ARRAY_PARTITION variable=lowest complete dim=0
        const one_hot_t before = below();
        typename T::lanes_t results = 0;
    Lanes_Collect:
        for (int lane = 0; lane < Config::lanes; ++lane) {
#pragma HLS UNROLL
            const wide_t seen = valid[lane] ? value[lane] : static_cast<wide_t>(0);
            highest[lane] = valid[lane] ? highest_bin<AW>(seen) : static_cast<one_hot_t>(0);
            lowest[lane] = valid[lane] && has_lsb ? lowest_bin<AW>(seen) : static_cast<one_hot_t>(0);
            // The largest position of many is that of their bits together, the smallest too.
            differing_ = static_cast<uint_t<AW>>(differing_ | differing_bits<AW>(seen));
            set_ = has_lsb ? static_cast<wide_t>(set_ | seen) : static_cast<wide_t>(0);
            results = static_cast<typename T::lanes_t>(results + (valid[lane] ? 1 : 0));
        }
        count_ = static_cast<count_t>(count_ + results);
        nsb_.add(highest, before, below());
        lsb_.add(lowest);
    }

    // The statistics of another unit join these (FP R14).
    template <class Other>
    void merge(const PositionStatistics<Other>& other) {
#pragma HLS INLINE
        static_assert(Other::acc_width == AW && Other::nsb == Config::nsb && Other::lsb == Config::lsb &&
                          Other::count_bits == Config::count_bits,
                      "units that are merged keep the same statistics");
        nsb_.merge(other.nsb_, below(), other.below());
        lsb_.merge(other.lsb_);
        count_ = static_cast<count_t>(count_ + other.count_);
        differing_ = static_cast<uint_t<AW>>(differing_ | other.differing_);
        set_ = static_cast<wide_t>(set_ | other.set_);
    }

    count_t count() const { return count_; }

    // Position of the highest bit that differs from its sign, -1: none.
    int nsb_max() const {
#pragma HLS INLINE
        return lead_position<T::bins>(below()) - 1;
    }

    // Position of the lowest bit that is set, -1: none.
    int lsb_min() const {
#pragma HLS INLINE
        return has_lsb ? lead_position<T::bins>(lowest_bin<AW>(set_)) - 1 : -1;
    }

    count_t nsb_count(int bin) const {
#pragma HLS INLINE
        return nsb_.at(bin, below());
    }

    count_t lsb_count(int bin) const {
#pragma HLS INLINE
        return lsb_.at(bin);
    }

   private:
    template <class Other>
    friend class PositionStatistics;

    one_hot_t below() const {
#pragma HLS INLINE
        return bins_below<AW>(differing_);
    }

    count_t count_;
    uint_t<AW> differing_;  // bits in which any result differs from its sign
    wide_t set_;            // bits that any result has set
    NsbCounts<Config, Config::nsb> nsb_;
    LsbCounts<Config, Config::lsb> lsb_;
};

}  // namespace bfpga
