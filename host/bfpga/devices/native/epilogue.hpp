// What accumulators become: bias, function, rounding shift, saturation and its count. One epilogue for all kinds of
// layers, on vectors of 32 or 64 bits; constants lie in slots, one for each accumulator of a pixel.
#pragma once

#include <cstdlib>
#include <new>
#include <vector>

#include "scalar.hpp"

namespace bfpga_native {

/// Memory for vectors, zero at first.
template <class T>
class Array {
   public:
    Array() {}
    explicit Array(size_t count) { reset(count); }
    Array(Array&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { free(data_); }
    void reset(size_t count) {
        free(data_);
        count_ = count;
        const size_t bytes = (count * sizeof(T) + 191) / 64 * 64;
        data_ = (T*)aligned_alloc(64, bytes);
        if (!data_)
            throw std::bad_alloc();
        memset((void*)data_, 0, bytes);
    }
    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return count_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }

   private:
    T* data_ = nullptr;
    size_t count_ = 0;
};

/// Bounds of values before the requantizer: a rounding shift by up to 31 (62) must not overflow.
constexpr s64 SMALL = ((s64)1 << 30) - 1, WIDE = (s64)1 << 61;

/// A layer's bias and exponents for one exponent of its accumulators.
///
/// small, wide: values stay within SMALL or WIDE and nothing saturates before the requantizer, so vectors of 32 or 64
/// bits are exact; else the scalar stage has to do it. likely: the same as small if no accumulator of the sample
/// saturates with its bias; holds: none does, whatever it is. top: the largest.
struct Aligned {
    bool small = false, wide = false, likely = false, holds = true;
    s64 top = 0;
    Array<s32> exponents, bias32, ceiling32;
    Array<s64> bias64, ceiling64;
    Array<u8> outside;
};

/// Constants of the requantizer, one in each slot: v -> (v + c1 + ((v >> right) & c2) + ((v >> all) & c3)) >> right.
template <class T>
struct Shifts {
    Array<T> right, c1, c2, c3, left;
    bool lefts = false;
    /// most_left: further to the left nothing is shifted.
    void make(const s32* e3, s32 e4, int slots, const Format& f, s32 most_left);
    /// A left shift by all bits of a mantissa makes any value overflow.
    void make(const s32* e3, s32 e4, int slots, const Format& f) { make(e3, e4, slots, f, f.mantissa_bits); }
};

template <class T>
void Shifts<T>::make(const s32* e3, s32 e4, int slots, const Format& f, s32 most_left) {
    if ((int)right.size() < slots)
        for (Array<T>* a : {&right, &c1, &c2, &c3, &left})
            a->reset(slots);
    constexpr T most = sizeof(T) == 4 ? 31 : 62;
    s32 smallest = 0;
    for (int i = 0; i < slots; i++) {
        const s32 shift = e4 - e3[i];
        const T s = shift > (s32)most ? most
                    : shift > 0       ? (T)shift
                                      : 0,
                some = s > 0, half = s > 0 ? (T)1 << (s - 1) : 0;
        smallest = shift < smallest ? shift : smallest;
        right[i] = s;
        left[i] = -shift > most_left ? most_left : shift < 0 ? -shift : 0;
        c1[i] = f.rounding >= HALF_UP ? half : 0;
        c2[i] = c3[i] = 0;
        if (f.rounding == HALF_EVEN)
            c1[i] = half - some, c2[i] = some;
        else if (f.rounding == HALF_AWAY)
            c3[i] = -some;
        else if (f.rounding == TO_ZERO)
            c3[i] = s > 0 ? (T)(((typename std::make_unsigned<T>::type)1 << s) - 1) : 0;
    }
    lefts = smallest < 0;
}

/// Whether ``function_of`` has a function; these never decrease, which ``lead_fast`` needs. The others of arithmetic
/// and those with tables go through ``stage.hpp``.
INLINE bool in_vectors(s32 function) {
    return function == NONE || function == RELU || function == LEAKY_RELU || function == CLIP;
}

/// How a block of accumulators becomes mantissas. simple: no left shifts, no function but ReLU, half to even.
template <class T>
struct Finish {
    const T *right, *c1, *c2, *c3, *left, *bias, *ceiling;
    s32 low, high, leaky, rounding;
    bool lefts, simple, relu, clip, first, add;
};

/// Whether any lane is not zero, of a vector of any width.
template <class VT>
INLINE bool any_lane(VT v) {
    vi parts[sizeof(VT) / sizeof(vi)];
    memcpy(parts, &v, sizeof v);
    bool some = false;
    for (const vi& part : parts)
        some |= any(part);
    return some;
}

/// Where mantissas go: ``offsets`` of pixels, or ``step`` elements apart.
struct Place {
    Element* data;
    const s32* offsets;
    s32 step;
};

/// Counts of a layer in one thread: overflows of every sample, underflows of all.
struct Counts {
    s64* overflows = nullptr;
    vi underflows = {};
    s64 lost = 0;
    void flush() {
        for (int i = 0; i < V; i++)
            lost += underflows[i];
        underflows = (vi){};
    }
};

/// Constants of one slot's vector in registers.
template <class T>
struct SlotConstants {
    typedef typename Lanes<T>::type VT;
    VT right, c1, c2, c3, left, bias, ceiling;
    SlotConstants(const Finish<T>& f, int slot)
        : right(load<VT>(f.right + slot)),
          c1(load<VT>(f.c1 + slot)),
          c2(load<VT>(f.c2 + slot)),
          c3(load<VT>(f.c3 + slot)),
          left(load<VT>(f.left + slot)),
          bias(f.add ? load<VT>(f.bias + slot) : VT{}),
          ceiling(f.clip ? load<VT>(f.ceiling + slot) : VT{}) {}
};

/// Rounding right shift by the same amount in all lanes.
template <class T>
INLINE typename Lanes<T>::type rounded(typename Lanes<T>::type v, s32 s, s32 rounding) {
    typedef typename Lanes<T>::type VT;
    if (s <= 0)
        return v;
    const T half = (T)1 << (s - 1);
    const VT negative = v >> (s32)(8 * sizeof(T) - 1);
    if (rounding == HALF_EVEN)
        v += all<T>(half - 1) + ((v >> s) & 1);
    else if (rounding == HALF_UP)
        v += half;
    else if (rounding == HALF_AWAY)
        v += half + negative;
    else if (rounding == TO_ZERO)
        v += negative & all<T>(2 * half - 1);
    return v >> s;
}

template <class T>
INLINE typename Lanes<T>::type function_of(const Finish<T>& f, const SlotConstants<T>& k, typename Lanes<T>::type v) {
    typedef typename Lanes<T>::type VT;
    if (f.relu)
        v = largest(v, VT{});
    if (f.clip)
        v = smallest(v, k.ceiling);
    if (f.leaky)
        v = v < 0 ? rounded<T>(v, f.leaky, f.rounding) : v;
    return v;
}

/// The value before the requantizer.
template <class T, bool SIMPLE>
INLINE typename Lanes<T>::type value_of(const Finish<T>& f, const SlotConstants<T>& k, typename Lanes<T>::type v,
                                        typename Lanes<T>::type floor) {
    if (SIMPLE)
        return largest(f.add ? v + k.bias : v, floor);
    if (f.first)
        return function_of(f, k, v) + k.bias;
    return function_of(f, k, f.add ? v + k.bias : v);
}

/// The requantizer before saturation.
template <class T, bool SIMPLE>
INLINE typename Lanes<T>::type shifted(const Finish<T>& f, const SlotConstants<T>& k, typename Lanes<T>::type v) {
    typedef typename Lanes<T>::type VT;
    if (SIMPLE)
        return (v + k.c1 + ((v >> k.right) & k.c2)) >> k.right;
    const VT negative = v >> (s32)(8 * sizeof(T) - 1);
    VT q = (v + k.c1 + ((v >> k.right) & k.c2) + (negative & k.c3)) >> k.right;
    if (f.lefts) {
        const VT most = (all<T>(f.high) >> k.left) + 2;
        q = largest(smallest(q, most), -most) << k.left;
    }
    return q;
}

/// Overflows of ``count`` pixels of V slots from ``slot`` on; see ``finish_slots``.
template <class T, bool SIMPLE, class A>
static void count_overflows(const Finish<T>& f, const A* accumulators, int pitch, int count, int slot, Counts& counts,
                            int pixel, int pixels) {
    typedef typename Lanes<T>::type VT;
    typedef typename Lanes<A>::type VA;
    const SlotConstants<T> k(f, slot);
    const VT low = all<T>(f.low), high = all<T>(f.high),
             floor = all<T>(f.relu ? 0 : (T)(sizeof(T) == 4 ? INT32_MIN : INT64_MIN));
    for (int i = 0; i < count; i++) {
        const VT v =
            value_of<T, SIMPLE>(f, k, __builtin_convertvector(load<VA>(accumulators + (size_t)i * pitch), VT), floor);
        const VT q = shifted<T, SIMPLE>(f, k, v), r = smallest(largest(q, low), high);
        s64 over = 0;
        for (int j = 0; j < V; j++)
            over += r[j] != q[j];
        counts.overflows[(pixel + i) / pixels] += over;
    }
}

/// Mantissas of ``count`` pixels of V slots from ``slot`` on.
///
/// accumulators: of type A, ``pitch`` apart. left: slots that are channels. pixel: number of the first one among those
/// of all samples, whose overflows are counted one by one; pixels: of one sample.
template <class T, bool SIMPLE, class A>
static void finish_slots(const Finish<T>& f, const A* accumulators, int pitch, int count, const Place& place, int slot,
                         int left, Counts& counts, int pixel, int pixels) {
    typedef typename Lanes<T>::type VT;
    typedef typename Lanes<A>::type VA;
    const SlotConstants<T> k(f, slot);
    const VT low = all<T>(f.low), high = all<T>(f.high),
             floor = all<T>(f.relu ? 0 : (T)(sizeof(T) == 4 ? INT32_MIN : INT64_MIN));
    VT different = {};
    vi underflows = counts.underflows;
    const s32 step = place.step;
    const s32* const offsets = place.offsets;
    Element* const data = place.data;
    for (int i = 0; i < count; i++) {
        const VT v =
            value_of<T, SIMPLE>(f, k, __builtin_convertvector(load<VA>(accumulators + (size_t)i * pitch), VT), floor);
        const VT q = shifted<T, SIMPLE>(f, k, v), r = smallest(largest(q, low), high);
        different |= r ^ q;
        const vi mantissa = narrowed(r);
        underflows = add_underflows(underflows, mantissa, v);
        put(data + (offsets ? offsets[i] : i * step), mantissa, left);
    }
    counts.underflows = underflows;
    if (any_lane(different))
        count_overflows<T, SIMPLE>(f, accumulators, pitch, count, slot, counts, pixel, pixels);
}

/// The same of one pixel, whose channels lie side by side.
template <class T, bool ADD, class A>
static void finish_row(const Finish<T>& f, const A* accumulators, int channels, Element* out, Counts& counts) {
    typedef typename Lanes<T>::type VT;
    typedef typename Lanes<A>::type VA;
    const T *const right = f.right, *const c1 = f.c1, *const c2 = f.c2, *const bias = f.bias;
    const VT low = all<T>(f.low), high = all<T>(f.high),
             floor = all<T>(f.relu ? 0 : (T)(sizeof(T) == 4 ? INT32_MIN : INT64_MIN));
    VT different = {};
    vi underflows = counts.underflows;
    for (int slot = 0; slot < channels; slot += V) {
        VT v = __builtin_convertvector(load<VA>(accumulators + slot), VT);
        if (ADD)
            v += load<VT>(bias + slot);
        v = largest(v, floor);
        const VT shift = load<VT>(right + slot);
        const VT q = (v + load<VT>(c1 + slot) + ((v >> shift) & load<VT>(c2 + slot))) >> shift;
        const VT r = smallest(largest(q, low), high);
        different |= r ^ q;
        const vi mantissa = narrowed(r);
        underflows = add_underflows(underflows, mantissa, v);
        put(out + slot, mantissa, channels - slot);
    }
    counts.underflows = underflows;
    for (int slot = 0; any_lane(different) && slot < channels; slot += V)
        count_overflows<T, true>(f, accumulators + slot, 0, 1, slot, counts, 0, 1);
}

#if BFPGA_LANES == 8 && defined(BFPGA_BYTES)
/// The same for two vectors of slots that are all channels, side by side in memory: 16 bits hold what is left to do.
template <bool ADD>
static void finish_two(const Finish<s32>& f, const s32* accumulators, int pitch, int count, const Place& place,
                       int slot, Counts& counts, int pixel, int pixels) {
    const SlotConstants<s32> one(f, slot), two(f, slot + V);
    const vi floor = all<s32>(f.relu ? 0 : INT32_MIN);
    const __m256i low = _mm256_set1_epi16((s16)f.low), high = _mm256_set1_epi16((s16)f.high), none = {};
    const __m256i offset = _mm256_set1_epi16(ZERO), order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
    __m256i different = {}, underflows = {};
    const s32 step = place.step;
    const s32* const offsets = place.offsets;
    Element* const data = place.data;
    for (int i = 0; i < count; i++) {
        const s32* const from = accumulators + (size_t)i * pitch;
        vi v = load<vi>(from), w = load<vi>(from + V);
        if (ADD)
            v += one.bias, w += two.bias;
        v = largest(v, floor), w = largest(w, floor);
        const vi q = shifted<s32, true>(f, one, v), r = shifted<s32, true>(f, two, w);
        const __m256i both = _mm256_packs_epi32((__m256i)q, (__m256i)r);
        const __m256i mantissas = _mm256_min_epi16(_mm256_max_epi16(both, low), high);
        different = _mm256_or_si256(different, _mm256_xor_si256(mantissas, both));
        const __m256i nothing = _mm256_cmpeq_epi16(_mm256_packs_epi32((__m256i)v, (__m256i)w), none);
        underflows = _mm256_sub_epi16(underflows, _mm256_andnot_si256(nothing, _mm256_cmpeq_epi16(mantissas, none)));
        const __m256i stored = _mm256_add_epi16(mantissas, offset);
        const __m256i bytes = ZERO ? _mm256_packus_epi16(stored, stored) : _mm256_packs_epi16(stored, stored);
        _mm_storeu_si128((__m128i*)(data + (offsets ? offsets[i] : i * step)),
                         _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order)));
    }
    counts.underflows += (vi)_mm256_madd_epi16(underflows, _mm256_set1_epi16(1));
    if (!any((vi)different))
        return;
    count_overflows<s32, true>(f, accumulators, pitch, count, slot, counts, pixel, pixels);
    count_overflows<s32, true>(f, accumulators + V, pitch, count, slot + V, counts, pixel, pixels);
}
#endif

template <class T, class A>
static void finish(const Finish<T>& f, const A* accumulators, int pitch, int count, const Place& place, int slot,
                   int left, Counts& counts, int pixel, int pixels) {
    if (f.simple)
        finish_slots<T, true>(f, accumulators, pitch, count, place, slot, left, counts, pixel, pixels);
    else
        finish_slots<T, false>(f, accumulators, pitch, count, place, slot, left, counts, pixel, pixels);
}

/// Pixels whose counts 16 bits hold.
constexpr int MOST_PIXELS = INT16_MAX;

/// Mantissas of two vectors of slots from ``slot`` on at once, if this set has that for them; ``left``: of both.
INLINE bool finish_both(const Finish<s32>& f, const s32* accumulators, int pitch, int count, const Place& place,
                        int slot, int left, Counts& counts, int pixel, int pixels) {
#if BFPGA_LANES == 8 && defined(BFPGA_BYTES)
    if (!f.simple || left < 2 * V || count > MOST_PIXELS)
        return false;
    if (f.add)
        finish_two<true>(f, accumulators, pitch, count, place, slot, counts, pixel, pixels);
    else
        finish_two<false>(f, accumulators, pitch, count, place, slot, counts, pixel, pixels);
    return true;
#else
    (void)f, (void)accumulators, (void)pitch, (void)count, (void)place, (void)slot, (void)left, (void)counts;
    (void)pixel, (void)pixels;
    return false;
#endif
}
template <class T, class A>
INLINE bool finish_both(const Finish<T>&, const A*, int, int, const Place&, int, int, Counts&, int, int) {
    return false;
}

}  // namespace bfpga_native
