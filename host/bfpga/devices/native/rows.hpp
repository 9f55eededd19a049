// Rows of a tensor in integers: Softmax, normalizations and products, as `engines/rows/arithmetic.py` has them.
#pragma once

#include "kernels.hpp"
#include "scalar.hpp"

namespace bfpga_native {

/// Mantissas of 8 bits: what they may lie below the largest of their row.
constexpr int DISTANCES = 256;
/// The largest shift of an exponential, which leaves nothing of it.
constexpr s32 ALL_BITS = 31;

/// A point of a table by the bits behind the leading one, from place ``first`` on.
static s64 point_behind(const s32* table, s64 value, s32 lead, s32 bits, s32 first = 0) {
    const s64 place = lead >= bits ? value >> (lead - bits) : value << (bits - lead);
    return table[first + (place & ((1 << bits) - 1))];
}

/// Exponentials of all distances from the largest element of a row with this exponent.
static void exponentials(const RowNumbers& n, s32 exponent, s32* powers) {
    bool outside;
    const s64 most = ((s64)1 << n.scale_bits) - 1;
    const s64 scale = shift_saturate(n.log2_e, (s64)n.log2_e_fraction - n.position - exponent, TRUNC, 0, most, outside);
    for (s64 distance = 0; distance < DISTANCES; distance++) {
        const s64 binary = (distance * scale) >> (n.position - n.power_index);
        const s64 point = n.power[binary & ((1 << n.power_index) - 1)];
        powers[distance] =
            (s32)((point << (n.sum_fraction - n.power_bits)) >> std::min<s64>(binary >> n.power_index, ALL_BITS));
    }
}

static void softmax_row(const RowNumbers& n, const s32* powers, const Element* x, int channels, s32* result) {
    Element most = x[0];
    for (int c = 1; c < channels; c++)
        most = std::max(most, x[c]);
    s32 total = 0;
    for (int c = 0; c < channels; c++)
        total += powers[most - x[c]];
    const s32 lead = floor_log2(total);
    const s64 point = point_behind(n.reciprocal, total, lead, n.root_index);
    const s64 factor = (point << (n.factor_position - n.least_position)) >> (lead - n.least_position);
    for (int c = 0; c < channels; c++)
        result[c] = (s32)(((powers[most - x[c]] >> (n.sum_fraction - n.kept_fraction)) * factor) >> n.dropped);
}

/// Scale and offset of a row's first product.
static void deviation(const RowNumbers& n, const Layer& l, s64 sum, s64 squares, s32 exponent, s64& scale,
                      s64& offset) {
    bool outside;
    const s64 most = ((s64)1 << n.share_bits) - 1;
    const s64 share =
        shift_saturate(l.row_epsilon, 2 * (s64)exponent - l.row_epsilon_exponent, TRUNC, 0, most, outside);
    const s64 spread = std::max<s64>(((l.channels * squares - sum * sum) << n.variance_fraction) + share, 1);
    const s32 lead = floor_log2(spread), odd = (lead - n.variance_fraction) & 1,
              half = (lead - n.variance_fraction) >> 1;
    const s64 root = point_behind(n.root, spread, lead, n.root_index - 1, odd << (n.root_index - 1));
    const s32 right = std::max(half - l.row_magnitude + n.scale_bits - n.position, 0);
    const s64 mean = shift_round(sum * l.row_inverse, l.row_magnitude + n.inverse_bits - 1 - n.mean_fraction, HALF_UP);
    offset = shift_round(mean * root, right + n.mean_fraction + n.root_bits - n.scale_bits, HALF_UP);
    scale = (root << (n.scale_bits - n.root_bits)) >> right;
}

static void normalized_row(const RowNumbers& n, const Layer& l, const Element* x, s32 exponent, s32* result) {
    s32 sum = 0, squares = 0;
    for (int c = 0; c < l.channels; c++) {
        const s32 v = (s32)x[c] - ZERO;
        sum += v, squares += v * v;
    }
    s64 scale, offset;
    deviation(n, l, l.row_operation == LAYER_NORM ? sum : 0, squares, exponent, scale, offset);
    for (int c = 0; c < l.channels; c++) {
        const s64 normal = (offset - ((s32)x[c] - ZERO) * scale) >> (n.position - n.normal_fraction);
        result[c] = (s32)((normal * l.gains[c]) >> n.dropped);
    }
}

/// Accumulators of one sample, as ``Prepared::raw_index`` places them; what fills a vector is 0.
static void rows(const Prepared& p, const RowNumbers& n, const Element* a, const Element* b, s32 exponent, s32* raw) {
    const Layer& l = p.l;
    s32 powers[DISTANCES];
    if (l.row_operation == SOFTMAX)
        exponentials(n, exponent, powers);
    for (int i = 0; i < p.pixels; i++) {
        const Element* x = a + p.starts[i];
        s32* result = raw + (size_t)i * p.raw_pitch();
        if (l.row_operation == SOFTMAX) {
            softmax_row(n, powers, x, l.channels, result);
        } else if (l.row_operation == ROW_PRODUCT) {
            const int y = i / l.output_width;
            const Element* other = b + p.second.first + y * p.second.row + (i - y * l.output_width) * p.second.pitch;
            for (int c = 0; c < l.channels; c++)
                result[c] = ((s32)x[c] - ZERO) * ((s32)other[c] - ZERO);
        } else {
            normalized_row(n, l, x, exponent, result);
        }
        std::fill(result + l.channels, result + p.slots, 0);
    }
}

}  // namespace bfpga_native
