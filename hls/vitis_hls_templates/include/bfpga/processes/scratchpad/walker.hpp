// The walk over output pixels, one a clock, into the spare of two register sets. Nothing is divided or multiplied.
//
// The pixels follow each other row by row; `columns` of them are a group. What a group lasts is longer than its walk.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/scratchpad/places.hpp"

namespace bfpga {

// What a walk needs to know: a tensor's addresses in the order of the output pixels.
template <class Config>
struct WalkSetup {
    using T = ScratchpadTypes<Config>;
    static constexpr int pixel_bits = Geometry<Config>::coordinate_bits;

    Place<Config> first;
    Stride<Config> step;  // to the next pixel of the row
    Stride<Config> wrap;  // from the last pixel of a row to the first of the next one
    int_t<pixel_bits> width, pixels;
    typename T::port_t columns;  // pixels of a group

    // `step_*` and `wrap_*` as in a descriptor: the wrap comes on top of a step.
    void take(const Descriptor& d, Place<Config> start, Stride<Config> step_of, int32_t wrap_word, int32_t wrap_bank,
              int32_t pixel_words) {
#pragma HLS INLINE
        first = start;
        step = step_of;
        wrap = step_of.plus(static_cast<typename T::word_t>(wrap_word), static_cast<typename T::bank_sum_t>(wrap_bank),
                            static_cast<typename T::word_t>(pixel_words));
        width = static_cast<int_t<pixel_bits>>(d.output_width);
        pixels = static_cast<int_t<pixel_bits>>(d.output_pixels);
        columns = static_cast<typename T::port_t>(active_columns<Config>(d));
    }
};

// One pixel after the other, until a set of them is full.
template <class Config>
class SerialWalk {
    using T = ScratchpadTypes<Config>;

   public:
    void clear() {
#pragma HLS INLINE
        full_ = true;
    }

    void start(const WalkSetup<Config>& setup) {
#pragma HLS INLINE
        place_ = setup.first;
        row_.start(setup.width);
        pixels_.start(setup.pixels);
        columns_.start(setup.columns);
        column_ = 0;
        active_ = true;
        begins_row_ = true;
        full_ = false;
        choose(setup);
    }

    bool full() const { return full_; }
    bool fills() const { return !full_; }
    typename T::port_t column() const { return column_; }  // that the pixel is for
    bool last_column() const { return columns_.last(); }   // of the set
    Place<Config> place() const { return place_; }
    bool active() const { return active_; }  // the pixel exists
    bool begins_row() const { return begins_row_; }
    bool ends_row() const { return row_.last(); }

    // A clock: a pixel further unless the set is full; `take` hands the set over.
    void step(const WalkSetup<Config>& setup, bool take) {
#pragma HLS INLINE
        const bool fill = fills();
        const bool ends = row_.last();
        const bool last = columns_.last();
        const typename T::port_t next =
            last ? static_cast<typename T::port_t>(0) : static_cast<typename T::port_t>(column_ + 1);
        if (fill) {
            place_ = place_.after(by_);
            begins_row_ = ends;
            column_ = next;
        }
        active_ = active_ && !(fill && pixels_.last());
        full_ = fill ? last : !take;
        if (fill) {
            pixels_.next();
        }
        if (fill) {
            row_.next();
        }
        if (fill) {
            columns_.next();
        }
        choose(setup);
    }

   private:
    // The step of the next pixel is chosen a clock before it is taken.
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
    Turns<WalkSetup<Config>::pixel_bits> row_, pixels_;
    Turns<bit_length(ScratchpadTypes<Config>::ports) + 1> columns_;
    typename T::port_t column_;
    bool active_, begins_row_, full_;
};

}  // namespace bfpga
