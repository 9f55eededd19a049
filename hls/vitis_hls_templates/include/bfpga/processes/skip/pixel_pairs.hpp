// What a group of the skip array multiplies: one value with pairs of pixels, a DSP block for each pair.
//
// A pair is held as x1 * 256 + x0. As the operand x1 * 65536 + x0 its fields are further apart, which is wiring: what x0
// borrows from x1 is in the pair already. 32768 is added to the product in the DSP block, so the low field is never
// negative and the two products come apart without an adder. Exact for all values of 8 bits.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"

namespace bfpga {

struct HeldPair {
    static constexpr int low_field = 8;
    static constexpr int bits = 2 * low_field + 1;
    using pair_t = int_t<bits>;
    using sum_t = int_t<PixelPair::product_bits>;

    static pair_t hold(int_t<low_field> high, int_t<low_field> low) {
#pragma HLS INLINE
        const pair_t raised = shifted_left<bits>(high, static_cast<uint_t<4>>(low_field));
        return static_cast<pair_t>(raised + low);
    }

    // The products of both pixels, and what keeps them apart.
    static sum_t multiply(pair_t pair, int_t<low_field> value) {
#pragma HLS INLINE
        return static_cast<sum_t>(PixelPair::multiply(operand(pair), value) + static_cast<sum_t>(apart));
    }

    static int_t<PixelPair::distance> low(sum_t sum) {
#pragma HLS INLINE
        return low_bits<PixelPair::distance>(sum ^ static_cast<sum_t>(apart));
    }

    static int_t<PixelPair::distance + 1> high(sum_t sum) {
#pragma HLS INLINE
        return static_cast<int_t<PixelPair::distance + 1>>(sum >> PixelPair::distance);
    }

   private:
    static constexpr int64_t apart = static_cast<int64_t>(1) << (PixelPair::distance - 1);
    using operand_t = int_t<PixelPair::operand_bits>;

    // Both fields side by side, the low one with its sign.
    static operand_t operand(pair_t pair) {
#pragma HLS INLINE
        const int_t<bits - low_field> high = static_cast<int_t<bits - low_field>>(pair >> low_field);
        const int_t<PixelPair::distance> low = low_bits<low_field>(pair);
        const operand_t raised =
            shifted_left<PixelPair::operand_bits>(high, static_cast<uint_t<5>>(PixelPair::distance));
        return static_cast<operand_t>(raised | static_cast<operand_t>(static_cast<uint_t<PixelPair::distance>>(low)));
    }
};

}  // namespace bfpga
