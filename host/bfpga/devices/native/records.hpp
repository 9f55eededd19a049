// What Python describes a run of layers with; `records.py` has the same structures.
#pragma once

#include <cstdint>

namespace bfpga_native {

enum Kind { GEMM = 0, MAXIMUM = 1, SUM = 2, PRODUCT = 3, SCALE = 4, ROWS = 5 };
enum RowOperation { SOFTMAX = 1, LAYER_NORM = 2, RMS_NORM = 3, ROW_PRODUCT = 4 };
enum Function { NONE = 0, RELU = 1, LEAKY_RELU = 2, CLIP = 5 };  // those without a table
enum Unit { ACCUMULATOR = 0, TABLE = 1, FINER = 2 };
enum Holds { VALUE = 0, BELOW_RELU = 1, ABOVE_RELU = 2 };
enum Symmetry { NO_SYMMETRY = 0, EVEN = 1, ODD = 2 };
enum Policy { STATIC = 0, MAX = 1, STATISTICS = 2, ROLLING_MAX = 3, FEEDBACK = 4, INHERIT = 5 };
enum Rule { LEAD = 0, RULE_MAX = 1, RATE = 2, LSB = 3, WINDOW = 4 };
enum Rounding { TRUNC = 0, TO_ZERO = 1, HALF_UP = 2, HALF_AWAY = 3, HALF_EVEN = 4 };
enum Status {
    OVERFLOW = 1,
    UNDERFLOW = 2,
    BIAS_SATURATED = 4,
    ACCUMULATOR_SATURATED = 8,
    EXPONENT_LOW = 16,
    EXPONENT_HIGH = 32,
    ZERO_BLOCK = 64
};

/// Numbers of the array's format; wrap: mantissas wrap instead of saturating; ceil: leads are rounded up.
struct Format {
    int32_t mantissa_bits, mantissa_min, mantissa_max, exponent_min, exponent_max;
    int32_t rounding, wrap, ceil, accumulator_bits, bins;
};

/// An activation tensor with zeros around it, as far as windows reach. Its exponent may be known before a run.
struct Tensor {
    int32_t height, width, channels;
    int32_t top, left, bottom, right;
    int32_t known, exponent, nonnegative;
};

/// A layer; a SCALE multiplies each channel of the first tensor with one number of the second, a PRODUCT takes the
/// second for weights as ``OperandWeights`` of a program says, ROWS go through whole rows (``engines/rows``).
/// adds_second: a GEMM adds the second to its sums. weights:
/// (channels, kernel_height, kernel_width, input channels / groups); row_exponents, bias, gains: (channels,) or null;
/// points: a function's table or null; blocks: measured ranges of channels; tiles: (y0, y1, m0, m1) each.
struct Layer {
    int32_t kind, first, second, output, channels, channel_offset, groups;
    int32_t kernel_height, kernel_width, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x;
    int32_t output_height, output_width, spread_y, first_y, first_x, negate_second, adds_second;
    int32_t function, argument, function_exponent, function_first, unit, limit, holds, symmetry;
    int32_t fraction_bits;
    int32_t policy, exponent, rule, rate, margin, base, row_step, row_offset, block_count, tile_count, columns;
    int32_t bias_exponent;
    int32_t by_pixels, terms, first_input, first_weight, first_pixel;
    int32_t row_operation, row_exponent, row_magnitude, row_inverse, row_epsilon, row_epsilon_exponent;
    const int32_t* weights;
    const int32_t* row_exponents;
    const int64_t* bias;
    const int32_t* points;
    const int32_t* blocks;
    const int32_t* tiles;
    const int32_t* gains;
};

/// Numbers and tables of the process of rows, as `contract/rows.py` declares them.
struct RowNumbers {
    int32_t position, scale_bits, normal_fraction, mean_fraction, inverse_bits, variance_fraction, share_bits;
    int32_t power_index, power_bits, sum_fraction, kept_fraction, root_index, root_bits, log2_e_fraction, dropped;
    int32_t result_bits, factor_position, least_position, log2_e, reserved;
    const int32_t *power, *reciprocal, *root;
};

/// Layers that run one after the other, a few samples at a time. step: steps of a table.
struct Segment {
    Format format;
    int32_t tensor_count, layer_count, chunk, learns, table_steps, grid_bits, table_exponent, reserved;
    RowNumbers rows;
    const Tensor* tensors;
    const Layer* layers;
};

/// Where a tensor enters or leaves. data: float32 with strides in elements, or mantissas (samples, height, width,
/// channels), or null. exponents: (samples,), of mantissas that enter and of what leaves. factors: what each channel is
/// stored times, or null. find: the exponent is that of each sample's largest value.
struct Port {
    float* values;
    void* mantissas;
    int32_t* exponents;
    const float* factors;
    int64_t sample_stride;
    int32_t stride_y, stride_x, stride_c, find;
};

/// What the output stage of a layer counted in all samples.
struct Counters {
    int64_t overflows, underflows, saturated_samples, most_saturated;
    int32_t status, reserved;
};

/// The policy registers: the exponent of a layer's next sample; what they learn from it. Both return status bits.
typedef int32_t (*Choose)(int32_t layer, int32_t lead, int32_t nonzero, int32_t* exponent);
typedef int32_t (*Learn)(int32_t layer, int32_t exponent, int32_t lead, int32_t nonzero, int64_t overflows,
                         const int64_t* drained, int64_t count);

}  // namespace bfpga_native
