// Puts the sums of all units together to the full grid of a map: block after block, of each all kernels (SC R128,
// R129).
//
// Units send the blocks of their pieces in the order in which the collector walks over the grid, so it takes from each
// what it has of a block. What several units have is added: cells at the border of pieces, modulo the accumulator; of
// pieces with halo one unit owns a cell, unless units share a piece.
#pragma once
#include <type_traits>

#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/map_beats.hpp"

namespace bfpga {

template <class Config>
class BlockCollector {
    using T = ClusterUnitTypes<Config>;
    using Limits = LimitsBeat<Config>;
    using Blocks = BlockBeat<Config>;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int units = Config::units;
    using unit_t = uint_t<bit_length(units)>;

   public:
    BlockCollector() : limits_() {
#pragma HLS ARRAY_PARTITION variable=limits_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=held_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=takes_ complete dim=0
        clear();
    }

    // Until a map with `stop` has come. `sums`: a stream of each unit.
    template <class... Sums>
    void run(stream<wire_t<MapBeat<Config>>>& maps, stream<wire_t<Limits>>& limits, stream<wire_t<Blocks>>& blocks,
             Sums&... sums) {
#pragma HLS INLINE
        static_assert(sizeof...(Sums) == units, "every unit has a stream of sums");
        clear();
        bool running = true;
        PipelinedLoop loop("Blocks");
    Blocks:
        while (running) {
// II=1: what a unit has of the next block waits in a register; whether all have it is one decision a cycle.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !stops_;
            const bool fires = ready();
            if (fires) {
                blocks.write(to_wire(total()));
            }
            bool taken[units];
#pragma HLS ARRAY_PARTITION variable=taken complete dim=0
            keep_taken(taken);
            const bool map = !walks_ && !begins_ && !limits_come_ && !stops_ && map_.there();
            const bool limit = limits_come_ && limit_.there();
            stops_ = map && map_.beat().stop;
            if (limit) {
                keep_limits();
            }
            if (fires) {
                walk();
            }
            begin(map, limit);
            if (map || !map_.there()) {
                map_.next(maps);
            }
            if (limit || !limit_.there()) {
                limit_.next(limits);
            }
            hold<0>(fires, taken, sums...);
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        walks_ = false;
        begins_ = false;
        limits_come_ = false;
        stops_ = false;
        unit_ = 0;
        first_block();
    }

    void first_block() {
#pragma HLS INLINE
        next_row_ = 0;
        next_column_ = 0;
        next_cell_row_ = 0;
        next_cell_column_ = 0;
        kernel_ = 0;
    }

    void keep_limits() {
#pragma HLS INLINE
    Units_Keep:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            limits_[u] = unit_ == u ? limit_.beat() : limits_[u];
        }
    }

    // Whether all units that have the block hold it.
    bool ready() const {
#pragma HLS INLINE
        bool there = true;
    Units_Ask:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            there = there && (!takes_[u] || held_[u].there());
        }
        return walks_ && there;
    }

    void keep_taken(bool (&taken)[units]) const {
#pragma HLS INLINE
    Units_Taken:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            taken[u] = takes_[u];
        }
    }

    // Which units have the block that comes next: found while the one before it leaves.
    void choose() {
#pragma HLS INLINE
    Units_Choose:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            const Limits& limits = limits_[u];
            takes_[u] = limits.used && next_row_ >= limits.block_row && next_row_ < limits.end_block_row &&
                        next_column_ >= limits.block_column && next_column_ < limits.end_block_column;
        }
    }

    Blocks total() const {
#pragma HLS INLINE
        Blocks block;
    Cells_Add:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            block.sum[n] = sum_of<0, units>(n);
        }
        return block;
    }

    // What the units from `First` on have of a cell: a tree, as a chain of so many sums would take as many cycles.
    template <int First, int Count>
    typename std::enable_if<(Count > 1), accumulator_t>::type sum_of(int cell) const {
#pragma HLS INLINE
        const accumulator_t one = sum_of<First, Count / 2>(cell);
        const accumulator_t other = sum_of<First + Count / 2, Count - Count / 2>(cell);
        return low_bits<Config::accumulator_bits>(static_cast<int_t<Config::accumulator_bits + 1>>(one) + other);
    }

    template <int First, int Count>
    typename std::enable_if<Count == 1, accumulator_t>::type sum_of(int cell) const {
#pragma HLS INLINE
        const Limits& limits = limits_[First];
        const line_t row = static_cast<line_t>(row_ + cell / T::columns);
        const line_t column = static_cast<line_t>(column_ + cell % T::columns);
        // With halo an output is its owner's; with overlap-add all sums of a unit are taken, and what its blocks have
        // beyond them is zero.
        const bool owns = row >= limits.taken_row && row < limits.taken_end_row && column >= limits.taken_column &&
                          column < limits.taken_end_column;
        const bool mine = takes_[First] && (!Config::halo || owns);
        return mine ? held_[First].beat().sum[cell] : static_cast<accumulator_t>(0);
    }

    template <int U, class First, class... Others>
    void hold(bool fires, const bool (&taken)[units], First& sums, Others&... others) {
#pragma HLS INLINE
        if ((fires && taken[U]) || !held_[U].there()) {
            held_[U].next(sums);
        }
        hold<U + 1>(fires, taken, others...);
    }

    template <int U>
    void hold(bool, const bool (&)[units]) {
#pragma HLS INLINE
    }

    void walk() {
#pragma HLS INLINE
        const bool last_kernel = kernel_ == map_kept_.last_kernel;
        kernel_ = last_kernel ? static_cast<line_t>(0) : static_cast<line_t>(kernel_ + 1);
        if (last_kernel) {
            walks_ = !last_block_;
            advance();
        }
    }

    // The block that comes next is the one now.
    void advance() {
#pragma HLS INLINE
        const bool last_column = next_column_ == last_column_;
        choose();
        last_block_ = last_column && next_row_ == last_row_;
        row_ = next_cell_row_;
        column_ = next_cell_column_;
        next_column_ = last_column ? static_cast<line_t>(0) : static_cast<line_t>(next_column_ + 1);
        next_cell_column_ = last_column ? static_cast<line_t>(0) : static_cast<line_t>(next_cell_column_ + T::columns);
        if (last_column) {
            next_row_ = static_cast<line_t>(next_row_ + 1);
            next_cell_row_ = static_cast<line_t>(next_cell_row_ + T::rows);
        }
    }

    void begin(bool map, bool limit) {
#pragma HLS INLINE
        const bool last_unit = unit_ == units - 1;
        if (begins_) {
            advance();
            walks_ = true;
        }
        begins_ = false;
        if (map && !map_.beat().stop) {
            last_row_ = static_cast<line_t>(map_.beat().block_rows - 1);
            last_column_ = static_cast<line_t>(map_.beat().block_columns - 1);
            map_kept_ = map_.beat();
            first_block();
            begins_ = map_.beat().keeps;
            limits_come_ = !map_.beat().keeps;
        } else if (limit) {
            unit_ = last_unit ? static_cast<unit_t>(0) : static_cast<unit_t>(unit_ + 1);
            limits_come_ = !last_unit;
            begins_ = last_unit;
        }
    }

    HeldBeat<MapBeat<Config>> map_;
    HeldBeat<Limits> limit_;
    HeldBeat<Blocks> held_[units];  // the next block of each
    MapBeat<Config> map_kept_;
    Limits limits_[units];
    bool takes_[units];  // those that have the block
    bool walks_, begins_, limits_come_, stops_;
    unit_t unit_;                                                       // whose limits come
    line_t row_, column_;                                               // the block's first cell
    line_t next_row_, next_column_, next_cell_row_, next_cell_column_;  // the block that comes next, its first cell
    line_t last_row_, last_column_;                                     // of the blocks
    bool last_block_;                                                   // of the map
    line_t kernel_;
};

}  // namespace bfpga
