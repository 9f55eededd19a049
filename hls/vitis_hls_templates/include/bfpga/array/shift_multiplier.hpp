// Products by shifts: weights that are powers of two or sums of two, without a multiplier (SM 2, 3).
//
// A weight word holds two fields of a sign and an exponent, field 2 above field 1. The mode bit selects two
// power-of-two weights (A = x << e2 for accumulator 0, C = x << e1 for accumulator 1) or one two-hot weight (B = A plus
// or minus C << d, for accumulator 0). Shifters and adders only: a DSP slice could take no more than the adders, which
// are bound to logic.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Which field means zero: none, the one of -1, those of the largest power, or a bit of its own on top.
enum class ZeroCode { None, NegMin, ExpMax, Flag };
// Where the zero code holds. Auto: always in power-of-two mode, in two-hot mode where no two terms cancel.
enum class ZeroScope { Auto, Both, Pow2 };
// Whether s1 is the sign of term 1 relative to term 2, or its own.
enum class SignMode { Relative, Absolute };
// The modes that are built.
enum class ShiftModes { Both, TwoHot, Pow2 };
// Accumulator 1 in two-hot mode: it adds the zero of multiplexer 1, or the mode bit disables it.
enum class ShiftRouting { Select, Disable };

// The mode bit.
constexpr bool kModeTwoHot = false;
constexpr bool kModePow2 = true;

// The parameters of a unit; a build derives from it and overrides what differs.
struct ShiftDefaults {
    static constexpr int x_width = 8;
    static constexpr bool x_signed = true;
    static constexpr int exp_width = 3;
    static constexpr int d = 0;               // shift of term 1
    static constexpr bool runtime_d = false;  // `d` is then the largest
    static constexpr int base_log2 = 1;
    static constexpr ZeroCode zero_code = ZeroCode::NegMin;
    static constexpr ZeroScope zero_scope = ZeroScope::Auto;
    static constexpr SignMode sign_mode = SignMode::Relative;
    static constexpr bool weight_signed = true;
    static constexpr ShiftModes modes = ShiftModes::Both;
    static constexpr bool mode_in_word = false;  // the mode is the top bit of every word
    static constexpr ShiftRouting routing = ShiftRouting::Select;
    static constexpr int accumulator_bits = 32;
};

// Widths and types of a unit.
template <class Format>
struct ShiftTypes {
    static_assert(Format::x_width >= 2 && Format::x_width <= 16, "activations have 2 to 16 bits");
    static_assert(Format::exp_width >= 1 && Format::exp_width <= 4, "exponents have 1 to 4 bits");
    static_assert(Format::d >= 0 && Format::d <= 15, "term 1 is shifted by 0 to 15 places");
    static_assert(Format::base_log2 == 1 || Format::base_log2 == 2, "the base of the exponents is 2 or 4");
    static_assert(Format::weight_signed || Format::zero_code != ZeroCode::NegMin,
                  "the field of -1 cannot mean zero in a build without sign bits");
    static_assert(Format::accumulator_bits >= 2 && Format::accumulator_bits <= 63, "accumulators have 2 to 63 bits");

    static constexpr int exp_max = (1 << Format::exp_width) - 1;
    static constexpr int flag_position = Format::exp_width + (Format::weight_signed ? 1 : 0);
    static constexpr int field_bits = flag_position + (Format::zero_code == ZeroCode::Flag ? 1 : 0);
    static constexpr int fields_bits = 2 * field_bits;
    static constexpr int word_bits = fields_bits + (Format::mode_in_word ? 1 : 0);
    // An unsigned activation takes a sign bit.
    static constexpr int operand_bits = Format::x_width + (Format::x_signed ? 0 : 1);
    static constexpr int term_bits = operand_bits + exp_max * Format::base_log2;
    static constexpr int raised_bits = term_bits + Format::d;
    static constexpr int sum_bits = raised_bits + 1;
    static constexpr int product_bits = Format::modes == ShiftModes::Pow2 ? term_bits : sum_bits;

    using x_t = typename std::conditional<Format::x_signed, int_t<Format::x_width>, uint_t<Format::x_width>>::type;
    using word_t = uint_t<word_bits>;
    using exponent_t = uint_t<Format::exp_width>;
    using distance_t = uint_t<4>;
    using operand_t = int_t<operand_bits>;
    using term_t = int_t<term_bits>;
    using raised_t = int_t<raised_bits>;
    using sum_t = int_t<sum_bits>;
    using product_t = int_t<product_bits>;
    using accumulator_t = int_t<Format::accumulator_bits>;
};

// value, or its bits inverted: value negated is that plus one. One carry chain adds or subtracts.
template <int N>
inline int_t<N> inverted_if(bool condition, int_t<N> value) {
#pragma HLS INLINE
    const int_t<N> mask = condition ? -1 : 0;
    return static_cast<int_t<N>>(value ^ mask);
}

// One half of a weight word.
template <class Format>
struct ShiftField {
    using Types = ShiftTypes<Format>;

    bool negative;
    bool zero_code;  // it is the zero code, whether this holds in the mode or not
    typename Types::exponent_t exponent;

    static ShiftField from(typename Types::word_t word, int position) {
#pragma HLS INLINE
        ShiftField field;
        field.exponent = static_cast<typename Types::exponent_t>((word >> position) & Types::exp_max);
        field.negative = Format::weight_signed && bit(word, position + Format::exp_width);
        field.zero_code = Format::zero_code == ZeroCode::NegMin   ? field.negative && field.exponent == 0
                          : Format::zero_code == ZeroCode::ExpMax ? field.exponent == Types::exp_max
                          : Format::zero_code == ZeroCode::Flag   ? bit(word, position + Types::flag_position)
                                                                  : false;
        return field;
    }

    static bool bit(typename Types::word_t word, int position) {
#pragma HLS INLINE
        return ((word >> position) & 1) != 0;
    }
};

// The combinational part: from the weight register to the product registers (SM R7 to R14).
template <class Format>
struct ShiftMultiplier {
    using Types = ShiftTypes<Format>;
    using Field = ShiftField<Format>;
    using term_t = typename Types::term_t;
    using x_t = typename Types::x_t;

    // A of shifter 2, C of shifter 1, B of the adder, and the signs the accumulators apply.
    struct Terms {
        term_t a;
        typename Types::sum_t b;
        term_t c;
        bool s1;
        bool s2;
    };

    // The mode of a word: its own top bit, the register, or the only one that is built.
    static bool mode_of(typename Types::word_t word, bool mode_register) {
#pragma HLS INLINE
        return Format::modes == ShiftModes::Pow2     ? kModePow2
               : Format::modes == ShiftModes::TwoHot ? kModeTwoHot
               : Format::mode_in_word                ? Field::bit(word, Types::fields_bits)
                                                     : mode_register;
    }

    // Whether the zero code means zero. Without signs no two terms cancel, so there it always does.
    static bool zero_holds(bool pow2, typename Types::distance_t d) {
#pragma HLS INLINE
        const bool no_native_zero = !Format::weight_signed || d > Types::exp_max;
        return pow2 || Format::zero_scope == ZeroScope::Both ||
               (Format::zero_scope == ZeroScope::Auto && no_native_zero);
    }

    // x << exponent. A zero is gated before the shifter, where the operand is narrow. `<<` on the widened operand with
    // an unsigned amount is the form that becomes one barrel of multiplexers.
    static term_t shift(x_t x, const Field& field, bool zero_active) {
#pragma HLS INLINE
        using amount_t = uint_t<Format::exp_width + Format::base_log2 - 1>;
        const bool zero = zero_active && field.zero_code;
        const typename Types::operand_t operand =
            zero ? static_cast<typename Types::operand_t>(0) : static_cast<typename Types::operand_t>(x);
        const amount_t amount = static_cast<amount_t>(static_cast<amount_t>(field.exponent) << (Format::base_log2 - 1));
        return shifted_left<Types::term_bits>(operand, amount);
    }

    // `d`: the register of a build with `runtime_d`, up to its `d`; otherwise unused.
    static Terms multiply(x_t x, typename Types::word_t word, bool pow2, typename Types::distance_t d) {
#pragma HLS INLINE
        // A constant distance is wiring; from a register it is a third barrel.
        const typename Types::distance_t distance =
            Format::runtime_d ? d : static_cast<typename Types::distance_t>(Format::d);
        const Field field1 = Field::from(word, 0);
        const Field field2 = Field::from(word, Types::field_bits);
        const bool zero_active = zero_holds(pow2, distance);
        Terms terms;
        terms.s1 = field1.negative;
        terms.s2 = field2.negative;
        terms.c = shift(x, field1, zero_active);
        terms.a = shift(x, field2, zero_active);
        const typename Types::raised_t raised = shifted_left<Types::raised_bits>(terms.c, distance);
        const bool subtract = Format::sign_mode == SignMode::Absolute ? terms.s1 != terms.s2 : terms.s1;
        const typename Types::raised_t addend = inverted_if<Types::raised_bits>(subtract, raised);
        // A sum is a bit wider than its terms, which native integers of 32 bits would cut.
        using wide_t = factor_t<Types::sum_bits, Types::term_bits>;
        const typename Types::sum_t sum =
            static_cast<typename Types::sum_t>(static_cast<wide_t>(terms.a) + addend + (subtract ? 1 : 0));
// Logic, not a slice: the DSP slices are for the columns that multiply with them.
#pragma HLS BIND_OP variable=sum op=add impl=fabric
        terms.b = sum;
        return terms;
    }
};

// Product and sign registers, with the mode the beat was accepted in (SM R17, R18, R22, R30).
template <class Format>
struct ShiftProducts {
    using Types = ShiftTypes<Format>;

    typename Types::product_t product0;
    typename Types::term_t product1;
    bool s2;
    bool s1;
    bool pow2;
    bool clear;

    static ShiftProducts route(const typename ShiftMultiplier<Format>::Terms& terms, bool pow2, bool clear) {
#pragma HLS INLINE
        const bool second = Format::routing == ShiftRouting::Disable || pow2;
        ShiftProducts products;
        products.product0 =
            pow2 ? static_cast<typename Types::product_t>(terms.a) : static_cast<typename Types::product_t>(terms.b);
        products.product1 = second ? terms.c : static_cast<typename Types::term_t>(0);
        products.s2 = terms.s2;
        products.s1 = terms.s1;
        products.pow2 = pow2;
        products.clear = clear;
        return products;
    }

    // Results of a unit without accumulators, with their signs (SM R21).
    int_t<Types::product_bits + 1> signed0() const {
#pragma HLS INLINE
        return negated<Types::product_bits>(s2, product0);
    }

    int_t<Types::term_bits + 1> signed1() const {
#pragma HLS INLINE
        return pow2 ? negated<Types::term_bits>(s1, product1) : static_cast<int_t<Types::term_bits + 1>>(0);
    }

    template <int N>
    static int_t<N + 1> negated(bool negative, int_t<N> value) {
#pragma HLS INLINE
        using wide_t = factor_t<N + 1, N>;
        return static_cast<int_t<N + 1>>(static_cast<wide_t>(inverted_if<N>(negative, value)) + (negative ? 1 : 0));
    }
};

}  // namespace bfpga
