// Long sums of signed bytes with AVX2: activations with an offset of 128, so that none is negative and no signs have to
// move to the weights. Products of several groups wrap around in 16 bits; each lane begins with a number that puts
// whatever they may come to, for any activations, within what 16 bits hold.
#pragma once

#include "prepared.hpp"

namespace bfpga_native {

#if defined(BFPGA_AVX2)
/// A copy of ``count`` activations with their offset.
static void save_offset_copy(const Element* x, size_t count, s32 offset, u8* to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (u8)(x[i] + offset);
}

/// Chains of N groups from step ``at`` to ``last``. w: for each the numbers that its lanes begin with, then its
/// weights.
template <int N, int P, int Q>
INLINE void add_centred(const s32* places, int at, int last, const Element* const* x, const Weight*& w,
                        vi (&sum)[P][Q]) {
    constexpr int BLOCK = V * G;
    for (; at < last; at += N) {
        vi products[P][Q];
        const Weight* const begin = w;
        w += Q * BLOCK;
#pragma GCC unroll 4
        for (int n = 0; n < N; n++, w += Q * BLOCK) {
            vi ww[Q];
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                ww[j] = load<vi>(w + j * BLOCK);
#pragma GCC unroll 16
            for (int i = 0; i < P; i++) {
                const vi a = group_at(x[i] + places[at + n]);
#pragma GCC unroll 4
                for (int j = 0; j < Q; j++) {
                    const vi one = byte_products<true>(a, a, ww[j]);
                    vi before = add_words(one, n ? products[i][j] : load<vi>(begin + j * BLOCK));
                    // In this order: with another one there are more products than registers. Of an element of the
                    // array GCC would make memory.
                    asm("" : "+x"(before));
                    products[i][j] = before;
                }
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < P; i++)
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                sum[i][j] = add_products(sum[i][j], products[i][j]);
    }
}

/// P pixels times Q blocks. copy: the activations with their offset.
template <int P, int Q>
static void centred_tile(const CentredBlock& block, const Element* in, const Element* copy, const s32* starts,
                         const Weight* w, const s32* initial, s32* result) {
    vi sum[P][Q];
    const Element* x[P];
#pragma GCC unroll 16
    for (int i = 0; i < P; i++) {
        x[i] = copy + starts[i];
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            sum[i][j] = load<vi>(initial + j * V);
    }
    const Chains& chains = block.chains;
    const int threes = chains[0], twos = threes + chains[1], ones = twos + chains[2], alone = ones + chains[3];
    const s32* const place = block.places.data();
    add_centred<4, P, Q>(place, 0, threes, x, w, sum);
    add_centred<3, P, Q>(place, threes, twos, x, w, sum);
    add_centred<2, P, Q>(place, twos, ones, x, w, sum);
    add_centred<1, P, Q>(place, ones, alone, x, w, sum);
    for (int at = alone; at < (int)block.places.size(); at++, w += Q * V * G)
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            const vi a = group_at(in + starts[i] + place[at]);
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                sum[i][j] = dot(sum[i][j], a, load<vi>(w + j * V * G));
        }
#pragma GCC unroll 16
    for (int i = 0; i < P; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            save(result + (i * Q + j) * V, sum[i][j]);
}
#endif

/// Numbers that the 16-bit lanes of a chain begin with, for ``width`` slots from ``slot`` on; taken back by the sums.
void Prepared::pack_beginnings(int slot, int width, const int* chain, int count, Weight*& to) {
    const s32 most = 2 * centred.offset - 1;
    for (int c = 0; c < width; c++)
        for (int half = 0; half < 2; half++, to += 2) {
            s32 below = 0;
            for (int i = 0; i < count; i++)
                for (int e = 0; e < 2; e++)
                    below += std::max(-group_weight(slot + c, chain[i], half * 2 + e), 0);
            const s16 begin = (s16)(INT16_MIN + below * most);
            centred.correction[slot + c] -= begin;
            memcpy(to, &begin, sizeof begin);
        }
}

/// Weights of column blocks for activations with an offset: of each chain what it begins with, then its groups.
void Prepared::pack_centred(const Format& f) {
    centred.offset = 1 << (f.mantissa_bits - 1);
    centred.correction.reset(slots);
    // A chain may begin with as many bytes as one of its groups has.
    centred.weights.reset((size_t)depth * slots * 2);
    Weight* to = centred.weights.data();
    for (int b = 0; b < blocks; b += MOST_BLOCKS) {
        const int width = std::min(MOST_BLOCKS, blocks - b) * V, slot = b * V;
        CentredBlock block;
        block.weights = to - centred.weights.data();
        const std::vector<int> order = order_groups(slot, width, centred.offset, 2 * centred.offset - 1, block.chains);
        size_t at = 0;
        const auto pack = [&](int count, s32 added) {
            for (int i = 0; i < count; i++, at++) {
                block.places.push_back(runs[order[at] / run_groups] + order[at] % run_groups * G);
                for (int c = 0; c < width; c++)
                    for (int e = 0; e < G; e++) {
                        const s32 w = group_weight(slot + c, order[at], e);
                        centred.correction[slot + c] -= added * w;
                        *to++ = (Weight)w;
                    }
            }
        };
        for (int kind = 0; kind < MOST_CHAIN; kind++) {
            const int length = MOST_CHAIN - kind;
            for (const size_t end = at + block.chains[kind]; at < end;) {
                pack_beginnings(slot, width, &order[at], length, to);
                pack(length, centred.offset);
            }
        }
        pack((int)(order.size() - at), 0);
        centred.blocks.push_back(block);
    }
}

}  // namespace bfpga_native
