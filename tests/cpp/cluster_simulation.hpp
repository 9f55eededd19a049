// A sparse cluster in a simulation: what hardware has as separate blocks with streams between them.
#pragma once
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bfpga/processes/sparse_cluster/broadcast.hpp"
#include "bfpga/processes/sparse_cluster/collector.hpp"
#include "bfpga/processes/sparse_cluster/distributor.hpp"
#include "bfpga/processes/sparse_cluster/unit_variants.hpp"
#include "bfpga/simulation/process_scheduler.hpp"

namespace bfpga {

// `Unit`: the processes of each unit, of whichever variant.
template <class Config, class Unit = DataStationaryProcesses<Config>>
class ClusterProcesses {
    static constexpr int units = Config::units;
    using Units = std::make_index_sequence<units>;

   public:
    ClusterProcesses() {
        scheduler_.add("distributor");
        scheduler_.add("broadcast");
        scheduler_.add("collector");
        for (int u = 0; u < units; ++u) {
            unit_.emplace_back(u);
            for (const std::string& name : unit_[u].names()) {
                scheduler_.add(name);
            }
            const std::string name = "unit " + std::to_string(u);
            piece_.emplace_back((name + ": pieces").c_str());
            step_.emplace_back((name + ": steps").c_str());
            sum_.emplace_back((name + ": sums").c_str());
            report.emplace_back((name + ": report").c_str());
        }
    }

    // What comes from outside is in these before a run, and what leaves lies there behind it.
    stream<wire_t<MapBeat<Config>>> maps{"maps"}, grids{"grids"};  // of the distributor, of the collector
    stream<wire_t<LimitsBeat<Config>>> limits{"limits"}, grid_limits{"grid_limits"};
    stream<wire_t<MapCellBeat<Config>>> cells{"cells"};
    stream<wire_t<StepBeat<Config>>> steps{"steps"};
    stream<wire_t<BlockBeat<Config>>> blocks{"blocks"};
    std::deque<stream<int_t<32>>> report;  // of each unit

    // `queue`: words that wait for a unit; `ahead`: steps; `seed`: of an order drawn by chance, 0 for one that is not.
    void run(int queue, int ahead, uint64_t seed) { run(queue, ahead, seed, Units()); }

   private:
    // Outer streams have the processes at one end while these run.
    struct Joined {
        ProcessScheduler* scheduler;

        template <class Wire>
        void operator()(Wire& wire) const {
            if (scheduler != nullptr) {
                wire.join(*scheduler);
            } else {
                wire.part();
            }
        }
    };

    // Streams between the processes of a unit.
    struct JoinedInside {
        ClusterProcesses* cluster;

        template <class Wire>
        void operator()(Wire& wire, int depth) const {
            cluster->join(wire, depth);
        }
    };

    template <std::size_t... U>
    void run(int queue, int ahead, uint64_t seed, std::index_sequence<U...>) {
        scheduler_.disturb(seed);
        scheduler_.pauses().draw(seed);
        for (int u = 0; u < units; ++u) {
            join(piece_[u], queue);
            join(step_[u], ahead);
            join(sum_[u], 2);
            unit_[u].reset();
            unit_[u].join(JoinedInside{this});
        }
        outside(Joined{&scheduler_});
        std::vector<ProcessScheduler::Body> bodies = {
            [&] { distributor_.run(maps, limits, cells, piece_[U]...); },
            [&] { broadcast_.run(steps, step_[U]...); },
            [&] { collector_.run(grids, grid_limits, blocks, sum_[U]...); },
        };
        for (int u = 0; u < units; ++u) {
            unit_[u].add(bodies, piece_[u], step_[u], sum_[u], report[u]);
        }
        scheduler_.run(bodies);
        outside(Joined{nullptr});
    }

    template <class Action>
    void outside(const Action& action) {
        action(maps);
        action(grids);
        action(limits);
        action(grid_limits);
        action(cells);
        action(steps);
        action(blocks);
    }

    template <class T>
    void join(stream<T>& wire, int depth) {
        wire.join(scheduler_);
        wire.clear(static_cast<std::size_t>(depth));
    }

    ProcessScheduler scheduler_{8192};
    PieceDistributor<Config> distributor_;
    StepBroadcast<Config> broadcast_;
    BlockCollector<Config> collector_;
    std::deque<Unit> unit_;
    std::deque<stream<wire_t<PieceBeat<Config>>>> piece_;
    std::deque<stream<wire_t<StepBeat<Config>>>> step_;
    std::deque<stream<wire_t<BlockBeat<Config>>>> sum_;
};

}  // namespace bfpga
