// The multiplications of a group of the skip array: one value with pairs of pixels, a DSP block for each pair.
//
// A pair is held as x1 * 256 + x0. As the operand x1 * 65536 + x0 its fields are further apart, which is wiring: the
// borrow of x0 from x1 is in the pair already. In a product, and in a sum of products, a negative low field has
// borrowed from the high one (pair_sums.hpp restores it). Exact for all values of 8 bits.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

struct PixelPairs {
    static constexpr int pixel_bits = 8;
    static constexpr int distance = 16;                             // of the fields of an operand
    static constexpr int pair_bits = 2 * pixel_bits + 1;            // as it is held
    static constexpr int operand_bits = distance + pixel_bits + 1;  // the larger input of a DSP48E1
    static constexpr int product_bits = operand_bits + pixel_bits;
    using pair_t = int_t<pair_bits>;
    using product_t = int_t<product_bits>;

    static pair_t hold(int_t<pixel_bits> high, int_t<pixel_bits> low) {
#pragma HLS INLINE
        const pair_t raised = shifted_left<pair_bits>(high, static_cast<uint_t<4>>(pixel_bits));
        return static_cast<pair_t>(raised + low);
    }

    // The products of both pixels.
    static product_t multiply(pair_t pair, int_t<pixel_bits> value) {
#pragma HLS INLINE
        return static_cast<product_t>(static_cast<factor_t<product_bits, operand_bits>>(operand(pair)) * value);
    }

   private:
    using operand_t = int_t<operand_bits>;

    // Both fields packed, the low one with its sign.
    static operand_t operand(pair_t pair) {
#pragma HLS INLINE
        const int_t<pair_bits - pixel_bits> high = static_cast<int_t<pair_bits - pixel_bits>>(pair >> pixel_bits);
        const int_t<distance> low = low_bits<pixel_bits>(pair);
        const operand_t raised = shifted_left<operand_bits>(high, static_cast<uint_t<5>>(distance));
        return static_cast<operand_t>(raised | static_cast<operand_t>(static_cast<uint_t<distance>>(low)));
    }
};

}  // namespace bfpga
