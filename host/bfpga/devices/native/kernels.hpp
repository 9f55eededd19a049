// The accumulators of every kind of layer, block by block of V channels.
#pragma once

#include "centred.hpp"
#include "estimated.hpp"

namespace bfpga_native {

/// What becomes of accumulators: mantissas at once, or kept (``raw``: [pixel][slot], ``raw_pitch`` apart, 32 or 64
/// bits).
struct Sink {
    const Prepared* p;
    const Finish<s32>* epilogue = nullptr;
    Element* out = nullptr;
    const s32* places = nullptr;
    Counts* counts = nullptr;
    s32* raw = nullptr;
    s64* raw_wide = nullptr;
    const s32* initial = nullptr;

    /// ``count`` pixels from ``pixel`` on, ``pitch`` apart, of V slots.
    void take(const s32* accumulators, int pitch, int count, int slot, int pixel) const {
        if (raw) {
            const size_t raw_pitch = p->raw_pitch();
            s32* const to = raw + pixel * raw_pitch + slot;
            for (int i = 0; i < count; i++)
                memcpy(to + i * raw_pitch, accumulators + (size_t)i * pitch, sizeof(vi));
            return;
        }
        const Place place = {out + p->channel[slot], places + pixel, 0};
        finish(*epilogue, accumulators, pitch, count, place, slot, p->left(slot), *counts, pixel, p->pixels);
    }

    /// The same of ``blocks`` times V slots.
    void take_blocks(const s32* accumulators, int blocks, int count, int slot, int pixel) const {
        const int pitch = blocks * V;
        for (int j = 0; j < blocks; j++) {
            const s32* from = accumulators + j * V;
            const int at = slot + j * V;
            if (!raw && j + 1 < blocks) {
                const Place place = {out + p->channel[at], places + pixel, 0};
                const int left = p->left(at) + p->left(at + V);
                if (finish_both(*epilogue, from, pitch, count, place, at, left, *counts, pixel, p->pixels)) {
                    j++;
                    continue;
                }
            }
            take(from, pitch, count, at, pixel);
        }
    }
};

// Dense products

/// Magnitudes of ``count`` activations, ``distance`` after them.
static void save_magnitudes(Element* x, size_t count, size_t distance) {
#if defined(BFPGA_AVX2)
    for (size_t i = 0; i < count; i += V * G)
        save(x + i + distance, (vi)_mm256_abs_epi8((__m256i)load<vi>(x + i)));
#else
    (void)x, (void)count, (void)distance;
#endif
}

/// Places of the groups of a column block. chains: as in ``Prepared``. magnitudes: how far after the activations their
/// magnitudes lie.
struct Steps {
    const s32* places;
    int count;
    const int* chains;
    s32 magnitudes;
};

#if defined(BFPGA_AVX2)
/// Chains of N groups from step ``at`` to ``last``, which 16 bits add before 32 bits take them.
template <int N, int P, int Q, bool POSITIVE>
INLINE void add_chains(const Steps& steps, int at, int last, const Element* const* x, const Weight*& w,
                       vi (&sum)[P][Q]) {
    for (; at < last; at += N, w += N * Q * V * G) {
        s32 place[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++)
            place[n] = steps.places[at + n];
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            vi products[Q];
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) {
                const vi a = group_at(x[i] + place[n]);
                const vi m = POSITIVE ? a : group_at(x[i] + place[n] + steps.magnitudes);
#pragma GCC unroll 4
                for (int j = 0; j < Q; j++) {
                    const vi one = byte_products<POSITIVE>(a, m, load<vi>(w + (n * Q + j) * V * G));
                    products[j] = n ? add_words(products[j], one) : one;
                }
            }
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                sum[i][j] = add_products(sum[i][j], products[j]);
        }
    }
}
#endif

/// P pixels times Q blocks of V channels.
template <int P, int Q, bool POSITIVE>
static void tile(const Steps& steps, const Element* const* pixel, const Weight* w, const s32* initial, s32* result) {
    vi sum[P][Q];
    const Element* x[P];
#pragma GCC unroll 16
    for (int i = 0; i < P; i++) {
        x[i] = pixel[i];
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            sum[i][j] = load<vi>(initial + j * V);
    }
#if defined(BFPGA_AVX2)
    const int *c = steps.chains, twos = c[0] + c[1], ones = twos + c[2];
    add_chains<4, P, Q, POSITIVE>(steps, 0, c[0], x, w, sum);
    add_chains<3, P, Q, POSITIVE>(steps, c[0], twos, x, w, sum);
    add_chains<2, P, Q, POSITIVE>(steps, twos, ones, x, w, sum);
    add_chains<1, P, Q, POSITIVE>(steps, ones, steps.count, x, w, sum);
#else
    const s32 *at = steps.places, *const last = at + steps.count;
    for (; at < last; at++, w += Q * V * G) {
        const s32 place = *at;
        vi ww[Q];
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            ww[j] = load<vi>(w + j * V * G);
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            const vi b = group_at(x[i] + place);
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++)
                sum[i][j] = dot(sum[i][j], b, ww[j]);
        }
    }
#endif
#pragma GCC unroll 16
    for (int i = 0; i < P; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            save(result + (i * Q + j) * V, sum[i][j]);
}

/// All pixels times Q blocks from ``slot`` on; P pixels at a time, several tiles before the epilogue.
template <int P, int Q, bool POSITIVE>
static void dense_blocks(const Steps& steps, const Element* in, const s32* starts, int pixels, const Weight* w,
                         const Sink& sink, int slot) {
    constexpr int HELD = 48 / P * P;
    alignas(64) s32 result[HELD * Q * V];
    const s32* initial = sink.initial + slot;
    for (int first = 0; first < pixels; first += HELD) {
        const int held = std::min(HELD, pixels - first);
        for (int i = 0; i < held;) {
            const Element* x[P];
            const int left = held - i, count = left >= P ? P : left >= 2 ? 2 : 1;
            s32* to = result + (size_t)i * Q * V;
            for (int j = 0; j < count; j++)
                x[j] = in + starts[first + i + j];
            if (count == P)
                tile<P, Q, POSITIVE>(steps, x, w, initial, to);
            else if (count == 2)
                tile<2, Q, POSITIVE>(steps, x, w, initial, to);
            else
                tile<1, Q, POSITIVE>(steps, x, w, initial, to);
            i += count;
        }
        sink.take_blocks(result, Q, held, slot, first);
    }
}

#if defined(BFPGA_AVX2)
/// The same of long sums, with the activations' offset in ``copy``.
template <int Q>
static void centred_blocks(const Prepared& p, const CentredBlock& block, const Element* in, const Element* copy,
                           const s32* starts, int pixels, const Sink& sink, int slot) {
    constexpr int HELD = 48, P = 3;
    alignas(64) s32 result[HELD * Q * V];
    alignas(64) s32 initial[Q * V];
    for (int i = 0; i < Q * V; i++)
        initial[i] = sink.initial[slot + i] + p.centred.correction[slot + i];
    const Weight* const w = p.centred.weights.data() + block.weights;
    for (int first = 0; first < pixels; first += HELD) {
        const int held = std::min(HELD, pixels - first);
        for (int i = 0; i < held;) {
            const s32* const at = starts + first + i;
            s32* const to = result + i * Q * V;
            if (held - i >= P)
                centred_tile<P, Q>(block, in, copy, at, w, initial, to), i += P;
            else
                centred_tile<1, Q>(block, in, copy, at, w, initial, to), i++;
        }
        sink.take_blocks(result, Q, held, slot, first);
    }
}

static void dense_centred(const Prepared& p, const Element* in, const u8* copy, const s32* starts, int pixels,
                          const Sink& sink) {
    const Element* const x = (const Element*)copy;
    for (int b = 0; b < p.blocks; b += MOST_BLOCKS) {
        const CentredBlock& block = p.centred.blocks[b / MOST_BLOCKS];
        if (p.blocks - b >= MOST_BLOCKS)
            centred_blocks<MOST_BLOCKS>(p, block, in, x, starts, pixels, sink, b * V);
        else
            centred_blocks<1>(p, block, in, x, starts, pixels, sink, b * V);
    }
}
#endif

template <bool POSITIVE>
static void dense(const Prepared& p, const Element* in, s32 magnitudes, const s32* starts, int pixels, const Weight* w,
                  const Sink& sink) {
    size_t block = 0;
    for (int n = 0; n < p.groups; n++) {
        const Element* x = in + n * p.inner;
        for (int b = 0; b < p.blocks; block++) {
            const int q = std::min(MOST_BLOCKS, p.blocks - b), slot = n * p.block_slots + b * V;
            const Steps s = {p.steps[block].data(), (int)p.steps[block].size(), p.chains[block].data(), magnitudes};
#if BFPGA_LANES == 16
            if (q == 4)
                dense_blocks<6, MOST_BLOCKS, POSITIVE>(s, x, starts, pixels, w, sink, slot);
            else if (q == 3)
                dense_blocks<8, MOST_BLOCKS - 1, POSITIVE>(s, x, starts, pixels, w, sink, slot);
            else if (q == 2)
                dense_blocks<12, 2, POSITIVE>(s, x, starts, pixels, w, sink, slot);
            else
                dense_blocks<16, 1, POSITIVE>(s, x, starts, pixels, w, sink, slot);
#else
            if (q == 2)
                dense_blocks<6, 2, POSITIVE>(s, x, starts, pixels, w, sink, slot);
            else
                dense_blocks<8, 1, POSITIVE>(s, x, starts, pixels, w, sink, slot);
#endif
            w += (size_t)p.depth * q * V;
            b += q;
        }
    }
}

/// A piece of sums beyond 32 bits, which 32 bits hold: weights in two bytes. FIRST: the piece begins the sums.
template <int P, int Q, bool FIRST>
static void wide_tile(const s32* at, const s32* last, const Element* const* pixel, const Weight* high,
                      const Weight* low, s64* const* result) {
    vi h[P][Q], l[P][Q];
#pragma GCC unroll 16
    for (int i = 0; i < P; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            h[i][j] = l[i][j] = (vi){};
    for (; at < last; at++, high += Q * V * G, low += Q * V * G) {
        const s32 place = *at;
        vi hw[Q], lw[Q];
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++)
            hw[j] = load<vi>(high + j * V * G), lw[j] = load<vi>(low + j * V * G);
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) {
            const vi b = group_at(pixel[i] + place);
#pragma GCC unroll 4
            for (int j = 0; j < Q; j++) {
                h[i][j] = dot(h[i][j], b, hw[j]);
                l[i][j] = dot(l[i][j], b, lw[j]);
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < P; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Q; j++) {
            const vl sum = (__builtin_convertvector(h[i][j], vl) << 8) + __builtin_convertvector(l[i][j], vl);
            save(result[i] + j * V, FIRST ? sum : sum + load<vl>(result[i] + j * V));
        }
}

/// All pixels times a piece of Q blocks, whose weights stay in the cache.
template <int Q, bool FIRST>
static void wide_piece(const Prepared& p, const s32* at, const s32* last, const Element* in, const s32* starts,
                       int pixels, const Weight* high, const Weight* low, s64* raw) {
    constexpr int P = V == 16 ? (Q == 2 ? 6 : 10) : 4;
    for (int i = 0; i < pixels;) {
        const Element* x[P];
        s64* to[P];
        const int left = pixels - i, count = left >= P ? P : left >= 2 ? 2 : 1;
        for (int j = 0; j < count; j++)
            x[j] = in + starts[i + j], to[j] = raw + (size_t)(i + j) * p.raw_pitch();
        if (count == P)
            wide_tile<P, Q, FIRST>(at, last, x, high, low, to);
        else if (count == 2)
            wide_tile<2, Q, FIRST>(at, last, x, high, low, to);
        else
            wide_tile<1, Q, FIRST>(at, last, x, high, low, to);
        i += count;
    }
}

template <int Q>
static void wide_blocks(const Prepared& p, const Steps& steps, const Element* in, const s32* starts, int pixels,
                        const Weight* high, const Weight* low, s64* raw) {
    constexpr int piece = WIDE_PIECE / G;
    for (int first = 0; first < steps.count; first += piece) {
        const s32 *at = steps.places + first, *last = steps.places + std::min(steps.count, first + piece);
        const size_t before = (size_t)first * Q * V * G;
        if (first == 0)
            wide_piece<Q, true>(p, at, last, in, starts, pixels, high, low, raw);
        else
            wide_piece<Q, false>(p, at, last, in, starts, pixels, high + before, low + before, raw);
    }
}

static void dense_wide(const Prepared& p, const Element* in, const s32* starts, int pixels, const Weight* high,
                       const Weight* low, s64* raw) {
    size_t block = 0;
    for (int n = 0; n < p.groups; n++)
        for (int b = 0; b < p.blocks; block++) {
            const int q = std::min(WIDE_BLOCKS, p.blocks - b), slot = n * p.block_slots + b * V;
            const Steps s = {p.steps[block].data(), (int)p.steps[block].size(), nullptr, 0};
            const Element* x = in + n * p.inner;
            if (q == WIDE_BLOCKS)
                wide_blocks<WIDE_BLOCKS>(p, s, x, starts, pixels, high, low, raw + slot);
            else
                wide_blocks<1>(p, s, x, starts, pixels, high, low, raw + slot);
            high += (size_t)p.depth * q * V;
            low += (size_t)p.depth * q * V;
            b += q;
        }
}

// One channel at a time

/// Pixels whose accumulators are held before the epilogue.
constexpr int ROW = 48;

/// Pairs of taps; TAPS: their number where it is known.
template <int TAPS>
static void depthwise(const Prepared& p, const Element* in, const s32* starts, int pixels, const Sink& sink) {
    const int taps = TAPS ? TAPS : (int)p.runs.size(), words = (taps + 1) / 2;
    alignas(64) s32 result[ROW * V];
    for (int slot = 0; slot < p.slots; slot += V) {
        const s32* w = p.pair_weights.data() + slot;
        const vi initial = load<vi>(sink.initial + slot);
        vi held[TAPS ? (TAPS + 1) / 2 : 1];
        if (TAPS)
#pragma GCC unroll 16
            for (int t = 0; t < (TAPS + 1) / 2; t++)
                held[t] = load<vi>(w + (size_t)t * p.slots);
        for (int i = 0; i < pixels; i += ROW) {
            const int count = std::min(ROW, pixels - i);
            for (int j = 0; j < count; j++) {
                const Element* x = in + starts[i + j] + slot;
                vi sum = initial;
#pragma GCC unroll 16
                for (int t = 0; t < words; t++) {
                    vi e = get(x + p.runs[2 * t]) & 0xffff;
                    if (2 * t + 1 < taps)
                        e |= get(x + p.runs[2 * t + 1]) << 16;
                    sum += pairs(e, TAPS ? held[TAPS ? t : 0] : load<vi>(w + (size_t)t * p.slots));
                }
                save(result + j * V, sum);
            }
            sink.take(result, V, count, slot, i);
        }
    }
}

static void depthwise_wide(const Prepared& p, const Element* in, const s32* starts, int pixels, s64* raw) {
    const int taps = (int)p.runs.size();
    for (int slot = 0; slot < p.slots; slot += V)
        for (int i = 0; i < pixels; i++) {
            const Element* x = in + starts[i] + slot;
            vl sum = {};
            for (int t = 0; t < taps; t++)
                sum += __builtin_convertvector(get(x + p.runs[t]), vl) *
                       __builtin_convertvector(load<vi>(p.pair_weights.data() + (size_t)t * p.slots + slot), vl);
            save(raw + (size_t)i * p.raw_pitch() + slot, sum);
        }
}

#if defined(BFPGA_BYTES)
/// Rows of a column side by side, a dot product for each column of the kernel; WIDTH: its columns where that is known.
template <int WIDTH, bool POSITIVE>
static void columns(const Prepared& p, const Element* in, const Sink& sink, s32* column) {
    const int kernel = WIDTH ? WIDTH : p.l.kernel_width, rows = p.l.kernel_height, width = p.l.output_width / p.join;
    const int stride = p.l.stride_x * p.join, needed = (width - 1) * stride + kernel, pitch = p.in.pitch;
    const int row1 = rows > 1 ? p.in.row : 0, row2 = rows > 2 ? 2 * p.in.row : 0, row3 = rows > 3 ? 3 * p.in.row : 0;
    alignas(64) s32 result[ROW * V];
    for (int slot = 0; slot < p.slots; slot += V) {
        vi w[WIDTH ? WIDTH : MOST_COLUMNS];
        for (int x = 0; x < kernel; x++)
            w[x] = load<vi>(p.weights.data() + ((size_t)x * p.slots + slot) * 4);
        const vi initial = load<vi>(sink.initial + slot);
        int held = 0, first = 0;
        for (int y = 0; y < p.l.output_height; y++) {
            const Element* x = in + p.starts[y * width] + slot;
            for (int i = 0; i < needed; i++, x += pitch)
                interleave(x, row1, row2, row3, column + i * V);
            for (int i = 0; i < width; i++) {
                vi sum = initial;
                const s32* at = column + i * stride * V;
#pragma GCC unroll 8
                for (int k = 0; k < kernel; k++) {
                    const vi group = load<vi>(at + k * V);
                    sum = POSITIVE ? dot_positive(sum, group, w[k]) : dot(sum, group, w[k]);
                }
                save(result + held * V, sum);
                if (++held == ROW) {
                    sink.take(result, V, held, slot, first);
                    first += held, held = 0;
                }
            }
        }
        sink.take(result, V, held, slot, first);
    }
}
#endif

/// The same weight at every tap of a channel: sums first.
static void uniform(const Prepared& p, const Element* in, const s32* starts, int pixels, const Sink& sink) {
    alignas(64) s32 result[ROW * V];
    const Layer& l = p.l;
    const int taps = l.kernel_height * l.kernel_width;
    for (int slot = 0; slot < p.slots; slot += V)
        for (int i = 0; i < pixels; i += ROW) {
            const int count = std::min(ROW, pixels - i);
            for (int j = 0; j < count; j++) {
                const Element* x = in + starts[i + j] + slot;
                vi sum = all<s32>(-ZERO * taps);
                for (int y = 0; y < l.kernel_height; y++, x += l.dilation_y * p.in.row)
                    for (int k = 0; k < l.kernel_width; k++)
                        sum += get(x + k * l.dilation_x * p.in.pitch);
                save(result + j * V, sum * load<vi>(p.uniform.data() + slot) + load<vi>(sink.initial + slot));
            }
            sink.take(result, V, count, slot, i);
        }
}

/// Ones in the lanes that are channels.
INLINE vi lanes(int left) {
    vi mask;
    for (int i = 0; i < V; i++)
        mask[i] = i < left ? -1 : 0;
    return mask;
}

/// Largest values of windows; outside the image is the smallest mantissa of two's complement.
static void maxima(const Prepared& p, const Tensor& image, const Element* in, s32 lowest, const Sink& sink) {
    alignas(64) s32 result[ROW * V];
    const Layer& l = p.l;
    for (int slot = 0; slot < p.slots; slot += V) {
        const vi mask = lanes(p.left(slot));
        for (int i = 0; i < p.pixels; i += ROW) {
            const int count = std::min(ROW, p.pixels - i);
            for (int j = 0; j < count; j++) {
                const int y0 = (i + j) / l.output_width * l.stride_y - l.pad_top;
                const int x0 = (i + j) % l.output_width * l.stride_x - l.pad_left;
                vi most = all<s32>(INT32_MIN);
                int seen = 0;
                for (int ky = 0; ky < l.kernel_height; ky++) {
                    const int y = y0 + ky * l.dilation_y;
                    if (y < 0 || y >= image.height)
                        continue;
                    for (int kx = 0; kx < l.kernel_width; kx++) {
                        const int x = x0 + kx * l.dilation_x;
                        if (x < 0 || x >= image.width)
                            continue;
                        most = largest(most, get(in + p.in.first + y * p.in.row + x * p.in.pitch + slot));
                        seen++;
                    }
                }
                most = seen ? most - ZERO : all<s32>(lowest);
                if (seen < l.kernel_height * l.kernel_width)
                    most = largest(most, all<s32>(lowest));
                save(result + j * V, most & mask);
            }
            sink.take(result, V, count, slot, i);
        }
    }
}

/// Each channel times a factor, which is no less than ``least`` then.
static void scales(const Prepared& p, const Element* in, const Element* factors, s32 least, const Sink& sink) {
    alignas(64) s32 result[ROW * V];
    for (int slot = 0; slot < p.slots; slot += V) {
        const vi factor = largest(get(factors + p.second.first + slot) - ZERO, all<s32>(least)) & lanes(p.left(slot));
        for (int i = 0; i < p.pixels; i += ROW) {
            const int count = std::min(ROW, p.pixels - i);
            for (int j = 0; j < count; j++)
                save(result + j * V, (get(in + p.starts[i + j] + slot) - ZERO) * factor);
            sink.take(result, V, count, slot, i);
        }
    }
}

/// Rounding right shift of 16-bit lanes, half to even.
INLINE vh rounded_words(vh v, int shift) {
    return shift ? (vh)((v + (s16)((1 << (shift - 1)) - 1) + ((v >> shift) & 1)) >> shift) : v;
}

/// ``sums`` in words of 16 bits, 2 V activations at a time, where rows lie without gaps and one shift serves all
/// channels.
///
/// Returns whether that is so.
static bool sums_of_rows(const Prepared& p, const Element* a, const Element* b, s32 shift_a, s32 shift_b,
                         const Sink& sink) {
    const Layer& l = p.l;
    const int count = l.output_width * l.channels;
    const auto gapless = [&](const Buffer& buffer) { return buffer.pitch == l.channels; };
    if (sizeof(Element) > 1 || sink.raw || !sink.epilogue->simple || sink.epilogue->add || l.row_exponents || l.bias ||
        !b || count % (2 * V) || count / (2 * V) > INT16_MAX || !gapless(p.in) || !gapless(p.second) || !gapless(p.out))
        return false;
    const Finish<s32>& f = *sink.epilogue;
    // Sums have 9 bits: what is shifted farther is 0.
    const int far = 14, shift = std::min(f.right[0], far), first = std::min(shift_a, far),
              second = std::min(shift_b, far);
    const vh floor = words(f.relu ? 0 : INT16_MIN), low = words(f.low), high = words(f.high);
    s64 over = 0;
    for (int y = 0; y < l.output_height; y++) {
        const Element *const one = a + p.in.first + y * p.in.row, *const two = b + p.second.first + y * p.second.row;
        Element* const out = sink.out + p.places[y * l.output_width];
        vh different = {}, lost = {};
        for (int i = 0; i < count; i += 2 * V) {
            const vh x = rounded_words(get_words(one + i), first), z = rounded_words(get_words(two + i), second);
            const vh sum = l.negate_second ? x - z : x + z, v = sum > floor ? sum : floor;
            const vh q = rounded_words(v, shift), above = q < low ? low : q, r = above > high ? high : above;
            different |= r ^ q;
            lost -= (r == 0) & (v != 0);
            put_words(out + i, r);
        }
        s16 lanes[2 * V];
        save(lanes, lost);
        for (s16 lane : lanes)
            sink.counts->lost += lane;
        if (!any((vi)different))
            continue;
        for (int i = 0; i < count; i += 2 * V) {
            const vh x = rounded_words(get_words(one + i), first), z = rounded_words(get_words(two + i), second);
            const vh sum = l.negate_second ? x - z : x + z, v = sum > floor ? sum : floor;
            const vh q = rounded_words(v, shift);
            save(lanes, (q < low) | (q > high));
            for (s16 lane : lanes)
                over -= lane;
        }
    }
    *sink.counts->overflows += over;
    return true;
}

/// Operands shifted to the larger exponent, added or subtracted; from pixel ``from`` on.
static void sums(const Prepared& p, const Element* a, const Element* b, s32 shift_a, s32 shift_b, s32 rounding,
                 const Sink& sink) {
    if (rounding == HALF_EVEN && sums_of_rows(p, a, b, shift_a, shift_b, sink))
        return;
    alignas(64) s32 result[ROW * V];
    const Layer& l = p.l;
    // Beyond 30 places all that is left is the sign.
    shift_a = std::min(shift_a, 30), shift_b = std::min(shift_b, 30);
    for (int slot = 0; slot < p.slots; slot += V) {
        const vi mask = lanes(p.left(slot));
        for (int y = 0; y < l.output_height; y++) {
            const Element* x0 = a + p.in.first + y * p.in.row + slot;
            const Element* x1 = b ? b + p.second.first + y * p.second.row + slot : nullptr;
            for (int x = 0; x < l.output_width; x += ROW) {
                const int count = std::min(ROW, l.output_width - x);
                for (int j = 0; j < count; j++) {
                    vi sum = rounded<s32>(get(x0 + (x + j) * p.in.pitch) - ZERO, shift_a, rounding);
                    if (b) {
                        const vi other = rounded<s32>(get(x1 + (x + j) * p.second.pitch) - ZERO, shift_b, rounding);
                        sum = l.negate_second ? sum - other : sum + other;
                    }
                    save(result + j * V, sum & mask);
                }
                sink.take(result, V, count, slot, y * l.output_width + x);
            }
        }
    }
}

}  // namespace bfpga_native
