// A unit of the sparse cluster, variant E: one value a step meets all weights of a kernel, kernel after kernel in
// flight (SC R113-R116).
#pragma once
#include "bfpga/processes/sparse_cluster/piece_reader.hpp"
#include "bfpga/processes/sparse_cluster/step_table.hpp"
#include "bfpga/processes/sparse_cluster/turned_weights.hpp"
#include "bfpga/processes/sparse_cluster/unit_process.hpp"

namespace bfpga {

template <class Config>
using DataStationaryProcess =
    UnitProcess<Config, PieceReader<Config>, StepTable<Config, StepBeat<Config>>, TurnedSums<Config>>;

}  // namespace bfpga
