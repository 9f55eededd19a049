// A unit of the sparse cluster, variant B: up to `products` values of a micro-tile a step meet one weight, and every
// product goes to the cell of its index (SC R91-R97).
//
// A micro-tile is a block of the map, as large as the largest kernel. TileGather sends its values in groups, which stay
// in the lanes for all weights of their channel (SC R75). Steps are those of variant E with one weight each: the first
// weight of every kernel, then the second one of each, so that a sum is met again `sum_distance` cycles later.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/indexed_sums.hpp"
#include "bfpga/processes/sparse_cluster/step_table.hpp"
#include "bfpga/processes/sparse_cluster/tile_beats.hpp"
#include "bfpga/processes/sparse_cluster/unit_process.hpp"

namespace bfpga {

// Groups as they come; a mark is one too.
template <class Group>
class GroupReader {
   public:
    using Beat = Group;
    using Task = Group;

    bool there() const { return held_.there(); }
    const Task& task() const { return held_.beat(); }

    // A cycle; `taken`: the group that was there.
    void step(bool taken, stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        if (taken || !held_.there()) {
            held_.next(from);
        }
    }

   private:
    HeldBeat<Beat> held_;
};

template <class Config>
using IndexedProcess =
    UnitProcess<Config, GroupReader<TileBeat<Config>>, StepTable<Config, WeightEntry<Config>>, IndexedSums<Config>>;

}  // namespace bfpga
