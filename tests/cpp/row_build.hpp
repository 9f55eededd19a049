// A configuration as the process of rows needs it.
#pragma once

template <int COLUMNS, int LANES>
struct RowBuild {
    static constexpr int mantissa_bits = 8;
    static constexpr int container_bits = 8;
    static constexpr int accumulator_bits = 24;
    static constexpr int row_columns = COLUMNS;
    static constexpr int columns = COLUMNS + 3;
    static constexpr int lanes = LANES;
    static constexpr int rows = 2 * LANES;
    static constexpr int words_per_block = 2;
    static constexpr int accumulator_rows = rows;
    static constexpr int banks = columns + 1;
    static constexpr int activation_words = 3072;
    static constexpr int weight_words = 16;
    static constexpr int weight_bits = 8;
    static constexpr int weight_container_bits = 8;
    static constexpr int parameter_rows = 16;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 8 / LANES;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
};
