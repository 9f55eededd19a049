// multiplier.hpp: exhaustive proof of one packed product, sums of several, and plain tiles. quad_multiplier.hpp:
// factors, sums and fields of any operands.
#include <cstdint>

#include "bfpga/array/multiplier.hpp"
#include "bfpga/array/quad_multiplier.hpp"

namespace {

// Both rows of a sum, taken apart as the tiles do it.
template <int SHIFT>
struct Fields {
    bfpga::int_t<24> high;
    bfpga::int_t<SHIFT> low;

    template <class Tile, class Sum>
    static Fields of(const Sum& sum) {
        return {Tile::template add_high<24>(bfpga::int_t<24>(0), sum), bfpga::low_bits<SHIFT>(sum)};
    }
};

template <int SHIFT, int LANES>
void packed_sum(const int8_t* high, const int8_t* low, const int8_t* x, int32_t* sums) {
    using Tile = bfpga::PackedProducts<8, SHIFT, LANES>;
    bfpga::int_t<Tile::operand_bits> operand[LANES];
    bfpga::int_t<8> shared[LANES];
    for (int l = 0; l < LANES; ++l) {
        operand[l] = Tile::operand(bfpga::int_t<8>(high[l]), bfpga::int_t<8>(low[l]));
        shared[l] = x[l];
    }
    const Fields<SHIFT> pair = Fields<SHIFT>::template of<Tile>(Tile::multiply_signed(shared, operand));
    sums[0] = static_cast<int32_t>(pair.high);
    sums[1] = static_cast<int32_t>(pair.low);
}

// Wrong results, and operands beyond `operand_bits`, among all symmetric weights and all activations divisible by
// `stride`.
template <int SHIFT>
int64_t count_wrong(int operand_bits, int stride) {
    using Tile = bfpga::PackedProducts<8, SHIFT, 1>;
    const int64_t limit = static_cast<int64_t>(1) << (operand_bits - 1);
    int64_t wrong = 0;
    for (int high = -127; high <= 127; ++high) {
        for (int low = -127; low <= 127; ++low) {
            const bfpga::int_t<Tile::operand_bits> operand[1] = {
                Tile::operand(bfpga::int_t<8>(high), bfpga::int_t<8>(low))};
            wrong += operand[0] < -limit || operand[0] >= limit;
            for (int x = -128; x <= 127; x += stride) {
                const bfpga::int_t<8> shared[1] = {bfpga::int_t<8>(x)};
                const Fields<SHIFT> pair = Fields<SHIFT>::template of<Tile>(Tile::multiply_signed(shared, operand));
                wrong += pair.high != high * x || pair.low != low * x;
            }
        }
    }
    return wrong;
}

template <int SHIFT>
bool unpacks(int64_t high, int64_t low) {
    using Tile = bfpga::PackedProducts<8, SHIFT, 1>;
    const bfpga::int_t<Tile::sum_bits> sum =
        static_cast<bfpga::int_t<Tile::sum_bits>>(high * (static_cast<int64_t>(1) << SHIFT) + low);
    const Fields<SHIFT> pair = Fields<SHIFT>::template of<Tile>(sum);
    // The high field, added to a number.
    const bfpga::int_t<24> before = static_cast<bfpga::int_t<24>>(-low);
    const bool adds = Tile::template add_high<24>(before, sum) == high - low;
    return pair.high == high && pair.low == low && adds;
}

// Sums of the longest chain that do not come apart: every sum of a row beside the extremes of the other.
template <int SHIFT>
int64_t count_stuck() {
    const int64_t limit = bfpga::PackedProducts<8, SHIFT, 1>::terms_limit * 127 * 128;
    const int64_t beside[] = {-limit, -limit + 1, -128 * 127, -1, 0, 1, 128 * 127, limit - 1, limit};
    int64_t stuck = 0;
    for (int64_t sum = -limit; sum <= limit; ++sum) {
        for (const int64_t other : beside) {
            stuck += !unpacks<SHIFT>(sum, other) + !unpacks<SHIFT>(other, sum);
        }
    }
    return stuck;
}

// Wrong products among all pairs of 8 bits.
int64_t count_wrong_products() {
    int64_t wrong = 0;
    for (int x = -128; x <= 127; ++x) {
        for (int w = -128; w <= 127; ++w) {
            const bfpga::int_t<8> operand[1] = {bfpga::int_t<8>(x)};
            const bfpga::int_t<8> weight[1] = {bfpga::int_t<8>(w)};
            wrong += bfpga::Products<8, 32, 1>::add(bfpga::int_t<32>(-5), operand, weight) != x * w - 5;
        }
    }
    return wrong;
}

template <int MW, int ACC>
int64_t dot(int64_t sum, const int32_t* x, const int32_t* w) {
    bfpga::int_t<MW> operand[4], weight[4];
    for (int l = 0; l < 4; ++l) {
        operand[l] = static_cast<bfpga::int_t<MW>>(x[l]);
        weight[l] = static_cast<bfpga::int_t<MW>>(w[l]);
    }
    return static_cast<int64_t>(bfpga::Products<MW, ACC, 4>::add(static_cast<bfpga::int_t<ACC>>(sum), operand, weight));
}

struct QuadCases {
    int32_t count;
    const int8_t *weight, *pixel;       // (count, lanes, 2): low, high
    int64_t *weights, *pixels, *total;  // factors (count, lanes), their sum of products (count)
    int32_t* sums;                      // (count, 4): accumulators of 20 bits, to which the fields are added
};

template <class Tile, int FIELD>
int32_t added(int32_t before, const typename Tile::sum_t& sum) {
    return static_cast<int32_t>(Tile::template add_field<FIELD, 20>(static_cast<bfpga::int_t<20>>(before), sum));
}

template <int MW, int LANES>
void quad_sums(const QuadCases& cases) {
    using Tile = bfpga::QuadProducts<MW, LANES>;
    using mantissa_t = typename Tile::mantissa_t;
    using weight_t = typename Tile::weight_t;
    for (int n = 0; n < cases.count; ++n) {
        typename Tile::weights_t w[LANES];
        typename Tile::pixels_t x[LANES];
        for (int l = 0; l < LANES; ++l) {
            const int at = n * LANES + l;
            const int8_t *weight = cases.weight + 2 * at, *pixel = cases.pixel + 2 * at;
            w[l] = Tile::weights(static_cast<weight_t>(weight[1]), static_cast<weight_t>(weight[0]));
            x[l] = Tile::pixels(static_cast<mantissa_t>(pixel[1]), static_cast<mantissa_t>(pixel[0]));
            cases.weights[at] = static_cast<int64_t>(w[l]);
            cases.pixels[at] = static_cast<int64_t>(x[l]);
        }
        const typename Tile::sum_t sum = Tile::multiply(x, w);
        cases.total[n] = static_cast<int64_t>(sum);
        int32_t* sums = cases.sums + 4 * n;
        sums[0] = added<Tile, 0>(sums[0], sum);
        sums[1] = added<Tile, 1>(sums[1], sum);
        sums[2] = added<Tile, 2>(sums[2], sum);
        sums[3] = added<Tile, 3>(sums[3], sum);
    }
}

}  // namespace

extern "C" {

// Pixels of 4 or 5 bits. 0, or 1 if no chain has so many lanes.
int unit_quad_sums(int mantissa_bits, int lanes, const QuadCases* cases) {
    using Sums = void (*)(const QuadCases&);
    static const Sums narrow[] = {quad_sums<4, 1>, quad_sums<4, 2>, quad_sums<4, 3>, quad_sums<4, 4>,
                                  quad_sums<4, 5>, quad_sums<4, 6>, quad_sums<4, 7>};
    static const Sums wide[] = {quad_sums<5, 1>, quad_sums<5, 2>, quad_sums<5, 3>, quad_sums<5, 4>};
    if (lanes < 1 || lanes > (mantissa_bits == 4 ? 7 : 4)) {
        return 1;
    }
    (mantissa_bits == 4 ? narrow : wide)[lanes - 1](*cases);
    return 0;
}

int64_t unit_packed_wrong(int shift, int operand_bits, int stride) {
    return shift == 17 ? count_wrong<17>(operand_bits, stride) : count_wrong<18>(operand_bits, stride);
}

// Bits of the larger input of the multiplier.
int unit_operand_bits(int shift) {
    return shift == 17 ? bfpga::PackedProducts<8, 17, 1>::operand_bits : bfpga::PackedProducts<8, 18, 1>::operand_bits;
}

int64_t unit_stuck_sums(int shift) { return shift == 17 ? count_stuck<17>() : count_stuck<18>(); }

int64_t unit_wrong_products() { return count_wrong_products(); }

// Sums of the products of both rows over 4 (shift 17) or 8 (shift 18) lanes.
void unit_packed_sum(int shift, const int8_t* high, const int8_t* low, const int8_t* x, int32_t* sums) {
    if (shift == 17) {
        packed_sum<17, 4>(high, low, x, sums);
    } else {
        packed_sum<18, 8>(high, low, x, sums);
    }
}

int64_t unit_dot(int mantissa_bits, int64_t sum, const int32_t* x, const int32_t* w) {
    return mantissa_bits == 8 ? dot<8, 32>(sum, x, w) : dot<18, 48>(sum, x, w);
}

}  // extern "C"
