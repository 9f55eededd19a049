// Keeps the full grid of a map for a block of output channels and sends the cells that are outputs, in the order in
// which the output stage takes them: group of pixels, output channel, pixel (SC R128).
//
// Sums come block by block of the grid, of each all channels, a cell for every bank. Two grids have room, so that one
// comes while the other one leaves. A pixel leaves each clock; positions in blocks follow the walk, and nothing is
// multiplied or divided.
//
// The loop waits where sums have no room, and takes no blocks meanwhile. That ends: the output stage needs for these
// sums what was sent before them, and parameters, which wait for nothing that comes behind the weights of the same
// channels; all of these have been used.
#pragma once
#include "bfpga/processes/cluster/layer.hpp"
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

// Clocks from the write of a cell to its first read at least.
constexpr int grid_guard = 6;

// The cells of two grids, a bank for each cell of a block.
template <class Config>
class GridBanks {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    static constexpr int blocks = Config::cluster_blocks;
    static constexpr int words = 2 * blocks * T::planes;
    static_assert((blocks & (blocks - 1)) == 0, "addresses are put together of bits");

   public:
    using block_t = uint_t<bit_length(blocks - 1)>;
    using accumulator_t = typename T::accumulator_t;

    GridBanks() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A grid is read when `grid_guard` clocks have passed, and written anew when all of it has left.
#pragma HLS DEPENDENCE variable=cell_ inter false
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    void write(bool grid, block_t block, typename T::plane_t plane, const BlockBeat<C>& sums) {
#pragma HLS INLINE
        const int word = address(grid, block, plane);
    Banks_Write:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            cell_waiver_.writes(n * words + word);
            cell_[n][word] = sums.sum[n];
        }
    }

    // A cell of a block.
    accumulator_t read(bool grid, block_t block, typename T::plane_t plane, typename T::phase_t row,
                       typename T::phase_t column) const {
#pragma HLS INLINE
        const int word = address(grid, block, plane);
        const int place = static_cast<int>(row) * T::columns + static_cast<int>(column);
        accumulator_t found = 0;
    Banks_Read:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const accumulator_t cell = cell_[n][word];
            found = static_cast<accumulator_t>(found | (place == n ? cell : static_cast<accumulator_t>(0)));
            if (place == n) {
                cell_waiver_.reads(n * words + word);
            }
        }
        return found;
    }

   private:
    static int address(bool grid, block_t block, typename T::plane_t plane) {
#pragma HLS INLINE
        return ((grid ? blocks : 0) + static_cast<int>(block)) * T::planes + static_cast<int>(plane);
    }

    accumulator_t cell_[T::cells][words];
    mutable Waiver<InterFalseBefore<grid_guard>, T::cells * words> cell_waiver_;
};

// The walk over the outputs of a grid: pixel after pixel of a group, again for each channel, group after group.
template <class Config>
class OutputWalk {
    using T = ClusterUnitTypes<ClusterConfig<Config>>;
    using Outputs = OutputsBeat<ClusterConfig<Config>>;
    using block_t = typename GridBanks<Config>::block_t;
    using phase_t = typename T::phase_t;
    using plane_t = typename T::plane_t;
    using pixel_t = typename Outputs::pixel_t;

    // A pixel: where its block's row begins, its block in that row, its cell, what is left behind it.
    struct Pixel {
        block_t base, block;
        phase_t row, column;
        line_t of_row;   // pixels of the row, with this one
        pixel_t of_map;  // of the map
    };

   public:
    void start(const Outputs& outputs) {
#pragma HLS INLINE
        outputs_ = outputs;
        pixel_.base = 0;
        pixel_.row = static_cast<phase_t>(outputs.first_row);
        pixel_.of_map = outputs.pixels;
        begin_row(pixel_, outputs);
        group_ = pixel_;
        plane_ = 0;
        column_ = 0;
    }

    block_t block() const { return static_cast<block_t>(pixel_.base + pixel_.block); }
    phase_t row() const { return pixel_.row; }
    phase_t column() const { return pixel_.column; }
    plane_t plane() const { return plane_; }
    // The pixel's place in its group; whether it is the last one there; whether nothing comes behind it.
    int place() const { return static_cast<int>(column_); }
    bool ends_group() const { return column_ == static_cast<line_t>(outputs_.group - 1) || pixel_.of_map == 1; }
    bool last() const { return pixel_.of_map == 1 && plane_ == T::planes - 1; }

    void next() {
#pragma HLS INLINE
        const bool group = ends_group();
        const bool last_plane = plane_ == T::planes - 1;
        const Pixel behind = after(pixel_);
        const bool again = group && !last_plane;
        pixel_ = again ? group_ : behind;
        group_ = group && last_plane ? behind : group_;
        column_ = group ? static_cast<line_t>(0) : static_cast<line_t>(column_ + 1);
        plane_ = !group ? plane_ : last_plane ? static_cast<plane_t>(0) : static_cast<plane_t>(plane_ + 1);
    }

   private:
    static void begin_row(Pixel& pixel, const Outputs& outputs) {
#pragma HLS INLINE
        pixel.block = 0;
        pixel.column = static_cast<phase_t>(outputs.first_column);
        pixel.of_row = outputs.width;
    }

    Pixel after(const Pixel& now) const {
#pragma HLS INLINE
        const bool ends_row = now.of_row == 1;
        const line_t below = static_cast<line_t>(now.row + outputs_.stride_row);
        const line_t beside = static_cast<line_t>(now.column + outputs_.stride_column);
        const bool next_rows = below >= T::rows;
        const bool next_block = beside >= T::columns;
        Pixel behind = now;
        behind.of_map = static_cast<pixel_t>(now.of_map - 1);
        if (ends_row) {
            begin_row(behind, outputs_);
            behind.row = static_cast<phase_t>(next_rows ? static_cast<line_t>(below - T::rows) : below);
            behind.base = next_rows ? static_cast<block_t>(now.base + outputs_.block_columns) : now.base;
        } else {
            behind.of_row = static_cast<line_t>(now.of_row - 1);
            behind.column = static_cast<phase_t>(next_block ? static_cast<line_t>(beside - T::columns) : beside);
            behind.block = next_block ? static_cast<block_t>(now.block + 1) : now.block;
        }
        return behind;
    }

    Outputs outputs_;
    Pixel pixel_, group_;  // the group's first one
    plane_t plane_;
    line_t column_;
};

template <class Config>
class GridSums {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using Outputs = OutputsBeat<C>;
    using Blocks = BlockBeat<C>;
    using Sums = SumBeat<Config>;
    using block_t = typename GridBanks<Config>::block_t;
    using plane_t = typename T::plane_t;

   public:
    GridSums() : outputs_kept_(), row_() {
#pragma HLS ARRAY_PARTITION variable=outputs_kept_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_.sum complete dim=0
#pragma HLS ARRAY_PARTITION variable=full_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=readable_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=guard_ complete dim=0
        clear();
    }

    // Until outputs with `stop` have come and all sums have left.
    void run(stream<wire_t<Outputs>>& outputs, stream<wire_t<Blocks>>& blocks, stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Grid");
    Grid:
        while (running) {
// II=1: a block comes and a pixel leaves; the walks are counters that are compared with what stands.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool empty = !full_[0] && !full_[1];
            const bool heard = outputs_.there() && !fills_;
            const bool begins = heard && !outputs_.beat().stop && !full_[filled_ ? 1 : 0];
            const bool takes = fills_ && block_.there();
            running = !(heard && outputs_.beat().stop && empty);
            const bool ended = send(sums);
            const bool closes = collect(begins, takes);
            keep_count(closes, ended);
            if (begins || !outputs_.there()) {
                outputs_.next(outputs);
            }
            if (takes || !block_.there()) {
                block_.next(blocks);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        outputs_.drop();
        block_.drop();
        fills_ = false;
        filled_ = false;
        sends_ = false;
        sent_ = false;
        opened_ = false;
    Grids_Clear:
        for (int g = 0; g < 2; ++g) {
#pragma HLS UNROLL
            full_[g] = false;
            readable_[g] = false;
        }
    Clocks_Clear:
        for (int k = 0; k < grid_guard; ++k) {
#pragma HLS UNROLL
            guard_[k] = false;
        }
    }

    // A pixel of a channel, or the begin of a grid; whether the grid has left with it.
    bool send(stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        const bool starts = !sends_ && readable_[sent_ ? 1 : 0];
        const bool ends_group = walk_.ends_group();
        const bool ended = sends_ && walk_.last();
        if (sends_) {
            put(banks_.read(sent_, walk_.block(), walk_.plane(), walk_.row(), walk_.column()), walk_.place());
            if (ends_group) {
                sums.write(to_wire(row_));
            }
            walk_.next();
        } else if (starts) {
            walk_.start(outputs_kept_[sent_ ? 1 : 0]);
        }
        sends_ = starts || (sends_ && !ended);
        return ended;
    }

    // A pixel of the row that leaves.
    void put(typename T::accumulator_t sum, int place) {
#pragma HLS INLINE
    Columns_Put:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            if (i == place) {
                row_.sum[i] = sum;
            }
        }
    }

    // A block of a channel, or the begin of a grid; whether the grid is whole with it.
    bool collect(bool begins, bool takes) {
#pragma HLS INLINE
        const bool last_plane = plane_ == T::planes - 1;
        const bool last_column = block_column_ == static_cast<line_t>(filling_.block_columns - 1);
        const bool last_row = block_row_ == static_cast<line_t>(filling_.block_rows - 1);
        const bool closes = takes && last_plane && last_column && last_row;
        if (takes) {
            banks_.write(filled_, place_, plane_, block_.beat());
            plane_ = last_plane ? static_cast<plane_t>(0) : static_cast<plane_t>(plane_ + 1);
            place_ = last_plane ? static_cast<block_t>(place_ + 1) : place_;
            if (last_plane) {
                block_column_ = last_column ? static_cast<line_t>(0) : static_cast<line_t>(block_column_ + 1);
                block_row_ = last_column ? static_cast<line_t>(block_row_ + 1) : block_row_;
            }
        }
        if (begins) {
            filling_ = outputs_.beat();
            plane_ = 0;
            place_ = 0;
            block_column_ = 0;
            block_row_ = 0;
        Grids_Keep:
            for (int g = 0; g < 2; ++g) {
#pragma HLS UNROLL
                if (filled_ == (g == 1)) {
                    outputs_kept_[g] = outputs_.beat();
                }
            }
        }
        fills_ = begins || (fills_ && !closes);
        return closes;
    }

    // Which grids are full, and which can be read. Grids become full in turns.
    void keep_count(bool closes, bool ended) {
#pragma HLS INLINE
        const bool opens = guard_[grid_guard - 1];
    Grids_Count:
        for (int g = 0; g < 2; ++g) {
#pragma HLS UNROLL
            const bool left = ended && sent_ == (g == 1);
            full_[g] = (full_[g] && !left) || (closes && filled_ == (g == 1));
            readable_[g] = (readable_[g] && !left) || (opens && opened_ == (g == 1));
        }
        filled_ = filled_ != closes;
        sent_ = sent_ != ended;
        opened_ = opened_ != opens;
    Clocks_Count:
        for (int k = grid_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            guard_[k] = guard_[k - 1];
        }
        guard_[0] = closes;
    }

    HeldBeat<Outputs> outputs_;
    HeldBeat<Blocks> block_;
    GridBanks<Config> banks_;
    OutputWalk<Config> walk_;
    Outputs outputs_kept_[2];  // of each grid
    Outputs filling_;
    bool fills_, sends_;           // a grid comes, one leaves
    bool filled_, sent_, opened_;  // which one, and which can be read next: the second
    bool full_[2], readable_[2];
    bool guard_[grid_guard];  // [k]: a grid was whole k clocks before
    // The block that comes next
    line_t block_row_, block_column_;
    block_t place_;
    plane_t plane_;
    Sums row_;  // that leaves
};

}  // namespace bfpga
