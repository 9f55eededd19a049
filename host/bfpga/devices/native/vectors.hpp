// Vectors of the instruction set that the build names, and how activations lie in memory for it.
//
// Bytes are u8 with an offset of 128 where the dot product takes unsigned bytes, else s8; words are s16.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(BFPGA_AVX512_VNNI) || defined(BFPGA_AVX512_WORDS)
#define BFPGA_LANES 16
#elif defined(BFPGA_AVX_VNNI) || defined(BFPGA_AVX2) || defined(BFPGA_AVX2_WORDS)
#define BFPGA_LANES 8
#else
#define BFPGA_LANES 4
#endif

#if defined(BFPGA_AVX512_VNNI) || defined(BFPGA_AVX_VNNI) || defined(BFPGA_AVX2)
#define BFPGA_BYTES
#endif

#define INLINE static inline __attribute__((always_inline))

namespace bfpga_native {

typedef int8_t s8;
typedef uint8_t u8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#if defined(BFPGA_AVX512_VNNI)
constexpr int V = 16, G = 4, ZERO = 128;
typedef u8 Element;
typedef s8 Weight;
#elif defined(BFPGA_AVX_VNNI)
constexpr int V = 8, G = 4, ZERO = 128;
typedef u8 Element;
typedef s8 Weight;
#elif defined(BFPGA_AVX2)
constexpr int V = 8, G = 4, ZERO = 0;
typedef s8 Element;
typedef s8 Weight;
#elif defined(BFPGA_AVX512_WORDS)
constexpr int V = 16, G = 2, ZERO = 0;
typedef s16 Element;
typedef s16 Weight;
#elif defined(BFPGA_AVX2_WORDS)
constexpr int V = 8, G = 2, ZERO = 0;
typedef s16 Element;
typedef s16 Weight;
#else
constexpr int V = 4, G = 2, ZERO = 0;
typedef s16 Element;
typedef s16 Weight;
#endif

typedef s32 vi __attribute__((vector_size(4 * V)));
typedef s64 vl __attribute__((vector_size(8 * V)));
typedef float vf __attribute__((vector_size(4 * V)));
typedef s16 vh __attribute__((vector_size(4 * V)));

template <class T>
struct Lanes;
template <>
struct Lanes<s32> {
    typedef vi type;
};
template <>
struct Lanes<s64> {
    typedef vl type;
};

template <class T>
INLINE typename Lanes<T>::type all(T x) {
    return x - (typename Lanes<T>::type){};
}
template <class VT, class T>
INLINE VT load(const T* p) {
    VT v;
    memcpy(&v, p, sizeof v);
    return v;
}
template <class VT, class T>
INLINE void save(T* p, VT v) {
    memcpy(p, &v, sizeof v);
}
/// A group of activations in every lane.
INLINE vi group_at(const Element* x) { return all<s32>(*(const s32 __attribute__((may_alias, aligned(1)))*)x); }
template <class VT>
INLINE VT largest(VT a, VT b) {
    return a > b ? a : b;
}
template <class VT>
INLINE VT smallest(VT a, VT b) {
    return a < b ? a : b;
}

/// a + sum of G products of an activation group (in every lane) and weights.
INLINE vi dot(vi a, vi x, vi w) {
#if defined(BFPGA_AVX512_VNNI)
    return (vi)_mm512_dpbusd_epi32((__m512i)a, (__m512i)x, (__m512i)w);
#elif defined(BFPGA_AVX_VNNI)
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)a, (__m256i)x, (__m256i)w);
#elif defined(BFPGA_AVX2)
    // |x| <= 128 and |w| <= 127: two products stay within 16 bits.
    const __m256i magnitude = _mm256_abs_epi8((__m256i)x), sign = _mm256_sign_epi8((__m256i)w, (__m256i)x);
    return a + (vi)_mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, sign), _mm256_set1_epi16(1));
#elif defined(BFPGA_AVX512_WORDS)
#if defined(__AVX512VNNI__)
    return (vi)_mm512_dpwssd_epi32((__m512i)a, (__m512i)x, (__m512i)w);
#else
    return a + (vi)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#endif
#elif defined(BFPGA_AVX2_WORDS)
    return a + (vi)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
    return a + (vi)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
    return a + ((x << 16) >> 16) * ((w << 16) >> 16) + (x >> 16) * (w >> 16);
#endif
}

/// Whether sums beyond 32 bits are found from products of words and of bytes (``estimated.hpp``).
#if defined(BFPGA_AVX512_WORDS) && defined(__AVX512VNNI__)
constexpr bool ESTIMATES = true;
#else
constexpr bool ESTIMATES = false;
#endif

/// The same of four unsigned bytes in each lane and four signed ones, for sets of words that have it.
INLINE vi dot_bytes(vi a, vi x, vi w) {
#if defined(BFPGA_AVX512_WORDS) && defined(__AVX512VNNI__)
    return (vi)_mm512_dpbusd_epi32((__m512i)a, (__m512i)x, (__m512i)w);
#else
    (void)x, (void)w;
    return a;
#endif
}

/// Whether products are faster where no activation is negative.
#if defined(BFPGA_AVX2)
constexpr bool POSITIVE_DIFFERS = true;
#else
constexpr bool POSITIVE_DIFFERS = false;
#endif

/// The same for activations that are not negative.
INLINE vi dot_positive(vi a, vi x, vi w) {
#if defined(BFPGA_AVX2)
    return a + (vi)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)x, (__m256i)w), _mm256_set1_epi16(1));
#else
    return dot(a, x, w);
#endif
}

/// Groups of activations in a row whose products 16 bits may hold together.
#if defined(BFPGA_AVX2)
constexpr int MOST_CHAIN = 4;

/// Products of pairs of bytes in 16 bits. x: activations; m: their magnitudes, or the activations if none is negative.
template <bool POSITIVE>
INLINE vi byte_products(vi x, vi m, vi w) {
    return (vi)_mm256_maddubs_epi16((__m256i)m, POSITIVE ? (__m256i)w : _mm256_sign_epi8((__m256i)w, (__m256i)x));
}
INLINE vi add_words(vi a, vi b) { return (vi)_mm256_add_epi16((__m256i)a, (__m256i)b); }
INLINE vi add_products(vi a, vi products) { return a + (vi)_mm256_madd_epi16((__m256i)products, _mm256_set1_epi16(1)); }
#else
constexpr int MOST_CHAIN = 1;
#endif

/// Products of pairs of 16-bit numbers, added in each lane.
INLINE vi pairs(vi a, vi b) {
#if BFPGA_LANES == 16
    return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif BFPGA_LANES == 8
    return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

#if defined(BFPGA_BYTES)
/// V channels of four rows, the rows side by side in each lane.
INLINE void interleave(const Element* x, int row1, int row2, int row3, s32* to) {
#if BFPGA_LANES == 16
    alignas(64) static const u8 order[64] = {0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51,
                                             4,  20, 36, 52, 5,  21, 37, 53, 6,  22, 38, 54, 7,  23, 39, 55,
                                             8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58, 11, 27, 43, 59,
                                             12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};
    const __m256i a = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i*)x)),
                                              _mm_loadu_si128((const __m128i*)(x + row1)), 1);
    const __m256i b = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i*)(x + row2))),
                                              _mm_loadu_si128((const __m128i*)(x + row3)), 1);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi8(_mm512_load_si512(order), both));
#else
    const __m128i ab =
        _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i*)x), _mm_loadl_epi64((const __m128i*)(x + row1)));
    const __m128i cd =
        _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i*)(x + row2)), _mm_loadl_epi64((const __m128i*)(x + row3)));
    _mm_storeu_si128((__m128i*)to, _mm_unpacklo_epi16(ab, cd));
    _mm_storeu_si128((__m128i*)(to + 4), _mm_unpackhi_epi16(ab, cd));
#endif
}
#endif

/// V activations as they lie in memory (offset kept), widened.
INLINE vi get(const Element* p) {
#if defined(BFPGA_AVX512_VNNI)
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
#elif defined(BFPGA_AVX512_WORDS)
    return (vi)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i*)p));
#elif defined(BFPGA_AVX_VNNI)
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
#elif defined(BFPGA_AVX2)
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
#elif defined(BFPGA_AVX2_WORDS)
    return (vi)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)p));
#else
    return (vi){p[0], p[1], p[2], p[3]};
#endif
}

/// The first ``count`` mantissas of a vector into memory. Intrinsics: GCC 12 narrows lane by lane.
INLINE void put(Element* p, vi mantissas, int count) {
    const vi r = mantissas + ZERO;
#if defined(BFPGA_AVX512_VNNI)
    const __m128i h = _mm512_cvtepi32_epi8((__m512i)r);
    if (count >= V)
        _mm_storeu_si128((__m128i*)p, h);
    else
        _mm_mask_storeu_epi8(p, (__mmask16)((1u << count) - 1), h);
    return;
#elif defined(BFPGA_AVX512_WORDS)
    const __m256i h = _mm512_cvtepi32_epi16((__m512i)r);
    if (count >= V)
        _mm256_storeu_si256((__m256i*)p, h);
    else
        _mm256_mask_storeu_epi16(p, (__mmask16)((1u << count) - 1), h);
    return;
#elif BFPGA_LANES == 8
    alignas(16) Element narrow[V];
    __m128i h = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)r), _mm256_extracti128_si256((__m256i)r, 1));
    if (sizeof(Element) == 2) {
        if (count >= V)
            return _mm_storeu_si128((__m128i*)p, h);
        _mm_store_si128((__m128i*)narrow, h);
    } else {
        h = ZERO ? _mm_packus_epi16(h, h) : _mm_packs_epi16(h, h);
        if (count >= V)
            return _mm_storel_epi64((__m128i*)p, h);
        _mm_storel_epi64((__m128i*)narrow, h);
    }
    memcpy(p, narrow, (count < V ? count : V) * sizeof(Element));
#else
    for (int i = 0; i < V && i < count; i++)
        p[i] = (Element)r[i];
#endif
}

/// The same word in every lane of 16 bits.
INLINE vh words(s32 x) { return (s16)x - (vh){}; }

/// 2 V activations as words, without their offset.
INLINE vh get_words(const Element* p) {
#if BFPGA_LANES == 16 && defined(BFPGA_BYTES)
    return (vh)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)p)) - (s16)ZERO;
#elif BFPGA_LANES == 8 && defined(BFPGA_BYTES)
    const __m128i bytes = _mm_loadu_si128((const __m128i*)p);
    return (vh)(ZERO ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes)) - (s16)ZERO;
#else
    return load<vh>(p);
#endif
}

/// 2 V mantissas into memory.
INLINE void put_words(Element* p, vh mantissas) {
    const vh r = mantissas + (s16)ZERO;
#if BFPGA_LANES == 16 && defined(BFPGA_BYTES)
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi16_epi8((__m512i)r));
#elif BFPGA_LANES == 8 && defined(BFPGA_BYTES)
    const __m256i bytes =
        ZERO ? _mm256_packus_epi16((__m256i)r, (__m256i)r) : _mm256_packs_epi16((__m256i)r, (__m256i)r);
    _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0x08)));
#else
    save(p, r);
#endif
}

INLINE vi narrowed(vl v) {
#if BFPGA_LANES == 16
    __m512i half[2];
    memcpy(half, &v, sizeof half);
    return (vi)_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(half[0])),
                                  _mm512_cvtepi64_epi32(half[1]), 1);
#else
    vi r;
    for (int i = 0; i < V; i++)
        r[i] = (s32)v[i];
    return r;
#endif
}
INLINE vi narrowed(vi v) { return v; }

/// Whether any lane is not zero.
INLINE bool any(vi v) {
#if BFPGA_LANES == 16
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif BFPGA_LANES == 8
    return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#else
    return (v[0] | v[1] | v[2] | v[3]) != 0;
#endif
}

/// ``count`` with one more in the lanes in which the mantissa is zero and the value is not.
INLINE vi add_underflows(vi count, vi mantissa, vi value) {
#if BFPGA_LANES == 16
    const __mmask16 zero = _mm512_testn_epi32_mask((__m512i)mantissa, (__m512i)mantissa);
    const __mmask16 lost = _mm512_mask_test_epi32_mask(zero, (__m512i)value, (__m512i)value);
    return (vi)_mm512_mask_sub_epi32((__m512i)count, lost, (__m512i)count, _mm512_set1_epi32(-1));
#else
    return count - ((mantissa == 0) & (value != 0));
#endif
}
INLINE vi add_underflows(vi count, vi mantissa, vl value) {
    const vl different = value != 0;
    return count - ((mantissa == 0) & narrowed(different));
}

}  // namespace bfpga_native
