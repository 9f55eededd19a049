// Micro-tiles: the values of a piece, tile by tile, in registers that keep them for all weights (SC R69, R75, R80).
#pragma once
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

// The cells of a micro-tile that enter lanes, one behind the other.
template <class Config>
struct TileCells {
    typename TileUnitTypes<Config>::value_t value[TileUnitTypes<Config>::tile_cells];
    typename TileUnitTypes<Config>::place_t row[TileUnitTypes<Config>::tile_cells];
    typename TileUnitTypes<Config>::place_t column[TileUnitTypes<Config>::tile_cells];
    int32_t count;
};

// A micro-tile as it is loaded: a value a clock at its place.
template <class Config>
class TileImage {
    using T = TileUnitTypes<Config>;

   public:
    TileImage() {
#pragma HLS ARRAY_PARTITION variable=value_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=present_ complete dim=0
    }

    // rows, columns: cells of the tile inside the piece. With keep_zeros all of them enter lanes.
    void clear(int rows, int columns, bool keep_zeros) {
#pragma HLS INLINE
    Cells_Clear:
        for (int n = 0; n < T::tile_cells; ++n) {
#pragma HLS UNROLL
            value_[n] = 0;
            present_[n] = keep_zeros && n / Config::tile_columns < rows && n % Config::tile_columns < columns;
        }
    }

    void store(int row, int column, typename T::value_t value) {
#pragma HLS INLINE
        value_[row * Config::tile_columns + column] = value;
        present_[row * Config::tile_columns + column] = true;
    }

    // The cells in their order: a place is the number of cells before it.
    void arrange(bool by_column, TileCells<Config>& cells) const {
#pragma HLS INLINE
        cells.count = 0;
    Cells_Arrange:
        for (int n = 0; n < T::tile_cells; ++n) {
#pragma HLS UNROLL
            const int row = by_column ? n % Config::tile_rows : n / Config::tile_columns;
            const int column = by_column ? n / Config::tile_rows : n % Config::tile_columns;
            if (present_[row * Config::tile_columns + column]) {
                cells.value[cells.count] = value_[row * Config::tile_columns + column];
                cells.row[cells.count] = row;
                cells.column[cells.count] = column;
                ++cells.count;
            }
        }
    }

   private:
    typename T::value_t value_[T::tile_cells] = {};
    bool present_[T::tile_cells] = {};
};

// A unit of variant A, B, C or D: loads tile by tile and hands each to `Rounds`, which spends the rounds.
template <class Config, class Rounds>
class TileUnit {
    using T = TileUnitTypes<Config>;

   public:
    // A piece of one channel, added to the sums. `source` gives the values in the order of the tiles (has, front, pop).
    template <class Source>
    void piece(const PieceWalk& walk, const IssuedWeights<Config>& weights, Source& source,
               TileUnitCounters& counters) {
        simulation_check(
            walk.rows <= Config::piece_rows && walk.columns <= Config::piece_columns, "a piece",
            "has more rows or columns than the build:", walk.rows > walk.columns ? walk.rows : walk.columns);
        int row = 0;
        int column = 0;
        bool more = walk.rows > 0 && walk.columns > 0;
    Tiles:
        while (more) {
// The loops inside are the pipelined ones: values of a tile come in, then its rounds follow each other.
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::piece_rows* Config::piece_columns
            tile(walk, row, column, weights, source, counters);
            more = next(walk, row, column);
        }
        simulation_check(!source.has(), "a piece", "leaves a value behind in row", source.has() ? row : 0);
    }

    // All sums are zero.
    void clear() { rounds_.clear(); }

    // The sum of a cell of the full grid, which starts anew (SC R77).
    typename T::accumulator_t take(int row, int column) {
#pragma HLS INLINE
        return rounds_.take(row, column);
    }

    Rounds& rounds() { return rounds_; }

   private:
    template <class Source>
    void tile(const PieceWalk& walk, int row, int column, const IssuedWeights<Config>& weights, Source& source,
              TileUnitCounters& counters) {
#pragma HLS INLINE
        const int rows = walk.rows - row;
        const int columns = walk.columns - column;
        image_.clear(rows, columns, walk.keep_zeros);
        bool inside = holds(source, row, column);
    Values_Load:
        while (inside) {
// II=1: a value a clock from the source into registers, each at its own place.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::tile_rows* Config::tile_columns
            const PieceValue<Config> cell = source.front();
            source.pop();
            image_.store(static_cast<int>(cell.row) - row, static_cast<int>(cell.column) - column, cell.value);
            ++counters.loads;
            inside = holds(source, row, column);
        }
        TileCells<Config> cells;
#pragma HLS ARRAY_PARTITION variable=cells.value complete dim=0
#pragma HLS ARRAY_PARTITION variable=cells.row complete dim=0
#pragma HLS ARRAY_PARTITION variable=cells.column complete dim=0
        image_.arrange(walk.values_by_column, cells);
        ++counters.tiles;
        if (cells.count == 0) {
            ++counters.tiles_skipped;
            return;
        }
        counters.iterations += weights.count();
        rounds_.tile(cells, weights, row, column, counters);
    }

    // Whether the next value lies in the tile.
    template <class Source>
    static bool holds(Source& source, int row, int column) {
#pragma HLS INLINE
        if (!source.has()) {
            return false;
        }
        const int down = static_cast<int>(source.front().row) - row;
        const int right = static_cast<int>(source.front().column) - column;
        return down >= 0 && down < Config::tile_rows && right >= 0 && right < Config::tile_columns;
    }

    // The next tile; false behind the last one.
    static bool next(const PieceWalk& walk, int& row, int& column) {
#pragma HLS INLINE
        if (walk.tiles_by_column) {
            row += Config::tile_rows;
            if (row >= walk.rows) {
                row = 0;
                column += Config::tile_columns;
            }
            return column < walk.columns;
        }
        column += Config::tile_columns;
        if (column >= walk.columns) {
            column = 0;
            row += Config::tile_rows;
        }
        return row < walk.rows;
    }

    TileImage<Config> image_;
    Rounds rounds_;
};

}  // namespace bfpga
