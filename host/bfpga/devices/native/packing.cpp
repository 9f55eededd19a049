// What the host does with every byte of a start: samples to mantissas, mantissas to their places on the input stream,
// checksums of streams. The same bits as `formats/block_float.py` and `contract/checksum.py` in numpy.
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "records.hpp"

namespace bfpga_native {

typedef uint8_t u8;
typedef uint32_t u32;

/// Bits of the largest finite float32.
constexpr u32 LARGEST = 0x7f7fffff;
/// Exponents whose power of two and its inverse are normal float32 numbers, which scale exactly.
constexpr int32_t MOST_SCALE = 126;
/// Rotations of a checksum until they repeat, one a beat.
constexpr int PERIOD = 32;

static u32 bits_of(float x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/// A value as it is encoded: times the factor of its channel, if it has one.
template <bool FACTORS>
static inline float value_at(const float* x, const float* factors, size_t i) {
    return FACTORS ? x[i] * factors[i] : x[i];
}

/// Bits of the largest magnitude; as integers they have the order of the numbers, infinity and NaN above all.
template <bool FACTORS>
static u32 largest_bits(const float* x, const float* factors, size_t count) {
    u32 largest = 0;
    for (size_t i = 0; i < count; i++) {
        const u32 bits = bits_of(value_at<FACTORS>(x, factors, i)) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/// Position of the leading one of a magnitude that is not zero; rounded up for `ceil`.
static int32_t lead_of(u32 bits, bool ceil) {
    const bool normal = bits >> 23;
    const int32_t leading = 31 - __builtin_clz(bits);
    const u32 rest = normal ? bits & 0x7fffff : bits ^ (u32)1 << leading;
    return (normal ? (int32_t)(bits >> 23) - 127 : leading - 149) + (ceil && rest);
}

static int32_t exponent_of(u32 bits, const Format& f) {
    const int64_t wanted = lead_of(bits, f.ceil) - (f.mantissa_bits - 2);
    return wanted < f.exponent_min ? f.exponent_min : wanted > f.exponent_max ? f.exponent_max : (int32_t)wanted;
}

template <class T>
static inline T within(T x, T low, T high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/// Added to 3 * 2**22 a float32 is rounded to an integer, half to even, which the low bits of the sum are.
constexpr float ROUNDER = 12582912.0f;

/// A value times a scale as an integer. Bounds are integers, so what lies beyond may be brought there before it is
/// rounded.
template <int ROUNDING>
static inline int32_t rounded(float value, float scale, float low, float high) {
    if (ROUNDING == HALF_EVEN)  // what is too small for a float32 becomes 0 anyway
        return (int32_t)bits_of(within(value * scale, low, high) + ROUNDER);
    // In float64 the product is exact, and halves are added exactly enough: a float32 that is not 0.5 away from an
    // integer stays on its side.
    const double x = within((double)value * scale, (double)low, (double)high);
    const double moved = ROUNDING == HALF_UP ? x + 0.5 : ROUNDING == HALF_AWAY ? x + (x < 0 ? -0.5 : 0.5) : x;
    const int32_t whole = (int32_t)moved;
    return ROUNDING == TRUNC || ROUNDING == HALF_UP ? whole - (moved < whole) : whole;
}

/// Samples on their way in. factors: (count,) or null; given: exponents are there already; remainder: bits of what is
/// left of values, which follows them, or 0; pitch: mantissas from sample to sample.
struct Samples {
    const float *x, *factors;
    int64_t samples;
    size_t count, pitch;
    bool given;
    int32_t remainder;
    int32_t* exponents;
};

template <class M, int ROUNDING, bool FACTORS>
static void encode_values(const float* x, const Samples& s, float scale, const Format& f, M* to) {
    const float low = (float)f.mantissa_min, high = (float)f.mantissa_max;
    for (size_t i = 0; i < s.count; i++)
        to[i] = (M)rounded<ROUNDING>(value_at<FACTORS>(x, s.factors, i), scale, low, high);
}

/// Values and what is left of them, rounded half to even.
template <class M, bool FACTORS>
static void encode_with_remainders(const float* x, const Samples& s, float scale, const Format& f, M* to) {
    const float low = (float)f.mantissa_min, high = (float)f.mantissa_max, finer = (float)((int64_t)1 << s.remainder);
    for (size_t i = 0; i < s.count; i++) {
        const float scaled = value_at<FACTORS>(x, s.factors, i) * scale, sum = within(scaled, low, high) + ROUNDER;
        to[i] = (M)bits_of(sum);
        to[s.count + i] = (M)rounded<HALF_EVEN>(scaled - (sum - ROUNDER), finer, low, high);
    }
}

/// False: a number that is not finite, or a scale that is none in float32.
template <class M, int ROUNDING, bool FACTORS>
static bool encode(const Samples& s, const Format& f, M* to) {
    const float* x = s.x;
    for (int64_t sample = 0; sample < s.samples; sample++, x += s.count, to += s.pitch) {
        const u32 largest = largest_bits<FACTORS>(x, s.factors, s.count);
        if (largest > LARGEST)
            return false;
        if (!s.given)
            s.exponents[sample] = largest ? exponent_of(largest, f) : f.exponent_min;
        if (!largest) {
            memset(to, 0, s.count * sizeof(M) * (s.remainder ? 2 : 1));
            continue;
        }
        const int32_t exponent = s.exponents[sample];
        if (exponent < -MOST_SCALE || exponent > MOST_SCALE)
            return false;
        const float scale = float_of((u32)(127 - exponent) << 23);
        if (ROUNDING == HALF_EVEN && s.remainder)
            encode_with_remainders<M, FACTORS>(x, s, scale, f, to);
        else
            encode_values<M, ROUNDING, FACTORS>(x, s, scale, f, to);
    }
    return true;
}

template <class M, int ROUNDING>
static bool encode(const Samples& s, const Format& f, M* to) {
    return s.factors ? encode<M, ROUNDING, true>(s, f, to) : encode<M, ROUNDING, false>(s, f, to);
}

template <class M>
static bool encode(const Samples& s, const Format& f, M* to) {
    switch (f.rounding) {
        case TRUNC:
            return encode<M, TRUNC>(s, f, to);
        case TO_ZERO:
            return encode<M, TO_ZERO>(s, f, to);
        case HALF_UP:
            return encode<M, HALF_UP>(s, f, to);
        case HALF_AWAY:
            return encode<M, HALF_AWAY>(s, f, to);
        default:
            return encode<M, HALF_EVEN>(s, f, to);
    }
}

/// Eight bytes are gathered in a register and stored at once.
template <class M>
static void place(const M* mantissas, size_t pitch, int64_t samples, const int32_t* source, size_t count, u8* rows,
                  size_t row_bytes) {
    constexpr size_t TOGETHER = sizeof(uint64_t) / sizeof(M), BITS = 8 * sizeof(M);
    typedef typename std::make_unsigned<M>::type Bits;
    for (int64_t sample = 0; sample < samples; sample++, mantissas += pitch, rows += row_bytes) {
        size_t at = 0;
        for (; at + TOGETHER <= count; at += TOGETHER) {
            uint64_t word = 0;
            for (size_t i = 0; i < TOGETHER; i++)
                word |= (uint64_t)(Bits)mantissas[source[at + i]] << BITS * i;
            memcpy(rows + at * sizeof(M), &word, sizeof word);
        }
        for (; at < count; at++)
            memcpy(rows + at * sizeof(M), &mantissas[source[at]], sizeof(M));
    }
}

/// Words of whole beats. The beats of a period turn by different amounts, so periods are added up first; they end where
/// the stream does, and beats that the first one lacks would change nothing.
template <int WORDS>
static u32 checksum(const u8* data, size_t beats) {
    constexpr size_t PERIOD_WORDS = (size_t)PERIOD * WORDS;
    u32 sums[PERIOD_WORDS] = {}, words[PERIOD_WORDS] = {};
    const size_t begun = beats % PERIOD * WORDS;
    memcpy(sums + PERIOD_WORDS - begun, data, begun * sizeof(u32));
    data += begun * sizeof(u32);
    for (size_t period = 0; period < beats / PERIOD; period++, data += sizeof words) {
        memcpy(words, data, sizeof words);
        for (size_t i = 0; i < PERIOD_WORDS; i++)
            sums[i] ^= words[i];
    }
    u32 total = 0;
    for (int beat = 0; beat < PERIOD; beat++) {
        total = total << 1 | total >> 31;
        for (int word = 0; word < WORDS; word++)
            total ^= sums[beat * WORDS + word];
    }
    return total;
}

}  // namespace bfpga_native

using namespace bfpga_native;

extern "C" {

/// Mantissas of ``bytes`` bytes; see ``Samples``. Remainders are rounded half to even only. 0: numpy has to do it, or
/// to say what is wrong.
int32_t bfpga_encode(const float* x, const float* factors, int64_t samples, int64_t count, const Format* format,
                     int32_t given, int32_t remainder, int32_t* exponents, void* mantissas, int64_t pitch,
                     int32_t bytes) {
    const Samples s = {x, factors, samples, (size_t)count, (size_t)pitch, given != 0, remainder, exponents};
    return bytes == 1 ? encode(s, *format, (int8_t*)mantissas) : encode(s, *format, (int16_t*)mantissas);
}

/// Each row gets the mantissas of its sample that ``source`` names.
void bfpga_place(const void* mantissas, int64_t pitch, int64_t samples, const int32_t* source, int64_t count,
                 uint8_t* rows, int64_t row_bytes, int32_t bytes) {
    if (bytes == 1)
        place((const int8_t*)mantissas, (size_t)pitch, samples, source, (size_t)count, rows, (size_t)row_bytes);
    else
        place((const int16_t*)mantissas, (size_t)pitch, samples, source, (size_t)count, rows, (size_t)row_bytes);
}

/// Of beats of 1 (32 bits) to 16 words, a power of two; 0 of others, which no stream has.
uint32_t bfpga_checksum(const uint8_t* data, int64_t beats, int32_t words) {
    switch (words) {
        case 1:
            return checksum<1>(data, (size_t)beats);
        case 2:
            return checksum<2>(data, (size_t)beats);
        case 4:
            return checksum<4>(data, (size_t)beats);
        case 8:
            return checksum<8>(data, (size_t)beats);
        case 16:
            return checksum<16>(data, (size_t)beats);
        case 32:
            return checksum<32>(data, (size_t)beats);
    }
    return 0;
}
}
