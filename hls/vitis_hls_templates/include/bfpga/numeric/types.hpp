// Integers of any width and words of bits: AMD's, native ones, or those of clang.
//
// `int_t<N>` and `uint_t<N>` are `ap_int<N>` and `ap_uint<N>`; with BFPGA_NATIVE_INTEGERS the smallest native type that
// holds N bits; with BFPGA_EXACT_INTEGERS clang's `_BitInt(N)`, of exactly N bits. All builds give the same bits
// because no code relies on the wrap-around of a width: every value fits the type it is stored in, and bits are dropped
// with `low_bits` only. The exact build is the strictest: a sum or product has no more bits than its wider operand, so
// it finds code that depends on the promotion to `int` or on the growth of `ap_int`.
#pragma once
#include <cstdint>
#include <type_traits>
#if defined(BFPGA_NATIVE_INTEGERS) && defined(BFPGA_EXACT_INTEGERS)
#error "BFPGA_NATIVE_INTEGERS and BFPGA_EXACT_INTEGERS exclude each other"
#endif
#if !defined(BFPGA_NATIVE_INTEGERS) && !defined(BFPGA_EXACT_INTEGERS)
#include <ap_int.h>
#endif

namespace bfpga {

// Bits of the unsigned number `value`.
constexpr int bit_length(long long value) {
    int bits = 0;
    for (; value > 0; value >>= 1) {
        ++bits;
    }
    return bits;
}

constexpr bool is_power_of_two(int number) { return number > 0 && (number & (number - 1)) == 0; }

#if !defined(BFPGA_NATIVE_INTEGERS) && !defined(BFPGA_EXACT_INTEGERS)

constexpr bool native_integers = false;

template <int N>
using int_t = ap_int<N>;
template <int N>
using uint_t = ap_uint<N>;
// A beat of a stream or a word of memory: N bits without a sign.
template <int N>
using bits_t = ap_uint<N>;

// What a factor of `Own` bits is cast to for a product of `Product` bits: products of `ap_int` are exact, and a factor
// that is widened first takes more multipliers.
template <int Product, int Own>
using factor_t = ap_int<Own>;

// The lowest W bits of a number, as a signed number.
template <int W, class T>
inline ap_int<W> low_bits(const T& number) {
#pragma HLS INLINE
    return ap_int<W>(number);
}

// The lowest W bits of number * 2**amount, as a signed number. `amount`: unsigned.
template <int W, class T, class Amount>
inline ap_int<W> shifted_left(const T& number, const Amount& amount) {
#pragma HLS INLINE
    const ap_int<W> wide = number;
    return ap_int<W>(wide << amount);
}

// The W bits from bit `low` on as a signed number.
template <int W, int N>
inline int64_t get_signed(const ap_uint<N>& word, int low) {
#pragma HLS INLINE
    const ap_uint<W> field = word.range(low + W - 1, low);
    const ap_int<W> number = field;
    return number.to_int64();
}

// Sets the W bits from bit `low` on to the lowest W bits of `number`.
template <int W, int N>
inline void set_signed(ap_uint<N>& word, int low, int64_t number) {
#pragma HLS INLINE
    const ap_uint<W> field = number;
    word.range(low + W - 1, low) = field;
}

#elif defined(BFPGA_EXACT_INTEGERS)

constexpr bool native_integers = false;

template <int N>
using int_t = signed _BitInt(N);
template <int N>
using uint_t = unsigned _BitInt(N);
// A beat of a stream or a word of memory: N bits without a sign, in one integer, so that a field is a slice of it.
template <int N>
using bits_t = unsigned _BitInt(N);

// What a factor of `Own` bits is cast to for a product of `Product` bits: a product has the width of its wider factor.
template <int Product, int Own>
using factor_t = int_t<Product>;

// The lowest W bits of a number, as a signed number.
template <int W, class T>
inline int_t<W> low_bits(T number) {
#pragma HLS INLINE
    return static_cast<int_t<W>>(static_cast<uint_t<W>>(number));
}

// The lowest W bits of number * 2**amount, as a signed number. `amount`: unsigned, 63 at most.
template <int W, class T, class Amount>
inline int_t<W> shifted_left(T number, Amount amount) {
#pragma HLS INLINE
    // A shift by the width or more has no meaning in C++, so it happens in as many bits as the largest amount needs.
    constexpr int width = W < 64 ? 64 : W;
    return low_bits<W>(static_cast<uint_t<width>>(number) << static_cast<unsigned>(amount));
}

// The W bits from bit `low` on as a signed number.
template <int W, int N>
inline int64_t get_signed(const bits_t<N>& word, int low) {
#pragma HLS INLINE
    return low_bits<W>(word >> static_cast<unsigned>(low));
}

// Sets the W bits from bit `low` on to the lowest W bits of `number`.
template <int W, int N>
inline void set_signed(bits_t<N>& word, int low, int64_t number) {
#pragma HLS INLINE
    const bits_t<N> field = static_cast<uint_t<W>>(number);
    const bits_t<N> mask = static_cast<uint_t<W>>(-1);
    word = (word & ~(mask << static_cast<unsigned>(low))) | field << static_cast<unsigned>(low);
}

#else

constexpr bool native_integers = true;

__extension__ typedef __int128 native_int128;
__extension__ typedef unsigned __int128 native_uint128;

// The smallest of the native types that holds N bits.
template <int N, class T8, class T16, class T32, class T64, class T128>
struct smallest_holder {
    static_assert(N >= 1 && N <= 128, "a native build has integers of 1 to 128 bits");
    using above_32 = typename std::conditional<N <= 64, T64, T128>::type;
    using above_16 = typename std::conditional<N <= 32, T32, above_32>::type;
    using above_8 = typename std::conditional<N <= 16, T16, above_16>::type;
    using type = typename std::conditional<N <= 8, T8, above_8>::type;
};

template <int N>
using int_t = typename smallest_holder<N, int8_t, int16_t, int32_t, int64_t, native_int128>::type;
template <int N>
using uint_t = typename smallest_holder<N, uint8_t, uint16_t, uint32_t, uint64_t, native_uint128>::type;

// What a factor of `Own` bits is cast to for a product of `Product` bits.
template <int Product, int Own>
using factor_t = int_t<Product>;

// The lowest W bits of a number, as a signed number.
template <int W, class T>
inline int_t<W> low_bits(T number) {
    static_assert(W <= 64, "signed fields have up to 64 bits");
    return static_cast<int_t<W>>(static_cast<int64_t>(static_cast<uint64_t>(number) << (64 - W)) >> (64 - W));
}

// The lowest W bits of number * 2**amount, as a signed number.
template <int W, class T, class Amount>
inline int_t<W> shifted_left(T number, Amount amount) {
    return low_bits<W>(static_cast<uint64_t>(number) << amount);
}

// N bits, lowest first, in 64-bit parts.
template <int N>
struct bits_t {
    static constexpr int parts = (N + 63) / 64;
    uint64_t part[parts];

    bits_t() : part() {}
    bits_t(uint64_t low) : part() { part[0] = low; }
};

// The W bits from bit `low` on as a signed number; a field does not cross a 64-bit part.
template <int W, int N>
inline int64_t get_signed(const bits_t<N>& word, int low) {
    return low_bits<W>(word.part[low >> 6] >> (low & 63));
}

// Sets the W bits from bit `low` on to the lowest W bits of `number`.
template <int W, int N>
inline void set_signed(bits_t<N>& word, int low, int64_t number) {
    constexpr uint64_t mask = ~static_cast<uint64_t>(0) >> (64 - W);
    uint64_t& part = word.part[low >> 6];
    part = (part & ~(mask << (low & 63))) | ((static_cast<uint64_t>(number) & mask) << (low & 63));
}

#endif

// |value| of a signed number of N bits.
template <int N>
inline uint_t<N> magnitude(int_t<N> value) {
#pragma HLS INLINE
    // One adder, no multiplexer after it.
    const uint_t<N> sign = value < 0 ? static_cast<uint_t<N>>(-1) : static_cast<uint_t<N>>(0);
    return static_cast<uint_t<N>>((static_cast<uint_t<N>>(value) ^ sign) + (value < 0 ? 1 : 0));
}

}  // namespace bfpga
