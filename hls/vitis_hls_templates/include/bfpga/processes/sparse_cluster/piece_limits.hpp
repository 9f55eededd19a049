// The limits that a unit receives for its piece, and where pieces of equal size begin.
#pragma once
#include "bfpga/processes/sparse_cluster/halo.hpp"

namespace bfpga {

// The block of a line.
template <int Kernel>
inline line_t block_of(line_t line) {
#pragma HLS INLINE
    constexpr int reciprocal = ((1 << 14) + Kernel - 1) / Kernel;  // exact for what lines there are
    return static_cast<line_t>((static_cast<int>(line) * reciprocal) >> 14);
}

// The limits of a piece that one unit has alone (SC R29, R30). A piece without a line has no unit.
template <class Config>
inline LimitsBeat<Config> piece_limits(const Lines& piece_rows, const Lines& piece_columns,
                                       const Halo<Config, Config::kernel_rows>& down,
                                       const Halo<Config, Config::kernel_columns>& across) {
#pragma HLS INLINE
    using T = ClusterUnitTypes<Config>;
    const Lines rows = down.cells(piece_rows), columns = across.cells(piece_columns);
    const Lines taken_rows = down.taken(piece_rows), taken_columns = across.taken(piece_columns);
    LimitsBeat<Config> beat;
    beat.row = rows.first;
    beat.end_row = rows.end;
    beat.column = columns.first;
    beat.end_column = columns.end;
    // The last line of the full grid is kernel lines - 2 after the end.
    const line_t last_row = static_cast<line_t>(rows.end + T::rows - 2);
    const line_t last_column = static_cast<line_t>(columns.end + T::columns - 2);
    beat.block_row = block_of<T::rows>(rows.first);
    beat.block_column = block_of<T::columns>(columns.first);
    beat.end_block_row = static_cast<line_t>(block_of<T::rows>(last_row) + 1);
    beat.end_block_column = static_cast<line_t>(block_of<T::columns>(last_column) + 1);
    beat.taken_row = taken_rows.first;
    beat.taken_column = taken_columns.first;
    beat.taken_end_row = taken_rows.end;
    beat.taken_end_column = taken_columns.end;
    const int blocks_down = static_cast<int>(beat.end_block_row) - static_cast<int>(beat.block_row);
    const int blocks_beside = static_cast<int>(beat.end_block_column) - static_cast<int>(beat.block_column);
    const int blocks = blocks_down * blocks_beside;
    beat.last_place = static_cast<line_t>(blocks - 1);
    beat.turn = 0;
    beat.last_turn = 0;
    beat.used = piece_rows.first != piece_rows.end && piece_columns.first != piece_columns.end;
    simulation_check(!beat.used || blocks <= T::words, "a piece", "has more blocks than a unit:", blocks);
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
