// The zero-skip engine in tile form, in the place of a kernel's array: each weight that is not zero by itself on a whole
// tile (zero-skip-convolution, R17-R46).
//
// A map is a tile. Its words of channels come into one of two sets, a cell a clock, while the weights of the other set
// are multiplied: one weight meets all lanes, a group of rows a clock, and adds to the sums of its kernel. Channel after
// channel is finished; the weights of all kernels in flight share what was loaded. Behind the last word the sums leave,
// block by block of the full grid, of each all kernels.
//
// Steps come as units of variant B have them: a weight each, none for zeros, and between two of a kernel
// `sum_distance` steps at least, with pauses where kernels are few. So a sum is never met too early, whatever the tile's
// size.
//
// The loop waits for cells, for steps and for room where blocks go. That ends: cells and steps of a map come from
// processes that wait for nothing but room in these two streams, and a block's room becomes free when outputs of earlier
// maps leave.
#pragma once
#include "bfpga/processes/cluster/tile_beats.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/tile/tile_buffer.hpp"
#include "bfpga/processes/tile/tile_sums.hpp"

namespace bfpga {

template <class Config>
class TileProcess {
    using D = TileTypes<Config>;
    using C = typename D::C;
    using T = typename D::T;
    using Maps = MapBeat<C>;
    using Cells = MapCellBeat<C>;
    using Steps = StepBeat<C>;
    using Blocks = BlockBeat<C>;
    using accumulator_t = typename D::accumulator_t;
    using group_t = typename D::group_t;
    using lane_t = typename D::lane_t;
    using plane_t = typename D::plane_t;
    using pause_t = uint_t<bit_length(sum_distance)>;
    using down_t = uint_t<bit_length(D::blocks_down)>;

   public:
    TileProcess()
        : load_(), place_(), rows_left_(0), words_left_(0), given_(), map_kept_(), sets_left_(0), last_number_(0) {
#pragma HLS ARRAY_PARTITION variable=full_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=readable_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=loading_ complete dim=0
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
// II=1: a word of sums is met again `sum_distance` clocks later at the earliest; what is decided in a clock are flags and
// counters of the one before; the set that is loaded is not the one that is read.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool idle = !computes_ && !drains_ && !pauses_;
            running = !(idle && !loads_ && !handed_ && map_.there() && map_.beat().stop && step_.there() &&
                        step_.beat().stop);
            const bool meets = computes_ && readable_[reading_ ? 1 : 0] && step_.there();
            const bool ends_step = meets && (!step_.beat().adds || last_group_);
            const bool ends_set = ends_step && step_.beat().last && lane_ == C::lanes - 1;
            compute(meets && step_.beat().adds, blocks);
            const bool takes_map = !loads_ && !handed_ && map_.there() && !map_.beat().stop;
            const bool takes_cell = loads_ && !full_[writing_ ? 1 : 0] && cell_.there();
            const bool whole = load(takes_map, takes_cell);
            keep_sets(whole, ends_set);
            go_on(meets, ends_step, ends_set);
            begin(idle);
            handed_ = handed_ || takes_map;
            if (takes_map || !map_.there()) {
                map_.next(maps);
            }
            if (takes_cell || !cell_.there()) {
                cell_.next(cells);
            }
            if (ends_step || !step_.there()) {
                step_.next(steps);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        map_.drop();
        cell_.drop();
        step_.drop();
        loads_ = false;
        handed_ = false;
        computes_ = false;
        drains_ = false;
        pauses_ = false;
        pause_ = 0;
        writing_ = false;
        reading_ = false;
        arriving_ = false;
        lane_ = 0;
        first_group();
        last_group_ = false;
    Sets_Clear:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            full_[s] = false;
            readable_[s] = false;
        }
    Clocks_Clear:
        for (int k = 0; k < tile_set_guard; ++k) {
#pragma HLS UNROLL
            loading_[k] = false;
        }
    }

    void first_group() {
#pragma HLS INLINE
        group_ = 0;
        last_group_ = last_number_ == 0;
    }

    // A weight on a group of rows, or a block that leaves.
    void compute(bool adds, stream<wire_t<Blocks>>& blocks) {
#pragma HLS INLINE
        const bool leaves = drains_ && !pauses_;
        if (native_integers && !adds && !leaves) {  // a simulation saves the time
            return;
        }
        const WeightEntry<C> entry = WeightEntry<C>::of(step_.beat());
        typename D::value_t value[D::lanes];
#pragma HLS ARRAY_PARTITION variable=value complete dim=0
        buffer_.read(reading_, group_, lane_, entry.row_offset, entry.column_offset, adds, value);
        typename D::product_t product[D::lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        C::Multiplier::template multiply<C::value_bits, C::weight_bits, D::lanes>(value, entry.weight, product);
        accumulator_t taken[D::lanes];
#pragma HLS ARRAY_PARTITION variable=taken complete dim=0
        const bool clears = leaves && block_column_ == last_block_column_ && (down_ == D::blocks_down - 1 || last_row_);
        sums_.step(adds, leaves, clears, leaves ? block_group_ : group_, leaves ? plane_ : entry.plane, product, taken);
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
        const bool last_column = place_.column == static_cast<line_t>(load_.columns - 1);
        const bool last_row = rows_left_ == 1;
        const bool whole = takes_cell && last_column && last_row;
        if (takes_cell) {
            buffer_.write(writing_, place_, cell_.beat(), first_cell_, load_.columns);
            first_cell_ = whole;
            place_.column = static_cast<line_t>(place_.column + 1);
            if (last_column) {
                place_.next_row();
                rows_left_ = static_cast<line_t>(rows_left_ - 1);
            }
        }
        if (whole) {
            words_left_ = static_cast<line_t>(words_left_ - 1);
            loads_ = words_left_ != 0;
        }
        if (takes_map) {
            load_ = map_.beat();
            given_ = map_.beat();
            words_left_ = map_.beat().words;
            loads_ = true;
            first_cell_ = true;
            check(map_.beat());
        }
        if (takes_map || whole) {
            place_.first();
            rows_left_ = load_.rows;
        }
        return whole;
    }

    static void check(const Maps& map) {
#pragma HLS INLINE
        simulation_check(static_cast<int>(map.rows) <= D::cell_rows, "a map",
                         "has more rows than the tile:", static_cast<int>(map.rows));
        simulation_check(static_cast<int>(map.columns) <= D::cell_columns, "a map",
                         "has more columns than the tile:", static_cast<int>(map.columns));
    }

    // Which sets are full, and which can be read. Sets become whole in turns.
    void keep_sets(bool whole, bool ended) {
#pragma HLS INLINE
        const bool arrives = loading_[tile_set_guard - 1];
    Sets_Keep:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            const bool freed = ended && reading_ == (s == 1);
            full_[s] = (full_[s] && !freed) || (whole && writing_ == (s == 1));
            readable_[s] = (readable_[s] && !freed) || (arrives && arriving_ == (s == 1));
        }
        arriving_ = arriving_ != arrives;
        writing_ = writing_ != whole;
    Clocks_Keep:
        for (int k = tile_set_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            loading_[k] = loading_[k - 1];
        }
        loading_[0] = whole;
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
            const bool last_lane = lane_ == C::lanes - 1;
            lane_ = !step_.beat().last ? lane_
                    : last_lane        ? static_cast<lane_t>(0)
                                       : static_cast<lane_t>(lane_ + 1);
            first_group();
        } else if (meets) {
            group_ = static_cast<group_t>(group_ + 1);
            last_group_ = group_ == last_number_;
        }
        if (ends_set) {
            sets_left_ = static_cast<line_t>(sets_left_ - 1);
            reading_ = !reading_;
        }
        if (ends_set && sets_left_ == 0) {
            computes_ = false;
            drains_ = true;
            first_block();
            pause();
        }
        if (leaves) {
            walk();
        }
    }

    // Between the last product and the first block that leaves, and behind the last one.
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
        blocks_left_ = map_kept_.block_rows;
        last_row_ = map_kept_.block_rows == 1;
    }

    // The block behind the one that leaves: the next kernel's, the next column's, the next row's.
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
            blocks_left_ = static_cast<line_t>(blocks_left_ - 1);
            drains_ = !last_row_;
            if (last_row_) {
                pause();
            }
            last_row_ = blocks_left_ == 1;
        }
    }

    // The map that has been given is computed.
    void begin(bool idle) {
#pragma HLS INLINE
        if (idle && handed_) {
            map_kept_ = given_;
            sets_left_ = given_.words;
            last_block_column_ = static_cast<line_t>(given_.block_columns - 1);
            last_number_ = last_group_of(given_.block_rows);
            computes_ = true;
            handed_ = false;
            lane_ = 0;
            first_group();
        }
    }

    // The last group of rows of a grid with so many rows of blocks.
    static group_t last_group_of(line_t block_rows) {
#pragma HLS INLINE
        group_t last = 0;
    Groups_Count:
        for (int g = 1; g < D::groups; ++g) {
#pragma HLS UNROLL
            last = block_rows > g * D::blocks_down ? static_cast<group_t>(g) : last;
        }
        return last;
    }

    HeldBeat<Maps> map_;
    HeldBeat<Cells> cell_;
    HeldBeat<Steps> step_;
    TileBuffer<Config> buffer_;
    TileSums<Config> sums_;
    // What is loaded: the map, the cell that comes next, rows and words that are left with it
    Maps load_;
    bool loads_, first_cell_;
    CellPlace<Config> place_;
    line_t rows_left_, words_left_;
    // The map that has begun to be loaded and waits to be computed
    Maps given_;
    bool handed_;
    // Which set is written, read, can be read next: the second one; which are full; [k]: one was whole k clocks before
    bool writing_, reading_, arriving_;
    bool full_[2], readable_[2];
    bool loading_[tile_set_guard];
    // What is computed: the map, words that are left, the channel, the group of rows, the last one
    Maps map_kept_;
    bool computes_;
    line_t sets_left_;
    lane_t lane_;
    group_t group_, last_number_;
    bool last_group_;
    // What leaves: the block's group of rows, its row there, its column, the kernel
    bool drains_, pauses_;
    pause_t pause_;
    group_t block_group_;
    down_t down_;
    line_t block_column_, last_block_column_, blocks_left_;
    bool last_row_;
    plane_t plane_;
};

}  // namespace bfpga
