// Sums beyond 32 bits with three multiplications for four products of words instead of four: their low 32 bits, and an
// estimate by the high bytes of activations and weights, which is near enough to tell the other bits.
//
// x = 256 xh + 128 + d and w = 256 wh + wl, -128 <= d < 128: a sum of x w is T + e, T = 2^16 (sum of xh wh) + 2^15 (sum
// of wh), |e| <= 2^15 (sum of |wh| + |wl|). As long as that stays below 2^31, e is the signed difference of the low
// bits.
#pragma once

#include "prepared.hpp"

namespace bfpga_native {

/// Largest sum of |wh| + |wl| of a piece.
constexpr s32 LARGEST_DISTANCE = (1 << 16) - 1;

/// The high bytes of ``count`` activations, with an offset of 128.
static void save_high_bytes(const Element* x, size_t count, u8* to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (u8)((x[i] >> 8) + 128);
}

struct Halves {
    s32 high, low;
    explicit Halves(s32 w) : high(std::min((w + 128) >> 8, 127)), low(w - 256 * high) {}
    s32 distance() const { return std::abs(high) + std::abs(low); }
};

/// Weights in steps of four activations, of ``width`` slots from ``slot`` on, after those of other slots.
void Prepared::pack_estimated(int slot, int width) {
    std::vector<s32> distances(width, 0), sums(width, 0), pieces;
    int steps = 0;
    const auto close = [&] {
        pieces.push_back(steps);
        high_sums.insert(high_sums.end(), sums.begin(), sums.end());
        std::fill(distances.begin(), distances.end(), 0), std::fill(sums.begin(), sums.end(), 0);
        steps = 0;
    };
    for (int group = 0; group<(int)runs.size() * run_groups; group += group % run_groups + 2> run_groups ? 1 : 2) {
        std::vector<s16> words(width * 4);
        std::vector<s8> bytes(width * 4);
        bool near = true;
        std::vector<s32> step_distances(width, 0), step_sums(width, 0);
        for (int c = 0; c < width; c++) {
            for (int e = 0; e < 4; e++) {
                const bool some = group % run_groups + e / 2 < run_groups;
                const s32 w = some ? group_weight(slot + c, group + e / 2, e % 2) : 0;
                const Halves halves(w);
                words[(e / 2 * width + c) * 2 + e % 2] = (s16)w;
                bytes[c * 4 + e] = (s8)halves.high;
                step_distances[c] += halves.distance(), step_sums[c] += halves.high;
            }
            near &= distances[c] + step_distances[c] <= LARGEST_DISTANCE;
        }
        if (!near)
            close();
        steps++;
        for (int c = 0; c < width; c++)
            distances[c] += step_distances[c], sums[c] += step_sums[c];
        const auto append = [&](const void* from) {
            estimated_weights.insert(estimated_weights.end(), (const u8*)from, (const u8*)from + width * 4);
        };
        append(words.data()), append(words.data() + width * 2), append(bytes.data());
        if (slot == 0)
            estimated_places.push_back(runs[group / run_groups] + group % run_groups * 2);
    }
    close();
    estimated_pieces.push_back(pieces);
}

/// A piece of P pixels, ``starts`` in elements, times Q blocks. high: bytes of the activations; sums: of the weights'
/// high bytes. FIRST: the piece begins the sums.
template <int P, int Q, bool FIRST>
static void estimated_tile(const s32* at, const s32* last, const Element* in, const u8* high, const s32* starts,
                           const u8* w, const s32* sums, s64* result, size_t pitch) {
    constexpr int BLOCK = V * 4;
    vi low[P][Q], estimate[P][Q];
    s64 start[P];
#pragma GCC unroll 16
    for (int i = 0; i < P; i++) {
        start[i] = starts[i];
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            low[i][j] = estimate[i][j] = (vi){};
    }
    for (; at < last; at++, w += 3 * Q * BLOCK) {
        const s64 place = *at;
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
#pragma GCC unroll 16
            for (int i = 0; i < P; i++) {
                const vi x = group_at(in + start[i] + place + half * 2);
#pragma GCC unroll 4
                for (int j = 0; j < Q; j++)
                    low[i][j] = dot(low[i][j], x, load<vi>(w + (half * Q + j) * BLOCK));
            }
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            const vi x = group_at((const Element*)(high + start[i] + place));
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                estimate[i][j] = dot_bytes(estimate[i][j], x, load<vi>(w + (2 * Q + j) * BLOCK));
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < Q; j++) {
        // The offset of 128 of xh, and 2^15 times the sum of wh.
        const vl sum = __builtin_convertvector(load<vi>(sums + j * V), vl), constant = (sum << 15) - (sum << 23);
        const vi constant_low = (load<vi>(sums + j * V) << 15) - (load<vi>(sums + j * V) << 23);
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            const vi difference = low[i][j] - (estimate[i][j] << 16) - constant_low;
            const vl found = (__builtin_convertvector(estimate[i][j], vl) << 16) + constant +
                             __builtin_convertvector(difference, vl);
            s64* const to = result + i * pitch + j * V;
            save(to, FIRST ? found : found + load<vl>(to));
        }
    }
}

/// All pixels times a piece of Q blocks, whose weights stay in the cache.
template <int Q, bool FIRST>
static void estimated_piece(const Prepared& p, const s32* at, const s32* last, const Element* in, const u8* high,
                            const s32* starts, int pixels, const u8* w, const s32* sums, s64* raw) {
    const size_t pitch = p.raw_pitch();
    for (int i = 0, count; i < pixels; i += count) {
        s64* const to = raw + i * pitch;
        const int left = pixels - i;
        count = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (count == 6)
            estimated_tile<6, Q, FIRST>(at, last, in, high, starts + i, w, sums, to, pitch);
        else if (count == 4)
            estimated_tile<4, Q, FIRST>(at, last, in, high, starts + i, w, sums, to, pitch);
        else if (count == 2)
            estimated_tile<2, Q, FIRST>(at, last, in, high, starts + i, w, sums, to, pitch);
        else
            estimated_tile<1, Q, FIRST>(at, last, in, high, starts + i, w, sums, to, pitch);
    }
}

template <int Q>
static void estimated_blocks(const Prepared& p, const std::vector<s32>& pieces, const Element* in, const u8* high,
                             const s32* starts, int pixels, const u8*& w, const s32*& sums, s64* raw) {
    const s32* at = p.estimated_places.data();
    bool first = true;
    for (s32 steps : pieces) {
        if (first)
            estimated_piece<Q, true>(p, at, at + steps, in, high, starts, pixels, w, sums, raw);
        else
            estimated_piece<Q, false>(p, at, at + steps, in, high, starts, pixels, w, sums, raw);
        at += steps, w += (size_t)steps * 3 * Q * V * 4, sums += Q * V, first = false;
    }
}

/// Wide sums of a layer. high: the high bytes of ``in``.
static void dense_estimated(const Prepared& p, const Element* in, const u8* high, const s32* starts, int pixels,
                            s64* raw) {
    const u8* w = p.estimated_weights.data();
    const s32* sums = p.high_sums.data();
    size_t block = 0;
    for (int n = 0; n < p.groups; n++, in += p.inner, high += p.inner)
        for (int b = 0; b < p.blocks; block++) {
            const int q = std::min(WIDE_BLOCKS, p.blocks - b);
            s64* const to = raw + n * p.block_slots + b * V;
            if (q == WIDE_BLOCKS)
                estimated_blocks<WIDE_BLOCKS>(p, p.estimated_pieces[block], in, high, starts, pixels, w, sums, to);
            else
                estimated_blocks<1>(p, p.estimated_pieces[block], in, high, starts, pixels, w, sums, to);
            b += q;
        }
}

}  // namespace bfpga_native
