// A unit of the sparse cluster, variant A: all cells of a micro-tile meet a weight a cycle, kernel after kernel, and
// their products are added to a window that moves below them (SC R83-R87).
//
// A micro-tile is a block of the map, as large as the largest kernel, and stays in the lanes for all weights of its
// channel (SC R75); one without values is not sent. Steps are those of variant E, of which a list has two places at
// least and kernel 0 the first: a step takes four cycles or more, so a sum is met again eight cycles later.
#pragma once
#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/shifted_sums.hpp"
#include "bfpga/processes/sparse_cluster/step_table.hpp"
#include "bfpga/processes/sparse_cluster/unit_process.hpp"

namespace bfpga {

template <class Config>
using ShiftWindowProcess =
    UnitProcess<Config, GroupReader<WholeTileBeat<Config>>, StepTable<Config, WalkedKernel<Config>>,
                ShiftedSums<Config>, WindowWalk<Config>>;

}  // namespace bfpga
