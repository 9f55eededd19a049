// Words that are combined from operands without a multiplication: the maximum over the taps, or the aligned sum of one
// or two operands. The words of a sum are stored unaligned: they are aligned and added where a row leaves, so that a
// column has one shifter and not every lane.
//
// While the rows of a finished word drain, the next one is combined; order: group of output pixels, output word, tap
// row, tap column, slot. Accumulators from the memory come the same way, as words of one tap that pass unchanged.
#pragma once
#include "bfpga/memory/word.hpp"
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/output/column_slices.hpp"
#include "bfpga/output/layer_registers.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config, class Storage>
class VectorWords {
    static constexpr int columns = Config::columns;
    static constexpr int lanes = Config::lanes;
    static constexpr int turns = StageColumns<Config>::turns;
    using Slices = ColumnSlices<Config>;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using mantissa_t = typename Geometry<Config>::mantissa_t;

   public:
    VectorWords() : there_(false), fires_(false), operand_(), present_() {
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=present_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=most_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=first_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=second_ complete dim=0
    }

    // An operation begins that has `words` output words in each group of pixels.
    void start(const Descriptor& d, const LayerExponents& exponents, int32_t words) {
#pragma HLS INLINE
        maximum_ = static_cast<Operation>(d.operation) == Operation::Max;
        two_ = !maximum_ && d.kernel_width > 1;
        simulation_check(maximum_ || static_cast<Operation>(d.operation) == Operation::Gemm ||
                             (d.kernel_height == 1 && d.kernel_width <= 2),
                         "a sum", "has more than two operands, columns of taps:", d.kernel_width);
        // The accumulators have the larger exponent of two, so one operand at most moves.
        const int32_t first = exponents.accumulator - exponents.first;
        const int32_t second = exponents.accumulator - exponents.second;
        second_moves_ = two_ && second > 0;
        const bool negates = two_ && d.has(Flag::NegateSecond);
        negate_moved_ = negates && second_moves_;
        negate_other_ = negates && !second_moves_;
        amount_ = amount_of(second_moves_ ? second : first);
        x_.start(d.kernel_width);
        y_.start(d.kernel_height);
        word_.start(words);
        group_.start(d.groups);
        first_tap_ = true;
        combines_ = static_cast<Operation>(d.operation) != Operation::Gemm || takes_accumulators<Config>(d);
        combines_ = combines_ && !works_on_rows<Config>(d);
    }

    // Whether the operation has operands left, and whether those of a word are complete with the next beat that fires.
    bool combines() const { return combines_; }
    bool completes() const { return x_.last() && y_.last(); }

    // Whether a beat has come that is to be taken.
    bool there() const { return there_; }

    // The next beat, if there is one; the one before has been taken. Columns hold their words until a beat has others
    // for them, so the words of all columns are the only register of a beat (as processes/held_beat.hpp has it).
    void next(stream<wire_t<VectorBeat<Config>>>& from) {
#pragma HLS INLINE
        wire_t<VectorBeat<Config>> word = wire_t<VectorBeat<Config>>();
        there_ = from.read_nb(word);
        if (there_) {
            load(from_wire<VectorBeat<Config>>(word));
        }
    }

    // Takes the beat; whether it completes a word.
    bool take() {
#pragma HLS INLINE
        if (!fires_) {
            return false;
        }
        combine();
        const bool completed = completes();
        if (completed) {
        Columns_Finish:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                first_[i] = most_[i];
                second_[i] = operand_[i];
            }
        }
        next_tap();
        return completed;
    }

    // A lane of the finished word in column i of the slice: its maximum, or the sum +-x / 2**shift, rounded, of its
    // operands (BFP R46, R47).
    accumulator_t result(int lane, const Slices& slices, int i) const {
#pragma HLS INLINE
        mantissa_t firsts[turns], seconds[turns];
#pragma HLS ARRAY_PARTITION variable=firsts complete dim=0
#pragma HLS ARRAY_PARTITION variable=seconds complete dim=0
    Slices_Result:
        for (int s = 0; s < turns; ++s) {
#pragma HLS UNROLL
            firsts[s] = first_[Slices::column(s, i)].get(lane);
            seconds[s] = second_[Slices::column(s, i)].lane[lane];
        }
        const mantissa_t first = slices.of(firsts);
        const mantissa_t second = slices.of(seconds);
        const mantissa_t moving = second_moves_ ? second : first;
        const mantissa_t still = second_moves_ ? first : second;
        const sum_t moved = round_right<Config::rounding, Config::mantissa_bits, shift_limit>(moving, amount_);
        const sum_t other = two_ ? static_cast<sum_t>(still) : static_cast<sum_t>(0);
        const sum_t left = negate_moved_ ? static_cast<sum_t>(~moved) : moved;
        const sum_t right = negate_other_ ? static_cast<sum_t>(~other) : other;
        return static_cast<sum_t>(left + right + (negate_moved_ || negate_other_ ? 1 : 0));
    }

    // A lane of the beat that waits in column i of the slice: of a tensor that is added to sums.
    mantissa_t waiting(int lane, const Slices& slices, int i) const {
#pragma HLS INLINE
        mantissa_t operands[turns];
#pragma HLS ARRAY_PARTITION variable=operands complete dim=0
    Slices_Waiting:
        for (int s = 0; s < turns; ++s) {
#pragma HLS UNROLL
            operands[s] = operand_[Slices::column(s, i)].lane[lane];
        }
        return slices.of(operands);
    }

    // The finished word itself.
    const Word<Config>& whole(int column) const { return second_[column]; }

   private:
    // Two mantissas are added.
    using sum_t = int_t<Config::mantissa_bits + 2>;
    static_assert(Config::accumulator_bits >= Config::mantissa_bits + 2, "an accumulator holds a sum of two operands");
    // Shifting further changes nothing.
    static constexpr int shift_limit = Config::mantissa_bits + 1;

    static amount_t amount_of(int32_t shift) {
#pragma HLS INLINE
        return static_cast<amount_t>(shift > shift_limit ? shift_limit : shift);
    }

    void load(const VectorBeat<Config>& beat) {
#pragma HLS INLINE
        fires_ = beat.fires;
    Columns_Load:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            if (beat.mine[i]) {
                operand_[i] = beat.word[i];
                present_[i] = beat.present[i];
            }
        }
    }

    // max(most, x) in the columns whose tap is inside the image; of a sum the first operand.
    void combine() {
#pragma HLS INLINE
        const mantissa_t smallest = static_cast<mantissa_t>(-(1 << (Config::mantissa_bits - 1)));
    Columns_Combine:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
        Lanes_Combine:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                const mantissa_t x = operand_[i].lane[l];
                const mantissa_t before = most_[i].get(l);
                const bool larger = maximum_ && present_[i] && x > before;
                const bool taken = first_tap_ ? !maximum_ || present_[i] : larger;
                most_[i].set(l, taken ? x : first_tap_ ? smallest : before);
            }
        }
    }

    void next_tap() {
#pragma HLS INLINE
        const bool last_x = x_.last();
        const bool last_tap = completes();
        const bool last_word = last_tap && word_.last();
        first_tap_ = last_tap;
        combines_ = !(last_word && group_.last());
        x_.next();
        if (last_x) {
            y_.next();
        }
        if (last_tap) {
            word_.next();
        }
        if (last_word) {
            group_.next();
        }
    }

    using Column = typename Storage::RegisterSets::template Set<mantissa_t, lanes>;

    // Of the operation
    bool maximum_, two_;
    bool second_moves_, negate_moved_, negate_other_;
    amount_t amount_;
    // Tap, word and group
    Turns<Geometry<Config>::coordinate_bits> x_, y_, word_, group_;
    bool first_tap_, combines_;
    // Of a beat
    bool there_, fires_;
    // Of a column
    Word<Config> operand_[columns];
    bool present_[columns];
    Column most_[columns];
    // Of the finished word: its maximum or first operand, and the last operand
    Column first_[columns];
    Word<Config> second_[columns];
};

}  // namespace bfpga
