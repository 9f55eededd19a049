// Words that are combined from operands without a multiplication: the maximum or the aligned sum over the taps.
//
// While the rows of a finished word leave, the next one is combined; order: group of output pixels, output word, tap
// row, tap column, slot.
#pragma once
#include "bfpga/memory/kernel_memories.hpp"
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

template <class Config, class Storage>
class VectorWords {
    static constexpr int columns = Config::columns;
    static constexpr int lanes = Config::lanes;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using mantissa_t = typename Geometry<Config>::mantissa_t;

   public:
    VectorWords() : operand_(), present_() {
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=present_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=sum_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=finished_ complete dim=0
    }

    // An operation begins that has `words` output words in each group of pixels.
    void start(const Descriptor& d, const LayerExponents& exponents, int32_t words) {
#pragma HLS INLINE
        maximum_ = static_cast<Operation>(d.operation) == Operation::Max;
        negate_second_ = d.has(Flag::NegateSecond);
        first_amount_ = amount_of(exponents.accumulator - exponents.first);
        second_amount_ = amount_of(exponents.accumulator - exponents.second);
        x_.start(d.kernel_width);
        y_.start(d.kernel_height);
        word_.start(words);
        group_.start(d.groups);
        first_tap_ = true;
        second_operand_ = false;
        combines_ = static_cast<Operation>(d.operation) != Operation::Gemm;
    }

    // Whether the operation has operands left, and whether those of a word are complete with the next beat that fires.
    bool combines() const { return combines_; }
    bool completes() const { return x_.last() && y_.last(); }

    // Takes a beat; whether it completes a word.
    bool take(const VectorBeat<Config>& beat) {
#pragma HLS INLINE
        load(beat);
        if (!beat.fires) {
            return false;
        }
        combine();
        const bool completed = completes();
        if (completed) {
        Columns_Finish:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                finished_[i] = sum_[i];
            }
        }
        next_tap();
        return completed;
    }

    // A lane of the finished word.
    accumulator_t result(int lane, int column) const {
#pragma HLS INLINE
        return finished_[column].get(lane);
    }

   private:
    // Shifting further changes nothing.
    static amount_t amount_of(int32_t shift) {
#pragma HLS INLINE
        return static_cast<amount_t>(shift > Config::mantissa_bits ? Config::mantissa_bits + 1 : shift);
    }

    // A column keeps its word until a beat has another one for it.
    void load(const VectorBeat<Config>& beat) {
#pragma HLS INLINE
    Columns_Load:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            if (beat.mine[i]) {
                operand_[i] = beat.word[i];
                present_[i] = beat.present[i];
            }
        }
    }

    // max(sum, x) in the columns whose tap lies inside the image, or sum +- x / 2**shift, rounded (BFP R46, R47).
    void combine() {
#pragma HLS INLINE
        const accumulator_t smallest = static_cast<accumulator_t>(-(1 << (Config::mantissa_bits - 1)));
        const accumulator_t start = maximum_ ? smallest : static_cast<accumulator_t>(0);
        const amount_t amount = second_operand_ ? second_amount_ : first_amount_;
        const bool negate = second_operand_ && negate_second_;
    Columns_Combine:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
        Lanes_Combine:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                const mantissa_t x = operand_[i].lane[l];
                const accumulator_t before = first_tap_ ? start : sum_[i].get(l);
                const accumulator_t aligned = round_right<Config::rounding, Config::mantissa_bits>(x, amount);
                const accumulator_t term = negate ? static_cast<accumulator_t>(-aligned) : aligned;
                // Maxima have the bits of a mantissa.
                const bool larger = present_[i] && x > low_bits<Config::mantissa_bits>(before);
                const accumulator_t most = larger ? static_cast<accumulator_t>(x) : before;
                sum_[i].set(l, maximum_ ? most : static_cast<accumulator_t>(before + term));
            }
        }
    }

    void next_tap() {
#pragma HLS INLINE
        const bool last_x = x_.last();
        const bool last_tap = completes();
        const bool last_word = last_tap && word_.last();
        // The operands of a sum are columns of taps.
        second_operand_ = !last_x;
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

    using Column = typename Storage::RegisterSets::template Set<accumulator_t, lanes>;

    // Of the operation
    bool maximum_, negate_second_;
    amount_t first_amount_, second_amount_;
    // Tap, word and group
    Turns<Geometry<Config>::coordinate_bits> x_, y_, word_, group_;
    bool first_tap_, second_operand_, combines_;
    // Of a column
    Word<Config> operand_[columns];
    bool present_[columns];
    Column sum_[columns];
    Column finished_[columns];
};

}  // namespace bfpga
