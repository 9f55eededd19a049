// The shift multiplier with registers and accumulators of its own (SM R20 to R30). The array adds the products of
// `shift_tiles.hpp` to its own accumulators, so no kernel includes this unit yet.
#pragma once
#include "bfpga/array/shift_multiplier.hpp"

namespace bfpga {

// Two accumulators that start anew when the mode changes and on clear (SM R20, R22 to R28). They wrap; that they are
// wide enough for the layer's terms is the generator's to check.
template <class Format>
struct ShiftAccumulators {
    using Types = ShiftTypes<Format>;
    using accumulator_t = typename Types::accumulator_t;

    accumulator_t q0;
    accumulator_t q1;
    bool last_pow2;
    bool started;  // a mode has been seen: the first beat is no change

    void reset(accumulator_t initial) {
#pragma HLS INLINE
        q0 = initial;
        q1 = initial;
        last_pow2 = kModeTwoHot;
        started = false;
    }

    void add(const ShiftProducts<Format>& products, accumulator_t initial) {
#pragma HLS INLINE
        const bool changed = started && last_pow2 != products.pow2;
        const bool restart = changed || products.clear;
        const bool enabled = Format::routing == ShiftRouting::Select || products.pow2;
        started = true;
        last_pow2 = products.pow2;
        const accumulator_t base0 = restart ? initial : q0;
        const accumulator_t base1 = restart ? initial : q1;
        q0 = sum<Types::product_bits>(base0, products.product0, products.s2);
        if (Format::modes != ShiftModes::TwoHot) {
            q1 = enabled ? sum<Types::term_bits>(base1, products.product1, products.s1) : base1;
        } else {
            q1 = base1;
        }
    }

    // What a dot product ends with in power-of-two mode, if both weights belong to one output (SM R26).
    int_t<Format::accumulator_bits + 1> final_sum() const {
#pragma HLS INLINE
        return static_cast<int_t<Format::accumulator_bits + 1>>(static_cast<int_t<Format::accumulator_bits + 1>>(q0) +
                                                                q1);
    }

   private:
    // base plus or minus a product of N bits: one expression, one carry chain.
    template <int N>
    static accumulator_t sum(accumulator_t base, int_t<N> product, bool negative) {
#pragma HLS INLINE
        constexpr int wide = (N > Format::accumulator_bits ? N : Format::accumulator_bits) + 2;
        const int_t<N> addend = inverted_if<N>(negative, product);
        const int_t<wide> total =
            static_cast<int_t<wide>>(static_cast<int_t<wide>>(base) + addend + (negative ? 1 : 0));
// Logic, not a slice: the DSP slices are for the columns that multiply with them.
#pragma HLS BIND_OP variable=total op=add impl=fabric
        return low_bits<Format::accumulator_bits>(total);
    }
};

// A unit with its three register levels: weight register, product registers, accumulators. A call of `clock` is one
// clock; a beat is in the accumulators after its third (SM R29). Products in flight carry their own mode, so layers of
// different modes follow each other without a gap (SM R30).
template <class Format>
class ShiftUnit {
   public:
    using Types = ShiftTypes<Format>;
    using Multiplier = ShiftMultiplier<Format>;
    using accumulator_t = typename Types::accumulator_t;

    struct Beat {
        bool valid;
        bool pow2;
        bool clear;
        typename Types::distance_t d;
        typename Types::x_t x;
        typename Types::word_t word;
    };

    static constexpr int latency = 3;

    void reset(accumulator_t initial) {
#pragma HLS INLINE
        weight_register_ = Beat();
        product_valid_ = false;
        product_register_ = ShiftProducts<Format>();
        accumulators_.reset(initial);
    }

    void clock(const Beat& beat, accumulator_t initial) {
#pragma HLS INLINE
        if (product_valid_) {
            accumulators_.add(product_register_, initial);
        }
        const Beat held = weight_register_;
        const bool pow2 = Multiplier::mode_of(held.word, held.pow2);
        product_register_ =
            ShiftProducts<Format>::route(Multiplier::multiply(held.x, held.word, pow2, held.d), pow2, held.clear);
        product_valid_ = held.valid;
        weight_register_ = beat;
    }

    const ShiftAccumulators<Format>& accumulators() const { return accumulators_; }

   private:
    Beat weight_register_;
    bool product_valid_;
    ShiftProducts<Format> product_register_;
    ShiftAccumulators<Format> accumulators_;
};

}  // namespace bfpga
