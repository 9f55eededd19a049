// A tile in the place of the array, in a simulation of a kernel: its processes and the streams between them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bfpga/processes/sparse_cluster/cell_feeder.hpp"
#include "bfpga/processes/sparse_cluster/grid_sums.hpp"
#include "bfpga/processes/sparse_cluster/map_record.hpp"
#include "bfpga/processes/zero_skip_tile/block_words.hpp"
#include "bfpga/processes/zero_skip_tile/step_reader.hpp"
#include "bfpga/processes/zero_skip_tile/tile_process.hpp"

namespace bfpga {

// Has what `ClusterArray` has.
template <class Config>
class TileArray {
    using C = ClusterConfig<Config>;

   public:
    using Stored = StoredBlocks<Config>;

    template <class Join>
    void join(const Join& join) {
        join(maps_, Config::maps_depth);
        join(cells_, Config::cells_depth);
        join(kernels_, Config::kernels_depth);
        join(outputs_, Config::outputs_depth);
        join(steps_, Config::steps_depth);
        join(blocks_, Config::blocks_depth);
    }

    static void name(std::vector<std::string>& names) {
        names.insert(names.end(), {"array", "step_reader", "tile", "grid_sums"});
    }

    template <class Bodies>
    void add(Bodies& bodies, stream<command_t>& commands, stream<wire_t<OperandBeat<Config>>>& operands,
             stream<bool>& windows, stream<wire_t<WeightBeat<Config>>>& words, stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &commands, &operands, &windows] {
            const NoWire none;
            processes_->feeder.run(commands, operands, windows, none, none, maps_, none, cells_, kernels_, outputs_);
        });
        bodies.push_back([this, &words] { processes_->reader.run(kernels_, words, steps_); });
        bodies.push_back([this] { processes_->tile.run(maps_, cells_, steps_, blocks_); });
        bodies.push_back([this, &sums] { processes_->grid.run(outputs_, blocks_, sums); });
    }

    // A tile cuts no map and reports none.
    NoRecords& told() { return none_; }

    void reset() { processes_ = std::make_unique<Processes>(); }

   private:
    struct Processes {
        CellFeeder<Config> feeder;
        StepReader<Config> reader;
        TileProcess<Config> tile;
        GridSums<Config> grid;
    };

    NoRecords none_;
    std::unique_ptr<Processes> processes_ = std::make_unique<Processes>();
    stream<wire_t<MapBeat<C>>> maps_{"maps"};
    stream<wire_t<MapCellBeat<C>>> cells_{"cells"};
    stream<wire_t<KernelsBeat<C>>> kernels_{"kernels"};
    stream<wire_t<OutputsBeat<C>>> outputs_{"outputs"};
    stream<wire_t<TileStep<C>>> steps_{"steps"};
    stream<wire_t<BlockBeat<C>>> blocks_{"blocks"};
};

}  // namespace bfpga
