// Stitching: results of pieces at their places in a map, sums where they share cells (SC R128-R130).
//
// In halo mode units deliver finished outputs of rectangles that do not touch; in overlap-add mode raw full grids,
// whose cells along the borders are shared; with a partition of every channel, whole maps that are summed. All three
// are the same here: every cell is added to what lies at its place.
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

struct StitchDefaults {
    static constexpr int map_rows = 64;  // of the full grid, or of the outputs
    static constexpr int map_columns = 64;
    static constexpr int accumulator_bits = 32;
};

// Where a piece lies in the map.
struct StitchPlace {
    int32_t row;
    int32_t column;
    int32_t rows;
    int32_t columns;
};

// Which cells of the map are outputs (SC E4): output (r, c) is cell (first + r * stride), zero where that is outside. A
// first row or column is negative where padding is wider than the kernel.
struct ReadOut {
    int32_t rows;
    int32_t columns;
    int32_t first_row;
    int32_t first_column;
    int32_t stride_rows;
    int32_t stride_columns;
};

template <class Config>
class Stitcher {
   public:
    using accumulator_t = int_t<Config::accumulator_bits>;

    // A piece visits each of its cells once, so a cell that is read was written by an earlier loop.
    Stitcher() {
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
    }

    // The map has this size and is zero.
    void start(int rows, int columns) {
        simulation_check(rows <= Config::map_rows && columns <= Config::map_columns, "a stitched map",
                         "has more rows or columns than the build:", rows > columns ? rows : columns);
        rows_ = rows;
        columns_ = columns;
        int at = 0;
    Cells_Clear:
        for (int n = rows * columns; n > 0; --n) {
// II=1: one write a clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::map_rows* Config::map_columns
            cell_[at] = 0;
            ++at;
        }
    }

    // A piece, row by row; sums modulo 2**accumulator_bits (SC R129).
    template <class Source>
    void add(const StitchPlace& place, Source& source) {
        simulation_check(place.row >= 0 && place.row + place.rows <= rows_, "a piece", "ends in row",
                         place.row + place.rows);
        simulation_check(place.column >= 0 && place.column + place.columns <= columns_, "a piece", "ends in column",
                         place.column + place.columns);
        int at = place.row * columns_ + place.column;
        int column = 0;
        PipelinedLoop loop("Cells_Add");
    Cells_Add:
        for (int n = place.rows * place.columns; n > 0; --n) {
// II=1: addresses of one piece are all different, so no sum waits for one of the same loop.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::map_rows* Config::map_columns
#pragma HLS DEPENDENCE variable=cell_ inter false
            cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
            loop.iteration();
            cell_waiver_.reads(at);
            cell_waiver_.writes(at);
            const int_t<Config::accumulator_bits + 1> sum =
                static_cast<int_t<Config::accumulator_bits + 1>>(cell_[at]) + source.read();
            cell_[at] = low_bits<Config::accumulator_bits>(sum);
            ++column;
            const bool ends = column == place.columns;
            at += ends ? columns_ - place.columns + 1 : 1;
            column = ends ? 0 : column;
        }
    }

    // The outputs, row by row.
    template <class Sink>
    void read_out(const ReadOut& window, Sink& sink) const {
        int row = window.first_row;
        int column = window.first_column;
        int address = window.first_row * columns_;  // of the row
        const int row_step = window.stride_rows * columns_;
        int output = 0;
    Outputs:
        for (int n = window.rows * window.columns; n > 0; --n) {
// II=1: one read a clock, nothing is written.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::map_rows* Config::map_columns
            const bool inside = row >= 0 && row < rows_ && column >= 0 && column < columns_;
            sink.write(inside ? cell_[inside ? address + column : 0] : static_cast<accumulator_t>(0));
            ++output;
            const bool ends = output == window.columns;
            output = ends ? 0 : output;
            column = ends ? window.first_column : column + window.stride_columns;
            row += ends ? window.stride_rows : 0;
            address += ends ? row_step : 0;
        }
    }

   private:
    accumulator_t cell_[Config::map_rows * Config::map_columns] = {};
    Waiver<InterFalse, Config::map_rows * Config::map_columns> cell_waiver_;
    int32_t rows_ = 0, columns_ = 0;
};

}  // namespace bfpga
