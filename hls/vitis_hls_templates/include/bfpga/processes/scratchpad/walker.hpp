// The walk over output pixels, one a cycle, into the spare of two register sets. No division or multiplication.
//
// The pixels are consecutive row by row; `columns` of them are a group. A group lasts longer than its walk.
#pragma once
#include <type_traits>

#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/scratchpad/places.hpp"
#include "bfpga/processes/scratchpad/runs.hpp"

namespace bfpga {

// Parameters of a walk: a tensor's addresses in the order of the output pixels.
template <class Config>
struct WalkSetup {
    using T = ScratchpadTypes<Config>;

    Place<Config> first;
    Stride<Config> step;  // to the next pixel of the row
    Stride<Config> wrap;  // from the last pixel of a row to the first of the next one

    // `step_*` and `wrap_*` as in a descriptor: the wrap comes on top of a step.
    void take(Place<Config> start, Stride<Config> step_of, int32_t wrap_word, int32_t wrap_bank, int32_t pixel_words) {
#pragma HLS INLINE
        first = start;
        step = step_of;
        wrap = step_of.plus(static_cast<typename T::word_t>(wrap_word), static_cast<typename T::bank_sum_t>(wrap_bank),
                            static_cast<typename T::word_t>(pixel_words));
    }
};

// A walk that goes over the pixels once.
template <class Config>
class OnePass {
   public:
    void take(const Descriptor&, bool, int32_t) {}
    bool returns() const { return false; }
    bool goes_on() const { return false; }
    void step(bool, bool) {}
};

// One pixel after the other, until a set of them is full: a group, or the groups of two halves. `Repeats`: the number
// of walks over them.
template <class Config, int Halves = 1, class Repeats = OnePass<Config>>
class SerialWalk {
    using T = ScratchpadTypes<Config>;
    static constexpr int pixel_bits = Geometry<Config>::coordinate_bits;
    static constexpr int column_bits = bit_length(T::ports) + 1;

   public:
    void clear() {
#pragma HLS INLINE
        full_ = true;
        active_ = false;
        through_ = true;
        last_half_ = false;
    }

    // What the next operation needs; `halves`: whether a set has two groups.
    void take(const Descriptor& d, bool halves = false, int32_t chunks = 1) {
#pragma HLS INLINE
        repeats_.take(d, halves, chunks);
        row_.set(static_cast<int_t<pixel_bits>>(d.output_width));
        pixels_.set(static_cast<int_t<pixel_bits>>(d.output_pixels));
        columns_.set(static_cast<int_t<column_bits>>(group_pixels<Config>(d)));
        halves_ = Halves > 1 && halves;
    }

    // Whether a set is there, and whether one that is not is there in the next cycle.
    bool full() const { return full_; }
    bool fills_up() const { return ends_set(); }
    bool fills() const { return !full_; }
    typename T::port_t column() const { return column_; }     // that the pixel is for
    bool last_column() const { return columns_.last(); }      // of the group
    int half() const { return Halves > 1 && half_ ? 1 : 0; }  // whose group it is
    Place<Config> place() const { return place_; }
    bool active() const { return active_; }  // the pixel exists
    // Whether the set with the last pixel has been handed over: the walk of another operation may begin.
    bool through() const { return through_; }
    bool begins_row() const { return begins_row_; }
    bool ends_row() const { return row_.last(); }
    // Whether the walk returns to the begin of its run after the pixel, and whether another run begins there.
    bool returns() const { return ends_set() && repeats_.returns(); }
    bool goes_on() const { return ends_set() && repeats_.goes_on(); }

    // One cycle: a pixel further unless the set is full; `take` hands the set over, `starts`: the walk of an operation
    // starts. The set that the one before still fills holds no pixel.
    void step(const WalkSetup<Config>& setup, bool take, bool starts) {
#pragma HLS INLINE
        const bool fill = fills();
        const bool last = columns_.last();
        const bool last_of_set = ends_set();
        const bool back = (fill & returns()) & !starts;
        const bool marks = starts | (fill & goes_on());
        repeats_.step(fill & last_of_set, starts);
        if (starts) {
            place_ = setup.first;
            begins_row_ = true;
            column_ = 0;
        } else if (fill) {
            place_ = place_.after(by_);
            begins_row_ = row_.last();
            column_ = last ? static_cast<typename T::port_t>(0) : static_cast<typename T::port_t>(column_ + 1);
        }
        through_ = !starts && (through_ | (take & !active_));
        active_ = starts | (active_ & !(fill & pixels_.last()));
        full_ = !starts && (fill ? last_of_set : !take);
        if (Halves > 1) {
            half_ = !starts && (fill && last ? !last_of_set : half_);
            last_half_ = starts ? !halves_ : fill && last ? !(last_of_set && halves_) : last_half_;
        }
        pixels_.step(fill, starts);
        row_.step(fill, starts);
        columns_.step(fill, starts);
        return_or_mark(back, marks);
        choose(setup);
    }

   private:
    static constexpr bool repeated = !std::is_same<Repeats, OnePass<Config>>::value;

    // Back to the begin of the run, or a begin that is kept.
    void return_or_mark(bool back, bool marks) {
#pragma HLS INLINE
        if (repeated && back) {
            place_ = begin_.place;
            begins_row_ = begin_.begins_row;
            active_ = begin_.active;
            row_.put(begin_.row);
            pixels_.put(begin_.pixels);
        } else if (repeated && marks) {
            begin_.place = place_;
            begin_.begins_row = begins_row_;
            begin_.active = active_;
            begin_.row = row_.mark();
            begin_.pixels = pixels_.mark();
        }
    }

    // Whether the set is full with the pixel.
    bool ends_set() const { return columns_.last() && (Halves == 1 || last_half_); }

    // The step of the next pixel is chosen a cycle before it is taken.
    void choose(const WalkSetup<Config>& setup) {
#pragma HLS INLINE
        if (row_.last()) {
            by_ = setup.wrap;
        } else {
            by_ = setup.step;
        }
    }

    Place<Config> place_;
    Stride<Config> by_;
    Turns<pixel_bits> row_, pixels_;
    Turns<column_bits> columns_;
    typename T::port_t column_;
    bool active_, begins_row_, full_, through_;
    bool halves_, half_, last_half_;  // two of them, the second one, the last one
    Repeats repeats_;
    // The first pixel of the run
    struct {
        Place<Config> place;
        bool begins_row, active;
        typename Turns<pixel_bits>::Mark row, pixels;
    } begin_;
};

}  // namespace bfpga
