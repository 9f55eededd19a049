// The sparse cluster: its numbers, and what its parts tell each other (docs/engines.md, section 6).
//
// Each unit has a piece of the input. It takes the elements of its piece that are not zero one after the other, and
// each of them meets all kernels in flight: `kernel` x `kernel` products a clock, added in as many banks (SC variant
// E).
#pragma once
#include "bfpga/memory/activation_memory.hpp"
#include "bfpga/numeric/numeric.hpp"

namespace bfpga {

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

// Sizes and types that follow from the numbers of a build.
template <class Config>
struct ClusterTypes {
    static constexpr int kernel = Config::cluster_kernel;  // rows and columns of the largest kernel, and of a block
    static constexpr int banks = kernel * kernel;          // of a unit: one for each of its multipliers
    static constexpr int units = Config::cluster_units;
    static constexpr int pixels = Config::cluster_load_pixels;  // of a segment
    static constexpr int flight = Config::cluster_kernels_in_flight;
    static constexpr int words = Config::cluster_accumulator_words;  // of one kernel's sums in a bank

    static_assert(Config::cluster_grid_rows >= 1 && Config::cluster_grid_columns >= 1,
                  "a cluster has at least one unit");
    static_assert(units == Config::cluster_grid_rows * Config::cluster_grid_columns, "every piece has a unit");
    static_assert(kernel >= 1 && kernel <= 16, "a unit multiplies with 1 x 1 to 16 x 16 weights");
    static_assert(Config::columns >= banks, "every sum of a block has a port of the output stage");
    static_assert(flight >= 1 && flight <= 64, "the mask of a channel word has a bit for each of 64 kernels");
    static_assert(flight % Config::lanes == 0, "a word of a result is of one group of kernels");
    static_assert(pixels >= 1 && pixels <= 64 && Config::lanes <= 64, "a selector looks at 64 bits at most");
    static_assert(pixels <= Config::banks, "the pixels of a segment lie in different banks");
    static_assert(words >= 1 && Config::cluster_memory_words >= 1, "a unit holds at least one cell");
    static_assert(Config::mantissa_bits >= 2 && Config::mantissa_bits <= 16, "operands have 2 to 16 bits");
    static_assert(Config::accumulator_bits >= 16 && Config::accumulator_bits <= 48, "sums have 16 to 48 bits");
    static_assert(Config::dependence_latency >= 4, "a segment is on its way for four clocks while an element is used");

    // The most lines a unit can hold, and with that a whole strip.
    static constexpr int rows = Config::cluster_grid_rows * smaller(Config::cluster_memory_words, kernel* words);
    static constexpr int segments =
        Config::cluster_grid_columns * smaller(Config::cluster_memory_words, (kernel * words + pixels - 1) / pixels);

    // Coordinates of the full grid and addresses in it: those of a strip are contiguous over its bands.
    static constexpr int number_bits =
        larger(Geometry<Config>::coordinate_bits, bit_length(4LL * (Config::cluster_grid_rows + 1) * words) + 1);
    // The same of a segment, which may begin ahead of its piece: as few bits as there are, since units store them.
    static constexpr int address_bits =
        bit_length((Config::cluster_grid_rows + Config::cluster_grid_columns + 2LL) * words + pixels) + 1;
    // Elements of a strip, and twice as many times pieces of an axis.
    static constexpr long long elements =
        static_cast<long long>(Config::banks) * Config::activation_words * Config::lanes;
    static constexpr int count_bits =
        bit_length(2 * elements * larger(Config::cluster_grid_rows, Config::cluster_grid_columns)) + 1;
    static constexpr int product_bits = 2 * Config::mantissa_bits;

    using mantissa_t = typename Geometry<Config>::mantissa_t;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using product_t = int_t<product_bits>;
    using number_t = int_t<number_bits>;
    using elements_t = uint_t<bit_length(elements)>;
    using count_t = int_t<count_bits>;
    using address_t = int_t<address_bits>;
    using phase_t = int_t<bit_length(kernel) + 1>;  // of `kernel` phases
    using taps_t = uint_t<kernel>;
    using pixels_t = uint_t<pixels>;              // a bit for each pixel of a segment
    using lanes_t = uint_t<Config::lanes>;        // a bit for each lane of a pixel
    using kernels_t = uint_t<flight>;             // a bit for each kernel of a group
    using kernel_t = uint_t<bit_length(flight)>;  // of a group, or their number

    // First of the words of a kernel's sums in a bank: a few bits times a constant.
    static int32_t plane(int32_t kernel) {
#pragma HLS INLINE
        return static_cast<int32_t>(static_cast<kernel_t>(kernel) * words);
    }
};

// The lowest bit that is set.
template <int N>
inline int lowest_one(uint_t<N> bits) {
#pragma HLS INLINE
    const uint_t<N> others = static_cast<uint_t<N>>(bits - 1);
    return lead_position<N>(static_cast<uint_t<N>>(bits & static_cast<uint_t<N>>(~others)));
}

// `bits` without the lowest one that is set.
template <int N>
inline uint_t<N> without_lowest(uint_t<N> bits) {
#pragma HLS INLINE
    return static_cast<uint_t<N>>(bits & static_cast<uint_t<N>>(bits - 1));
}

// A number in units of a modulus: counted, never divided.
template <class Config>
struct Residue {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;

    number_t quotient;
    number_t remainder;

    // The sum of two numbers; `unit`: what one unit of the quotient counts.
    Residue plus(const Residue& step, number_t modulus, number_t unit) const {
#pragma HLS INLINE
        const number_t sum = static_cast<number_t>(remainder + step.remainder);
        const bool carry = sum >= modulus;
        Residue result;
        result.quotient = static_cast<number_t>(quotient + step.quotient + (carry ? unit : static_cast<number_t>(0)));
        result.remainder = carry ? static_cast<number_t>(sum - modulus) : sum;
        return result;
    }

    static Residue of(number_t quotient, number_t remainder) {
#pragma HLS INLINE
        Residue result = {quotient, remainder};
        return result;
    }

    static Residue zero() { return of(0, 0); }

    // A number below `largest` in units of `kernel`: powers of two of it are taken away, once for an operation.
    static constexpr int32_t largest = 1 << 10;
    static Residue in_kernels(int32_t number) {
#pragma HLS INLINE
        int32_t rest = number;
        int32_t whole = 0;
    Powers_Subtract:
        for (int32_t power = largest / 2; power >= 1; power /= 2) {
#pragma HLS UNROLL
            if (rest >= power * T::kernel) {
                rest -= power * T::kernel;
                whole += power;
            }
        }
        return of(static_cast<number_t>(whole), static_cast<number_t>(rest));
    }

    // The distance of a pixel from the first one of its segment in units of `kernel`: one of a few constants.
    static Residue of_pixel(int pixel) {
#pragma HLS INLINE
        Residue found = zero();
    Pixels_Choose:
        for (int p = 0; p < T::pixels; ++p) {
#pragma HLS UNROLL
            if (pixel == p) {
                found = of(p / T::kernel, p % T::kernel);
            }
        }
        return found;
    }

    // One, in units of a modulus.
    static Residue one(number_t modulus, number_t unit) {
#pragma HLS INLINE
        return zero().plus(of(0, 1), modulus, unit);
    }
};

}  // namespace bfpga
