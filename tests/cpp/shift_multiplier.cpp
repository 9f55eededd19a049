// shift_multiplier.hpp: every format of a list, by its number. The test asks each for its parameters, so that the list
// is here alone. Functions return 0, or 1 if there is no format of that number.
#include <cstdint>

#include "bfpga/array/shift_multiplier.hpp"

namespace {

using bfpga::ShiftDefaults;
using bfpga::ShiftModes;
using bfpga::SignMode;
using bfpga::ZeroCode;
using bfpga::ZeroScope;

// All words times all activations of 8 bits are compared for these.
template <int EW, int D, ZeroCode ZERO>
struct Exhaustive : ShiftDefaults {
    static constexpr int exp_width = EW;
    static constexpr int d = D;
    static constexpr ZeroCode zero_code = ZERO;
};

struct FourBitWord : ShiftDefaults {
    static constexpr int exp_width = 1;
    static constexpr int d = 2;
    static constexpr ZeroCode zero_code = ZeroCode::None;
};
struct FarTerm : ShiftDefaults {
    static constexpr int d = 8;
};
struct BaseFour : ShiftDefaults {
    static constexpr int exp_width = 2;
    static constexpr int base_log2 = 2;
    static constexpr ZeroCode zero_code = ZeroCode::None;
};
struct AbsoluteSigns : ShiftDefaults {
    static constexpr int d = 9;
    static constexpr SignMode sign_mode = SignMode::Absolute;
};
struct AbsoluteNative : ShiftDefaults {
    static constexpr SignMode sign_mode = SignMode::Absolute;
};
struct ZeroEverywhere : ShiftDefaults {
    static constexpr ZeroScope zero_scope = ZeroScope::Both;
};
struct ZeroInPow2 : ShiftDefaults {
    static constexpr int d = 8;
    static constexpr ZeroScope zero_scope = ZeroScope::Pow2;
};
struct TwoHotOnly : ShiftDefaults {
    static constexpr ShiftModes modes = ShiftModes::TwoHot;
};

// Sums of 33 bits, and products of 32 bits whose negation takes 33: more than a native integer of the width before.
struct WideSum : ShiftDefaults {
    static constexpr int x_width = 16;
    static constexpr int exp_width = 4;
    static constexpr int d = 1;
    static constexpr ZeroCode zero_code = ZeroCode::Flag;
};
struct WideProduct : WideSum {
    static constexpr int d = 0;
};

template <class... Formats>
struct List {};

template <int EW, int D>
using ZeroCodes = List<Exhaustive<EW, D, ZeroCode::None>, Exhaustive<EW, D, ZeroCode::NegMin>,
                       Exhaustive<EW, D, ZeroCode::ExpMax>, Exhaustive<EW, D, ZeroCode::Flag>>;
#ifdef BFPGA_NATIVE_INTEGERS
template <int EW>
using Distances = List<ZeroCodes<EW, 0>, ZeroCodes<EW, 1>, ZeroCodes<EW, 4>>;
using Swept = List<Distances<1>, Distances<2>, Distances<3>, Distances<4>>;
#else
// ap_int adds the widths, which come from exponents and distances; its compilation takes many times as long.
template <int EW>
using Distances =
    List<Exhaustive<EW, 0, ZeroCode::None>, Exhaustive<EW, 1, ZeroCode::None>, Exhaustive<EW, 4, ZeroCode::None>>;
using Swept = List<Distances<1>, Distances<2>, Distances<3>, Distances<4>, Exhaustive<3, 0, ZeroCode::NegMin>,
                   Exhaustive<3, 0, ZeroCode::ExpMax>, Exhaustive<3, 0, ZeroCode::Flag>>;
#endif
using All = List<Swept, FourBitWord, FarTerm, BaseFour, AbsoluteSigns, AbsoluteNative, ZeroEverywhere, ZeroInPow2,
                 TwoHotOnly, WideSum, WideProduct>;

// Calls `action` for the format of a number; counts the number down along the list.
template <class Action, class Format>
void visit(int& number, const Action& action, const Format*) {
    if (number-- == 0) {
        action.template apply<Format>();
    }
}

template <class Action, class... Formats>
void visit(int& number, const Action& action, const List<Formats...>*) {
    const int expand[] = {(visit(number, action, static_cast<const Formats*>(nullptr)), 0)...};
    static_cast<void>(expand);
}

template <class Action>
int with_format(int number, const Action& action) {
    if (number < 0) {
        return 1;
    }
    visit(number, action, static_cast<const All*>(nullptr));
    return number < 0 ? 0 : 1;
}

struct Parameters {
    int32_t* value;

    template <class Format>
    void apply() const {
        using Types = bfpga::ShiftTypes<Format>;
        const int32_t values[] = {Format::x_width,
                                  Format::exp_width,
                                  Format::d,
                                  Format::base_log2,
                                  static_cast<int32_t>(Format::zero_code),
                                  static_cast<int32_t>(Format::sign_mode),
                                  static_cast<int32_t>(Format::zero_scope),
                                  static_cast<int32_t>(Format::modes),
                                  Types::word_bits,
                                  Types::term_bits,
                                  Types::sum_bits};
        int32_t* out = value;
        for (const int32_t number : values) {
            *out++ = number;
        }
    }
};

// Activations x words, both as int32; five results of each: A, B, C and the two signed
// products.
struct Products {
    int pow2;
    int x_count;
    const int32_t* x;
    int word_count;
    const int32_t* word;
    int64_t* result;

    template <class Format>
    void apply() const {
        using Multiplier = bfpga::ShiftMultiplier<Format>;
        using Types = bfpga::ShiftTypes<Format>;
        int64_t* out = result;
        for (int i = 0; i < x_count; ++i) {
            for (int j = 0; j < word_count; ++j, out += 5) {
                const typename Types::word_t held = static_cast<typename Types::word_t>(word[j]);
                const typename Multiplier::Terms terms =
                    Multiplier::multiply(static_cast<typename Types::x_t>(x[i]), held, pow2 != 0, 0);
                const auto routed = bfpga::ShiftProducts<Format>::route(terms, pow2 != 0, false);
                out[0] = static_cast<int64_t>(terms.a);
                out[1] = static_cast<int64_t>(terms.b);
                out[2] = static_cast<int64_t>(terms.c);
                out[3] = static_cast<int64_t>(routed.signed0());
                out[4] = static_cast<int64_t>(routed.signed1());
            }
        }
    }
};

}  // namespace

extern "C" {

int unit_shift_format(int number, int32_t* parameters) { return with_format(number, Parameters{parameters}); }

int unit_shift_products(int number, int pow2, int x_count, const int32_t* x, int word_count, const int32_t* word,
                        int64_t* result) {
    return with_format(number, Products{pow2, x_count, x, word_count, word, result});
}

}  // extern "C"
