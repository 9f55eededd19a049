// The limits of pieces that share no cell, and where pieces of equal size begin.
#pragma once
#include "bfpga/processes/cluster/work_table.hpp"

namespace bfpga {

// The block of a line.
template <int Kernel>
inline line_t block_of(line_t line) {
#pragma HLS INLINE
    constexpr int reciprocal = ((1 << 14) + Kernel - 1) / Kernel;  // exact for what lines there are
    return static_cast<line_t>((static_cast<int>(line) * reciprocal) >> 14);
}

// What a unit is told of its piece, if it alone has it: all of its sums are taken (SC R30). A piece without a cell is
// nobody's.
template <class Config>
inline LimitsBeat<Config> piece_limits(const Lines& rows, const Lines& columns) {
#pragma HLS INLINE
    using T = ClusterUnitTypes<Config>;
    LimitsBeat<Config> beat;
    beat.row = rows.first;
    beat.end_row = rows.end;
    beat.column = columns.first;
    beat.end_column = columns.end;
    // The last line of the full grid is as many lines behind the end as a kernel has, but two.
    const line_t last_row = static_cast<line_t>(rows.end + T::rows - 2);
    const line_t last_column = static_cast<line_t>(columns.end + T::columns - 2);
    beat.block_row = block_of<T::rows>(rows.first);
    beat.block_column = block_of<T::columns>(columns.first);
    beat.end_block_row = static_cast<line_t>(block_of<T::rows>(last_row) + 1);
    beat.end_block_column = static_cast<line_t>(block_of<T::columns>(last_column) + 1);
    beat.taken_row = rows.first;
    beat.taken_column = columns.first;
    beat.taken_end_row = static_cast<line_t>(rows.end + T::rows - 1);
    beat.taken_end_column = static_cast<line_t>(columns.end + T::columns - 1);
    const int down = static_cast<int>(beat.end_block_row) - static_cast<int>(beat.block_row);
    const int beside = static_cast<int>(beat.end_block_column) - static_cast<int>(beat.block_column);
    beat.last_place = static_cast<line_t>(down * beside - 1);
    beat.turn = 0;
    beat.last_turn = 0;
    beat.used = rows.first != rows.end && columns.first != columns.end;
    simulation_check(!beat.used || down * beside <= T::words, "a piece", "has more blocks than a unit:", down * beside);
    return beat;
}

// Where piece `number` of N equal ones begins, in whole lines.
template <int N>
inline line_t equal_limit(line_t lines, int number) {
#pragma HLS INLINE
    constexpr int reciprocal = ((1 << 20) + N - 1) / N;  // exact for what lines there are
    return static_cast<line_t>((static_cast<int64_t>(static_cast<int>(lines) * number) * reciprocal) >> 20);
}

}  // namespace bfpga
