// Products by shifting: an activation with a word of two signed powers of two (SM 2.2 to 2.4, R7 to R14).
#pragma once
#include "bfpga/types.hpp"

namespace bfpga {

// Which field means zero (SM 2.4).
enum class ZeroCode { NegMin, ExpMax, Flag };

template <class Config>
struct ShiftMultiplier {
    static constexpr int exp_width = Config::shift_exp_width;
    static constexpr int exp_max = (1 << exp_width) - 1;
    static constexpr int field_bits = exp_width + 1 + (Config::shift_zero_code == ZeroCode::Flag ? 1 : 0);
    static constexpr int places = exp_max * Config::shift_base_log2;
    static constexpr int distance = Config::shift_distance;
    static constexpr int term_bits = Config::mantissa_bits + places;
    static constexpr int product_bits = term_bits + distance + 2;
    static_assert(Config::weight_bits >= 2 * field_bits, "a weight holds two fields");

    using x_t = int_t<Config::mantissa_bits>;
    using term_t = int_t<term_bits>;
    using product_t = int_t<product_bits>;

    struct Field {
        uint_t<exp_width + 1> places;
        bool negative;
        bool zero;
    };

    // Field 2 is the high half.
    struct Word {
        Field second;
        Field first;
    };

    // Sum for the first row; and, with two powers of two, for the second one.
    struct Products {
        product_t first;
        product_t second;
    };

    template <class Weight>
    static Word split(const Weight& weight) {
#pragma HLS INLINE
        const uint_t<32> bits = static_cast<uint_t<32>>(weight);
        Word word;
        word.second = field(static_cast<uint_t<16>>((bits >> field_bits) & field_mask));
        word.first = field(static_cast<uint_t<16>>(bits & field_mask));
        return word;
    }

    // R7 to R14: the shift amounts never see the distance, a gated field gives zero.
    static Products multiply(const x_t& x, const Word& word, bool power_of_two) {
#pragma HLS INLINE
        const bool gated = power_of_two || Config::shift_zero_in_two_hot;
        const term_t a = term(x, word.second, gated);
        const term_t c = term(x, word.first, gated);
        Products products;
        if (power_of_two) {
            products.first = signed_term(a, word.second.negative);
            products.second = signed_term(c, word.first.negative);
            return products;
        }
        const bool subtract = Config::shift_absolute_signs ? word.first.negative != word.second.negative
                                                           : word.first.negative;
        const product_t raised = shifted_left<product_bits>(c, static_cast<uint_t<5>>(distance));
        const product_t sum = static_cast<product_t>(subtract ? a - raised : a + raised);
        products.first = word.second.negative ? static_cast<product_t>(-sum) : sum;
        products.second = 0;
        return products;
    }

   private:
    static constexpr int field_mask = (1 << field_bits) - 1;

    static Field field(uint_t<16> bits) {
#pragma HLS INLINE
        Field result;
        const int exponent = static_cast<int>(bits) & exp_max;
        result.places = static_cast<uint_t<exp_width + 1>>(exponent * Config::shift_base_log2);
        result.negative = (static_cast<int>(bits) >> exp_width & 1) != 0;
        result.zero = Config::shift_zero_code == ZeroCode::NegMin   ? result.negative && exponent == 0
                      : Config::shift_zero_code == ZeroCode::ExpMax ? exponent == exp_max
                                                                    : (static_cast<int>(bits) >> (exp_width + 1)) != 0;
        return result;
    }

    static term_t term(const x_t& x, const Field& field, bool gated) {
#pragma HLS INLINE
        return gated && field.zero ? static_cast<term_t>(0) : shifted_left<term_bits>(x, field.places);
    }

    static product_t signed_term(const term_t& term, bool negative) {
#pragma HLS INLINE
        return negative ? static_cast<product_t>(-static_cast<product_t>(term)) : static_cast<product_t>(term);
    }
};

}  // namespace bfpga
