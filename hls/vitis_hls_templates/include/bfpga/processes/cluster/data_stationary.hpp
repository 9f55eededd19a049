// A unit of the sparse cluster, variant E: one value a step meets all weights of a kernel, kernel after kernel in
// flight (SC R113-R116).
#pragma once
#include "bfpga/processes/cluster/piece_reader.hpp"
#include "bfpga/processes/cluster/step_table.hpp"
#include "bfpga/processes/cluster/turned_weights.hpp"
#include "bfpga/processes/cluster/unit_process.hpp"

namespace bfpga {

template <class Config>
using DataStationaryProcess =
    UnitProcess<Config, PieceReader<Config>, StepTable<Config, StepBeat<Config>>, TurnedSums<Config>>;

}  // namespace bfpga
