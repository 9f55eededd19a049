// Shift, round, saturate, leading one, square root: the arithmetic every output stage shares (BFP R9, R16, R22, R27).
//
// Each function is exact for every argument. Shift amounts are unsigned with a separate direction (a signed amount
// costs two barrels), and rounding uses a guard and a sticky bit. Where a machine has an instruction for what hardware
// does in stages, there are two forms, `Staged...` and `Machine...`; a native build takes the second.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

enum class Rounding { Trunc, Tozero, HalfUp, HalfAway, Rne };
enum class Saturation { Sym, Full, Wrap };
enum class LogMode { Floor, Ceil };

// Holds exponents, their sums and differences: stream headers and descriptors give exponents of 17 bits at most.
constexpr int kExponentBits = 20;
using exponent_t = int_t<kExponentBits>;
// A shift amount: values have 62 bits at most, so 63 shifts everything out.
using amount_t = uint_t<6>;

// The floor of value / 2**amount and the bits that decide its rounding: `guard` has half the weight of the unit,
// `sticky` is set if any lower bit is.
template <int N>
struct Shifted {
    int_t<N> floor;
    bool guard;
    bool sticky;
};

// The lowest K bits of the floor; `wide`: the bits from the highest of them on are more than a sign.
template <int K>
struct ShiftedField {
    int_t<K> floor;
    bool guard;
    bool sticky;
    bool wide;
};

// One multiplexer for each bit of the amount: a third of the logic of a barrel on twice the width. `LIMIT`: the largest
// amount; smaller ones have fewer bits.
struct StagedShift {
    template <int N, int LIMIT = 63>
    static Shifted<N> right(int_t<N> value, amount_t amount) {
#pragma HLS INLINE
        using wide_t = int_t<N + 1>;
        constexpr int last_stage = bit_length(LIMIT) - 1;
        wide_t shifted = shifted_left<N + 1>(value, static_cast<amount_t>(1));
        bool sticky = false;
    Stages_Shift:
        for (int stage = last_stage; stage >= 0; --stage) {
#pragma HLS UNROLL
            // A stage that shifts by more than the width loses every bit and leaves the sign.
            const int lost = (1 << stage) < N + 1 ? (1 << stage) : N + 1;
            const int moved = lost < N + 1 ? lost : N;
            const wide_t mask = static_cast<wide_t>((static_cast<uint64_t>(1) << lost) - 1);
            if (((amount >> stage) & 1) != 0) {
                sticky = sticky || (shifted & mask) != 0;
                shifted = static_cast<wide_t>(shifted >> moved);
            }
        }
        Shifted<N> result = {static_cast<int_t<N>>(shifted >> 1), (shifted & 1) != 0, sticky};
        return result;
    }

    // Each stage tests the bits that later stages do not shift into the field, and drops them.
    template <int N, int K, int LIMIT>
    static ShiftedField<K> field(int_t<N> value, amount_t amount) {
#pragma HLS INLINE
        using wide_t = int_t<N + 1>;
        constexpr int last_stage = bit_length(LIMIT) - 1;
        const wide_t sign = value < 0 ? static_cast<wide_t>(-1) : static_cast<wide_t>(0);
        wide_t shifted = shifted_left<N + 1>(value, static_cast<amount_t>(1));
        bool sticky = false;
        bool wide = differs<N + 1>(shifted, sign, K + (2 << last_stage) - 1, N + 1);
    Stages_Field:
        for (int stage = last_stage; stage >= 0; --stage) {
#pragma HLS UNROLL
            const int lost = (1 << stage) < N + 1 ? (1 << stage) : N + 1;
            const int moved = lost < N + 1 ? lost : N;
            const wide_t mask = static_cast<wide_t>((static_cast<uint64_t>(1) << lost) - 1);
            if (((amount >> stage) & 1) != 0) {
                sticky = sticky || (shifted & mask) != 0;
                shifted = static_cast<wide_t>(shifted >> moved);
            }
            wide = wide || differs<N + 1>(shifted, sign, K + (1 << stage) - 1, K + (2 << stage) - 1);
        }
        ShiftedField<K> result = {low_bits<K>(shifted >> 1), (shifted & 1) != 0, sticky, wide};
        return result;
    }

   private:
    // Whether bits `from` to `to` - 1 differ from the sign.
    template <int N>
    static bool differs(int_t<N> value, int_t<N> sign, int from, int to) {
#pragma HLS INLINE
        const int end = to < N ? to : N;
        if (from >= end) {
            return false;
        }
        const uint64_t mask = ((static_cast<uint64_t>(1) << (end - from)) - 1) << from;
        return ((value ^ sign) & static_cast<int_t<N>>(mask)) != 0;
    }
};

struct MachineShift {
    template <int N, int LIMIT = 63>
    static Shifted<N> right(int_t<N> value, amount_t amount) {
        const uint64_t doubled = static_cast<uint64_t>(static_cast<int64_t>(value)) << 1;
        const int64_t shifted = static_cast<int64_t>(doubled) >> amount;
        const bool sticky = static_cast<uint64_t>(shifted) << amount != doubled;
        Shifted<N> result = {static_cast<int_t<N>>(shifted >> 1), (shifted & 1) != 0, sticky};
        return result;
    }

    template <int N, int K, int LIMIT>
    static ShiftedField<K> field(int_t<N> value, amount_t amount) {
        const Shifted<N> shifted = right<N, LIMIT>(value, amount);
        const int_t<N> rest = static_cast<int_t<N>>(shifted.floor >> (K - 1));
        const bool all_clear = rest == 0;
        const bool all_set = rest == -1;
        ShiftedField<K> result = {low_bits<K>(shifted.floor), shifted.guard, shifted.sticky, !(all_clear | all_set)};
        return result;
    }
};

using Shifter = std::conditional<native_integers, MachineShift, StagedShift>::type;

// Whether the rounded number is one above its floor. `odd`: of the floor.
template <Rounding R>
inline bool rounds_up(bool negative, bool odd, bool guard, bool sticky) {
#pragma HLS INLINE
    // Branch-free: a simulation would mispredict half of the branches.
    return R == Rounding::Rne        ? guard & (sticky | odd)
           : R == Rounding::HalfUp   ? guard
           : R == Rounding::HalfAway ? guard & (sticky | !negative)
           : R == Rounding::Tozero   ? negative & (guard | sticky)
                                     : false;
}

template <Rounding R, int N>
inline bool rounds_up(const Shifted<N>& shifted) {
#pragma HLS INLINE
    // The sign of the floor is the sign of the value.
    return rounds_up<R>(shifted.floor < 0, (shifted.floor & 1) != 0, shifted.guard, shifted.sticky);
}

// value / 2**amount, rounded. `LIMIT`: the largest amount.
template <Rounding R, int N, int LIMIT = 63>
inline int_t<N> round_right(int_t<N> value, amount_t amount) {
#pragma HLS INLINE
    static_assert(N >= 2 && N <= 62, "values of 2 to 62 bits are shifted");
    const Shifted<N> shifted = Shifter::right<N, LIMIT>(value, amount);
    return rounds_up<R, N>(shifted) ? static_cast<int_t<N>>(shifted.floor + 1) : shifted.floor;
}

// A difference of exponents as a shift: left or right, by `amount`.
struct Shift {
    bool left;
    amount_t amount;
};

// The shift by `distance`, right if positive. Beyond the limits nothing changes any more, so the amount stops there.
template <int RightLimit, int LeftLimit>
inline Shift limited_shift(exponent_t distance) {
#pragma HLS INLINE
    static_assert(RightLimit <= 63 && LeftLimit <= 63, "a shift amount has six bits");
    Shift shift;
    shift.left = distance < 0;
    if (shift.left) {
        shift.amount = distance < -LeftLimit ? static_cast<amount_t>(LeftLimit) : static_cast<amount_t>(-distance);
    } else {
        shift.amount = distance > RightLimit ? static_cast<amount_t>(RightLimit) : static_cast<amount_t>(distance);
    }
    return shift;
}

// A number in a range of N bits, and whether it was clamped.
template <int N>
struct Saturated {
    int_t<N> value;
    bool changed;
};

// How values of N bits are brought into the range that S makes of W bits: what all values that are shifted alike share.
template <Saturation S, int W, int N>
struct RangeShift {
    static_assert(N >= 2 && N <= 62, "values of 2 to 62 bits are shifted");
    static_assert(W >= 2 && W <= 62, "ranges have 2 to 62 bits");
    static constexpr int right_limit = N + 1;
    static constexpr int64_t largest = (static_cast<int64_t>(1) << (W - 1)) - 1;
    static constexpr int64_t lowest = S == Saturation::Sym ? largest : largest + 1;

    uint_t<bit_length(right_limit)> right;
    uint_t<bit_length(W)> left;
    // The range before the shift to the left
    int_t<W + 1> top, bottom;

    // By `distance`, to the right if positive. Exact for any distance.
    static RangeShift by(exponent_t distance) {
#pragma HLS INLINE
        const Shift shift = limited_shift<right_limit, W>(distance);
        RangeShift result;
        result.right =
            static_cast<uint_t<bit_length(right_limit)>>(shift.left ? static_cast<amount_t>(0) : shift.amount);
        result.left = static_cast<uint_t<bit_length(W)>>(shift.left ? shift.amount : static_cast<amount_t>(0));
        result.top = static_cast<int_t<W + 1>>(static_cast<int_t<W + 1>>(largest) >> result.left);
        result.bottom = static_cast<int_t<W + 1>>(-(static_cast<int_t<W + 1>>(lowest) >> result.left));
        return result;
    }
};

// value * 2**-distance, rounded, in the range that S makes of W bits; value has N bits.
//
// Only the bits that can matter are incremented and compared: the lowest W + 1 of the floor. Whether the others are
// more than a sign is known earlier.
template <Rounding R, Saturation S, int W, int N>
inline Saturated<W> shift_saturate(int_t<N> value, const RangeShift<S, W, N>& shift) {
#pragma HLS INLINE
    using Range = RangeShift<S, W, N>;
    constexpr int kept = N < W + 1 ? N : W + 1;
    const ShiftedField<kept> field =
        Shifter::field<N, kept, Range::right_limit>(value, static_cast<amount_t>(shift.right));
    const bool negative = value < 0;
    const bool up = rounds_up<R>(negative, (field.floor & 1) != 0, field.guard, field.sticky);
    const int_t<kept + 1> number = static_cast<int_t<kept + 1>>(field.floor + (up ? 1 : 0));

    const bool above = field.wide ? !negative : number > shift.top;
    const bool below = field.wide ? negative : number < shift.bottom;
    const int_t<W> moved = shifted_left<W>(number, shift.left);
    Saturated<W> result = {moved, above || below};
    if (S != Saturation::Wrap && above) {
        result.value = static_cast<int_t<W>>(Range::largest);
    } else if (S != Saturation::Wrap && below) {
        result.value = static_cast<int_t<W>>(-Range::lowest);
    }
    return result;
}

template <Rounding R, Saturation S, int W, int N>
inline Saturated<W> shift_saturate(int_t<N> value, exponent_t distance) {
#pragma HLS INLINE
    return shift_saturate<R, S, W, N>(value, RangeShift<S, W, N>::by(distance));
}

// A mantissa, with its clamping flags.
template <int MW>
struct Requantized {
    int_t<MW> mantissa;
    bool overflow;
    bool underflow;
};

// value * 2**-distance as a mantissa of MW bits (BFP R16, R17, R22).
template <int MW, Rounding R, Saturation S, int N>
inline Requantized<MW> requantize(int_t<N> value, const RangeShift<S, MW, N>& shift) {
#pragma HLS INLINE
    const Saturated<MW> saturated = shift_saturate<R, S, MW, N>(value, shift);
    const bool zero = saturated.value == 0;
    const bool was_zero = value == 0;
    const bool vanished = zero & !was_zero & !saturated.changed;
    Requantized<MW> result = {saturated.value, saturated.changed, vanished};
    return result;
}

template <int MW, Rounding R, Saturation S, int N>
inline Requantized<MW> requantize(int_t<N> value, exponent_t distance) {
#pragma HLS INLINE
    return requantize<MW, R, S, N>(value, RangeShift<S, MW, N>::by(distance));
}

// The group of eight bits that holds the leading one, then the bit in the group.
struct StagedLead {
    template <int N>
    static int position(uint_t<N> value) {
#pragma HLS INLINE
        constexpr int groups = (N + 7) / 8;
        int group = 0;
        uint_t<8> bits = static_cast<uint_t<8>>(value & 255);
    Groups_Lead:
        for (int candidate = 1; candidate < groups; ++candidate) {
#pragma HLS UNROLL
            const uint_t<8> part = static_cast<uint_t<8>>((value >> (8 * candidate)) & 255);
            if (part != 0) {
                group = candidate;
                bits = part;
            }
        }
        int position = 0;
    Bits_Lead:
        for (int bit = 1; bit < 8; ++bit) {
#pragma HLS UNROLL
            if (((bits >> bit) & 1) != 0) {
                position = bit;
            }
        }
        return 8 * group + position;
    }
};

struct MachineLead {
    template <int N>
    static int position(uint_t<N> value) {
        static_assert(N <= 64, "leading ones are found in up to 64 bits");
        // Zero has no leading one; as in stages, it gets the position of one.
        return 63 - __builtin_clzll(static_cast<unsigned long long>(value) | 1);
    }
};

using LeadFinder = std::conditional<native_integers, MachineLead, StagedLead>::type;

// floor(log2 value) of a positive value (BFP equation 3).
template <int N>
inline int lead_position(uint_t<N> value) {
#pragma HLS INLINE
    return LeadFinder::position<N>(value);
}

// floor or ceil of log2 of the largest of many magnitudes: their bits are collected with OR, and one detector looks at
// the result. For ceil, log2(m) = floor(log2(m - 1)) + 1, so the bits of m - 1 are collected.
template <LogMode L, int N>
struct LargestMagnitude {
    bool any;  // a value that is not zero has been seen
    uint_t<N> bits;

    void clear() {
#pragma HLS INLINE
        any = false;
        bits = 0;
    }

    void include(uint_t<N> magnitude) {
#pragma HLS INLINE
        const bool present = magnitude != 0;
        const uint_t<N> collected = L == LogMode::Ceil && present ? static_cast<uint_t<N>>(magnitude - 1) : magnitude;
        any = any || present;
        bits = static_cast<uint_t<N>>(bits | collected);
    }

    // Meaningful if `any`.
    int position() const {
#pragma HLS INLINE
        if (L == LogMode::Floor) {
            return lead_position<N>(bits);
        }
        return bits != 0 ? lead_position<N>(bits) + 1 : 0;
    }
};

// floor(sqrt(value)), digit by digit: once a window, so small and slow (N / 2 cycles, no multiplier).
template <int N>
inline uint_t<N / 2> integer_sqrt(uint_t<N> value) {
    static_assert(N % 2 == 0, "two bits of the value give one of the root");
    using remainder_t = uint_t<N / 2 + 2>;
    remainder_t remainder = 0;
    uint_t<N / 2> root = 0;
Digits_Root:
    for (int digit = 0; digit < N / 2; ++digit) {
// II=1: one trial subtraction a cycle.
#pragma HLS PIPELINE II=1
        const remainder_t pair = static_cast<remainder_t>((value >> (N - 2)) & 3);
        const remainder_t trial = static_cast<remainder_t>((static_cast<remainder_t>(root) << 2) | 1);
        value = static_cast<uint_t<N>>(value << 2);
        remainder = static_cast<remainder_t>((remainder << 2) | pair);
        root = static_cast<uint_t<N / 2>>(root << 1);
        if (remainder >= trial) {
            remainder = static_cast<remainder_t>(remainder - trial);
            root = static_cast<uint_t<N / 2>>(root | 1);
        }
    }
    return root;
}

}  // namespace bfpga
