// What the process of rows needs of a whole row: 1/sum of Softmax, 1/deviation of a normalization and the mean times
// it; of sums that `RowProcess` sends, a row in two clocks.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/rows/column.hpp"

namespace bfpga {

// Words of a command, in the order of a descriptor: its operation, channels of a row, 1/channels, its magnitude, what
// is done with rows, epsilon's mantissa and exponent (engines/rows/settings.py), groups of rows.
constexpr int kFactorCommandWords = 8;

template <class Config>
class FactorProcess {
    static constexpr int columns = Config::row_columns;
    using N = RowNumbers;
    using T = RowTypes;
    using column_t = uint_t<bit_length(columns)>;
    using count_t = int_t<Geometry<Config>::coordinate_bits>;
    // channels**2 * variance, with epsilon's share
    static constexpr int spread_bits = N::share_bits + 1;
    using spread_t = uint_t<spread_bits>;
    // channels * squares, and 1/channels * sum
    static constexpr int product_bits = N::inverse_bits + 1 + T::sum_bits;
    using product_t = int_t<product_bits>;
    using inverse_t = int_t<N::inverse_bits + 1>;
    using mean_t = int_t<N::mantissa_bits + N::mean_fraction>;
    using position_t = int_t<8>;
    using root_t = int_t<N::root_bits + 1>;
    // Bits by which log2(e) and epsilon's share are moved at most: beyond that nothing is left of them.
    static constexpr int most_moves = 32;

   public:
    FactorProcess() {
#pragma HLS BIND_STORAGE variable=sum_before_ type=ram_s2p impl=lutram
#pragma HLS BIND_STORAGE variable=total_before_ type=ram_s2p impl=lutram
// A column's totals may be read again in the next cycle, where there is one column.
#pragma HLS DEPENDENCE variable=sum_before_ type=inter direction=raw distance=1 true
#pragma HLS DEPENDENCE variable=total_before_ type=inter direction=raw distance=1 true
    }

    // Until a command of operation 0 has come. `exponents`: of the operand of each operation.
    void run(stream<command_t>& commands, stream<command_t>& exponents, stream<wire_t<RowTotalBeat>>& totals,
             stream<wire_t<RowFactorBeat>>& factors) {
#pragma HLS INLINE
        bool running = true;
    Commands:
        while (running) {
// Not pipelined: an operation begins when the one before has ended.
#pragma HLS LOOP_TRIPCOUNT min=2 max=257
            int32_t word[kFactorCommandWords];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
            fetch(commands, word);
            running = word[0] != 0;
            if (running) {
                start(static_cast<RowOperation>(word[4]), word);
                align(static_cast<exponent_t>(exponents.read()), word[5], static_cast<exponent_t>(word[6]));
                compute(totals, factors);
            }
        }
    }

   private:
    static void fetch(stream<command_t>& commands, int32_t (&word)[kFactorCommandWords]) {
#pragma HLS INLINE
        PipelinedLoop loop("Factors_Fetch");
    Factors_Fetch:
        for (int index = 0; index < kFactorCommandWords; ++index) {
// II=1: a word is read a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
            word[index] = static_cast<int32_t>(commands.read());
        }
        loop.ended();
    }

    void start(RowOperation operation, const int32_t (&word)[kFactorCommandWords]) {
#pragma HLS INLINE
        softmax_ = operation == RowOperation::Softmax;
        centred_ = operation == RowOperation::LayerNorm;
        product_ = operation == RowOperation::Product;
        channels_ = static_cast<T::sum_t>(word[1]);
        groups_.start(static_cast<count_t>(word[7]));
        inverse_ = static_cast<inverse_t>(word[2]);
        magnitude_ = static_cast<position_t>(word[3]);
        column_ = 0;
        opens_ = true;
        begins_ = !product_;
        second_ = false;
    }

    // log2(e) and epsilon's share in units of the operand, moved by a bit a cycle: once an operation.
    void align(exponent_t exponent, int32_t epsilon, exponent_t epsilon_exponent) {
#pragma HLS INLINE
        const exponent_t scale_moves = static_cast<exponent_t>(N::log2_e_fraction - N::position - exponent);
        const exponent_t distance = static_cast<exponent_t>(exponent + exponent - epsilon_exponent);
        const bool left = distance < 0;
        const exponent_t moves = left ? static_cast<exponent_t>(-distance) : distance;
        spread_t share = static_cast<spread_t>(epsilon);
        T::scale_t scale = static_cast<T::scale_t>(kRowLog2E);
        PipelinedLoop loop("Align");
    Align:
        for (int n = 0; n < most_moves; ++n) {
// II=1: a bit a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
            if (n < scale_moves) {
                scale = static_cast<T::scale_t>(scale >> 1);
            }
            if (n < moves) {
                share = left ? static_cast<spread_t>(share << 1) : static_cast<spread_t>(share >> 1);
            }
        }
        loop.ended();
        // Further to the left no mantissa fits.
        const bool large = left && moves > N::share_bits - N::epsilon_bits && epsilon != 0;
        share_ = large ? static_cast<spread_t>((static_cast<int64_t>(1) << N::share_bits) - 1) : share;
        scale_ = scale_moves < 0 ? static_cast<T::scale_t>((1 << N::scale_bits) - 1) : scale;
    }

    void compute(stream<wire_t<RowTotalBeat>>& totals, stream<wire_t<RowFactorBeat>>& factors) {
#pragma HLS INLINE
        bool running = true;
        product_t scaled = 0;
        PipelinedLoop loop("RowFactors");
    RowFactors:
        while (running) {
// II=1: two turns of one multiplier for a row: channels * squares, then the mean.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=24 max=131072
            loop.iteration();
            const bool there = total_.there() && !opens_;
            const bool keeps = there & (begins_ | second_);
            const bool leaves = there & second_;
            const bool last_column = column_ == columns - 1;
            const RowTotalBeat row = since_before();
            const product_t product = multiplied(row);
            if (opens_ | leaves) {
                const RowFactorBeat opening = {scale_, 0, 0};
                const RowFactorBeat closing = closed(row, scaled, product);
                factors.write(to_wire(opens_ ? opening : closing));
            }
            scaled = product;
            if (keeps) {
                sum_before_[column_] = static_cast<int32_t>(total_.beat().sum);
                total_before_[column_] = static_cast<int32_t>(total_.beat().total);
            }
            running = !(last_column && ((leaves && groups_.last()) || (opens_ && product_)));
            if (keeps || !total_.there()) {
                total_.next(totals);
            }
            next(there, keeps, leaves, last_column);
        }
        loop.ended();
    }

    // One cycle: first all columns get what passes begin with, then each row has two turns.
    void next(bool there, bool keeps, bool leaves, bool last_column) {
#pragma HLS INLINE
        const bool group_ends = leaves & last_column;
        const bool moves = opens_ | keeps;
        groups_.step_late(group_ends, false);
        second_ = there & !begins_ & !second_;
        begins_ = begins_ & !(keeps & last_column);
        // A normalization clears the offsets before each group.
        opens_ = (opens_ & !last_column) | (group_ends & !softmax_);
        if (moves) {
            column_ = last_column ? static_cast<column_t>(0) : static_cast<column_t>(column_ + 1);
        }
    }

    // What a column has added since its totals came last.
    RowTotalBeat since_before() const {
#pragma HLS INLINE
        RowTotalBeat row;
        row.sum = RowColumn::difference<T::sum_bits>(total_.beat().sum, sum_before_[column_]);
        row.total = RowColumn::difference<T::total_bits>(total_.beat().total, total_before_[column_]);
        return row;
    }

    // The sum of a row, if its mean counts.
    T::sum_t sum_of(const RowTotalBeat& row) const {
#pragma HLS INLINE
        return centred_ ? row.sum : static_cast<T::sum_t>(0);
    }

    // channels * -squares in the first turn of a row, sum / channels in the second.
    product_t multiplied(const RowTotalBeat& row) const {
#pragma HLS INLINE
        const inverse_t a = second_ ? inverse_ : low_bits<N::inverse_bits + 1>(row.total);
        const T::sum_t b = second_ ? sum_of(row) : channels_;
        return static_cast<product_t>(static_cast<factor_t<product_bits, N::inverse_bits + 1>>(a) * b);
    }

    // The factors of a row: 1/sum of Softmax, or 1/deviation and the mean times it.
    RowFactorBeat closed(const RowTotalBeat& row, product_t scaled, product_t mean) const {
#pragma HLS INLINE
        static_assert(N::variance_fraction % 2 == 0, "the parity of a position is that of the variance's");
        const spread_t value = softmax_ ? static_cast<spread_t>(row.total) : spread_of(row, scaled);
        const position_t lead = static_cast<position_t>(lead_position<spread_bits>(value));
        const root_t root = root_of(value, lead);
        const position_t half = static_cast<position_t>((lead - N::variance_fraction) >> 1);
        const position_t right = static_cast<position_t>(half - magnitude_ + (N::scale_bits - N::position));
        const amount_t amount = right < 0 ? static_cast<amount_t>(0) : static_cast<amount_t>(right);
        const RowFactorBeat result = {softmax_ ? scale_ : deviation_of(root, amount),
                                      softmax_ ? static_cast<T::first_t>(0) : offset_of(mean, root, amount),
                                      factor_of(root, lead)};
        return result;
    }

    // channels * squares - sum**2, with its fraction and epsilon's share.
    spread_t spread_of(const RowTotalBeat& row, product_t scaled) const {
#pragma HLS INLINE
        constexpr int bits = 2 * T::sum_bits;
        using difference_t = int_t<bits + 1>;
        const T::sum_t sum = sum_of(row);
        const int_t<bits> squared = static_cast<int_t<bits>>(static_cast<factor_t<bits, T::sum_bits>>(sum) * sum);
        const difference_t difference =
            static_cast<difference_t>(-static_cast<difference_t>(scaled) - static_cast<difference_t>(squared));
        const spread_t spread = static_cast<spread_t>(difference);
        return static_cast<spread_t>(static_cast<spread_t>(spread << N::variance_fraction) + share_);
    }

    // The point of a table by the bits behind the leading one: of 1/x, or of 1/sqrt(x) by the parity of the position.
    root_t root_of(spread_t value, position_t lead) const {
#pragma HLS INLINE
        constexpr int top = spread_bits - 1;
        const spread_t first = static_cast<spread_t>(value << static_cast<amount_t>(top - lead));
        const int behind = static_cast<int>((first >> (top - N::root_index)) & ((1 << N::root_index) - 1));
        const int odd = static_cast<int>(lead & 1);
        const int place = softmax_ ? (1 << N::root_index) | behind : odd << (N::root_index - 1) | behind >> 1;
        return static_cast<root_t>(row_root_table[place]);
    }

    // 1/deviation over channels / 2**magnitude as a scale.
    static T::scale_t deviation_of(root_t root, amount_t amount) {
#pragma HLS INLINE
        // Wide enough for any amount
        const int_t<64> lifted = shifted_left<64>(root, static_cast<amount_t>(N::scale_bits - N::root_bits));
        return static_cast<T::scale_t>(lifted >> amount);
    }

    // The mean times 1/deviation, both rounded half up. `mean`: the sum times 1/channels.
    T::first_t offset_of(product_t mean, root_t root, amount_t amount) const {
#pragma HLS INLINE
        // The rounding adds behind the bit that is dropped last.
        constexpr int drop = N::inverse_bits - 1 - N::mean_fraction - 1;
        constexpr int dropped = N::mean_fraction + N::root_bits - N::scale_bits - 1;
        constexpr int bits = N::mantissa_bits + N::mean_fraction + N::root_bits + 1;
        using wide_mean_t = int_t<N::mantissa_bits + N::mean_fraction + 1>;
        using moved_t = int_t<bits>;
        const wide_mean_t twice =
            low_bits<N::mantissa_bits + N::mean_fraction + 1>(mean >> static_cast<amount_t>(magnitude_ + drop));
        const mean_t rounded = static_cast<mean_t>(static_cast<wide_mean_t>(twice + 1) >> 1);
        const moved_t moved =
            static_cast<moved_t>(static_cast<factor_t<bits, N::mantissa_bits + N::mean_fraction>>(rounded) * root);
        const moved_t offset = static_cast<moved_t>(moved >> static_cast<amount_t>(amount + dropped));
        return static_cast<T::first_t>(static_cast<moved_t>(offset + 1) >> 1);
    }

    // 1/sum in units of the results.
    T::second_t factor_of(root_t root, position_t lead) const {
#pragma HLS INLINE
        using bits_below_t = uint_t<4>;
        const bits_below_t amount =
            softmax_ ? static_cast<bits_below_t>(lead - N::least_position) : static_cast<bits_below_t>(0);
        const T::second_t lifted =
            shifted_left<T::factor_bits>(root, static_cast<amount_t>(N::factor_position - N::least_position));
        return static_cast<T::second_t>(lifted >> amount);
    }

    // Of the operation
    bool softmax_, centred_, product_;
    T::sum_t channels_;
    inverse_t inverse_;
    position_t magnitude_;
    spread_t share_;
    T::scale_t scale_;
    Turns<Geometry<Config>::coordinate_bits> groups_;
    // Of the row: what comes before a pass leaves, or totals of before the operation come, or a row has its second turn
    bool opens_, begins_, second_;
    column_t column_;
    HeldBeat<RowTotalBeat> total_;
    // What the totals of each column were before
    int32_t sum_before_[columns], total_before_[columns];
};

}  // namespace bfpga
