// The zero-skip engine in tile form, in the place of a kernel's array: each weight that is not zero by itself on a
// whole tile (zero-skip-convolution, R17-R46).
//
// A map is a tile. Its words of channels come into one of two sets, a cell a cycle, while the weights of the other set
// are multiplied: one weight meets all lanes, a group of rows a cycle, and adds to the sums of its kernel. Channel
// after channel is finished; the weights of all kernels in flight share what was loaded. After the last word the sums
// leave, block by block of the full grid, of each all kernels.
//
// Steps are a weight each, none for zeros, and two of a kernel are `sum_distance` steps apart at least, with pauses
// where kernels are few. So a sum is never met too early, whatever the tile's size.
//
// The loop stalls for cells, for steps and on backpressure of blocks. The stall ends: cells and steps of a map come
// from processes that wait only for room in these two streams, and a block's room becomes free when outputs of earlier
// maps leave.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/two_sets.hpp"
#include "bfpga/processes/zero_skip_tile/entry.hpp"
#include "bfpga/processes/zero_skip_tile/tile_buffer.hpp"
#include "bfpga/processes/zero_skip_tile/tile_sums.hpp"

namespace bfpga {

// Lines that are left, with the one that is next; a register flags whether that is the last one.
struct LinesLeft {
    line_t left;
    bool last;

    LinesLeft() : left(1), last(true) {}

    void start(line_t lines) {
#pragma HLS INLINE
        left = lines;
        last = lines == 1;
    }

    void next() {
#pragma HLS INLINE
        last = left == 2;
        left = static_cast<line_t>(left - 1);
    }
};

template <class Config>
class TileProcess {
    using D = TileTypes<Config>;
    using C = typename D::C;
    using T = typename D::T;
    using Maps = MapBeat<C>;
    using Cells = MapCellBeat<C>;
    using Steps = TileStep<C>;
    using Blocks = BlockBeat<C>;
    using accumulator_t = typename D::accumulator_t;
    using group_t = typename D::group_t;
    using lane_t = typename D::lane_t;
    using plane_t = typename D::plane_t;
    using pause_t = uint_t<bit_length(sum_distance)>;
    using down_t = uint_t<bit_length(D::blocks_down)>;

   public:
    TileProcess() : place_(), rows_(0), columns_(0), given_(), map_kept_(), one_before_last_(0), single_group_(true) {
        clear();
    }

    // Until a map and a step with `stop` have come.
    void run(stream<wire_t<Maps>>& maps, stream<wire_t<Cells>>& cells, stream<wire_t<Steps>>& steps,
             stream<wire_t<Blocks>>& blocks) {
#pragma HLS INLINE
        clear();
        sums_.clear();
        bool running = true;
        PipelinedLoop loop("Tile");
    Tile:
        while (running) {
// II=1: a word of sums is met again `sum_distance` cycles later at the earliest; what is decided in a cycle are flags
// and counters of the one before; the set that is loaded is not the one that is read.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !ended_;
            const bool map_there = map_.there();
            const bool map_stops = map_.beat().stop;
            const bool step_there = step_.there();
            const bool step_stops = step_.beat().stop;
            const bool cell_there = cell_.there();
            const bool stops = map_stops & step_stops & map_there & step_there;
            const bool begins = idle_ & handed_;
            ended_ = idle_ & stops & !loads_ & !handed_;
            idle_ = !begins & !computes_ & !drains_ & !pauses_;
            // What ends depends on the step alone; whether it is met comes last.
            const bool step_adds = step_.beat().adds;
            const bool step_last = step_.beat().last;
            const bool ends_group = !step_adds | last_group_;
            const bool ends_words = ends_group & step_last & last_lane_;
            const bool meets = ready_ & step_there;
            const bool ends_step = meets & ends_group;
            const bool ends_set = meets & ends_words;
            // After the end of a set one cycle multiplies nothing: `readable` is evaluated again for the next one.
            const bool readable = turns_.readable();
            const bool room = turns_.room();
            ready_ = readable & computes_ & !ends_set;
            compute(meets & step_adds, blocks);
            const bool takes_map = !loads_ & !handed_ & map_there & !map_stops;
            const bool takes_cell = loads_ & room & cell_there;
            go_on(meets, ends_step, ends_set);
            if (begins) {
                begin();
            }
            const bool whole = load(takes_map, takes_cell);
            turns_.step(whole, ends_set);
            handed_ = handed_ | takes_map;
            if (takes_map || !map_there) {
                map_.next(maps);
            }
            if (takes_cell || !cell_there) {
                cell_.next(cells);
            }
            if (ends_step || !step_there) {
                step_.next(steps);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        map_.drop();
        step_.drop();
        loads_ = false;
        handed_ = false;
        computes_ = false;
        drains_ = false;
        pauses_ = false;
        pause_ = 0;
        turns_.clear();
        idle_ = true;
        ended_ = false;
        ready_ = false;
        first_lane();
        first_group();
    }

    void first_lane() {
#pragma HLS INLINE
        lane_ = 0;
        last_lane_ = C::lanes == 1;
    }

    void first_group() {
#pragma HLS INLINE
        group_ = 0;
        last_group_ = single_group_;
    }

    // A weight on a group of rows, or a block that leaves.
    void compute(bool adds, stream<wire_t<Blocks>>& blocks) {
#pragma HLS INLINE
        const bool leaves = drains_ && !pauses_;
        if (native_integers && !adds && !leaves) {  // a simulation saves the time
            return;
        }
        const Steps& step = step_.beat();
        typename D::value_t value[D::lanes];
#pragma HLS ARRAY_PARTITION variable=value complete dim=0
        buffer_.read(turns_.reading(), group_, lane_, step.down, step.right, adds, value);
        typename D::product_t product[D::lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        C::Multiplier::template multiply<C::value_bits, C::weight_bits, D::lanes>(value, step.weight, product);
        accumulator_t taken[D::lanes];
#pragma HLS ARRAY_PARTITION variable=taken complete dim=0
        const bool clears =
            leaves && block_column_ == last_block_column_ && (down_ == D::blocks_down - 1 || blocks_left_.last);
        sums_.step(adds, leaves, clears, leaves ? block_group_ : group_, leaves ? plane_ : step.plane, product, taken);
        if (leaves) {
            blocks.write(to_wire(block(taken)));
        }
    }

    // The block that leaves, out of the sums of its group of rows.
    Blocks block(const accumulator_t (&taken)[D::lanes]) const {
#pragma HLS INLINE
        Blocks beat;
    Cells_Leave:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            beat.sum[n] = 0;
        Rows_Leave:
            for (int d = 0; d < D::blocks_down; ++d) {
#pragma HLS UNROLL
            Columns_Leave:
                for (int c = 0; c < D::blocks_across; ++c) {
#pragma HLS UNROLL
                    const int lane = (d * T::rows + n / T::columns) * D::columns + c * T::columns + n % T::columns;
                    const bool here = down_ == d && block_column_ == c;
                    // One block is here: what all have is one number.
                    beat.sum[n] =
                        static_cast<accumulator_t>(beat.sum[n] | (here ? taken[lane] : static_cast<accumulator_t>(0)));
                }
            }
        }
        return beat;
    }

    // A map whose words come, or a cell of it; whether its set is whole with it.
    bool load(bool takes_map, bool takes_cell) {
#pragma HLS INLINE
        const bool row = takes_cell && columns_left_.last;
        const bool whole = row && rows_left_.last;
        if (takes_cell) {
            buffer_.write(turns_.writing(), place_, cell_.beat(), first_cell_, columns_);
            first_cell_ = whole;
        }
        if (whole) {
            place_.first();
            loads_ = !words_left_.last;
            words_left_.next();
            rows_left_.start(rows_);
        } else if (row) {
            place_.next_row();
            rows_left_.next();
        } else if (takes_cell) {
            place_.column = static_cast<line_t>(place_.column + 1);
        }
        if (row) {
            columns_left_.start(columns_);
        } else if (takes_cell) {
            columns_left_.next();
        }
        if (takes_map) {
            begin_loading(map_.beat());
        }
        return whole;
    }

    void begin_loading(const Maps& map) {
#pragma HLS INLINE
        simulation_check(static_cast<int>(map.rows) <= D::cell_rows, "a map",
                         "has more rows than the tile:", static_cast<int>(map.rows));
        simulation_check(static_cast<int>(map.columns) <= D::cell_columns, "a map",
                         "has more columns than the tile:", static_cast<int>(map.columns));
        given_ = map;
        rows_ = map.rows;
        columns_ = map.columns;
        rows_left_.start(map.rows);
        columns_left_.start(map.columns);
        words_left_.start(map.words);
        loads_ = true;
        first_cell_ = true;
        place_.first();
    }

    // What is computed goes on.
    void go_on(bool meets, bool ends_step, bool ends_set) {
#pragma HLS INLINE
        const bool leaves = drains_ && !pauses_;
        if (pauses_) {
            pauses_ = pause_ != 1;
            pause_ = static_cast<pause_t>(pause_ - 1);
        }
        if (ends_step) {
            first_group();
        } else if (meets) {
            last_group_ = group_ == one_before_last_;
            group_ = static_cast<group_t>(group_ + 1);
        }
        const bool ends_channel = ends_step && step_.beat().last;
        if (ends_channel && last_lane_) {
            first_lane();
        } else if (ends_channel) {
            last_lane_ = lane_ == C::lanes - 2;
            lane_ = static_cast<lane_t>(lane_ + 1);
        }
        const bool ends_map = ends_set && sets_left_.last;
        if (ends_set) {
            sets_left_.next();
        }
        if (ends_map) {
            computes_ = false;
            drains_ = true;
            first_block();
            pause();
        }
        if (leaves) {
            walk();
        }
    }

    // Between the last product and the first block that leaves, and after the last one.
    void pause() {
#pragma HLS INLINE
        pauses_ = true;
        pause_ = sum_distance;
    }

    void first_block() {
#pragma HLS INLINE
        block_group_ = 0;
        down_ = 0;
        block_column_ = 0;
        plane_ = 0;
        blocks_left_.start(map_kept_.block_rows);
    }

    // The block after the one that leaves: the next kernel's, the next column's, the next row's.
    void walk() {
#pragma HLS INLINE
        const bool last_plane = plane_ == static_cast<plane_t>(map_kept_.last_kernel);
        const bool last_column = last_plane && block_column_ == last_block_column_;
        plane_ = last_plane ? static_cast<plane_t>(0) : static_cast<plane_t>(plane_ + 1);
        block_column_ = last_column  ? static_cast<line_t>(0)
                        : last_plane ? static_cast<line_t>(block_column_ + 1)
                                     : block_column_;
        if (last_column) {
            const bool wraps = down_ == D::blocks_down - 1;
            down_ = wraps ? static_cast<down_t>(0) : static_cast<down_t>(down_ + 1);
            block_group_ = wraps ? static_cast<group_t>(block_group_ + 1) : block_group_;
            drains_ = !blocks_left_.last;
            if (blocks_left_.last) {
                pause();
            }
            blocks_left_.next();
        }
    }

    // The map that has been given is computed.
    void begin() {
#pragma HLS INLINE
        map_kept_ = given_;
        sets_left_.start(given_.words);
        last_block_column_ = static_cast<line_t>(given_.block_columns - 1);
        one_before_last_ = one_before_last_of(given_.block_rows);
        single_group_ = given_.block_rows <= D::blocks_down;
        last_group_ = given_.block_rows <= D::blocks_down;
        computes_ = true;
        handed_ = false;
    }

    // The group of rows before the last one of a grid with so many rows of blocks, if it has two.
    static group_t one_before_last_of(line_t block_rows) {
#pragma HLS INLINE
        group_t found = 0;
    Groups_Count:
        for (int g = 2; g < D::groups; ++g) {
#pragma HLS UNROLL
            found = block_rows > g * D::blocks_down ? static_cast<group_t>(g - 1) : found;
        }
        return found;
    }

    HeldBeat<Maps> map_;
    HeldBeat<Cells> cell_;
    HeldBeat<Steps> step_;
    MapBuffer<Config> buffer_;
    TileSums<Config> sums_;
    // What is loaded: the cell that comes next, lines of the map, those that are left with it, words that are
    bool loads_, first_cell_;
    CellPlace<Config> place_;
    line_t rows_, columns_;
    LinesLeft rows_left_, columns_left_, words_left_;
    // The map that has begun to be loaded and waits to be computed
    Maps given_;
    bool handed_;
    TwoSets<tile_set_guard> turns_;  // of the buffer
    // What is computed: the map, words that are left, the channel, the group of rows, the last one
    Maps map_kept_;
    bool computes_, ready_;  // there is one; steps can be met
    bool idle_, ended_;      // nothing is computed, nor leaves; the start has ended
    LinesLeft sets_left_;
    lane_t lane_;
    group_t group_, one_before_last_;
    bool single_group_;
    bool last_group_, last_lane_;
    // What leaves: the block's group of rows, its row there, its column, the kernel
    bool drains_, pauses_;
    pause_t pause_;
    group_t block_group_;
    down_t down_;
    line_t block_column_, last_block_column_;
    LinesLeft blocks_left_;  // rows of blocks
    plane_t plane_;
};

}  // namespace bfpga
