// Beats of a cluster of processes out of numbers, in the order of their fields.
#pragma once
#include <cstdint>

#include "bfpga/processes/sparse_cluster/map_beats.hpp"

template <class Config>
bfpga::PieceBeat<Config> piece_word(const int32_t* numbers) {
    using T = bfpga::ClusterUnitTypes<Config>;
    bfpga::PieceBeat<Config> beat = {};
    for (int l = 0; l < Config::lanes; ++l) {
        beat.value[l] = static_cast<typename T::value_t>(numbers[l]);
    }
    const int32_t* more = numbers + Config::lanes;
    beat.place = static_cast<typename T::place_t>(more[0]);
    beat.row_phase = static_cast<typename T::phase_t>(more[1]);
    beat.column_phase = static_cast<typename T::phase_t>(more[2]);
    beat.opens = more[3] != 0;
    beat.ends = more[4] != 0;
    beat.drains = more[5] != 0;
    beat.stop = more[6] != 0;
    return beat;
}

template <class Config>
bfpga::StepBeat<Config> step_of(const int32_t* numbers) {
    using T = bfpga::ClusterUnitTypes<Config>;
    bfpga::StepBeat<Config> beat = {};
    for (int n = 0; n < T::cells; ++n) {
        beat.weight[n] = static_cast<typename T::weight_t>(numbers[n]);
    }
    beat.plane = static_cast<typename T::plane_t>(numbers[T::cells]);
    beat.adds = numbers[T::cells + 1] != 0;
    beat.last = numbers[T::cells + 2] != 0;
    return beat;
}

template <class Config>
bfpga::MapBeat<Config> map_of(const int32_t* numbers) {
    bfpga::MapBeat<Config> beat = {};
    bfpga::line_t* const field[] = {&beat.rows,        &beat.columns,    &beat.words,
                                    &beat.last_kernel, &beat.block_rows, &beat.block_columns};
    for (int n = 0; n < beat.fields; ++n) {
        *field[n] = static_cast<bfpga::line_t>(numbers[n]);
    }
    beat.keeps = numbers[6] != 0;
    beat.stop = numbers[7] != 0;
    return beat;
}

template <class Config>
bfpga::LimitsBeat<Config> limits_of(const int32_t* numbers) {
    bfpga::LimitsBeat<Config> beat = {};
    bfpga::line_t* const field[] = {&beat.row,       &beat.column,       &beat.end_row,       &beat.end_column,
                                    &beat.block_row, &beat.block_column, &beat.end_block_row, &beat.end_block_column,
                                    &beat.taken_row, &beat.taken_column, &beat.taken_end_row, &beat.taken_end_column,
                                    &beat.last_place};
    for (int n = 0; n < beat.fields; ++n) {
        *field[n] = static_cast<bfpga::line_t>(numbers[n]);
    }
    beat.turn = static_cast<typename bfpga::LimitsBeat<Config>::unit_t>(numbers[13]);
    beat.last_turn = static_cast<typename bfpga::LimitsBeat<Config>::unit_t>(numbers[14]);
    beat.used = numbers[15] != 0;
    return beat;
}
