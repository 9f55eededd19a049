// The window of a unit of variant A: the products of a weight and all cells of a micro-tile stay where they are, the
// sums move below them (SC R83-R87).
//
// The window has all cells that a kernel reaches from a tile (SC E9). Product and register are wired: cell (r, c) of a
// tile is always added to register (r, c). Between two weights every register takes the sum of its neighbour above, to
// its left or to its right; columns are a ring, rows need none, since a walk never goes up. So no product has an index,
// and an adder has a 3:1 multiplexer at its input. A window begins with zeros and is added to the sums of the piece
// when its walk ends, a block of two by two a cycle, while the next walk goes on (SC R82).
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/whole_tile.hpp"
#include "bfpga/processes/sparse_cluster/window_walk.hpp"

namespace bfpga {

// Cycles from a sum's part of a window to its next one at least. A walk and the other one between two of a kernel take
// four cycles or more each, so their windows leave eight cycles apart; the last part of one is three after its first.
constexpr int part_distance = 5;

template <class Config>
class ShiftedSums {
    using Banks = BankSums<Config, part_distance>;
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    using plane_t = typename T::plane_t;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int rows = 2 * T::rows - 1;
    static constexpr int columns = 2 * T::columns - 1;
    static constexpr int cells = rows * columns;
    // The column of the window that the first register holds when a walk has ended.
    static constexpr int first_column = T::rows % 2 == 0 ? T::columns - 1 : 0;
    using sum_t = int_t<T::product_bits + bit_length(T::cells - 1)>;
    using part_t = uint_t<bit_length(window_parts - 1)>;

   public:
    using Beat = BlockBeat<Config>;
    // Cycles between the last weight of a walk and a sum that leaves at least: its window leaves from the second one
    // on.
    static constexpr int distance = window_parts + part_distance;
    static constexpr bool sends_all = false;

    static void stop(Beat&, bool) {}

    ShiftedSums() : window_(), whole_(), ended_place_(0), place_(0), ended_plane_(0), plane_(0), part_(0) {
#pragma HLS ARRAY_PARTITION variable=window_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=whole_ complete dim=0
        ended_ = false;
        leaves_ = false;
    }

    void clear() {
#pragma HLS INLINE
        ended_ = false;
        leaves_ = false;
        banks_.clear();
    }

    // A cycle of a walk, or takes the sums of a block. `place`: the block of the tile, or the one that is taken;
    // `pitch`: blocks per row.
    void step(bool, bool takes, place_t place, place_t pitch, plane_t plane, const WholeTileBeat<Config>& tile,
              const WalkStep<Config>& step, Beat& taken) {
#pragma HLS INLINE
        if (native_integers && !step.moves && !takes && !ended_ && !leaves_) {  // a simulation saves the time
            return;
        }
        simulation_check(!takes || !(ended_ || leaves_), "a block",
                         "is taken before its sums have come:", static_cast<int>(place));
        add_part(takes, place, pitch, plane, taken);
        take_window();
        move(tile, step);
        ended_ = step.ends;
        ended_place_ = place;
        ended_plane_ = step.plane;
        ended_below_ = some_beyond(tile, true);
        ended_beside_ = some_beyond(tile, false);
    }

   private:
    // A window that is whole leaves, and the next one comes in its place.
    void take_window() {
#pragma HLS INLINE
        leaves_ = ended_ || (leaves_ && part_ != window_parts - 1);
        part_ = ended_ ? static_cast<part_t>(0) : static_cast<part_t>(part_ + 1);
        place_ = ended_ ? ended_place_ : place_;
        plane_ = ended_ ? ended_plane_ : plane_;
        below_ = ended_ ? ended_below_ : below_;
        beside_ = ended_ ? ended_beside_ : beside_;
    Window_Take:
        for (int n = 0; n < cells; ++n) {
#pragma HLS UNROLL
            const int from = n / columns * columns + (n % columns + columns - first_column) % columns;
            whole_[n] = ended_ ? window_[from] : whole_[n];
        }
    }

    // Every register takes a neighbour's sum and adds its product.
    void move(const WholeTileBeat<Config>& tile, const WalkStep<Config>& step) {
#pragma HLS INLINE
        typename T::product_t product[T::cells];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::Multiplier::template multiply<Config::value_bits, Config::weight_bits, T::cells>(tile.value,
                                                                                                 step.weight, product);
        sum_t moved[cells];
#pragma HLS ARRAY_PARTITION variable=moved complete dim=0
    Window_Move:
        for (int n = 0; n < cells; ++n) {
#pragma HLS UNROLL
            const int row = n / columns;
            const int column = n % columns;
            const sum_t above = row > 0 ? window_[row > 0 ? n - columns : 0] : static_cast<sum_t>(0);
            const sum_t left = window_[row * columns + (column + columns - 1) % columns];
            const sum_t right = window_[row * columns + (column + 1) % columns];
            const sum_t before = step.begins ? static_cast<sum_t>(0) : step.down ? above : step.right ? left : right;
            const bool adds = row < T::rows && column < T::columns;
            moved[n] = adds ? static_cast<sum_t>(before + product[adds ? row * T::columns + column : 0]) : before;
        }
    Window_Keep:
        for (int n = 0; n < cells; ++n) {
#pragma HLS UNROLL
            window_[n] = moved[n];
        }
    }

    // Whether a tile has a value after its first row, or its first column: its products reach the block there.
    static bool some_beyond(const WholeTileBeat<Config>& tile, bool rows_behind) {
#pragma HLS INLINE
        bool some = false;
    Cells_Behind:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool behind = rows_behind ? n >= T::columns : n % T::columns > 0;
            some = some || (behind && tile.value[n] != 0);
        }
        return some;
    }

    // Adds what a window that is whole has for one of its blocks, or takes the sums of a block, which start anew. A
    // block that no product reaches is unchanged: it may be beyond the piece, at the place of another one.
    void add_part(bool takes, place_t place, place_t pitch, plane_t plane, Beat& taken) {
#pragma HLS INLINE
        const bool below = part_ >= 2;
        const bool beside = (part_ & 1) != 0;
        const place_t at = BlocksAround<Config>(place_, pitch).block(below, beside);
        const place_t block = takes ? place : at;
        const plane_t kernel = takes ? plane : plane_;
        const bool used = takes || (leaves_ && (below_ || !below) && (beside_ || !beside));
    Banks_Add:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const int row = n / T::columns;
            const int column = n % T::columns;
            const sum_t sum =
                below ? (beside ? at_cell(row + T::rows, column + T::columns) : at_cell(row + T::rows, column))
                      : (beside ? at_cell(row, column + T::columns) : at_cell(row, column));
            taken.sum[n] = banks_.read(n, block, kernel, used);
            banks_.write(n, block, kernel, used,
                         takes ? static_cast<accumulator_t>(0) : Banks::added(taken.sum[n], sum));
        }
    }

    sum_t at_cell(int row, int column) const {
#pragma HLS INLINE
        const bool inside = row < rows && column < columns;
        return inside ? whole_[inside ? row * columns + column : 0] : static_cast<sum_t>(0);
    }

    Banks banks_;
    sum_t window_[cells];          // register after register, row by row
    sum_t whole_[cells];           // the window that leaves, cell after cell
    bool ended_;                   // a walk has ended in the cycle before
    bool leaves_;                  // there is a window that leaves
    place_t ended_place_, place_;  // its tile
    plane_t ended_plane_, plane_;  // its kernel
    bool ended_below_, below_;     // products reach the blocks below it
    bool ended_beside_, beside_;   // those to its right
    part_t part_;                  // its block: right first, then below
};

}  // namespace bfpga
