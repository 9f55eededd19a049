// The arithmetic of a column: a first product, what is summed or kept of it, a second product.
#pragma once
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/processes/rows/beats.hpp"

namespace bfpga {

struct RowColumn {
    using N = RowNumbers;
    using T = RowTypes;
    // reference - x
    using difference_t = int_t<N::mantissa_bits + 2>;
    using power_t = uint_t<N::sum_fraction>;
    using result_t = int_t<N::result_bits>;

    // A mantissa as the scale of a product of two, which then is a normalized number; a gain of minus one.
    static T::scale_t lifted(T::mantissa_t x) {
#pragma HLS INLINE
        return shifted_left<N::scale_bits + 1>(x, static_cast<amount_t>(N::position - N::normal_fraction));
    }

    static T::gain_t minus_one() { return static_cast<T::gain_t>(-(1 << N::dropped)); }

    // (reference - x) * scale + offset
    static T::first_t first(T::mantissa_t reference, T::mantissa_t x, T::scale_t scale, T::first_t offset) {
#pragma HLS INLINE
        const difference_t difference =
            static_cast<difference_t>(static_cast<difference_t>(reference) - static_cast<difference_t>(x));
        const T::first_t product =
            static_cast<T::first_t>(static_cast<factor_t<T::first_bits, N::mantissa_bits + 2>>(difference) * scale);
        return static_cast<T::first_t>(product + offset);
    }

    // 2**-p of a first product from 0 on
    static power_t power(T::first_t p) {
#pragma HLS INLINE
        constexpr int mask = (1 << N::power_index) - 1;
        const int index = static_cast<int>((p >> (N::position - N::power_index)) & mask);
        // Of more bits than the largest amount, so that a shift by any has a meaning; from 32 on nothing is left.
        using wide_t = uint_t<32>;
        const wide_t point =
            static_cast<wide_t>(static_cast<wide_t>(row_power_table[index]) << (N::sum_fraction - N::power_bits));
        const amount_t amount = static_cast<amount_t>((p >> N::position) & 31);
        const bool nothing = (p >> (N::position + 5)) != 0;
        return nothing ? static_cast<power_t>(0) : static_cast<power_t>(point >> amount);
    }

    // The first product with the fraction bits of a normalized number.
    static T::second_t normal(T::first_t p) {
#pragma HLS INLINE
        return low_bits<T::factor_bits>(p >> (N::position - N::normal_fraction));
    }

    // The exponential as a factor of the second product.
    static T::gain_t kept(power_t power) {
#pragma HLS INLINE
        return static_cast<T::gain_t>(power >> (N::sum_fraction - N::kept_fraction));
    }

    static result_t second(T::second_t factor, T::gain_t gain) {
#pragma HLS INLINE
        constexpr int bits = T::factor_bits + N::gain_bits;
        using product_t = int_t<bits>;
        const product_t product = static_cast<product_t>(static_cast<factor_t<bits, T::factor_bits>>(factor) * gain);
        return low_bits<N::result_bits>(product >> N::dropped);
    }

    // What a sum has more than it had before, modulo its width.
    template <int Bits>
    static int_t<Bits> difference(int_t<Bits> now, int32_t before) {
#pragma HLS INLINE
        return low_bits<Bits>(
            static_cast<int_t<Bits + 1>>(static_cast<int_t<Bits + 1>>(now) - static_cast<int_t<Bits + 1>>(before)));
    }

    // A sum with a term more, modulo its width.
    template <int Bits, class Term>
    static int_t<Bits> sum(int_t<Bits> before, Term term) {
#pragma HLS INLINE
        return low_bits<Bits>(static_cast<int_t<Bits + 1>>(static_cast<int_t<Bits + 1>>(before) + term));
    }
};

}  // namespace bfpga
