// Functions with a table in front of the vector epilogue: their results of a sample, by one look-up for each value.
#pragma once

#include "prepared.hpp"

namespace bfpga_native {

/// A shift of each slot to the right, to the nearest and to even numbers, and then one to the left.
template <class T>
struct TableShift {
    static constexpr s32 MOST = 8 * sizeof(T) - 1;
    Array<T> right, half, odd, left;

    /// distances: to the right where they are positive.
    void make(const Array<s32>& distances, bool rounds) {
        for (Array<T>* a : {&right, &half, &odd, &left})
            a->reset(distances.size());
        for (size_t i = 0; i < distances.size(); i++) {
            const s32 d = std::min(std::max(distances[i], -MOST), MOST);
            right[i] = std::max(d, 0), left[i] = std::max(-d, 0);
            odd[i] = d > 0 && rounds, half[i] = odd[i] ? ((T)1 << (d - 1)) - 1 : 0;
        }
    }
};

/// The same shift of the slots in a vector. Numbers stay within [-most, most]; below most * 2**left none is clamped.
template <class T>
struct VectorShift {
    typedef typename Lanes<T>::type VT;
    VT right, half, odd, left, most, bound;
    VectorShift(const TableShift<T>& s, int slot, T most)
        : right(load<VT>(s.right.data() + slot)),
          half(load<VT>(s.half.data() + slot)),
          odd(load<VT>(s.odd.data() + slot)),
          left(load<VT>(s.left.data() + slot)),
          most(all<T>(most)),
          bound(all<T>(most) >> left) {}
    __attribute__((always_inline)) VT of(VT v) const {
        const VT r = (v + half + ((v >> right) & odd)) >> right;
        const VT shifted = smallest(largest(r, -bound), bound) << left;
        return r > bound ? most : r < -bound ? -most : shifted;
    }
};

/// What the results of a layer's function take for one exponent of its accumulators. Exponents: those of the results.
template <class T>
struct TableRoute {
    TableShift<T> argument, positive, value;
    /// All bits of slots that have a channel: others are 0, as they are everywhere.
    Array<T> used;
    Aligned results;

    TableRoute(const Segment& g, const Prepared& p, const Aligned& a);
    /// Results of a sample in place of its accumulators, which lie as ``Prepared::raw_index`` places them.
    template <class A>
    void apply(const Segment& g, const Prepared& p, const T* bias, const A* raw, T* out) const;
};

/// Whether results of a layer's function may come from its look-ups, if no accumulator saturates on the way to them.
static bool takes_table(const Segment& g, const Layer& l, const Aligned& a) {
    const bool outside =
        std::any_of(a.outside.data(), a.outside.data() + a.outside.size(), [](u8 o) { return o != 0; });
    return l.unit != ACCUMULATOR && !g.format.wrap && !(l.function_first && l.bias) && !outside && a.top <= WIDE;
}

template <class T>
TableRoute<T>::TableRoute(const Segment& g, const Prepared& p, const Aligned& a) {
    const Layer& l = p.l;
    const int slots = p.slots;
    used.reset(slots);
    Array<s32> arguments, positives, values;
    for (Array<s32>* x : {&arguments, &positives, &values, &results.exponents})
        x->reset(slots);
    for (int i = 0; i < slots; i++) {
        const s32 e3 = a.exponents[i], unit = l.holds == ABOVE_RELU ? g.table_exponent : std::min(e3, g.table_exponent);
        used[i] = -(T)(p.channel[i] >= 0);
        results.exponents[i] = result_exponent(g, l, e3);
        arguments[i] = -(e3 + g.grid_bits), positives[i] = unit - e3, values[i] = unit - g.table_exponent;
    }
    argument.make(arguments, true);
    positive.make(positives, l.holds == ABOVE_RELU);
    value.make(values, false);
}

template <class T>
template <class A>
void TableRoute<T>::apply(const Segment& g, const Prepared& p, const T* bias, const A* raw, T* out) const {
    typedef typename Lanes<T>::type VT;
    typedef typename Lanes<A>::type VA;
    const Layer& l = p.l;
    const T most = (T)largest_accumulator(g.format), limit = (T)l.limit << g.grid_bits;
    const s32* looked = p.looked_up.data() + limit;
    const VT sign = all<T>(l.holds == ABOVE_RELU ? 1 : -1);
    alignas(64) T places[V], points[V];
    for (int slot = 0; slot < p.slots; slot += V) {
        const VectorShift<T> to_grid(argument, slot, limit), kept_part(positive, slot, most);
        const VectorShift<T> table_part(value, slot, most);
        const VT offset = load<VT>(bias + slot), mask = load<VT>(used.data() + slot);
        for (int i = 0; i < p.pixels; i++) {
            const size_t at = (size_t)i * p.raw_pitch() + slot;
            const VT v = __builtin_convertvector(load<VA>(raw + at), VT) + offset;
            save(places, to_grid.of(v));
            for (int lane = 0; lane < V; lane++)
                points[lane] = looked[places[lane]];
            VT result = load<VT>(points);
            if (l.holds != VALUE)
                result = smallest(kept_part.of(largest(v, VT{})) + sign * table_part.of(result), all<T>(most));
            save(out + at, result & mask);
        }
    }
}

}  // namespace bfpga_native
