// The output stage value by value: table functions, wrapping mantissas, biases that leave the accumulator, samples of
// results that are measured, the collector and the statistics unit (docs/systolic-array.md, docs/kernel-positions.md).
#pragma once

#include "prepared.hpp"

namespace bfpga_native {

/// Shifts from the accumulators' grid that a rule may choose.
constexpr s32 SMALLEST_SHIFT = -8, LARGEST_SHIFT = 31;

/// One sample's results before the requantizer.
class Stage {
   public:
    Stage(const Segment& segment, const Prepared& prepared) : g(segment), p(prepared), l(prepared.l) {}

    /// Steps 1 to 3 of the output stage; returns status bits.
    template <class A>
    s32 evaluate(const Aligned& a, const A* raw, s32 accumulator_exponent);
    /// The leading position by the layer's rule; false if there is none.
    bool lead(s32 accumulator_exponent, s32& found) const;
    /// Mantissas into ``out``; counts what saturates and what becomes zero.
    void requantize(s32 exponent, Element* out, s64& overflows, s64& underflows) const;
    /// What the statistics unit on column 0 sees, in drain order.
    void drain(s32 exponent, std::vector<s64>& seen) const;

   private:
    const Segment& g;
    const Prepared& p;
    const Layer& l;
    std::vector<s64> values;
    std::vector<u8> alone;  // nothing but a bias in its own unit
    std::vector<s32> exponents;
    s32 alone_exponent = 0;

    s32 exponent_of(size_t at) const { return alone[at] ? alone_exponent : exponents[at % l.channels]; }
    s32 rule_exponent(s32 accumulator_exponent) const;
    template <class F>
    void measured(F&& take) const;
};

template <class A>
s32 Stage::evaluate(const Aligned& a, const A* raw, s32 e_acc) {
    const int pixels = p.pixels * p.join;
    const s64 most = largest_accumulator(g.format);
    values.resize((size_t)pixels * l.channels);
    alone.assign(values.size(), 0);
    exponents.resize(l.channels);
    s32 status = 0;
    alone_exponent = l.function_first ? l.bias_exponent : result_exponent(g, l, l.bias_exponent);
    for (int c = 0; c < l.channels; c++)
        exponents[c] = result_exponent(g, l, e_acc + (l.row_exponents ? l.row_exponents[c] : 0));
    for (int i = 0; i < pixels; i++)
        for (int c = 0; c < l.channels; c++) {
            const size_t at = (size_t)i * l.channels + c;
            s64 v = raw[p.raw_index(i, c)];
            s32 e3 = e_acc + (l.row_exponents ? l.row_exponents[c] : 0);
            if (l.function_first)
                v = apply_function(g, l, v, e3);
            if (l.bias) {
                const size_t slot = p.raw_index(0, c);
                s64 total = v + a.bias64[slot];
                if (a.outside[slot] && v == 0) {
                    total = l.bias[c];
                    e3 = l.bias_exponent;
                    alone[at] = 1;
                } else if (a.outside[slot]) {
                    status |= BIAS_SATURATED;
                }
                if (total > most || total < -most - 1) {
                    status |= ACCUMULATOR_SATURATED;
                    total = total > 0 ? most : -most - 1;
                }
                v = total;
            }
            values[at] = l.function_first ? v : apply_function(g, l, v, e3);
        }
    return status;
}

/// Every measured result: take(value, exponent).
template <class F>
void Stage::measured(F&& take) const {
    for (int y = l.row_offset; y < l.output_height; y += l.row_step)
        for (int b = 0; b < l.block_count; b++)
            for (int x = 0; x < l.output_width; x++)
                for (int c = l.blocks[2 * b]; c < l.blocks[2 * b + 1]; c++) {
                    const size_t at = ((size_t)y * l.output_width + x) * l.channels + c;
                    take(values[at], exponent_of(at));
                }
}

bool Stage::lead(s32 e_acc, s32& found) const {
    if (l.rule != LEAD) {
        found = rule_exponent(e_acc) + g.format.mantissa_bits - 2;
        return true;
    }
    bool some = false;
    measured([&](s64 v, s32 e) {
        if (v == 0)
            return;
        const s32 position = integer_lead(g.format, std::abs(v)) + e;
        found = some ? std::max(found, position) : position;
        some = true;
    });
    found += l.margin;
    return some;
}

s32 Stage::rule_exponent(s32 e_acc) const {
    const s64 none = -((s64)1 << 31);
    const int bins = g.format.bins;
    const s64 base = (l.unit == TABLE ? g.table_exponent : e_acc) + l.base;
    std::vector<s64> histogram(bins, 0);
    s64 top = none, low = (s64)1 << 31, count = 0, unit_low = (s64)1 << 31, unit_high = none;
    for (int b = 0; b < l.block_count; b++)
        for (int c = l.blocks[2 * b]; c < l.blocks[2 * b + 1]; c++) {
            const s64 e = result_exponent(g, l, e_acc + (l.row_exponents ? l.row_exponents[c] : 0));
            unit_low = std::min(unit_low, e), unit_high = std::max(unit_high, e);
        }
    measured([&](s64 v, s32 e) {
        count++;
        if (v != 0)
            low = std::min<s64>(low, __builtin_ctzll((unsigned long long)v) + e);
        const s64 differing = v ^ (v >> 63);
        if (differing == 0)
            return;
        const s64 position = floor_log2(differing) + e;
        top = std::max(top, position);
        histogram[std::min<s64>(std::max<s64>(position - base, 0), bins - 1)]++;
    });
    if (top == none)
        return (s32)unit_high;
    const s64 fits = g.format.mantissa_bits - 2, highest = top - fits;
    s64 found = highest;
    if (l.rule == RATE) {
        s64 above = 0;
        int smallest = bins - 1;
        while (smallest > 0 && (above + histogram[smallest]) << l.rate <= count)
            above += histogram[smallest--];
        const s64 reach = smallest == bins - 1 ? top : std::min(base + smallest, top);
        found = std::max(reach - fits, std::min(highest, unit_low - std::min<s64>(fits, -SMALLEST_SHIFT)));
    } else if (l.rule == LSB) {
        found = low;
    } else if (l.rule == WINDOW) {
        found = std::max(low, highest);
    }
    return (s32)std::min(std::max(found + l.margin, unit_low + SMALLEST_SHIFT), unit_high + LARGEST_SHIFT);
}

void Stage::requantize(s32 e4, Element* out, s64& overflows, s64& underflows) const {
    const Format& f = g.format;
    size_t at = 0;
    for (int y = 0; y < l.output_height; y++)
        for (int x = 0; x < l.output_width; x++)
            for (int c = 0; c < l.channels; c++, at++) {
                const s64 v = values[at];
                const s32 shift = e4 - exponent_of(at);
                bool outside;
                s64 r = shift_saturate(v, shift, f.rounding, f.mantissa_min, f.mantissa_max, outside);
                if (f.wrap && outside) {
                    const s64 half = (s64)1 << (f.mantissa_bits - 1);
                    const unsigned long long wide = (unsigned long long)shift_round(v, shift, f.rounding) + half;
                    r = (s64)(wide & (2 * half - 1)) - half;
                }
                overflows += outside;
                underflows += r == 0 && v != 0 && !(f.wrap && outside);
                out[p.place(y, x) + c] = (Element)(r + ZERO);
            }
}

void Stage::drain(s32 e4, std::vector<s64>& seen) const {
    const s64 most = ((s64)1 << (g.format.mantissa_bits + 2)) - 1;
    bool outside;
    seen.clear();
    for (int t = 0; t < l.tile_count; t++) {
        const s32* tile = l.tiles + 4 * t;
        for (int i = tile[0] * l.output_width; i < tile[1] * l.output_width; i += l.columns)
            for (int c = tile[2]; c < tile[3]; c++) {
                const size_t at = (size_t)i * l.channels + c;
                seen.push_back(
                    shift_saturate(std::abs(values[at]), e4 - exponent_of(at), g.format.rounding, 0, most, outside));
            }
    }
}

}  // namespace bfpga_native
