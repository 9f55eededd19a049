// The numbers of a skip array.
#pragma once

template <int GROUPS, int HALVES, int COLUMNS, int LANES, int CHUNK, int MANTISSA, int WEIGHT, int ACC, int ROWS>
struct SkipArray {
    static constexpr int skip_groups = GROUPS;
    static constexpr bool skip_activations = false;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int skip_halves = HALVES;
    static constexpr int skip_chunk = CHUNK;
    static constexpr int mantissa_bits = MANTISSA;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = WEIGHT;
    static constexpr int weight_container_bits = 8;
    static constexpr int accumulator_bits = ACC;
    static constexpr int columns = COLUMNS;
    static constexpr int post_columns = 0;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int banks = COLUMNS + 1;
    static constexpr int rows = ROWS;
    static constexpr int lanes = LANES;
    static constexpr int words_per_block = ROWS / LANES;
    static constexpr int accumulator_rows = ROWS;
    static constexpr bool tap_reuse = false;
    static constexpr int activation_words = 16;
    static constexpr int weight_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 16;
    static constexpr int bias_bits = 18;
    static constexpr int stream_bits = 64 * LANES;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = ROWS * LANES;
};
