// Tensors that enter and leave: floats in the layout of the network, or mantissas (samples, height, width, channels).
#pragma once

#include <cmath>

#include "prepared.hpp"

namespace bfpga_native {

enum Entry { ENTERED = 0, NOT_FINITE = 1, BEYOND_FLOAT = 2 };

/// The largest magnitude among floats, as its bits: larger for infinity and NaN than for all numbers.
static uint32_t largest_bits(const float* x, size_t count, bool& negative) {
    vi most = {}, signs = {};
    size_t i = 0;
    for (; i + V <= count; i += V)
        most = largest(most, load<vi>(x + i) & 0x7fffffff), signs |= load<vi>(x + i);
    uint32_t bits = 0;
    negative = any(signs < 0);
    for (int j = 0; j < V; j++)
        bits = std::max(bits, (uint32_t)most[j]);
    for (; i < count; i++) {
        uint32_t one;
        memcpy(&one, x + i, 4);
        bits = std::max(bits, one & 0x7fffffffu);
        negative |= one >> 31;
    }
    return bits;
}

/// The exponent of a sample; ``exponent`` is given unless it is to be found. negative: whether any value is.
static Entry sample_exponent(const Format& f, const Port& port, const float* x, size_t count, s32& exponent, s32& scale,
                             bool& negative) {
    const uint32_t bits = largest_bits(x, count, negative);
    if (bits >= 0x7f800000u)
        return NOT_FINITE;
    if (port.find) {
        float most;
        memcpy(&most, &bits, 4);
        int power = 0;
        const float fraction = std::frexp(most, &power);
        s32 status = 0;
        exponent = exponent_from_lead(f, power - 1 + (f.ceil && fraction > 0.5f), bits != 0, status);
    }
    scale = bits == 0 ? 0 : exponent;
    return scale < -126 || scale > 126 ? BEYOND_FLOAT : ENTERED;
}

/// Rounded half to even and saturated; ``count`` neighbours in memory.
static void encode(const float* x, Element* to, int count, float scale, float low, float high) {
    const float rounder = 12582912.f;  // 1.5 * 2**23: no fraction bits are left behind it
    int i = 0;
    for (; i + V <= count; i += V) {
        vf v = load<vf>(x + i) * scale;
        v = largest(smallest(v, high - vf{}), low - vf{});
        v = (v + rounder) - rounder;
        put(to + i, __builtin_convertvector(v, vi), V);
    }
    for (; i < count; i++) {
        const float v = std::max(std::min(x[i] * scale, high), low);
        volatile float sum = v + rounder;
        to[i] = (Element)((s32)(sum - rounder) + ZERO);
    }
}

/// One sample of floats into a buffer. scratch: room for the sample.
static void enter_values(const Format& f, const Tensor& t, const Buffer& b, const Port& port, const float* x, s32 scale,
                         Element* to, Element* scratch) {
    const float factor = std::ldexp(1.f, -scale), low = (float)f.mantissa_min, high = (float)f.mantissa_max;
    const int C = t.channels, W = t.width, H = t.height;
    to += b.first;
    if (port.stride_c == 1 || C == 1) {
        const bool whole = port.stride_x == C && b.pitch == C;
        for (int y = 0; y < H; y++)
            for (int i = 0; i < (whole ? 1 : W); i++)
                encode(x + y * port.stride_y + i * port.stride_x, to + y * b.row + i * b.pitch, whole ? W * C : C,
                       factor, low, high);
        return;
    }
    const int size = H * W;
    const bool plane = port.stride_x == 1 && port.stride_y == W;
    for (int c = 0; c < C; c++)
        for (int i = 0; i < (plane ? 1 : size); i++) {
            const float* from = x + c * port.stride_c + i / W * port.stride_y + i % W * port.stride_x;
            encode(from, scratch + (size_t)c * size + i, plane ? size : 1, factor, low, high);
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
    const bool exact = exponent >= -126 && exponent <= 126;
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
