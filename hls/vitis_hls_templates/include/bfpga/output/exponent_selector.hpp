// The output exponent: from the leading position of the results, or predicted from earlier ones (BFP R23-R38).
//
// `PolicySlot` holds the statistics of one policy; section 5 of docs/systolic-array.md defines each policy.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/numeric.hpp"

namespace bfpga {

// The largest leading position of a block; without a nonzero value: a block of zeros.
struct Lead {
    bool any;
    exponent_t position;

    Lead() : any(false), position(0) {}
    Lead(bool present, int where) : any(present), position(static_cast<exponent_t>(where)) {}

    void include(const Lead& other) {
#pragma HLS INLINE
        const bool higher = other.any & (!any | (other.position > position));
        position = higher ? other.position : position;
        any = any | other.any;
    }

    // The lead of values that are larger by `bits` bits; none stays none.
    Lead raised(int bits) const {
#pragma HLS INLINE
        return Lead(any, static_cast<int>(position) + bits);
    }
};

// An exponent brought into the format's range.
template <class Config>
inline int32_t clamp_exponent(int32_t exponent) {
#pragma HLS INLINE
    return exponent < Config::exponent_min   ? Config::exponent_min
           : exponent > Config::exponent_max ? Config::exponent_max
                                             : exponent;
}

// The exponent for a leading position (BFP equation 4, R24); sets the bits of `status` that clamping earns.
template <class Config>
inline int32_t exponent_from_lead(const Lead& lead, int32_t& status) {
#pragma HLS INLINE
    const int32_t exponent = static_cast<int32_t>(lead.position) - (Config::mantissa_bits - 2);
    if (!lead.any) {
        status |= Status::ZeroBlock;
        return Config::exponent_min;
    }
    if (exponent < Config::exponent_min) {
        status |= Status::ExponentLow;
    } else if (exponent > Config::exponent_max) {
        status |= Status::ExponentHigh;
    }
    return clamp_exponent<Config>(exponent);
}

// Sum, and sum of squares, of the values in a window of the statistics unit; up to 2**13 values (BFP R26).
template <class Config>
struct WindowSums {
    static constexpr int value_bits = Config::mantissa_bits + 2;
    static constexpr int window_bits = 13;
    static constexpr int factor_bits = 8;
    static constexpr int sum_bits = value_bits + window_bits;
    static constexpr int square_bits = 2 * value_bits + window_bits;
    static constexpr int radicand_bits = 2 * (factor_bits + value_bits + window_bits);
    static constexpr int deviation_bits = radicand_bits / 2 - 2;

    using count_t = int_t<window_bits + 2>;

    count_t count;
    uint_t<sum_bits> sum;
    uint_t<square_bits> squares;

    WindowSums() : count(0), sum(0), squares(0) {}

    // How many values a window of 2**log_count has when its last one comes. Bit by bit, so that a comparison with it is
    // one with a register.
    static count_t before_last(int32_t log_count) {
#pragma HLS INLINE
        count_t before = 0;
    Bits_Before:
        for (int bit = 0; bit < window_bits; ++bit) {
#pragma HLS UNROLL
            before = static_cast<count_t>(before | (bit < log_count ? 1 << bit : 0));
        }
        return before;
    }

    void add(uint_t<value_bits> value) {
#pragma HLS INLINE
        const uint_t<2 * value_bits> wide = value;
        const uint_t<2 * value_bits> square = static_cast<uint_t<2 * value_bits>>(wide * value);
        ++count;
        sum = static_cast<uint_t<sum_bits>>(sum + value);
        squares = static_cast<uint_t<square_bits>>(squares + square);
    }

    // floor(log2(mean + k * sigma)) of 2**log_count values with exponent `unit`; factor is 4k (BFP R27).
    Lead predict(int log_count, int factor, int32_t unit) const {
        using radicand_t = uint_t<radicand_bits>;
        simulation_check(log_count <= window_bits, "a window of the statistics unit", "has more than 2**13 values: 2**",
                         log_count);
        simulation_check(factor >= 0 && factor < 1 << factor_bits, "a policy factor", "is beyond 0..255:", factor);
        // Added up while the root is taken: one addition less behind it, before the comparisons with the format's
        // range.
        const int32_t offset = unit - log_count;
        const radicand_t total = sum;
        const radicand_t variance =
            static_cast<radicand_t>((static_cast<radicand_t>(squares) << log_count) - total * total);
        const radicand_t weight = static_cast<radicand_t>(static_cast<radicand_t>(factor) * factor);
        const uint_t<radicand_bits / 2> root = integer_sqrt<radicand_bits>(static_cast<radicand_t>(weight * variance));
        const uint_t<deviation_bits + 1> bound =
            static_cast<uint_t<deviation_bits + 1>>(static_cast<uint_t<deviation_bits + 1>>(root >> 2) + sum);
        if (bound == 0) {
            return Lead();
        }
        return Lead(true, lead_position<deviation_bits + 1>(bound) + offset);
    }
};

// One policy: its state from run to run, and the statistics of the current run of its layer.
template <class Config, bool Fixed = Config::static_exponents>
class PolicySlot {
   public:
    using value_t = uint_t<WindowSums<Config>::value_bits>;
    static constexpr int ring_leads = 8;

    PolicySlot() : in_use_(false), exponent_(0), newest_(0), overflows_(0), full_(false) {}

    // The first descriptor of a layer clears the statistics of the last run.
    void begin(bool measure) {
#pragma HLS INLINE
        if (measure) {
            measured_ = Lead();
        } else {
            observed_ = Lead();
            overflows_ = 0;
            full_ = false;
        }
    }

    // The exponent of the layer's results. `inherited`: exponent of its accumulators.
    int32_t choose(const Descriptor& d, int32_t inherited, int32_t& status) const {
#pragma HLS INLINE
        if (d.has(Flag::CopyExponent)) {
            return inherited;
        }
        const Policy policy = static_cast<Policy>(d.policy);
        const bool learns = policy != Policy::Static && policy != Policy::Max;
        if (learns && in_use_) {
            return exponent_;
        }
        if (policy == Policy::Static || (learns && d.has(Flag::Preset))) {
            return d.output_exponent;
        }
        return exponent_from_lead<Config>(measured_, status);
    }

    // Whether another core has given the layer's exponent, which stays until the policies are cleared.
    bool is_given() const { return in_use_; }
    int32_t given() const { return exponent_; }
    void give(int32_t exponent) {
#pragma HLS INLINE
        exponent_ = exponent;
        in_use_ = true;
    }

    // The lead of the results of a measuring descriptor.
    void measure(const Lead& lead) {
#pragma HLS INLINE
        measured_.include(lead);
    }

    // The lead that a rule makes of all measuring descriptors so far.
    void measured(const Lead& lead) {
#pragma HLS INLINE
        measured_ = lead;
    }

    // Lead and overflows of the results of a descriptor that wrote them.
    void observe(const Lead& lead, uint32_t overflows) {
#pragma HLS INLINE
        observed_.include(lead);
        overflows_ += overflows;
    }

    // A value of column 0 in units of the output exponent (BFP 4.2). Only the last full window will be read, so its
    // sums are held until then: a prediction takes a square root, which does not fit the loop of the rows.
    // `before_last`: of the window; the comparison does not wait for the addition.
    void count(typename WindowSums<Config>::count_t before_last, value_t value) {
#pragma HLS INLINE
        const bool closes = open_.count == before_last;
        open_.add(value);
        if (closes) {
            last_ = open_;
            full_ = true;
            open_ = WindowSums<Config>();
        }
    }

    // The last descriptor of a layer: from its exponent and its statistics to the exponent of the next run.
    void learn(const Descriptor& d, int32_t exponent, int32_t& status) {
        if (d.has(Flag::CopyExponent)) {
            return;
        }
        switch (static_cast<Policy>(d.policy)) {
            case Policy::Statistics:
                learn_statistics(d, exponent, status);
                break;
            case Policy::RollingMax:
                learn_rolling_max(d, status);
                break;
            case Policy::Feedback:
                learn_feedback(d, exponent);
                break;
            default:
                return;
        }
        in_use_ = true;
    }

   private:
    void learn_statistics(const Descriptor& d, int32_t exponent, int32_t& status) {
        exponent_ = exponent;
        if (full_) {
            const Lead lead = last_.predict(d.policy_window, d.policy_factor, exponent + d.position_margin);
            exponent_ = exponent_from_lead<Config>(lead, status);
        }
        // The sums of an open window have the unit of the old exponent.
        if (exponent_ != exponent) {
            open_ = WindowSums<Config>();
        }
    }

    void learn_rolling_max(const Descriptor& d, int32_t& status) {
#pragma HLS ARRAY_PARTITION variable=ring_ complete dim=0
        newest_ = newest_ == ring_leads - 1 ? 0 : newest_ + 1;
        ring_[newest_] = observed_;
        Lead largest;
    Leads_Ring:
        for (int place = 0; place < ring_leads; ++place) {
#pragma HLS UNROLL
            // Each lead by its age: a comparison, not a multiplexer of all.
            if (((newest_ - place) & (ring_leads - 1)) < d.policy_window) {
                largest.include(ring_[place]);
            }
        }
        exponent_ = exponent_from_lead<Config>(largest, status);
    }

    void learn_feedback(const Descriptor& d, int32_t exponent) {
        const int32_t best = exponent + Config::mantissa_bits - 2;  // lead of results that fill their mantissas
        int32_t next = exponent;
        if (overflows_ > static_cast<uint32_t>(d.policy_factor)) {
            next = exponent + 1;
        } else if (observed_.any && static_cast<int32_t>(observed_.position) < best) {
            next = exponent - 1;
        }
        exponent_ = clamp_exponent<Config>(next);
    }

    // Kept from run to run
    bool in_use_;
    int32_t exponent_;
    WindowSums<Config> open_;
    Lead ring_[ring_leads];
    int32_t newest_;
    // Of the current run
    Lead measured_;
    Lead observed_;
    uint32_t overflows_;
    bool full_;
    WindowSums<Config> last_;
};

// Of a kernel whose exponents are all static: nothing is looked at, so nothing of what would find them is built.
template <class Config>
class PolicySlot<Config, true> {
   public:
    using value_t = uint_t<WindowSums<Config>::value_bits>;

    PolicySlot() : in_use_(false) {}

    void begin(bool measures) const {
        simulation_check(!measures, "a kernel of static exponents", "is to measure some, descriptor's flag", 1);
    }

    int32_t choose(const Descriptor& d, int32_t inherited, int32_t&) const {
#pragma HLS INLINE
        simulation_check(static_cast<Policy>(d.policy) == Policy::Static, "a kernel of static exponents",
                         "is to find one, by policy", d.policy);
        return d.has(Flag::CopyExponent) ? inherited : d.output_exponent;
    }

    void measure(const Lead&) const {}
    void measured(const Lead&) const {}
    void observe(const Lead&, uint32_t) const {}
    void count(typename WindowSums<Config>::count_t, value_t) const {}
    void learn(const Descriptor&, int32_t, int32_t&) const {}

   private:
    bool in_use_;  // a memory has words
};

}  // namespace bfpga
