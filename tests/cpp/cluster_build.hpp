// The numbers of a cluster of processes.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"

template <int LANES, int ROWS, int COLUMNS, int VALUE, int WEIGHT, int ACC, int PLANES, int WORDS, int STEPS,
          int UNITS = 1, class MULTIPLIER = bfpga::LaneDsp>
struct ClusterBuild {
    static constexpr int lanes = LANES;
    static constexpr int kernel_rows = ROWS;
    static constexpr int kernel_columns = COLUMNS;
    static constexpr int value_bits = VALUE;
    static constexpr int weight_bits = WEIGHT;
    static constexpr int accumulator_bits = ACC;
    static constexpr int planes = PLANES;
    static constexpr int unit_words = WORDS;
    static constexpr int unit_steps = STEPS;
    static constexpr int units = UNITS;
    static constexpr bool halo = true;  // limits that are given say what is taken, of either form
    using Multiplier = MULTIPLIER;
};

// The same with the grid of pieces into which a map is cut, the largest map, and whether pieces own outputs.
template <class Build, int ROWS, int COLUMNS, int LINES, int WORK, bool HALO = false>
struct GridBuild : Build {
    static constexpr int grid_rows = ROWS;
    static constexpr int grid_columns = COLUMNS;
    static constexpr int units = ROWS * COLUMNS;
    static constexpr int map_lines = LINES;
    static constexpr int work_bits = WORK;
    static constexpr bool halo = HALO;
};

// The same with the values that a unit of variant B takes at once.
template <class Build, int PRODUCTS>
struct IndexedBuild : Build {
    static constexpr int products = PRODUCTS;
};

// The same of a unit of variant C, or of D, which adds two products of a cell: twice as many lanes as values.
template <class Build, int PRODUCTS, bool ADDS>
struct PackedBuild : Build {
    static constexpr int products = PRODUCTS;
    static constexpr int weights = 2;
    static constexpr bool adds_pairs = ADDS;
};
