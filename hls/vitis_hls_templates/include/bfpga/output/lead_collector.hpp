// Statistics of the results of a layer, and the lead that a rule makes of them (docs/kernel-positions.md; FP 2.2, 2.3).
//
// The numpy side is engines/output/collector.py. A row of all columns is collected in a cycle and counted in the next
// one, so a counter's addition is the only thing that depends on the cycle before. A build without bins has no
// collector: its leads are those of the largest magnitudes.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/checks.hpp"
#include "bfpga/output/column_slices.hpp"
#include "bfpga/output/exponent_selector.hpp"
#include "bfpga/output/position_bits.hpp"

namespace bfpga {

// Whether the results of an operation are collected: those of a measuring pass, and of a main pass whose policy updates
// from it (FP R11).
template <class Config>
inline bool collects_positions(const Descriptor& d) {
#pragma HLS INLINE
    const Policy policy = static_cast<Policy>(d.policy);
    const bool learns = policy == Policy::RollingMax || policy == Policy::Feedback;
    return Config::position_bins > 0 && static_cast<LeadRule>(d.lead_rule) != LeadRule::Lead &&
           (d.has(Flag::Measure) || learns);
}

// Whether a STORE brings a word of what was collected in the place of its tensor's exponent (TELLS_STATISTICS of
// contract/descriptor.py).
template <class Config>
inline bool tells_statistics(const Descriptor& d) {
#pragma HLS INLINE
    return Config::position_bins > 0 && d.has(Flag::Measure);
}

// Whether an operation ends with a lead of what was collected.
template <class Config>
inline bool selects_position(const Descriptor& d) {
#pragma HLS INLINE
    return collects_positions<Config>(d) && (d.has(Flag::Measure) || d.has(Flag::Last));
}

template <class Config, bool Present = (Config::position_bins > 0)>
class LeadCollector {
   public:
    void start(const Descriptor& d, int32_t) {
#pragma HLS INLINE
        simulation_check(d.lead_rule == 0, "a kernel without a collector", "meets rule", d.lead_rule);
    }

    void open_row(exponent_t) {}
    void open_columns() {}
    void see(int, int_t<Config::accumulator_bits>, bool, bool) {}
    void see_alone(int_t<Config::accumulator_bits>, exponent_t) {}
    void close_row() {}
    bool collects() const { return false; }
    bool selects() const { return false; }
    Lead lead() const { return Lead(); }
    int32_t word(int32_t) const { return 0; }
};

template <class Config>
class LeadCollector<Config, true> {
    static constexpr int ACC = Config::accumulator_bits;
    static constexpr int bins = Config::position_bins;
    static constexpr int columns = StageColumns<Config>::count;
    static constexpr int fits = Config::mantissa_bits - 2;  // position of a mantissa's highest bit below its sign
    static_assert(bins >= 8 && bins <= 64, "a collector has 8 to 64 bins");

    using value_t = int_t<ACC>;
    using bins_t = uint_t<bins>;
    using moved_t = uint_t<ACC + bins>;
    using distance_t = uint_t<7>;
    static_assert(ACC + bins < 1 << 7, "a distance has 7 bits");
    using count_t = uint_t<32>;
    using row_count_t = uint_t<16>;

   public:
    LeadCollector() {
#pragma HLS ARRAY_PARTITION variable=count_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_bin_ complete dim=0
        clear();
    }

    // An operation begins; the first one of a pass clears the statistics of earlier passes (FP R15). `unit`: exponent
    // of results without a row exponent.
    void start(const Descriptor& d, int32_t unit) {
#pragma HLS INLINE
        collects_ = collects_positions<Config>(d);
        selects_ = selects_position<Config>(d);
        rule_ = static_cast<LeadRule>(d.lead_rule);
        rate_ = d.position_rate;
        margin_ = d.position_margin;
        base_ = static_cast<exponent_t>(unit + d.position_base);
        row_open_ = false;  // the last row of an operation that collects nothing stays open
        if (d.has(Flag::First)) {
            clear();
        }
    }

    bool collects() const { return collects_; }
    // The operation ends with a lead.
    bool selects() const { return selects_; }

    // The values of a row have this exponent.
    void open_row(exponent_t exponent) {
#pragma HLS INLINE
        row_exponent_ = exponent;
        row_distance_ = distance(static_cast<exponent_t>(exponent - base_));
        row_open_ = true;
    }

    // The columns of the row follow. Cleared here and not when the row opens: then the columns' results are not carried
    // from row to row.
    void open_columns() {
#pragma HLS INLINE
        row_values_ = 0;
        row_differing_ = 0;
        row_set_ = 0;
        row_alone_ = 0;
    Columns_Open:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            row_bin_[i] = 0;
        }
    }

    // The value of column i in the row. `seen`: it has the row's exponent; `alone`: it is only the row's bias; neither:
    // the column has none.
    void see(int i, value_t value, bool seen, bool alone) {
#pragma HLS INLINE
        const value_t shown = seen ? value : static_cast<value_t>(0);
        const uint_t<ACC> differing = differing_bits<ACC>(shown);
        row_bin_[i] = bin_of(differing, row_distance_);
        row_differing_ = static_cast<uint_t<ACC>>(row_differing_ | differing);
        row_set_ = static_cast<uint_t<ACC>>(row_set_ | static_cast<uint_t<ACC>>(shown));
        row_values_ = static_cast<row_count_t>(row_values_ + (seen || alone ? 1 : 0));
        row_alone_ = static_cast<row_count_t>(row_alone_ + (alone ? 1 : 0));
    }

    // The row's values that are only its bias, with an exponent of their own.
    void see_alone(value_t value, exponent_t exponent) {
#pragma HLS INLINE
        alone_value_ = value;
        alone_exponent_ = exponent;
    }

    // The row is counted.
    void close_row() {
#pragma HLS INLINE
        if (!collects_ || !row_open_ || row_values_ == 0) {
            return;
        }
        values_ += static_cast<count_t>(row_values_);
        unit_low_ = smaller(row_exponent_, unit_low_);
        unit_high_ = larger(row_exponent_, unit_high_);
        any_row_ = true;
        const value_t alone = row_alone_ != 0 ? alone_value_ : static_cast<value_t>(0);
        const uint_t<ACC> alone_differing = differing_bits<ACC>(alone);
        const bins_t alone_bin = bin_of(alone_differing, distance(static_cast<exponent_t>(alone_exponent_ - base_)));
        include_top(highest(row_differing_, row_exponent_), highest(alone_differing, alone_exponent_));
        include_low(lowest(row_set_, row_exponent_), lowest(static_cast<uint_t<ACC>>(alone), alone_exponent_));
    Bins_Count:
        for (int bin = 0; bin < bins; ++bin) {
#pragma HLS UNROLL
            row_count_t found = ((alone_bin >> bin) & 1) != 0 ? row_alone_ : static_cast<row_count_t>(0);
        Columns_Count:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                found = static_cast<row_count_t>(found + (((row_bin_[i] >> bin) & 1) != 0 ? 1 : 0));
            }
            count_[bin] += static_cast<count_t>(found);
        }
        row_open_ = false;
    }

    // The lead of everything since the first operation of the pass: section 3 of docs/kernel-positions.md.
    Lead lead() const {
        if (!any_position_) {
            return Lead(true, (any_row_ ? static_cast<int>(unit_high_) : 0) + fits);
        }
        const int32_t found = rule_exponent() + margin_;
        const int32_t least = static_cast<int32_t>(unit_low_) + smallest_shift;
        const int32_t most = static_cast<int32_t>(unit_high_) + largest_shift;
        return Lead(true, (found < least ? least : found > most ? most : found) + fits);
    }

    // A word of everything since the first operation of the pass: a bin, or behind the bins the number of values, then
    // the position of bin 0 (FP R49). Nothing clears them before the next pass begins.
    int32_t word(int32_t index) const {
#pragma HLS INLINE
        simulation_check(index >= 0 && index < bins + 2, "a STORE", "asks for a word that no collector has:", index);
        const uint_t<6> bin = static_cast<uint_t<6>>(index < bins ? index : 0);
        return index < bins    ? static_cast<int32_t>(static_cast<uint32_t>(count_[static_cast<int>(bin)]))
               : index == bins ? static_cast<int32_t>(static_cast<uint32_t>(values_))
                               : static_cast<int32_t>(base_);
    }

   private:
    static constexpr int smallest_shift = -8;
    static constexpr int largest_shift = 31;

    void clear() {
#pragma HLS INLINE
        values_ = 0;
        any_position_ = false;
        any_row_ = false;
        top_ = lowest_exponent();
        low_ = highest_exponent();
        unit_low_ = highest_exponent();
        unit_high_ = lowest_exponent();
    Bins_Clear:
        for (int bin = 0; bin < bins; ++bin) {
#pragma HLS UNROLL
            count_[bin] = 0;
        }
    }

    // Outside the range of exponents: a comparison that starts from these needs no valid flag.
    static constexpr int limit = 1 << (kExponentBits - 1);
    static exponent_t highest_exponent() { return static_cast<exponent_t>(limit - 1); }
    static exponent_t lowest_exponent() { return static_cast<exponent_t>(-limit); }

    static exponent_t larger(exponent_t a, exponent_t b) { return a > b ? a : b; }
    static exponent_t smaller(exponent_t a, exponent_t b) { return a < b ? a : b; }

    // How far bits move down to their bins, `offset`: exponent of the value less the position of bin 0. What leaves the
    // histogram above or below counts in its last or first bin, so distances end there, below the width of what moves.
    static distance_t distance(exponent_t offset) {
#pragma HLS INLINE
        const int up = static_cast<int>(offset);
        return static_cast<distance_t>(bins - (up > bins ? bins : up < 1 - ACC ? 1 - ACC : up));
    }

    // The bin of the highest of the bits as the one bit that is set; none for no bits. The highest bit with all below
    // it, and ones for the bins below those, move together: one shift for both directions.
    static bins_t bin_of(uint_t<ACC> differing, distance_t down) {
#pragma HLS INLINE
        const moved_t ones = static_cast<moved_t>((static_cast<moved_t>(1) << bins) - 1);
        const moved_t below = static_cast<moved_t>(static_cast<moved_t>(spread_down<ACC>(differing)) << bins);
        const moved_t moved = static_cast<moved_t>((below | ones) >> down);
        const bins_t kept = static_cast<bins_t>((moved & ones) | 1);
        return differing == 0 ? static_cast<bins_t>(0) : static_cast<bins_t>(kept ^ (kept >> 1));
    }

    // The position of a bit, if there is one.
    struct Position {
        bool any;
        exponent_t at;
    };

    static Position highest(uint_t<ACC> bits, exponent_t exponent) {
#pragma HLS INLINE
        const Position position = {bits != 0,
                                   static_cast<exponent_t>(lead_position<ACC>(bits) + static_cast<int>(exponent))};
        return position;
    }

    static Position lowest(uint_t<ACC> bits, exponent_t exponent) {
#pragma HLS INLINE
        return highest(static_cast<uint_t<ACC>>(bits & (0 - bits)), exponent);
    }

    // The higher one of two of a row, then of those so far: one comparison waits for the row before.
    void include_top(const Position& a, const Position& b) {
#pragma HLS INLINE
        const exponent_t position = larger(a.any ? a.at : lowest_exponent(), b.any ? b.at : lowest_exponent());
        top_ = larger(position, top_);
        any_position_ = any_position_ || a.any || b.any;
    }

    void include_low(const Position& a, const Position& b) {
#pragma HLS INLINE
        const exponent_t position = smaller(a.any ? a.at : highest_exponent(), b.any ? b.at : highest_exponent());
        low_ = smaller(position, low_);
    }

    int32_t rule_exponent() const {
#pragma HLS INLINE
        const int32_t highest = static_cast<int32_t>(top_) - fits;
        const int32_t lowest = static_cast<int32_t>(low_);
        switch (rule_) {
            case LeadRule::Rate: {
                constexpr int32_t reach = fits < -smallest_shift ? fits : -smallest_shift;
                const int32_t least = static_cast<int32_t>(unit_low_) - reach;
                const int32_t floor = highest < least ? highest : least;
                const int32_t tolerated = tolerated_position() - fits;
                return tolerated > floor ? tolerated : floor;
            }
            case LeadRule::Lsb:
                return lowest;
            case LeadRule::Window:
                return lowest >= highest ? lowest : highest;
            default:
                return highest;
        }
    }

    // Smallest position with at most one of 2**rate values above it. Counts are added from the last bin on: one adder
    // for all bins, because a layer waits for them once.
    int32_t tolerated_position() const {
        simulation_check(rate_ >= 0 && rate_ < 32, "rule rate", "has a rate beyond 0..31:", rate_);
        const count_t allowed = static_cast<count_t>(values_ >> static_cast<uint_t<6>>(rate_));
        count_t above = 0;
        int32_t smallest = 0;
        bool reached = false;
    Bins_Scan:
        for (int bin = bins - 1; bin > 0; --bin) {
// II=1: a multiplexer, an addition, a comparison.
#pragma HLS PIPELINE II=1
            above = static_cast<count_t>(above + count_[bin]);
            if (above > allowed && !reached) {
                reached = true;
                smallest = bin;
            }
        }
        const int32_t position = static_cast<int32_t>(base_) + smallest;
        const int32_t top = static_cast<int32_t>(top_);
        return smallest == bins - 1 || position > top ? top : position;
    }

    // Of the pass
    count_t count_[bins];
    count_t values_;
    exponent_t top_, low_, unit_low_, unit_high_;
    bool any_position_, any_row_;
    // Of the operation
    bool collects_, selects_;
    LeadRule rule_;
    int32_t rate_, margin_;
    exponent_t base_;
    // Of the row
    bins_t row_bin_[columns];
    uint_t<ACC> row_differing_, row_set_;
    exponent_t row_exponent_, alone_exponent_;
    distance_t row_distance_;
    value_t alone_value_;
    row_count_t row_values_, row_alone_;
    bool row_open_;
};

}  // namespace bfpga
