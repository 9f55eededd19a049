// Tensors that enter and leave: floats in the layout of the network, or mantissas (samples, height, width, channels).
#pragma once

#include <cmath>

#include "prepared.hpp"

namespace bfpga_native {

enum Entry { ENTERED = 0, NOT_FINITE = 1, BEYOND_FLOAT = 2 };

/// What floats have in addition to their values: as their bits, the largest magnitude of each lane and all signs.
struct Seen {
    vi most = {}, signs = {};
    void take(vi bits) { most = largest(most, bits & 0x7fffffff), signs |= bits; }
    /// In every lane: single ones would pass through memory.
    void take_one(float x) {
        s32 bits;
        memcpy(&bits, &x, sizeof bits);
        take(all<s32>(bits));
    }
    /// The largest magnitude as its bits: larger for infinity and NaN than for all numbers.
    s32 largest_bits() const {
        s32 bits = 0;
        for (int i = 0; i < V; i++)
            bits = std::max(bits, most[i]);
        return bits;
    }
    bool finite() const { return largest_bits() < 0x7f800000; }
    bool negative() const { return any(signs < 0); }
};

static Seen look_at(const float* x, size_t count) {
    Seen seen;
    size_t i = 0;
    for (; i + V <= count; i += V)
        seen.take(load<vi>(x + i));
    for (; i < count; i++)
        seen.take_one(x[i]);
    return seen;
}

/// Exponents whose factors are floats.
constexpr s32 SMALLEST_SCALE = -126, LARGEST_SCALE = 126;

/// The exponent of a sample; ``exponent`` is given unless it is to be found.
static Entry sample_exponent(const Format& f, const Port& port, const float* x, size_t count, s32& exponent,
                             s32& scale) {
    const Seen seen = look_at(x, count);
    if (!seen.finite())
        return NOT_FINITE;
    const s32 bits = seen.largest_bits();
    if (port.find) {
        float most;
        memcpy(&most, &bits, 4);
        int power = 0;
        const float fraction = std::frexp(most, &power);
        s32 status = 0;
        exponent = exponent_from_lead(f, power - 1 + (f.ceil && fraction > 0.5f), bits != 0, status);
    }
    scale = bits == 0 ? 0 : exponent;
    return scale < SMALLEST_SCALE || scale > LARGEST_SCALE ? BEYOND_FLOAT : ENTERED;
}

/// How far ahead floats are prefetched: they come from memory, and the next samples follow these.
constexpr int AHEAD = 2048;

/// Rounded half to even and saturated; ``count`` neighbours in memory.
static void encode(const float* x, Element* to, int count, float scale, float low, float high, Seen& all_seen) {
    const float rounder = 12582912.f;  // 1.5 * 2**23: no fraction bits remain after it
    Seen seen = all_seen;
    int i = 0;
    for (; i + V <= count; i += V) {
        seen.take(load<vi>(x + i));
        __builtin_prefetch(x + i + AHEAD);
        vf v = load<vf>(x + i) * scale;
        v = largest(smallest(v, high - vf{}), low - vf{});
        v = (v + rounder) - rounder;
        put(to + i, __builtin_convertvector(v, vi), V);
    }
    for (; i < count; i++) {
        seen.take_one(x[i]);
        const float v = std::max(std::min(x[i] * scale, high), low);
        volatile float sum = v + rounder;
        to[i] = (Element)((s32)(sum - rounder) + ZERO);
    }
    all_seen = seen;
}

/// One sample of floats into a buffer; returns what was seen. scratch: room for the sample.
static Seen enter_values(const Format& f, const Tensor& t, const Buffer& b, const Port& port, const float* x, s32 scale,
                         Element* to, Element* scratch) {
    const float factor = std::ldexp(1.f, -scale), low = (float)f.mantissa_min, high = (float)f.mantissa_max;
    const int C = t.channels, W = t.width, H = t.height;
    Seen seen;
    to += b.first;
    if (port.stride_c == 1 || C == 1) {
        const bool whole = port.stride_x == C && b.pitch == C;
        for (int y = 0; y < H; y++)
            for (int i = 0; i < (whole ? 1 : W); i++)
                encode(x + y * port.stride_y + i * port.stride_x, to + y * b.row + i * b.pitch, whole ? W * C : C,
                       factor, low, high, seen);
        return seen;
    }
    const int size = H * W;
    const bool plane = port.stride_x == 1 && port.stride_y == W;
    for (int c = 0; c < C; c++)
        for (int i = 0; i < (plane ? 1 : size); i++) {
            const float* from = x + c * port.stride_c + i / W * port.stride_y + i % W * port.stride_x;
            encode(from, scratch + (size_t)c * size + i, plane ? size : 1, factor, low, high, seen);
        }
    for (int y = 0; y < H; y++) {
        Element* const row = to + y * b.row;
        const Element* const from = scratch + (size_t)y * W;
        if (C == 3) {  // colours, by far the most frequent planes
            const Element *const red = from, *const green = from + size, *const blue = green + size;
            for (int i = 0; i < W; i++) {
                const Element pixel[4] = {red[i], green[i], blue[i], ZERO};
                memcpy(row + i * 4, pixel, sizeof pixel);
            }
            continue;
        }
        for (int i = 0; i < W; i++)
            for (int c = 0; c < C; c++)
                row[i * b.pitch + c] = from[(size_t)c * size + i];
    }
    return seen;
}

template <class M>
static void enter_mantissas(const Tensor& t, const Buffer& b, const M* from, Element* to) {
    for (int y = 0; y < t.height; y++)
        for (int x = 0; x < t.width; x++, from += t.channels)
            for (int c = 0; c < t.channels; c++)
                to[b.first + y * b.row + x * b.pitch + c] = (Element)((s32)from[c] + ZERO);
}

template <class M>
static void leave_mantissas(const Tensor& t, const Buffer& b, const Element* from, M* to) {
    for (int y = 0; y < t.height; y++)
        for (int x = 0; x < t.width; x++, to += t.channels)
            for (int c = 0; c < t.channels; c++)
                to[c] = (M)((s32)from[b.first + y * b.row + x * b.pitch + c] - ZERO);
}

static void leave_values(const Tensor& t, const Buffer& b, const Port& port, const Element* from, s32 exponent,
                         float* to) {
    const bool exact = exponent >= SMALLEST_SCALE && exponent <= LARGEST_SCALE;
    const float factor = exact ? std::ldexp(1.f, exponent) : 0.f;
    if (exact && t.height * t.width == 1 && port.stride_c == 1 && !port.factors) {
        for (int c = 0; c < t.channels; c++)
            to[c] = (float)((s32)from[b.first + c] - ZERO) * factor;
        return;
    }
    for (int y = 0; y < t.height; y++)
        for (int x = 0; x < t.width; x++)
            for (int c = 0; c < t.channels; c++) {
                const s32 m = (s32)from[b.first + y * b.row + x * b.pitch + c] - ZERO;
                const float value = exact ? (float)m * factor : (float)std::ldexp((double)m, exponent);
                float& place = to[y * port.stride_y + x * port.stride_x + c * port.stride_c];
                place = port.factors ? value / port.factors[c] : value;
            }
}

}  // namespace bfpga_native
