// A second tensor that is added to a layer's sums before bias and function: aligned to the unit of each channel, then
// clamped with the sum to the accumulator's range.
#pragma once

#include "kernels.hpp"

namespace bfpga_native {

/// Constants of the alignment for one pair of exponents, in slots.
///
/// bound: largest magnitude of each sum. vectors: numbers of the type of the layer's sums hold all that is computed,
/// and nothing is clamped before it is added; else 64 bits have it, one by one.
struct Added {
    Shifts<s32> narrow;
    Shifts<s64> wide;
    Array<s64> bound;
    /// From the tensor's unit to that of each sum, to the right.
    Array<s32> distance;
    bool vectors = true;

    Added(const Format& f, const Prepared& p, s32 e_acc, s32 e_second);
    template <class T>
    const Shifts<T>& shifts() const;
};

template <>
inline const Shifts<s32>& Added::shifts<s32>() const {
    return narrow;
}
template <>
inline const Shifts<s64>& Added::shifts<s64>() const {
    return wide;
}

Added::Added(const Format& f, const Prepared& p, s32 e_acc, s32 e_second) {
    const s64 most = largest_accumulator(f), mantissa = (s64)1 << (f.mantissa_bits - 1);
    const s64 holds = p.wide ? WIDE : SMALL;
    distance.reset(p.slots);
    bound.reset(p.slots);
    for (int i = 0; i < p.slots; i++) {
        const int c = p.channel[i];
        if (c < 0)
            continue;
        const s32 shift = e_acc + (p.l.row_exponents ? p.l.row_exponents[c] : 0) - e_second;
        distance[i] = shift;
        // Rounding may reach the next integer.
        const s64 reach = shift >= 0 ? (mantissa >> std::min(shift, 62)) + 1 : mantissa << std::min(-shift, 45);
        vectors &= reach <= most && p.bound[i] + reach <= holds;
        bound[i] = std::min(p.bound[i] + reach, most + 1);
    }
    if (!vectors)
        return;
    Array<s32> units(p.slots);
    for (int i = 0; i < p.slots; i++)
        units[i] = -distance[i];
    if (p.wide)
        wide.make(units.data(), 0, p.slots, f, 62);
    else
        narrow.make(units.data(), 0, p.slots, f, 30);
}

/// Adds a tensor of one sample to sums in place; whether any was clamped.
template <class T>
static bool add_second(const Format& f, const Prepared& p, const Added& a, const Element* second, T* sums) {
    typedef typename Lanes<T>::type VT;
    const Shifts<T>& k = a.shifts<T>();
    const T most = (T)std::min<s64>(largest_accumulator(f), std::numeric_limits<T>::max());
    const VT high = all<T>(most), low = all<T>(-most - 1);
    VT changed = {};
    for (int slot = 0; slot < p.slots; slot += V) {
        const VT right = load<VT>(k.right.data() + slot), left = load<VT>(k.left.data() + slot);
        const VT c1 = load<VT>(k.c1.data() + slot), c2 = load<VT>(k.c2.data() + slot);
        const VT c3 = load<VT>(k.c3.data() + slot);
        const vi used = lanes(p.left(slot));
        const Element* row = second + p.second.first + p.channel[slot];
        T* to = sums + slot;
        for (int y = 0; y < p.l.output_height; y++, row += p.second.row)
            // Pixels that are one lie side by side.
            for (int x = 0; x < p.l.output_width; x += p.join, to += p.raw_pitch()) {
                const VT v = __builtin_convertvector((get(row + x * p.second.pitch) - ZERO) & used, VT);
                const VT negative = v >> (s32)(8 * sizeof(T) - 1);
                const VT q = (v + c1 + ((v >> right) & c2) + (negative & c3)) >> right;
                const VT sum = load<VT>(to) + (q << left), within = smallest(largest(sum, low), high);
                changed |= within ^ sum;
                save(to, within);
            }
    }
    return any_lane(changed);
}

/// The same for any exponents, into ``to``.
template <class T>
static bool add_second_exactly(const Format& f, const Prepared& p, const Added& a, const Element* second, const T* sums,
                               s64* to) {
    const s64 most = largest_accumulator(f);
    bool clamped = false;
    for (int i = 0; i < p.pixels * p.join; i++) {
        const int y = i / p.l.output_width, x = i - y * p.l.output_width;
        const Element* from = second + p.second.first + y * p.second.row + x * p.second.pitch;
        for (int c = 0; c < p.l.channels; c++) {
            const s32 distance = a.distance[p.raw_index(0, c)];
            const size_t at = p.raw_index(i, c);
            bool outside;
            const s64 aligned = shift_saturate(from[c] - ZERO, distance, f.rounding, -most - 1, most, outside);
            const s64 sum = sums[at] + aligned;
            to[at] = std::min(std::max(sum, -most - 1), most);
            clamped |= outside || to[at] != sum;
        }
    }
    return clamped;
}

}  // namespace bfpga_native
