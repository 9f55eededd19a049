// The sums of a pair of lanes of the skip array: what a group accumulates while it works on one kernel.
//
// Both sums are packed in the accumulator of the DSP block, like its products. The low field holds the lowest bits of
// its sum alone: an extra counter counts its overflows, from the field's position. A product is a quarter of its field
// at most, so a step from the last quarter into the first is an overflow upwards. At the end of the kernel `kept`
// returns what must be stored; `read` restores both sums from it, in one unit for all groups, after the output
// multiplexer.
#pragma once
#include "bfpga/processes/skip_array/pixel_pairs.hpp"

namespace bfpga {

// ACC: bits of a sum; TERMS: most products of a kernel that are not zero, between two beginnings.
template <int ACC, int TERMS>
class PairSums {
    using sum_t = int_t<ACC>;
    static constexpr int distance = PixelPairs::distance;
    static constexpr int largest_bits = 2 * (PixelPairs::pixel_bits - 1);  // of a product: -128 * -128
    static_assert(largest_bits == distance - 2, "a product is a quarter of the low field at most");
    static constexpr int high_bits = bit_length(static_cast<long long>(TERMS) << largest_bits) + 1;
    static constexpr int both_bits = distance + high_bits;
    static_assert(both_bits <= 48, "a DSP block accumulates 48 bits");
    static constexpr int wrap_bits = bit_length(TERMS / 4) + 1;
    using both_t = int_t<both_bits>;
    using wraps_t = int_t<wrap_bits>;

   public:
    using kept_t = uint_t<wrap_bits + both_bits>;

    // sums = (begins ? 0 : sums) + value * pair. In every cycle: a value of zero that does not begin leaves them.
    //
    // Expected of Vitis HLS: a multiply-add whose addend is its own result or zero, and of Vivado that it takes both
    // into one block, as an accumulator with a synchronous load (UG901): `both_` is its register, the selection its
    // mode.
    void accumulate(PixelPairs::pair_t pair, int_t<PixelPairs::pixel_bits> value, bool begins) {
#pragma HLS INLINE
        const Quarter from(begins ? static_cast<both_t>(0) : both_);
        both_ = static_cast<both_t>((begins ? static_cast<both_t>(0) : both_) + PixelPairs::multiply(pair, value));
        const Quarter to(both_);
        const wraps_t wraps = begins ? static_cast<wraps_t>(0) : wraps_;
        wraps_ = static_cast<wraps_t>(wraps + to.steps_from(from));
    }

    // The sums with what `accumulate` has added in this cycle.
    kept_t kept() const {
#pragma HLS INLINE
        const kept_t wraps = static_cast<kept_t>(static_cast<kept_t>(wraps_) & mask(wrap_bits));
        const kept_t both = static_cast<kept_t>(static_cast<kept_t>(both_) & mask(both_bits));
        return static_cast<kept_t>(static_cast<kept_t>(wraps << static_cast<unsigned>(both_bits)) | both);
    }

    // Both sums from what was kept: the low field has borrowed from the high one once per overflow.
    static void read(const kept_t& kept, sum_t& low, sum_t& high) {
#pragma HLS INLINE
        const kept_t wraps = static_cast<kept_t>(kept >> static_cast<unsigned>(both_bits));
        const kept_t raised = static_cast<kept_t>(wraps << static_cast<unsigned>(distance));
        low = low_bits<wrap_bits + distance>(static_cast<kept_t>(raised | static_cast<kept_t>(kept & mask(distance))));
        const int_t<high_bits> above =
            low_bits<high_bits>(static_cast<kept_t>(kept >> static_cast<unsigned>(distance)));
        high = static_cast<sum_t>(static_cast<int_t<high_bits>>(above - low_bits<wrap_bits>(wraps)));
    }

   private:
    static constexpr kept_t mask(int bits) {
        return static_cast<kept_t>((static_cast<uint64_t>(1) << static_cast<unsigned>(bits)) - 1);
    }

    // Position of the low field in its range: its two highest bits.
    struct Quarter {
        bool half, quarter;

        explicit Quarter(both_t both)
            : half((both >> (largest_bits + 1) & 1) != 0), quarter((both >> largest_bits & 1) != 0) {}

        // Overflows on the way from another quarter: 1 upwards, -1 downwards.
        wraps_t steps_from(const Quarter& from) const {
#pragma HLS INLINE
            const bool up = from.half && from.quarter && !half && !quarter;
            const bool down = !from.half && !from.quarter && half && quarter;
            // Put together of two bits: a selection would cost a table for each bit of the count.
            const uint_t<2> sign = static_cast<uint_t<2>>(down ? 2 : 0);
            return static_cast<wraps_t>(low_bits<2>(static_cast<uint_t<2>>(sign | static_cast<uint_t<2>>(up || down))));
        }
    };

    both_t both_;
    wraps_t wraps_;
};

}  // namespace bfpga
