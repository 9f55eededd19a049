// Keeps the full grid of a map for a block of output channels and sends the cells that are outputs, in the order in
// which the output stage takes them: group of pixels, output channel, pixel (SC R128).
//
// Sums come block by block of the grid, of each all channels, a cell for every bank. Two grids have room, so that one
// comes while the other one leaves. A pixel leaves when its row of blocks has come, the last one when the grid has.
// Consecutive pixels of a row are in different columns of their blocks, if stride and block have no common factor: as
// many of them leave in a cycle as a block has columns, otherwise one. Positions in blocks follow the walk; what a
// stride is in blocks and cells is found when a grid begins.
//
// The loop stalls on backpressure of the sums, and takes no blocks meanwhile. The stall ends: for these sums the output
// stage needs what was sent before them, and parameters, which wait for nothing that comes after the weights of the
// same channels; all of these have been used.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/layer.hpp"
#include "bfpga/processes/two_sets.hpp"

namespace bfpga {

// Cycles from the write of a cell to its first read at least.
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
        static_assert(grid_guard >= 6, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A grid is read when `grid_guard` cycles have passed, and written anew when all of it has left.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=6 true
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

    // A cell in some column of a block, whose rows are banks; `used`: somebody needs it.
    accumulator_t read(bool grid, block_t block, typename T::plane_t plane, typename T::phase_t row, int column,
                       bool used) const {
#pragma HLS INLINE
        const int word = address(grid, block, plane);
        accumulator_t found = 0;
    Rows_Read:
        for (int r = 0; r < T::rows; ++r) {
#pragma HLS UNROLL
            const accumulator_t cell = cell_[r * T::columns + column][word];
            found = static_cast<accumulator_t>(found | (row == r ? cell : static_cast<accumulator_t>(0)));
            if (used && row == r) {
                cell_waiver_.reads((r * T::columns + column) * words + word);
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
    mutable Waiver<InterRawDistance<6>, T::cells * words> cell_waiver_;
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

   public:
    // Pixels that leave in a cycle at most.
    static constexpr int most = T::columns;
    using count_t = uint_t<bit_length(most)>;

    // The position of a pixel of the row.
    struct Place {
        block_t block;
        phase_t column;
    };

    OutputWalk() : step_() {
#pragma HLS ARRAY_PARTITION variable=step_ complete dim=0
    }

    void start(const Outputs& outputs) {
#pragma HLS INLINE
        outputs_ = outputs;
        pixel_.base = 0;
        pixel_.block_row = 0;
        pixel_.row = static_cast<phase_t>(outputs.first_row);
        pixel_.of_map = outputs.pixels;
        begin_row(pixel_, outputs);
        group_ = pixel_;
        plane_ = 0;
        column_ = 0;
        of_group_ = outputs.group;
        most_ = apart(outputs.stride_column) ? static_cast<count_t>(most) : static_cast<count_t>(1);
    Steps_Set:
        for (int n = 0; n <= most; ++n) {
#pragma HLS UNROLL
            step_[n].block = 0;
            step_[n].column = 0;
        Strides_Choose:
            for (int stride = 1; stride <= T::columns; ++stride) {
#pragma HLS UNROLL
                if (outputs.stride_column == stride) {
                    step_[n].block = static_cast<block_t>(n * stride / T::columns);
                    step_[n].column = static_cast<phase_t>(n * stride % T::columns);
                }
            }
        }
    }

    phase_t row() const { return pixel_.row; }
    line_t block_row() const { return pixel_.block_row; }
    plane_t plane() const { return plane_; }
    // The place of the first pixel in its group; pixels that leave now.
    int first() const { return static_cast<int>(column_); }
    count_t count() const {
#pragma HLS INLINE
        count_t count = 1;
    Pixels_Count:
        for (int n = 2; n <= most; ++n) {
#pragma HLS UNROLL
            const bool more = most_ >= n && pixel_.of_row >= n && of_group_ >= n;
            count = more ? static_cast<count_t>(n) : count;
        }
        return count;
    }
    // Whether the last of `count` pixels is the last one of its group, and whether no pixel follows them.
    bool ends_group(count_t count) const { return of_group_ == count || pixel_.of_map == count; }
    bool last(count_t count) const { return pixel_.of_map == count && plane_ == T::planes - 1; }

    // The position of the pixel that is `behind` places after the first one.
    Place place(int behind) const {
#pragma HLS INLINE
        const Place in_row = place_in_row(behind);
        const Place place = {static_cast<block_t>(pixel_.base + in_row.block), in_row.column};
        return place;
    }

    void next(count_t count) {
#pragma HLS INLINE
        const bool group = ends_group(count);
        const bool last_plane = plane_ == T::planes - 1;
        const Pixel behind = after(count);
        const bool again = group && !last_plane;
        pixel_ = again ? group_ : behind;
        group_ = group && last_plane ? behind : group_;
        column_ = group ? static_cast<line_t>(0) : static_cast<line_t>(column_ + count);
        of_group_ = group ? outputs_.group : static_cast<line_t>(of_group_ - count);
        plane_ = !group ? plane_ : last_plane ? static_cast<plane_t>(0) : static_cast<plane_t>(plane_ + 1);
    }

   private:
    // A pixel: its row of blocks and where that begins, its block in the row, its cell, what is left after it.
    struct Pixel {
        block_t base, block;
        line_t block_row;
        phase_t row, column;
        line_t of_row;   // pixels of the row, with this one
        pixel_t of_map;  // of the map
    };

    // Strides that have no factor in common with the columns of a block, a bit for each.
    static constexpr uint64_t strides_apart() {
        uint64_t found = 0;
        for (int s = 1; s < T::columns; ++s) {
            bool common = false;
            for (int factor = 2; factor <= s; ++factor) {
                // lint: allow(division) known when the kernel is compiled
                common = common || (s % factor == 0 && T::columns % factor == 0);
            }
            found |= static_cast<uint64_t>(common ? 0 : 1) << s;
        }
        return found;
    }

    // Whether pixels a stride apart are in different columns of blocks.
    static bool apart(line_t stride) {
#pragma HLS INLINE
        constexpr uint64_t strides = strides_apart();
        bool found = false;
    Strides_Ask:
        for (int s = 1; s < T::columns; ++s) {
#pragma HLS UNROLL
            found = found || (stride == s && ((strides >> s) & 1) != 0);
        }
        return found;
    }

    static void begin_row(Pixel& pixel, const Outputs& outputs) {
#pragma HLS INLINE
        pixel.block = 0;
        pixel.column = static_cast<phase_t>(outputs.first_column);
        pixel.of_row = outputs.width;
    }

    Place place_in_row(int behind) const {
#pragma HLS INLINE
        const line_t cells = static_cast<line_t>(pixel_.column + step_[behind].column);
        const bool next = cells >= T::columns;
        const block_t block = static_cast<block_t>(pixel_.block + step_[behind].block);
        const Place place = {next ? static_cast<block_t>(block + 1) : block,
                             static_cast<phase_t>(next ? static_cast<line_t>(cells - T::columns) : cells)};
        return place;
    }

    Pixel after(count_t count) const {
#pragma HLS INLINE
        const bool ends_row = pixel_.of_row == count;
        const line_t below = static_cast<line_t>(pixel_.row + outputs_.stride_row);
        const bool next_rows = below >= T::rows;
        Pixel behind = pixel_;
        behind.of_map = static_cast<pixel_t>(pixel_.of_map - count);
        if (ends_row) {
            begin_row(behind, outputs_);
            behind.row = static_cast<phase_t>(next_rows ? static_cast<line_t>(below - T::rows) : below);
            behind.base = next_rows ? static_cast<block_t>(pixel_.base + outputs_.block_columns) : pixel_.base;
            behind.block_row = next_rows ? static_cast<line_t>(pixel_.block_row + 1) : pixel_.block_row;
        } else {
            behind.of_row = static_cast<line_t>(pixel_.of_row - count);
        Places_Choose:
            for (int n = 1; n <= most; ++n) {
#pragma HLS UNROLL
                const Place place = place_in_row(n);
                behind.block = count == n ? place.block : behind.block;
                behind.column = count == n ? place.column : behind.column;
            }
        }
        return behind;
    }

    Outputs outputs_;
    Pixel pixel_, group_;  // the group's first one
    plane_t plane_;
    line_t column_, of_group_;  // the pixel's place in its group; what is left of it
    count_t most_;              // pixels that may leave in a cycle
    Place step_[most + 1];      // [n]: n pixels further, in blocks and cells
};

template <class Config>
class GridSums {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using Outputs = OutputsBeat<C>;
    using Blocks = BlockBeat<C>;
    using Sums = SumBeat<Config>;
    using Walk = OutputWalk<Config>;
    using count_t = typename Walk::count_t;
    using accumulator_t = typename T::accumulator_t;
    using block_t = typename GridBanks<Config>::block_t;
    using plane_t = typename T::plane_t;
    using settle_t = uint_t<bit_length(grid_guard)>;

   public:
    GridSums() : outputs_kept_(), row_() {
#pragma HLS ARRAY_PARTITION variable=outputs_kept_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=rows_there_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_.sum complete dim=0
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
// II=1: a block comes and pixels leave; the walks are counters that are compared with stable registers.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool empty = turns_.empty();
            const bool heard = outputs_.there() && !fills_;
            const bool begins = heard && !outputs_.beat().stop && turns_.room();
            const bool takes = fills_ && block_.there();
            running = !(heard && outputs_.beat().stop && empty);
            const bool ended = send(sums);
            const bool closes = collect(begins, takes);
            settle(begins, closes, ended);
            turns_.step(closes, ended);
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
        fills_ = false;
        sends_ = false;
        turns_.clear();
        rows_there_[0] = 0;
        rows_there_[1] = 0;
        settles_ = 0;
        row_ends_ = false;
    }

    // Pixels of a channel, or the begin of a grid; whether the grid has left with them.
    bool send(stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        const line_t rows = rows_there_[turns_.reading() ? 1 : 0];
        const bool starts = !sends_ && (turns_.readable() || rows != 0);
        const count_t count = walk_.count();
        const bool ends_group = walk_.ends_group(count);
        const bool last = walk_.last(count);
        const bool there = turns_.readable() || (walk_.block_row() < rows && !last);
        const bool ended = sends_ && there && last;
        if (sends_ && there) {
            put(count);
            if (ends_group) {
                sums.write(to_wire(row_));
            }
            walk_.next(count);
        } else if (starts) {
            walk_.start(outputs_kept_[turns_.reading() ? 1 : 0]);
        }
        sends_ = starts || (sends_ && !ended);
        return ended;
    }

    // Pixels of the row that leaves: each column of banks has one of them at most.
    void put(count_t count) {
#pragma HLS INLINE
        accumulator_t found[Walk::most];
#pragma HLS ARRAY_PARTITION variable=found complete dim=0
    Pixels_Clear:
        for (int n = 0; n < Walk::most; ++n) {
#pragma HLS UNROLL
            found[n] = 0;
        }
    Banks_Put:
        for (int b = 0; b < Walk::most; ++b) {
#pragma HLS UNROLL
            block_t block = 0;
            bool used = false;
        Pixels_Ask:
            for (int n = 0; n < Walk::most; ++n) {
#pragma HLS UNROLL
                const typename Walk::Place place = walk_.place(n);
                const bool here = place.column == b && n < count;
                block = static_cast<block_t>(block | (here ? place.block : static_cast<block_t>(0)));
                used = used || here;
            }
            const accumulator_t sum = banks_.read(turns_.reading(), block, walk_.plane(), walk_.row(), b, used);
        Pixels_Find:
            for (int n = 0; n < Walk::most; ++n) {
#pragma HLS UNROLL
                const bool here = walk_.place(n).column == b && n < count;
                found[n] = static_cast<accumulator_t>(found[n] | (here ? sum : static_cast<accumulator_t>(0)));
            }
        }
    Columns_Put:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
        Pixels_Put:
            for (int n = 0; n < Walk::most; ++n) {
#pragma HLS UNROLL
                if (n < count && i == walk_.first() + n) {
                    row_.sum[i] = found[n];
                }
            }
        }
    }

    // Rows of blocks have come when their last write is `grid_guard` cycles old. `turns_` tracks those of a whole grid,
    // so only the incoming grid settles here.
    void settle(bool begins, bool closes, bool ended) {
#pragma HLS INLINE
        const bool settled = settles_ == 1;
    Grids_Settle:
        for (int g = 0; g < 2; ++g) {
#pragma HLS UNROLL
            const bool left = ended && turns_.reading() == (g == 1);
            const bool here = turns_.writing() == (g == 1);
            rows_there_[g] = left || (begins && here) ? static_cast<line_t>(0)
                             : settled && here        ? rows_come_
                                                      : rows_there_[g];
        }
        const bool row = row_ends_ && !closes && !begins;
        rows_come_ = row ? block_row_ : rows_come_;
        settles_ = begins || closes ? static_cast<settle_t>(0)
                   : row            ? static_cast<settle_t>(grid_guard)
                   : settles_ != 0  ? static_cast<settle_t>(settles_ - 1)
                                    : settles_;
    }

    // A block of a channel, or the begin of a grid; whether the grid is whole with it.
    bool collect(bool begins, bool takes) {
#pragma HLS INLINE
        const bool last_plane = plane_ == T::planes - 1;
        const bool last_column = block_column_ == static_cast<line_t>(filling_.block_columns - 1);
        const bool last_row = block_row_ == static_cast<line_t>(filling_.block_rows - 1);
        const bool closes = takes && last_plane && last_column && last_row;
        row_ends_ = takes && last_plane && last_column;
        if (takes) {
            banks_.write(turns_.writing(), place_, plane_, block_.beat());
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
                if (turns_.writing() == (g == 1)) {
                    outputs_kept_[g] = outputs_.beat();
                }
            }
        }
        fills_ = begins || (fills_ && !closes);
        return closes;
    }

    HeldBeat<Outputs> outputs_;
    HeldBeat<Blocks> block_;
    GridBanks<Config> banks_;
    Walk walk_;
    Outputs outputs_kept_[2];  // of each grid
    Outputs filling_;
    bool fills_, sends_;  // a grid comes, one leaves
    TwoSets<grid_guard> turns_;
    // Rows of blocks of each grid that can be read; those of the grid that comes, and cycles until they can be
    line_t rows_there_[2], rows_come_;
    settle_t settles_;
    bool row_ends_;  // with the block of this cycle
    // The block that comes next
    line_t block_row_, block_column_;
    block_t place_;
    plane_t plane_;
    Sums row_;  // that leaves
};

}  // namespace bfpga
