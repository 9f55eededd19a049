// The numbers of a kernel whose array is a sparse cluster.
#pragma once
#include <cstdint>
#include <cstring>

#include "bfpga/array/lane_multiplier.hpp"

template <int COLUMNS, int LANES, int ROWS, int GRID_ROWS, int GRID_COLUMNS, int KERNEL, int WORDS, int BLOCKS,
          int LINES, int MANTISSA, int WEIGHT, int ACC, class MULTIPLIER = bfpga::LaneDsp, int PRODUCTS = 0,
          int WEIGHTS = 1, bool ADDS = false, bool SHIFTS = false, bool HALO = false>
struct ClusterKernel {
    static constexpr bool has_cluster = true;
    static constexpr int cluster_rows = GRID_ROWS;
    static constexpr int cluster_columns = GRID_COLUMNS;
    static constexpr int cluster_kernel = KERNEL;
    static constexpr int cluster_words = WORDS;
    static constexpr bool has_tile = false;
    static constexpr bool cluster_indexed = PRODUCTS > 0;
    static constexpr int cluster_products = PRODUCTS;
    static constexpr int cluster_weights = WEIGHTS;
    static constexpr bool cluster_adds_pairs = ADDS;
    static constexpr bool cluster_shifts = SHIFTS;
    static constexpr bool cluster_halo = HALO;
    static constexpr int told_depth = 1024;
    static constexpr int least = SHIFTS ? 2 : WEIGHTS > 1 ? 5 : 4;
    static constexpr int cluster_steps =
        (ROWS < least ? least : ROWS) * (PRODUCTS > 0 ? (KERNEL * KERNEL + WEIGHTS - 1) / WEIGHTS : 1);
    static constexpr int cluster_lines = LINES;
    static constexpr int cluster_blocks = BLOCKS;
    static constexpr int cluster_queue = 16;
    static constexpr int cluster_ahead = 4;
    using ClusterMultiplier = MULTIPLIER;
    static constexpr int skip_halves = 2;
    static constexpr int skip_groups = GRID_ROWS * GRID_COLUMNS;
    static constexpr bool skip_activations = true;
    static constexpr bool dense_beside = false;
    static constexpr int skip_chunk = LANES;
    static constexpr int skip_queue = 16;
    static constexpr int skip_passes = 4096;
    static constexpr int count_registers = 0;
    static constexpr int mantissa_bits = MANTISSA;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = WEIGHT;
    static constexpr int weight_container_bits = 8;
    static constexpr int shift_columns = 0;
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
    static constexpr int weight_words = 64;
    static constexpr int parameter_rows = 64;
    static constexpr int bias_bits = 18;
    static constexpr int stream_bits = 64 * LANES;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = ROWS * LANES;
};

// The numbers of a kernel, as tests are told of them.
struct ClusterKernelNumbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        const int32_t numbers[] = {Config::columns,          Config::lanes,           Config::rows,
                                   Config::cluster_rows,     Config::cluster_columns, Config::cluster_kernel,
                                   Config::cluster_words,    Config::cluster_blocks,  Config::cluster_lines,
                                   Config::mantissa_bits,    Config::weight_bits,     Config::accumulator_bits,
                                   Config::cluster_products, Config::cluster_weights, Config::cluster_shifts};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};
