// The output stage: accumulator -> bias -> function -> leading position -> mantissa (BFP R7-R17, R22).
//
// Steps and names are those of section 5 of docs/systolic-array.md; the numpy side is engines/output/stage.py. What all
// values of a row share is made once a row: the exponent, the aligned bias, clip's bound. A column then needs an adder,
// the function unit and the requantizer.
//
// Numbers it reads from `Config`: mantissa_bits, exponent_min, exponent_max, rounding, saturation, log,
// accumulator_bits, bias_bits, columns, post_columns, position_bins, functions, function_tables.
#pragma once
#include "bfpga/output/added_tensor.hpp"
#include "bfpga/output/lead_collector.hpp"
#include "bfpga/output/loaded_tables.hpp"

namespace bfpga {

// A result before it is a mantissa: value * 2**exponent.
template <int ACC>
struct StageValue {
    int_t<ACC> value;
    exponent_t exponent;
    bool bias_saturated;
    bool accumulator_saturated;
    bool bias_alone;  // nothing but a bias that the accumulator's unit cannot express: it keeps its own
};

// Aligns magnitudes to the range of the statistics unit.
template <class Config>
using StatisticsRange = RangeShift<Saturation::Full, Config::mantissa_bits + 3, Config::accumulator_bits + 1>;

// |value| in units of 2**distance times its own, rounded, before saturation: what the statistics unit counts (BFP 4.2).
// `range`: by that distance.
template <class Config>
inline uint_t<Config::mantissa_bits + 2> statistics_value(int_t<Config::accumulator_bits> value,
                                                          const StatisticsRange<Config>& range) {
#pragma HLS INLINE
    constexpr int bits = Config::accumulator_bits + 1;
    const int_t<bits> positive = static_cast<int_t<bits>>(magnitude<Config::accumulator_bits>(value));
    // The largest number of mantissa_bits + 2 bits without a sign is that of one bit more with a sign.
    return static_cast<uint_t<Config::mantissa_bits + 2>>(
        shift_saturate<Config::rounding, Saturation::Full, Config::mantissa_bits + 3, bits>(positive, range).value);
}

// The stage during one operation, of all columns or of a slice of them after the other, with what it counts.
template <class Config>
class OutputStage {
    static constexpr int ACC = Config::accumulator_bits;
    static constexpr int MW = Config::mantissa_bits;
    static_assert(ACC > MW && ACC <= 58, "accumulators are wider than mantissas and have 58 bits at most");
    static_assert(Config::bias_bits >= 2 && Config::bias_bits <= ACC && Config::bias_bits <= 32,
                  "a bias fits the accumulator and a beat of 32 bits");
    using accumulator_t = int_t<ACC>;
    using mantissa_t = int_t<MW>;
    // Columns that are computed at once
    static constexpr int columns = StageColumns<Config>::count;

   public:
    OutputStage() {
#pragma HLS ARRAY_PARTITION variable=nothing_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=value_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=saturated_ complete dim=0
    }

    // Word `index` of a command: those of a table stay from operation to operation, and from start to start.
    void take(int index, int32_t word) {
#pragma HLS INLINE
        tables_.take(index, word);
    }

    void start(const Descriptor& d, const LayerExponents& exponents) {
#pragma HLS INLINE
        const int32_t accumulator_exponent = exponents.accumulator, output_exponent = exponents.output;
        check_exponent(accumulator_exponent);
        check_exponent(output_exponent);
        check_exponent(d.bias_exponent);
        check_exponent(d.function_exponent);
        function_ = static_cast<Function>(d.function);
        argument_ = d.function_argument;
        tables_.start(d);
        added_.start(d, exponents);
        bound_exponent_ = d.function_exponent;
        bias_exponent_ = d.bias_exponent;
        has_bias_ = d.has(Flag::Bias);
        row_exponents_ = d.has(Flag::RowExponents);
        function_first_ = d.has(Flag::FunctionFirst);
        measures_ = d.has(Flag::Measure);
        counts_ = static_cast<Policy>(d.policy) == Policy::Statistics && !measures_;
        before_last_ = WindowSums<Config>::before_last(d.policy_window);
        margin_ = d.position_margin;
        alone_bound_ = clip_bound<Config>(argument_, static_cast<exponent_t>(bias_exponent_ - bound_exponent_));
        accumulator_exponent_ = accumulator_exponent;
        output_exponent_ = output_exponent;
        collector_.start(d, static_cast<int32_t>(collected(static_cast<exponent_t>(accumulator_exponent))));
        lead_ = Lead();
        overflows_ = 0;
        underflows_ = 0;
        status_ = 0;
        open_row();
    }

    // The parameters of the row that leaves in this cycle; one transfer serves all columns (BFP R70).
    void row(int_t<Config::bias_bits> bias, int32_t exponent) {
#pragma HLS INLINE
        if (tables_.first_turn()) {
            close_row();
        }
        open_row();
        exponent_ = static_cast<exponent_t>(accumulator_exponent_ + (row_exponents_ ? exponent : 0));
        result_exponent_ = result(exponent_);
        collector_.open_row(result_exponent_);
        added_.row(exponent_);
        bound_ = clip_bound<Config>(argument_, static_cast<exponent_t>(exponent_ - bound_exponent_));
        align_bias(bias);
    }

    // Steps 1 to 3 of one accumulator of the row.
    StageValue<ACC> evaluate(accumulator_t accumulator) const {
#pragma HLS INLINE
        const Saturated<ACC> before = biased(accumulator);
        const Passed passed = pass(accumulator, before, built_in(before.value));
        StageValue<ACC> result;
        result.bias_alone = bias_.changed && passed.nothing;
        result.value = result.bias_alone ? alone_value_ : passed.value;
        result.exponent = result.bias_alone ? alone_exponent_ : result_exponent_;
        result.bias_saturated = bias_.changed && !passed.nothing;
        result.accumulator_saturated = !result.bias_alone && passed.saturated;
        return result;
    }

    // Whether the function of the row's last columns is found in this cycle: with a loaded table each cycle has that of
    // some.
    bool last_turn() const { return tables_.last_turn(); }
    void end_turn() { tables_.end_turn(); }

    // The mantissas of the row, after `row` and in each of its turns, of which the last one gives them; columns that
    // are not `shown` have none and count nothing. Column 0 feeds the statistics of the policy slot: `begins`, it is
    // among them. The columns' statistics are merged at once, so that nothing of a row waits for the row before: a
    // slice of a row is a row to them. `added`: of the tensor that is added to the sums, where one is.
    template <int N>
    void values(const accumulator_t (&accumulator)[N], const mantissa_t (&added)[N], const bool (&shown)[N],
                PolicySlot<Config>& policy, mantissa_t (&mantissa)[N], bool begins = true) {
#pragma HLS INLINE
        static_assert(N <= columns, "every column has a port of its own");
        LargestMagnitude<Config::log, ACC> largest;
        largest.clear();
        row_count_t overflows = 0, underflows = 0;
        // All values of the row have the same shift, except those that are only its bias; and these are equal.
        // Both differences are ready before the choice between them.
        const exponent_t distance = tables_.gives_unit(exponent_)
                                        ? static_cast<exponent_t>(output_exponent_ - kActivationExponent)
                                        : static_cast<exponent_t>(output_exponent_ - own_exponent());
        const Range range = Range::by(distance);
        const exponent_t alone_distance = static_cast<exponent_t>(output_exponent_ - alone_exponent_);
        const Requantized<MW> requantized_alone =
            requantize<MW, Config::rounding, Config::saturation, ACC>(alone_value_, alone_distance);
        collector_.open_columns();
        const bool last = tables_.last_turn();
        Saturated<ACC> sum[N];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
        Saturated<ACC> before[N];
#pragma HLS ARRAY_PARTITION variable=before complete dim=0
        accumulator_t mapped[N];
#pragma HLS ARRAY_PARTITION variable=mapped complete dim=0
    Columns_Map:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            sum[i] = added_.to(accumulator[i], added[i]);
            before[i] = biased(sum[i].value);
            mapped[i] = built_in(before[i].value);
        }
        if (tables_.used()) {
            tables_.map(before, exponent_, mapped);
        }
    Columns_Values:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            mantissa[i] = 0;
            if (native_integers && !shown[i]) {
                continue;  // a simulation saves the time
            }
            const Passed passed = pass(sum[i].value, before[i], mapped[i]);
            const bool bias_alone = bias_.changed && passed.nothing;
            // Whether a value is nothing is known last.
            const bool may_be_alone = shown[i] & bias_.changed;
            const bool alone = may_be_alone & passed.nothing;
            const bool seen = shown[i] & !alone;
            nothing_[i] = shown[i] & passed.nothing;
            value_[i] = shown[i] & !passed.nothing;
            // What is nothing has not saturated.
            saturated_[i] = shown[i] & (passed.saturated | sum[i].changed);
            largest.include(seen ? magnitude<ACC>(passed.value) : static_cast<uint_t<ACC>>(0));
            collector_.see(i, passed.value, seen, alone);
            if (i == 0 && counts_ && shown[0] && last && begins) {
                // Both shifts are ready before the selection between them.
                const StatisticsRange<Config> of_row = StatisticsRange<Config>::by(distance);
                const StatisticsRange<Config> of_bias = StatisticsRange<Config>::by(alone_distance);
                policy.count(before_last_, statistics_value<Config>(bias_alone ? alone_value_ : passed.value,
                                                                    bias_alone ? of_bias : of_row));
            }
            const Requantized<MW> own = requantize<MW, Config::rounding, Config::saturation, ACC>(passed.value, range);
            const bool overflow = bias_alone ? requantized_alone.overflow : own.overflow;
            const bool underflow = bias_alone ? requantized_alone.underflow : own.underflow;
            const bool counted = shown[i] && !measures_;
            overflows = static_cast<row_count_t>(overflows + (counted && overflow ? 1 : 0));
            underflows = static_cast<row_count_t>(underflows + (counted && underflow ? 1 : 0));
            const mantissa_t mine = bias_alone ? requantized_alone.mantissa : own.mantissa;
            mantissa[i] = counted ? mine : static_cast<mantissa_t>(0);
        }
        largest_ = largest;
        row_overflows_ = overflows;
        row_underflows_ = underflows;
        collector_.see_alone(alone_value_, alone_exponent_);
    }

    // A word of what the collector holds (LeadCollector::word).
    int32_t statistics(int32_t index) const { return collector_.word(index); }

    // The operation's statistics go to the policy slot and to the kernel's counters.
    template <class Counters>
    void finish(PolicySlot<Config>& policy, Counters& counters) {
#pragma HLS INLINE
        close_row();
        open_row();
        counters.bits |= status_;
        if (collector_.collects()) {
            lead_ = collector_.selects() ? collector_.lead() : Lead();
        } else {
            lead_ = lead_.raised(margin_);
        }
        if (measures_) {
            if (collector_.collects()) {
                policy.measured(lead_);
            } else {
                policy.measure(lead_);
            }
            return;
        }
        policy.observe(lead_, overflows_);
        counters.overflows += overflows_;
        counters.underflows += underflows_;
        counters.bits |= (overflows_ != 0 ? Status::Overflow : 0) | (underflows_ != 0 ? Status::Underflow : 0);
    }

   private:
    using row_count_t = uint_t<16>;
    using Range = RangeShift<Config::saturation, MW, ACC>;

    // An accumulator after bias and function, in the row's unit.
    struct Passed {
        accumulator_t value;
        bool nothing;  // but a bias
        bool saturated;
    };

    // Exponents that follow from the function, as `collected_exponent` and `result_exponent` have them.
    exponent_t collected(exponent_t exponent) const {
#pragma HLS INLINE
        return tables_.collected_exponent(collected_exponent<Config>(function_, exponent));
    }

    exponent_t result(exponent_t exponent) const {
#pragma HLS INLINE
        return tables_.result_exponent(result_exponent<Config>(function_, exponent));
    }

    // Of a row's results, unless a loaded table gives them its unit.
    exponent_t own_exponent() const { return Config::function_tables > 0 ? exponent_ : result_exponent_; }

    // The function unit is between two adders; the bias goes to one of them.
    Saturated<ACC> biased(accumulator_t accumulator) const {
#pragma HLS INLINE
        return saturating_sum<ACC>(accumulator, function_first_ ? static_cast<accumulator_t>(0) : bias_.value);
    }

    accumulator_t built_in(accumulator_t value) const {
#pragma HLS INLINE
        return apply_function<Config>(function_, argument_, bound_, value, exponent_);
    }

    Passed pass(accumulator_t accumulator, const Saturated<ACC>& before, accumulator_t mapped) const {
#pragma HLS INLINE
        const accumulator_t none = 0;
        const Saturated<ACC> after = saturating_sum<ACC>(mapped, function_first_ ? bias_.value : none);
        Passed result;
        result.value = after.value;
        if ((Config::functions & kFunctionsWithTable) != 0) {
            // What a table gives comes so late that the next cycle has time for a multiplexer.
            const accumulator_t deciding = function_first_ ? mapped : accumulator;
            result.nothing = deciding == 0;
        } else {
            // Two comparisons with zero are smaller than a multiplexer and one.
            const bool empty_before = accumulator == 0, empty_behind = mapped == 0;
            result.nothing = (empty_before || function_first_) & (empty_behind || !function_first_);
        }
        result.saturated = before.changed || after.changed;
        return result;
    }

    static_assert(Config::columns < 1 << 15, "the counters of a row count its columns");

    static void check_exponent(int32_t exponent) {
#pragma HLS INLINE
        simulation_check(exponent >= -(1 << 16) && exponent < 1 << 16, "the output stage",
                         "meets an exponent of more than 17 bits:", exponent);
    }

    // Step 2 as far as a row shares it, and the result of a value that is nothing but this bias.
    void align_bias(int_t<Config::bias_bits> bias) {
#pragma HLS INLINE
        bias_.value = 0;
        bias_.changed = false;
        if (!has_bias_) {
            return;
        }
        const exponent_t own = function_first_ ? own_exponent() : exponent_;
        const exponent_t unit =
            tables_.gives_unit_first(exponent_) ? static_cast<exponent_t>(kActivationExponent) : own;
        bias_ = shift_saturate<Config::rounding, Saturation::Full, ACC, Config::bias_bits>(
            bias, static_cast<exponent_t>(unit - bias_exponent_));
        if (!bias_.changed) {
            return;
        }
        alone_value_ = bias;
        alone_exponent_ = bias_exponent_;
        if (!function_first_) {
            const accumulator_t built_in =
                apply_function<Config>(function_, argument_, alone_bound_, alone_value_, bias_exponent_);
            alone_value_ = tables_.used() ? tables_.alone(alone_value_, bias_exponent_) : built_in;
            alone_exponent_ = result(bias_exponent_);
        }
    }

    void open_row() {
#pragma HLS INLINE
        largest_.clear();
        row_overflows_ = 0;
        row_underflows_ = 0;
    Columns_Open:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            nothing_[i] = false;
            value_[i] = false;
            saturated_[i] = false;
        }
    }

    // The columns' statistics of a row, added once: one detector of the leading one serves all of them.
    void close_row() {
#pragma HLS INLINE
        collector_.close_row();
        LargestMagnitude<Config::log, ACC> alone;
        alone.clear();
        alone.include(magnitude<ACC>(alone_value_));
        Lead row(largest_.any, largest_.position() + static_cast<int>(result_exponent_));
        bool nothing_seen = false, value_seen = false, saturated = false;
    Columns_Close:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            nothing_seen = nothing_seen | nothing_[i];
            value_seen = value_seen | value_[i];
            saturated = saturated | saturated_[i];
        }
        const bool alone_seen = nothing_seen & bias_.changed;
        const bool bias_saturated = value_seen & bias_.changed;
        row.include(Lead(alone_seen & alone.any, alone.position() + static_cast<int>(alone_exponent_)));
        lead_.include(row);
        overflows_ += static_cast<uint32_t>(row_overflows_);
        underflows_ += static_cast<uint32_t>(row_underflows_);
        status_ |= (bias_saturated ? Status::BiasSaturated : 0) | (saturated ? Status::AccumulatorSaturated : 0);
    }

    LoadedTables<Config> tables_;
    AddedTensor<Config> added_;
    // Of the operation
    Function function_;
    int32_t argument_;
    exponent_t bound_exponent_, bias_exponent_, accumulator_exponent_, output_exponent_;
    accumulator_t alone_bound_;
    bool has_bias_, row_exponents_, function_first_, measures_, counts_;
    typename WindowSums<Config>::count_t before_last_;
    Lead lead_;
    uint32_t overflows_, underflows_;
    int32_t status_;
    int32_t margin_;  // head room of the rule LEAD; others add it themselves
    LeadCollector<Config> collector_;
    // Of the row
    exponent_t exponent_, result_exponent_, alone_exponent_;
    accumulator_t bound_, alone_value_;
    Saturated<ACC> bias_;
    LargestMagnitude<Config::log, ACC> largest_;
    // Columns whose value is nothing but, perhaps, the bias; those with one; those whose sums left the accumulator's
    // range. They are known late and joined a cycle later.
    bool nothing_[columns], value_[columns], saturated_[columns];
    row_count_t row_overflows_, row_underflows_;
};

}  // namespace bfpga
