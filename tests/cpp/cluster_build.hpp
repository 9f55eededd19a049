// The numbers of a cluster of processes.
#pragma once

template <int LANES, int ROWS, int COLUMNS, int VALUE, int WEIGHT, int ACC, int PLANES, int WORDS, int STEPS,
          int UNITS = 1>
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
};
