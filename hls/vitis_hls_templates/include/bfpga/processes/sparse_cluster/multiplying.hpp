// A sparse cluster in the place of the array, in a simulation of a kernel, with the process of its weights.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bfpga/processes/sparse_cluster/array_commands.hpp"
#include "bfpga/processes/sparse_cluster/broadcast.hpp"
#include "bfpga/processes/sparse_cluster/cell_feeder.hpp"
#include "bfpga/processes/sparse_cluster/collector.hpp"
#include "bfpga/processes/sparse_cluster/distributor.hpp"
#include "bfpga/processes/sparse_cluster/grid_sums.hpp"
#include "bfpga/processes/sparse_cluster/kernel_words.hpp"
#include "bfpga/processes/sparse_cluster/partition.hpp"
#include "bfpga/processes/sparse_cluster/step_maker.hpp"
#include "bfpga/processes/sparse_cluster/unit_variants.hpp"
#include "bfpga/processes/zero_skip_tile/tile_array.hpp"

namespace bfpga {

// The processes of a cluster and the streams between them: what takes the place of the process of an array.
template <class Config>
class ClusterArray {
    using C = ClusterConfig<Config>;
    static constexpr int units = C::units;
    using Units = std::make_index_sequence<units>;
    using TileUnit = std::conditional_t<C::weights == 1, IndexedProcesses<C>, PackedProcesses<C>>;
    using KernelUnit = std::conditional_t<C::shifts, ShiftWindowProcesses<C>, DataStationaryProcesses<C>>;
    using Unit = std::conditional_t<C::indexed, TileUnit, KernelUnit>;
    template <class Beat>
    using Streams = std::deque<stream<wire_t<Beat>>>;

   public:
    using Stored = StoredKernels<Config>;

    ClusterArray() : processes_(std::make_unique<Processes>()) {
        for (int u = 0; u < units; ++u) {
            unit_.emplace_back(u);
            pieces_.emplace_back(("pieces_" + std::to_string(u)).c_str());
            steps_of_.emplace_back(("steps_" + std::to_string(u)).c_str());
            sums_of_.emplace_back(("sums_" + std::to_string(u)).c_str());
        }
    }

    // Calls `join` with each stream and the words that it holds.
    template <class Join>
    void join(const Join& join) {
        constexpr int shallow = 16;
        join(partitions_, shallow);
        join(counted_, shallow);
        join(limits_, shallow);
        join(grid_limits_, shallow);
        join(cuts_, shallow);
        join(told_, Config::told_depth);
        join(maps_, shallow);
        join(grid_maps_, shallow);
        join(cells_, shallow);
        join(kernels_, shallow);
        join(outputs_, shallow);
        join(steps_, shallow);
        join(blocks_, shallow);
        for (int u = 0; u < units; ++u) {
            join(pieces_[u], Config::cluster_queue);
            join(steps_of_[u], Config::cluster_ahead);
            join(sums_of_[u], shallow);
            unit_[u].join(join);
        }
    }

    // The names of the processes, in the order of their bodies.
    static void name(std::vector<std::string>& names) {
        names.insert(names.end(),
                     {"array", "partition", "distributor", "step_maker", "broadcast", "collector", "grid_sums"});
        for (int u = 0; u < units; ++u) {
            for (const std::string& own : Unit(u).names()) {
                names.push_back(own);
            }
        }
    }

    template <class Bodies>
    void add(Bodies& bodies, stream<command_t>& commands, stream<wire_t<OperandBeat<Config>>>& operands,
             stream<bool>& windows, stream<wire_t<WeightBeat<Config>>>& words, stream<wire_t<SumBeat<Config>>>& sums) {
        add(bodies, commands, operands, windows, words, sums, Units());
    }

    // Records of maps, for STORE.
    stream<int_t<32>>& told() { return told_; }

    void reset() {
        processes_ = std::make_unique<Processes>();
        for (Unit& unit : unit_) {
            unit.reset();
        }
    }

   private:
    struct Processes {
        CellFeeder<Config> feeder;
        PartitionProcess<C> partition;
        PieceDistributor<C> distributor;
        StepMaker<Config> maker;
        StepBroadcast<C> broadcast;
        BlockCollector<C> collector;
        GridSums<Config> grid;
    };

    template <class Bodies, std::size_t... U>
    void add(Bodies& bodies, stream<command_t>& commands, stream<wire_t<OperandBeat<Config>>>& operands,
             stream<bool>& windows, stream<wire_t<WeightBeat<Config>>>& words, stream<wire_t<SumBeat<Config>>>& sums,
             std::index_sequence<U...>) {
        bodies.push_back([this, &commands, &operands, &windows] {
            processes_->feeder.run(commands, operands, windows, partitions_, counted_, maps_, grid_maps_, cells_,
                                   kernels_, outputs_);
        });
        bodies.push_back([this] { processes_->partition.run(partitions_, counted_, limits_, grid_limits_, cuts_); });
        bodies.push_back(
            [this] { processes_->distributor.run_telling(maps_, limits_, cells_, cuts_, told_, pieces_[U]...); });
        bodies.push_back([this, &words] { processes_->maker.run(kernels_, words, steps_); });
        bodies.push_back([this] { processes_->broadcast.run(steps_, steps_of_[U]...); });
        bodies.push_back([this] { processes_->collector.run(grid_maps_, grid_limits_, blocks_, sums_of_[U]...); });
        bodies.push_back([this, &sums] { processes_->grid.run(outputs_, blocks_, sums); });
        for (int u = 0; u < units; ++u) {
            unit_[u].add(bodies, pieces_[u], steps_of_[u], sums_of_[u], reports_);
        }
    }

    std::unique_ptr<Processes> processes_;
    std::deque<Unit> unit_;
    NoReports reports_;
    stream<wire_t<PartitionBeat<C>>> partitions_{"partitions"};
    stream<wire_t<MapCellBeat<C>>> counted_{"counted"}, cells_{"cells"};
    stream<wire_t<LimitsBeat<C>>> limits_{"limits"}, grid_limits_{"grid_limits"};
    stream<int_t<32>> cuts_{"cuts"}, told_{"told"};
    stream<wire_t<MapBeat<C>>> maps_{"maps"}, grid_maps_{"grid_maps"};
    stream<wire_t<KernelsBeat<C>>> kernels_{"kernels"};
    stream<wire_t<OutputsBeat<C>>> outputs_{"outputs"};
    stream<wire_t<StepBeat<C>>> steps_{"steps"};
    stream<wire_t<BlockBeat<C>>> blocks_{"blocks"};
    Streams<PieceBeat<C>> pieces_;  // of each unit, as the next two
    Streams<StepBeat<C>> steps_of_;
    Streams<BlockBeat<C>> sums_of_;
};

// Has what `SystolicMultiplying` has, for a cluster and for a tile.
template <class Config, class Storage>
class ClusterMultiplying {
    using Array = std::conditional_t<Config::has_tile, TileArray<Config>, ClusterArray<Config>>;

   public:
    template <class Join>
    void join(const Join& join) {
        join(array_commands_, Config::array_commands_depth);
        join(windows_, Config::windows_depth);
        join(weight_words_, Config::weight_words_depth);
        array_.join(join);
    }

    ArrayCommands& commands() { return commands_; }

    template <class Scratchpad, class Trace, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Streams&... streams) {
        scratchpad.run(streams..., windows_, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        weights_.run(commands, source, parameters, reports, trace, weight_words_);
    }

    static void name_arrays(std::vector<std::string>& names) { Array::name(names); }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        array_.add(bodies, array_commands_, operands, windows_, weight_words_, sums);
    }

    template <class Post, class Commands, class Sums, class... Streams>
    void run_post(Post& post, Commands& commands, Sums& sums, Streams&... streams) {
        post.run(commands, sums, streams...);
    }

    template <class Store, class... Streams>
    void run_store(Store& store, Streams&... streams) {
        store.run(streams..., array_.told());
    }

    void reset() { array_.reset(); }

   private:
    WeightsProcess<Config, typename Array::Stored> weights_;
    Array array_;
    stream<command_t> array_commands_{"array_commands"};
    stream<bool> windows_{"windows"};
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"};
    ArrayCommands commands_{array_commands_};
};

}  // namespace bfpga
