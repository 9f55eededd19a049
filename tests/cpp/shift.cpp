// shift_multiplier.hpp and shift_unit.hpp: every format of a list, by its number. The test asks each for its
// parameters, so that the list is here alone. Functions return 0, or 1 if there is no format of that number.
#include <cstdint>

#include "bfpga/array/shift_unit.hpp"

namespace {

using bfpga::ShiftDefaults;
using bfpga::ShiftModes;
using bfpga::ShiftRouting;
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
struct Unsigned : ShiftDefaults {
    static constexpr bool x_signed = false;
    static constexpr ZeroCode zero_code = ZeroCode::None;
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
struct PositiveWeights : ShiftDefaults {
    static constexpr bool weight_signed = false;
    static constexpr ZeroCode zero_code = ZeroCode::ExpMax;
};
struct PositiveFlag : ShiftDefaults {
    static constexpr int exp_width = 2;
    static constexpr bool weight_signed = false;
    static constexpr ZeroCode zero_code = ZeroCode::Flag;
};
struct ZeroEverywhere : ShiftDefaults {
    static constexpr ZeroScope zero_scope = ZeroScope::Both;
};
struct ZeroInPow2 : ShiftDefaults {
    static constexpr int d = 8;
    static constexpr ZeroScope zero_scope = ZeroScope::Pow2;
};
struct DistanceRegister : ShiftDefaults {
    static constexpr bool runtime_d = true;
    static constexpr int d = 15;
};
struct TwoHotOnly : ShiftDefaults {
    static constexpr ShiftModes modes = ShiftModes::TwoHot;
};
struct Pow2Only : ShiftDefaults {
    static constexpr ShiftModes modes = ShiftModes::Pow2;
};
struct ModeInWord : ShiftDefaults {
    static constexpr bool mode_in_word = true;
};
struct SecondDisabled : ShiftDefaults {
    static constexpr ShiftRouting routing = ShiftRouting::Disable;
};
struct Narrow : ShiftDefaults {
    static constexpr ZeroCode zero_code = ZeroCode::None;
    static constexpr int accumulator_bits = 23;
};
struct TooNarrow : ShiftDefaults {
    static constexpr ZeroCode zero_code = ZeroCode::None;
    static constexpr int accumulator_bits = 22;
};
struct NarrowerThanProducts : ShiftDefaults {
    static constexpr int d = 4;
    static constexpr int accumulator_bits = 9;
};
struct Widest : ShiftDefaults {
    static constexpr int x_width = 16;
    static constexpr bool x_signed = false;
    static constexpr int exp_width = 4;
    static constexpr int d = 15;
    static constexpr int base_log2 = 2;
    static constexpr ZeroCode zero_code = ZeroCode::Flag;
    static constexpr bool mode_in_word = true;
    static constexpr int accumulator_bits = 63;
};
struct Narrowest : ShiftDefaults {
    static constexpr int x_width = 2;
    static constexpr int exp_width = 1;
};

// Sums of 33 bits, and products of 32 bits whose negation takes 33: more than a native integer of the width before.
struct WideSum : ShiftDefaults {
    static constexpr int x_width = 16;
    static constexpr int exp_width = 4;
    static constexpr int d = 1;
    static constexpr ZeroCode zero_code = ZeroCode::Flag;
    static constexpr int accumulator_bits = 43;
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
using All = List<Swept, FourBitWord, FarTerm, Unsigned, BaseFour, AbsoluteSigns, AbsoluteNative, PositiveWeights,
                 PositiveFlag, ZeroEverywhere, ZeroInPow2, DistanceRegister, TwoHotOnly, Pow2Only, ModeInWord,
                 SecondDisabled, Narrow, TooNarrow, NarrowerThanProducts, Widest, Narrowest, WideSum, WideProduct>;

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
                                  Format::x_signed,
                                  Format::exp_width,
                                  Format::d,
                                  Format::base_log2,
                                  static_cast<int32_t>(Format::zero_code),
                                  static_cast<int32_t>(Format::sign_mode),
                                  Format::weight_signed,
                                  static_cast<int32_t>(Format::zero_scope),
                                  static_cast<int32_t>(Format::modes),
                                  Format::runtime_d,
                                  Format::mode_in_word,
                                  Format::accumulator_bits,
                                  Types::word_bits,
                                  Types::term_bits,
                                  Types::sum_bits};
        int32_t* out = value;
        for (const int32_t number : values) {
            *out++ = number;
        }
    }
};

// Activations x words, both as int32, without a mode bit in the word; five results of each: A, B, C and the two signed
// products.
struct Products {
    int pow2;
    int distance;
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
                    Multiplier::multiply(static_cast<typename Types::x_t>(x[i]), held, pow2 != 0,
                                         static_cast<typename Types::distance_t>(distance));
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

// A sequence through the pipeline, and three clocks without a beat. After each clock: q0, q1 and their sum.
struct Sequence {
    int count;
    const int32_t* pow2;
    const int32_t* distance;
    const int32_t* clear;
    const int32_t* x;
    const int32_t* word;
    int64_t initial;
    int64_t* result;

    template <class Format>
    void apply() const {
        using Unit = bfpga::ShiftUnit<Format>;
        using Types = typename Unit::Types;
        const typename Unit::accumulator_t start = static_cast<typename Unit::accumulator_t>(initial);
        Unit unit;
        unit.reset(start);
        for (int n = 0; n < count + Unit::latency; ++n) {
            typename Unit::Beat beat = typename Unit::Beat();
            if (n < count) {
                beat.valid = true;
                beat.pow2 = pow2[n] != 0;
                beat.clear = clear[n] != 0;
                beat.d = static_cast<typename Types::distance_t>(distance[n]);
                beat.x = static_cast<typename Types::x_t>(x[n]);
                beat.word = static_cast<typename Types::word_t>(word[n]);
            }
            unit.clock(beat, start);
            result[3 * n] = static_cast<int64_t>(unit.accumulators().q0);
            result[3 * n + 1] = static_cast<int64_t>(unit.accumulators().q1);
            result[3 * n + 2] = static_cast<int64_t>(unit.accumulators().final_sum());
        }
    }
};

}  // namespace

extern "C" {

int unit_shift_format(int number, int32_t* parameters) { return with_format(number, Parameters{parameters}); }

int unit_shift_products(int number, int pow2, int distance, int x_count, const int32_t* x, int word_count,
                        const int32_t* word, int64_t* result) {
    return with_format(number, Products{pow2, distance, x_count, x, word_count, word, result});
}

int unit_shift_sequence(int number, int count, const int32_t* pow2, const int32_t* distance, const int32_t* clear,
                        const int32_t* x, const int32_t* word, int64_t initial, int64_t* result) {
    return with_format(number, Sequence{count, pow2, distance, clear, x, word, initial, result});
}

}  // extern "C"
