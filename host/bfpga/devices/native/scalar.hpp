// One value at a time: rounding, saturating, functions and exponents as `formats/rounding.py` and `engines/output` have
// them. Layers whose numbers need more than the vector epilogue go through here.
#pragma once

#include <algorithm>

#include "records.hpp"
#include "vectors.hpp"

namespace bfpga_native {

INLINE s32 floor_log2(s64 positive) { return 63 - __builtin_clzll((unsigned long long)positive); }

/// v * 2**-shift, rounded; a right shift of any size, a left shift whose result fits.
static s64 shift_round(s64 v, s64 shift, s32 rounding) {
    if (shift <= 0)
        return (s64)((unsigned long long)v << std::min<s64>(-shift, 63));
    const s64 s = std::min<s64>(shift, 63), half = (s64)1 << (s - 1);
    switch (rounding) {
        case TRUNC:
            return v >> s;
        case TO_ZERO:
            return (v < 0 ? v + (s64) ~(~0ull << s) : v) >> s;
        case HALF_UP:
            return (s64)((unsigned long long)v + half) >> s;
        case HALF_AWAY:
            return (s64)((unsigned long long)v + half - (v < 0)) >> s;
        default:
            return (s64)((unsigned long long)v + (half - 1) + ((v >> s) & 1)) >> s;
    }
}

/// The same within [low, high] for left shifts of any size; ``outside``: whether it had to be clamped.
static s64 shift_saturate(s64 v, s64 shift, s32 rounding, s64 low, s64 high, bool& outside) {
    if (shift >= 0) {
        const s64 r = shift_round(v, shift, rounding);
        outside = r > high || r < low;
        return std::min(std::max(r, low), high);
    }
    const s64 left = std::min<s64>(-shift, 63);
    const bool above = v > high >> left, below = v < -(-low >> left);
    outside = above || below;
    return above ? high : below ? low : (s64)((unsigned long long)v << left);
}

INLINE s64 largest_accumulator(const Format& f) { return ((s64)1 << (f.accumulator_bits - 1)) - 1; }

/// Exponent of results of values with exponent e3.
static s32 result_exponent(const Segment& g, const Layer& l, s32 e3) {
    if (l.unit == TABLE)
        return g.table_exponent;
    return l.unit == FINER ? std::min(e3, g.table_exponent) : e3;
}

static s64 interpolate(const Segment& g, const Layer& l, s64 v, s32 e3) {
    bool outside;
    const s64 limit = (s64)l.limit << g.grid_bits;
    const s64 argument = shift_saturate(v, -(s64)(e3 + g.grid_bits), HALF_EVEN, -limit, limit, outside);
    const s64 offset = l.symmetry == NO_SYMMETRY ? argument + limit : std::abs(argument);
    const s64 step = offset >> l.fraction_bits, fraction = offset & (((s64)1 << l.fraction_bits) - 1);
    const s64 start = l.points[step], slope = l.points[std::min<s64>(step + 1, g.table_steps)] - start;
    const s64 result = start + shift_round(slope * fraction, l.fraction_bits, HALF_EVEN);
    return l.symmetry == ODD && argument < 0 ? -result : result;
}

/// The layer's function of v * 2**e3, in units of ``result_exponent``.
static s64 apply_function(const Segment& g, const Layer& l, s64 v, s32 e3) {
    const Format& f = g.format;
    const s64 most = largest_accumulator(f);
    bool outside;
    if (l.unit == ACCUMULATOR) {
        if (l.function == RELU)
            return std::max<s64>(v, 0);
        if (l.function == LEAKY_RELU)
            return v < 0 ? shift_round(v, l.argument, f.rounding) : v;
        if (l.function == CLIP) {
            const s64 bound =
                shift_saturate(l.argument, e3 - l.function_exponent, f.rounding, -most - 1, most, outside);
            return std::min(std::max<s64>(v, 0), bound);
        }
        return v;
    }
    const s64 value = interpolate(g, l, v, e3);
    if (l.holds == VALUE)
        return value;
    if (l.holds == ABOVE_RELU) {
        const s32 distance = g.table_exponent - e3;
        return std::min(shift_saturate(std::max<s64>(v, 0), distance, HALF_EVEN, 0, most, outside) + value, most);
    }
    const s32 unit = std::min(e3, g.table_exponent);
    const s64 positive = shift_saturate(std::max<s64>(v, 0), unit - e3, TRUNC, 0, most, outside);
    return positive - shift_saturate(value, unit - g.table_exponent, TRUNC, 0, most, outside);
}

/// The exponent for a leading position, and status bits; a block of zeros has the smallest one.
static s32 exponent_from_lead(const Format& f, s64 lead, bool nonzero, s32& status) {
    if (!nonzero) {
        status |= ZERO_BLOCK;
        return f.exponent_min;
    }
    const s64 wanted = lead - (f.mantissa_bits - 2);
    status |= wanted < f.exponent_min ? EXPONENT_LOW : 0;
    status |= wanted > f.exponent_max ? EXPONENT_HIGH : 0;
    return (s32)std::min<s64>(std::max<s64>(wanted, f.exponent_min), f.exponent_max);
}

/// Leading position of a magnitude above zero.
INLINE s32 integer_lead(const Format& f, s64 magnitude) {
    const s32 lead = floor_log2(magnitude);
    return lead + (f.ceil && (magnitude & (magnitude - 1)) ? 1 : 0);
}

}  // namespace bfpga_native
