// Variant A: products stay where their cells are, the window moves below them (SC R83-R89).
//
// Lane and register are wired: cell (r, c) of a tile always adds to register (r, c). Before a weight, the window shifts
// as a ring until its sub-window at (kernel rows - 1 - weight row, kernel columns - 1 - weight column) lies there; in
// serpentine order that is one cell. The full grid is a ring too: a tile begins at its register (0, 0), then the next
// tile moves there.
#pragma once
#include "bfpga/sparse_cluster/units/indexed.hpp"

namespace bfpga {

// Registers whose rows and columns are shift registers closed to rings (SC R86).
template <class Value, int Rows, int Columns>
class RingPlane {
   public:
    RingPlane() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=0
    }

    Value read(int row, int column) const {
#pragma HLS INLINE
        return cell_[row][column];
    }
    void write(int row, int column, Value value) {
#pragma HLS INLINE
        cell_[row][column] = value;
    }

    // Every row takes the one `step` below it, wiring with a multiplexer of two (`reverse`: above).
    template <int Step>
    void up(bool reverse) {
#pragma HLS INLINE
        Value moved[Rows][Columns];
#pragma HLS ARRAY_PARTITION variable=moved complete dim=0
    Rows_Shift:
        for (int n = 0; n < Rows * Columns; ++n) {
#pragma HLS UNROLL
            const int row = n / Columns;
            moved[row][n % Columns] =
                cell_[reverse ? (row + Rows - Step % Rows) % Rows : (row + Step) % Rows][n % Columns];
        }
    Rows_Take:
        for (int n = 0; n < Rows * Columns; ++n) {
#pragma HLS UNROLL
            cell_[n / Columns][n % Columns] = moved[n / Columns][n % Columns];
        }
    }

    template <int Step>
    void left(bool reverse) {
#pragma HLS INLINE
        Value moved[Rows][Columns];
#pragma HLS ARRAY_PARTITION variable=moved complete dim=0
    Columns_Shift:
        for (int n = 0; n < Rows * Columns; ++n) {
#pragma HLS UNROLL
            const int column = n % Columns;
            moved[n / Columns][column] =
                cell_[n / Columns][reverse ? (column + Columns - Step % Columns) % Columns : (column + Step) % Columns];
        }
    Columns_Take:
        for (int n = 0; n < Rows * Columns; ++n) {
#pragma HLS UNROLL
            cell_[n / Columns][n % Columns] = moved[n / Columns][n % Columns];
        }
    }

   private:
    Value cell_[Rows][Columns] = {};
};

template <class Config>
class ShiftWindowRounds {
    using T = TileUnitTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    using Sum = GridMemory<Config, 1, 1>;  // for its addition
    // The window of a tile at the border may reach beyond the full grid; the ring has room for it.
    static constexpr int group_rows =
        divided_up(Config::piece_rows, Config::tile_rows) * Config::tile_rows + Config::kernel_rows - 1;
    static constexpr int group_columns =
        divided_up(Config::piece_columns, Config::tile_columns) * Config::tile_columns + Config::kernel_columns - 1;

   public:
    void tile(const TileCells<Config>& cells, const IssuedWeights<Config>& weights, int row, int column,
              TileUnitCounters& counters) {
        bring(row, column);
        copy(true);
        down_ = 0;
        right_ = 0;
    Weights:
        for (int number = 0; number < weights.count(); ++number) {
// The loops inside are the pipelined ones: the window moves, then all groups of the tile's cells are added.
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::kernel_rows* Config::kernel_columns
            const int moved =
                shift(static_cast<int>(weights.row_offset(number)), static_cast<int>(weights.column_offset(number)));
            counters.moves += number > 0 ? moved : 0;
            add(cells, weights, number, counters);
        }
        shift(0, 0);
        copy(false);
    }

    void clear() {
#pragma HLS INLINE
    Registers_Clear:
        for (int n = 0; n < group_rows * group_columns; ++n) {
#pragma HLS UNROLL
            group_.write(n / group_columns, n % group_columns, 0);
        }
    }

    typename T::accumulator_t take(int row, int column) {
        bring(0, 0);
        const accumulator_t value = group_.read(row, column);
        group_.write(row, column, 0);
        return value;
    }

    // The first output (SC E4) moves to register (0, 0) and the first sum back (SC R88).
    void rotate(int rows, int columns) {
        bring(0, 0);
        turn(rows, columns);
    }
    accumulator_t at_origin(int row, int column) const { return group_.read(row, column); }

   private:
    // Adds the products of one weight, group by group (SC R83).
    void add(const TileCells<Config>& cells, const IssuedWeights<Config>& weights, int number,
             TileUnitCounters& counters) {
    Rounds:
        for (int first = 0; first < cells.count; first += Config::lanes) {
// II=1: a register is read, added and written in one clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::tile_rows* Config::tile_columns
            LaneProduct<Config> lane[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=lane complete dim=0
            const int used = multiply_group(cells, first, weights, number, lane);
        Registers_Add:
            for (int n = 0; n < T::tile_cells; ++n) {
#pragma HLS UNROLL
                typename T::pair_t amount = 0;
            Lanes_Select:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    const int cell = first + l < cells.count ? first + l : 0;
                    const bool here =
                        cells.row[cell] == n / Config::tile_columns && cells.column[cell] == n % Config::tile_columns;
                    if (lane[l].valid && here) {
                        amount = lane[l].value;
                    }
                }
                const int row = n / Config::tile_columns;
                const int column = n % Config::tile_columns;
                window_.write(row, column, Sum::sum(window_.read(row, column), amount));
            }
            ++counters.rounds;
            counters.issued += used;
            counters.idle += Config::lanes - used;
        }
    }

    // Moves the window cell by cell; returns the cells that it moved.
    int shift(int down, int right) {
        int moved = 0;
    Window_Shift:
        while (down_ != down || right_ != right) {
// II=1: every register takes its neighbour.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=4
            if (down_ != down) {
                window_.template up<1>(down_ > down);
                down_ += down_ > down ? -1 : 1;
            } else {
                window_.template left<1>(right_ > right);
                right_ += right_ > right ? -1 : 1;
            }
            ++moved;
        }
        return moved;
    }

    // The window from the group or back to it: fixed wires (SC R87).
    void copy(bool load) {
#pragma HLS INLINE
    Window_Copy:
        for (int n = 0; n < T::window_rows * T::window_columns; ++n) {
#pragma HLS UNROLL
            const int row = n / T::window_columns;
            const int column = n % T::window_columns;
            if (load) {
                window_.write(row, column, group_.read(row, column));
            } else {
                group_.write(row, column, window_.read(row, column));
            }
        }
    }

    // The group moves until the full-grid cell (row, column), the first one of a tile, is register (0, 0).
    void bring(int row, int column) {
    Group_Shift:
        while (row_ != row || column_ != column) {
// II=1: every register takes the one a tile further.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=16
            if (row_ != row) {
                group_.template up<Config::tile_rows>(row_ > row);
                row_ += row_ > row ? -Config::tile_rows : Config::tile_rows;
            } else {
                group_.template left<Config::tile_columns>(column_ > column);
                column_ += column_ > column ? -Config::tile_columns : Config::tile_columns;
            }
        }
    }

    void turn(int rows, int columns) {
        int down = rows < 0 ? -rows : rows;
        int right = columns < 0 ? -columns : columns;
    Group_Turn:
        while (down > 0 || right > 0) {
// II=1: every register takes its neighbour.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=32
            if (down > 0) {
                group_.template up<1>(rows < 0);
                --down;
            } else {
                group_.template left<1>(columns < 0);
                --right;
            }
        }
    }

    RingPlane<accumulator_t, group_rows, group_columns> group_;
    RingPlane<accumulator_t, T::window_rows, T::window_columns> window_;
    int32_t row_ = 0, column_ = 0;  // full-grid cell in register (0, 0)
    int32_t down_ = 0, right_ = 0;  // cell of the window in its register (0, 0)
};

template <class Config>
using ShiftWindowUnit = TileUnit<Config, ShiftWindowRounds<Config>>;

}  // namespace bfpga
