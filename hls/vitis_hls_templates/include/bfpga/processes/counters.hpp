// Counters whose last value is known a cycle early: loops of processes carry a flag and one subtraction, no comparison
// and no product.
#pragma once
#include "bfpga/memory/geometry.hpp"
#include "bfpga/numeric/checks.hpp"

namespace bfpga {

// Counts down a number of turns repeatedly.
template <int Bits>
class Turns {
    using count_t = int_t<Bits>;

   public:
    // `turns`: 1 or more.
    void start(count_t turns) {
#pragma HLS INLINE
        set(turns);
        restart();
    }

    // As `start`, but counts when it has been restarted.
    void set(count_t turns) {
#pragma HLS INLINE
        set(static_cast<count_t>(turns - 1), turns == 1);
    }

    // The turns after the first, whether there are none; counts when `restart` has been called.
    void set(count_t others, bool single) {
#pragma HLS INLINE
        from_ = others;
        single_ = single;
    }

    void restart() {
#pragma HLS INLINE
        left_ = from_;
        last_ = single_;
    }

    // To the next turn; after the last one the first.
    void next() {
#pragma HLS INLINE
        const bool last = last_ ? single_ : left_ == 1;
        left_ = last_ ? from_ : static_cast<count_t>(left_ - 1);
        last_ = last;
    }

    // One cycle: to the next turn or, `again`, to the first one.
    void step(bool next, bool again) {
#pragma HLS INLINE
        const bool first = again | (next & last_);
        const count_t left = next ? static_cast<count_t>(left_ - 1) : left_;
        const bool last = next ? left_ == 1 : last_;
        left_ = first ? from_ : left;
        last_ = first ? single_ : last;
    }

    // As above where both are known late.
    void step_late(bool next, bool again) {
#pragma HLS INLINE
        step_late(next, last_, again);
    }

    // As above; `ends`: with this turn, be it the last one or not.
    void step_late(bool next, bool ends, bool again) {
#pragma HLS INLINE
        const count_t left = ends ? from_ : static_cast<count_t>(left_ - 1);
        const bool last = ends ? single_ : left_ == 1;
        left_ = again ? from_ : next ? left : left_;
        last_ = again ? single_ : next ? last : last_;
    }

    // As above; or `back` to a turn that was marked.
    struct Mark;
    void step(bool next, bool again, bool back, const Mark& mark) {
#pragma HLS INLINE
        step_late(next, again);
        // Whether it goes back is known last.
        left_ = back ? mark.left : left_;
        last_ = back ? mark.last : last_;
    }

    // Whether this turn is the last one, and whether the next one is.
    bool last() const { return last_; }
    bool before_last() const { return left_ == 1; }
    // Whether the next turn is the last one; whether there is only one turn.
    bool last_behind() const { return last_ ? single_ : left_ == 1; }
    bool alone() const { return single_; }

    // The turn, and back to one that was marked.
    struct Mark {
        count_t left;
        bool last;
    };

    Mark mark() const {
#pragma HLS INLINE
        const Mark mark = {left_, last_};
        return mark;
    }

    void put(const Mark& mark) {
#pragma HLS INLINE
        left_ = mark.left;
        last_ = mark.last;
    }

   private:
    count_t from_, left_;  // turns after this one
    bool single_, last_;
};

// As `Turns`, where logic on the last turn is needed early: whether the next turn is the last one is registered too.
template <int Bits>
class AheadTurns {
    using count_t = int_t<Bits>;

   public:
    // `turns`: 1 or more. Counts when it has been restarted.
    void set(count_t turns) {
#pragma HLS INLINE
        from_ = static_cast<count_t>(turns - 1);
        single_ = turns == 1;
        double_ = turns == 2;
    }

    bool last() const { return last_; }

    // One cycle: to the next turn or, `again`, to the first one.
    void step(bool next, bool again) {
#pragma HLS INLINE
        const count_t left = last_ ? from_ : static_cast<count_t>(left_ - 1);
        const bool before = last_ ? double_ : left_ == 2;
        const bool last = last_ ? single_ : before_last_;
        left_ = again ? from_ : next ? left : left_;
        before_last_ = again ? double_ : next ? before : before_last_;
        last_ = again ? single_ : next ? last : last_;
    }

   private:
    count_t from_, left_;  // turns after this one
    bool single_, double_, last_, before_last_;
};

// The groups of a tensor as a transfer moves them (scratchpad/transfer.hpp): row by row, in a row `transfer_pixels`
// pixels after the other, word by word of these pixels together.
template <class Config>
class GroupCount {
    static constexpr int coordinate_bits = Geometry<Config>::coordinate_bits;
    using coordinate_t = typename Geometry<Config>::coordinate_t;
    static constexpr int pixel_shift = bit_length(Config::transfer_pixels) - 1;

   public:
    // `pixels`: of the tensor, whole rows of `width` pixels of `words` words each. Its first cycle follows later.
    void set(int32_t pixels, int32_t width, int32_t words) {
#pragma HLS INLINE
        width_ = static_cast<coordinate_t>(width);
        pixels_ = static_cast<coordinate_t>(pixels);
        word_.set(static_cast<coordinate_t>(words - 1), words == 1);
        group_.set(static_cast<coordinate_t>((width - 1) >> pixel_shift), width <= Config::transfer_pixels);
        any_ = pixels > 0;
    }

    bool any() const { return any_; }

    // Whether the group that moves now is the tensor's last.
    bool last() const { return word_.last() && group_.last() && last_row_; }

    // One cycle; `moved`: the group has. `begins`: the first group comes in the next cycle.
    void step(bool moved, bool begins) {
#pragma HLS INLINE
        const bool group = moved && word_.last();
        const bool row = group && group_.last();
        simulation_check(!row || beyond_ >= 0, "a transfer",
                         "ends inside a row; pixels moved beyond its end:", -static_cast<long long>(beyond_));
        // Of the next row: the last one if no pixels follow it.
        const bool next_last = beyond_ <= width_;
        const bool first_last = pixels_ <= width_;
        const coordinate_t next = static_cast<coordinate_t>(beyond_ - width_);
        const coordinate_t first = static_cast<coordinate_t>(pixels_ - width_);
        beyond_ = row ? next : begins ? first : beyond_;
        last_row_ = row ? next_last : begins ? first_last : last_row_;
        word_.step(moved, begins);
        group_.step(group, begins);
    }

   private:
    Turns<coordinate_bits> word_, group_;
    coordinate_t width_, pixels_, beyond_;  // pixels of a row, of the tensor, after this row
    bool last_row_, any_;
};

}  // namespace bfpga
