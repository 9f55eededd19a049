// processes/sparse_cluster: clusters with units of all variants, from the words of maps to the blocks of their full
// grids.
#include <cstdint>
#include <cstring>
#include <memory>

#include "build_list.hpp"
#include "cluster_beats.hpp"
#include "cluster_build.hpp"
#include "cluster_simulation.hpp"

namespace {

struct Numbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        const int32_t numbers[] = {Config::lanes,      Config::kernel_rows, Config::kernel_columns,
                                   Config::value_bits, Config::weight_bits, Config::accumulator_bits,
                                   Config::planes,     Config::unit_words,  Config::unit_steps,
                                   Config::units};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Layer {
    const int32_t* map;  // (maps, 8): fields of a map
    int32_t maps;
    const int32_t* limit;  // (limits, 16): fields of the limits of a piece
    int32_t limits;
    const int32_t* cell;  // (cells, lanes)
    int32_t cells;
    const int32_t* step;  // (steps, cells of a block + 3)
    int32_t steps;
    int32_t queue, ahead;  // words and steps that wait for a unit
    uint64_t seed;         // of the order of the processes
    int32_t capacity;      // of `sum`, in blocks
    int64_t* sum;          // (blocks, cells of a block)
    int32_t blocks;        // that came
    int32_t* report;       // (units, 2)
    char* message;         // (256)
};

struct Run {
    Layer* layer;

    template <class Config>
    int apply() const {
        return caught(layer->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using bfpga::to_wire;
        constexpr int cells = bfpga::ClusterUnitTypes<Config>::cells;
        const auto cluster =
            std::make_unique<bfpga::ClusterProcesses<Config, typename Config::template Unit<Config>>>();
        for (int n = 0; n < layer->maps; ++n) {
            cluster->maps.write(to_wire(map_of<Config>(layer->map + n * 8)));
            cluster->grids.write(to_wire(map_of<Config>(layer->map + n * 8)));
        }
        for (int n = 0; n < layer->limits; ++n) {
            cluster->limits.write(to_wire(limits_of<Config>(layer->limit + n * 16)));
            cluster->grid_limits.write(to_wire(limits_of<Config>(layer->limit + n * 16)));
        }
        for (int n = 0; n < layer->cells; ++n) {
            bfpga::MapCellBeat<Config> beat;
            for (int l = 0; l < Config::lanes; ++l) {
                beat.value[l] =
                    static_cast<typename bfpga::ClusterUnitTypes<Config>::value_t>(layer->cell[n * Config::lanes + l]);
            }
            cluster->cells.write(to_wire(beat));
        }
        for (int n = 0; n < layer->steps; ++n) {
            cluster->steps.write(to_wire(step_of<Config>(layer->step + n * (cells + 3))));
        }
        bfpga::StepBeat<Config> end = {};
        end.stop = true;
        cluster->steps.write(to_wire(end));
        cluster->run(layer->queue, layer->ahead, layer->seed);
        for (; !cluster->blocks.empty(); ++layer->blocks) {
            const auto block = bfpga::from_wire<bfpga::BlockBeat<Config>>(cluster->blocks.read());
            for (int n = 0; n < cells && layer->blocks < layer->capacity; ++n) {
                layer->sum[layer->blocks * cells + n] = static_cast<int64_t>(block.sum[n]);
            }
        }
        for (int u = 0; u < Config::units; ++u) {
            layer->report[2 * u] = static_cast<int32_t>(cluster->report[u].read());
            layer->report[2 * u + 1] = static_cast<int32_t>(cluster->report[u].read());
        }
        if (!cluster->cells.empty() || !cluster->limits.empty() || !cluster->grid_limits.empty()) {
            throw bfpga::StreamError("the cluster has left words in its streams");
        }
    }
};

// Builds with a unit for each piece.
template <template <class> class UNIT, class Build>
struct WithUnits : Build {
    template <class Config>
    using Unit = UNIT<Config>;
};
template <template <class> class Unit, class... Builds>
using Clusters = List<WithUnits<Unit, Builds>...>;

// Of each variant 2 x 2 units; 2 x 3 whose numbers all differ; of variant E also 4 x 4 of a ZCU104.
using Stationary =
    Clusters<bfpga::DataStationaryProcesses, ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 16, 4>,
             ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 9, 6>, ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 16>>;
using Windows = Clusters<bfpga::ShiftWindowProcesses, ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 12, 4>,
                         ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 12, 6>>;
using WithIndices = Clusters<bfpga::IndexedProcesses, IndexedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40, 4>, 6>,
                             IndexedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40, 6>, 5>>;
// Of variant C; the second one of D.
using TwoWeights =
    Clusters<bfpga::PackedProcesses, PackedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40, 4>, 3, false>,
             PackedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40, 6>, 2, true>>;

template <class Action>
int with_cluster(char variant, int number, const Action& action) {
    switch (variant) {
        case 'A':
            return with_build(number, action, static_cast<const Windows*>(nullptr));
        case 'B':
            return with_build(number, action, static_cast<const WithIndices*>(nullptr));
        case 'C':
            return with_build(number, action, static_cast<const TwoWeights*>(nullptr));
        default:
            return with_build(number, action, static_cast<const Stationary*>(nullptr));
    }
}

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the cluster stops with an error.
int cluster_numbers(char variant, int number, int32_t* numbers) {
    return with_cluster(variant, number, Numbers{numbers});
}

int cluster_run(char variant, int number, Layer* layer) { return with_cluster(variant, number, Run{layer}); }

}  // extern "C"
