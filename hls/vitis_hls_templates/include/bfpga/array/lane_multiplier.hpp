// The multipliers in the lanes of the sparse engines, selected by a tag: one coefficient times the values of all lanes.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Two pixels share a slice: (x1 << 16) + x0 fits the 25 bits of a DSP48E1 for all of int8, and the coefficient is
// common to both. The low field holds one product exactly; when it is negative it has borrowed one from the high field.
struct PixelPair {
    static constexpr int distance = 16;
    static constexpr int operand_bits = 25;
    static constexpr int product_bits = operand_bits + 8;

    static int_t<operand_bits> operand(int_t<8> high, int_t<8> low) {
#pragma HLS INLINE
        const int_t<operand_bits> raised = shifted_left<operand_bits>(high, static_cast<uint_t<5>>(distance));
        return static_cast<int_t<operand_bits>>(raised + low);
    }

    static int_t<product_bits> multiply(int_t<operand_bits> pixels, int_t<8> coefficient) {
#pragma HLS INLINE
        const int_t<product_bits> product = static_cast<factor_t<product_bits, operand_bits>>(pixels) * coefficient;
#pragma HLS BIND_OP variable=product op=mul impl=dsp latency=3
        return product;
    }

    static int_t<16> low(int_t<product_bits> product) {
#pragma HLS INLINE
        return low_bits<distance>(product);
    }

    static int_t<16> high(int_t<product_bits> product) {
#pragma HLS INLINE
        return static_cast<int_t<16>>((product >> distance) + (low(product) < 0 ? 1 : 0));
    }
};

// One product in a slice.
struct LaneDsp {
    template <int OB, int CB, int N>
    static void multiply(const int_t<OB> (&x)[N], int_t<CB> coefficient, int_t<OB + CB> (&result)[N]) {
#pragma HLS INLINE
    Lanes_Multiply:
        for (int l = 0; l < N; ++l) {
#pragma HLS UNROLL
            const int_t<OB + CB> product = static_cast<factor_t<OB + CB, OB>>(x[l]) * coefficient;
#pragma HLS BIND_OP variable=product op=mul impl=dsp latency=3
            result[l] = product;
        }
    }
};

// One product in logic.
struct LaneLut {
    template <int OB, int CB, int N>
    static void multiply(const int_t<OB> (&x)[N], int_t<CB> coefficient, int_t<OB + CB> (&result)[N]) {
#pragma HLS INLINE
    Lanes_Multiply:
        for (int l = 0; l < N; ++l) {
#pragma HLS UNROLL
            const int_t<OB + CB> product = static_cast<factor_t<OB + CB, OB>>(x[l]) * coefficient;
#pragma HLS BIND_OP variable=product op=mul impl=fabric latency=2
            result[l] = product;
        }
    }
};

// Two products in a slice; a last lane without a partner has one alone.
struct LaneDspPacked {
    template <int OB, int CB, int N>
    static void multiply(const int_t<OB> (&x)[N], int_t<CB> coefficient, int_t<OB + CB> (&result)[N]) {
#pragma HLS INLINE
        static_assert(OB <= 8 && CB <= 8, "two pixels share a slice only if the numbers have 8 bits at most");
    Pairs_Multiply:
        for (int l = 0; l < N; l += 2) {
#pragma HLS UNROLL
            const bool pair = l + 1 < N;
            const int_t<8> upper = pair ? static_cast<int_t<8>>(x[pair ? l + 1 : l]) : static_cast<int_t<8>>(0);
            const int_t<PixelPair::product_bits> both =
                PixelPair::multiply(PixelPair::operand(upper, x[l]), coefficient);
            result[l] = static_cast<int_t<OB + CB>>(PixelPair::low(both));
            if (pair) {
                result[pair ? l + 1 : l] = static_cast<int_t<OB + CB>>(PixelPair::high(both));
            }
        }
    }
};

}  // namespace bfpga
