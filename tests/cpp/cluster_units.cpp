// processes/sparse_cluster: units of all variants, the processes of one after the other.
#include <memory>

#include "bfpga/processes/sparse_cluster/data_stationary.hpp"
#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/merge.hpp"
#include "bfpga/processes/sparse_cluster/packed.hpp"
#include "bfpga/processes/sparse_cluster/shift_window.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_units.hpp"

namespace {

struct DataStationary {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        std::make_unique<bfpga::DataStationaryProcess<Config>>()->run(pieces.to, steps.to, sums, reports);
    }
};

struct Indexed {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        bfpga::stream<bfpga::wire_t<bfpga::TileBeat<Config>>> groups("groups");
        std::make_unique<bfpga::TileGather<Config>>()->run(pieces.to, groups);
        std::make_unique<bfpga::IndexedProcess<Config>>()->run(groups, steps.to, sums, reports);
    }
};

struct Packed {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        bfpga::stream<bfpga::wire_t<bfpga::TileBeat<Config>>> groups("groups");
        bfpga::stream<bfpga::wire_t<bfpga::RoundBeat<Config>>> rounds("rounds");
        std::make_unique<bfpga::TileGather<Config>>()->run(pieces.to, groups);
        std::make_unique<bfpga::PackedProcess<Config>>()->run(groups, steps.to, rounds, reports);
        std::make_unique<bfpga::MergeProcess<Config>>()->run(rounds, sums, reports);
    }
};

struct ShiftWindow {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        using Tile = bfpga::WholeTileBeat<Config>;
        bfpga::stream<bfpga::wire_t<Tile>> tiles("tiles");
        std::make_unique<bfpga::TileGather<Config, Tile>>()->run(pieces.to, tiles);
        std::make_unique<bfpga::ShiftWindowProcess<Config>>()->run(tiles, steps.to, sums, reports);
    }
};

// Builds with the processes of their variant.
template <class PROCESSES, class Build>
struct UnitBuild : Build {
    using Processes = PROCESSES;
};
template <class Processes, class... Builds>
using Units = List<UnitBuild<Processes, Builds>...>;

// A ZCU104's; one whose numbers all differ; kernels of 5 x 5; one kernel in flight; the first with two products in a
// DSP block, and with products in logic.
using Stationary =
    Units<DataStationary, ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>, ClusterBuild<2, 2, 3, 6, 5, 24, 4, 128, 9>,
          ClusterBuild<1, 5, 5, 8, 8, 32, 4, 32, 40>, ClusterBuild<3, 1, 1, 16, 16, 48, 1, 256, 8>,
          ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 1, bfpga::LaneDspPacked>,
          ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 1, bfpga::LaneLut>>;

// A ZCU104's; kernels of 2 x 2 and three values at once; 3 x 3 and six; one whose numbers all differ; one kernel in
// flight, wide numbers, all values of a tile at once; kernels of 1 x 1.
using WithIndices = Units<Indexed, IndexedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 72>, 4>,
                          IndexedBuild<ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 20>, 3>,
                          IndexedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40>, 6>,
                          IndexedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40>, 5>,
                          IndexedBuild<ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 40>, 9>,
                          IndexedBuild<ClusterBuild<3, 1, 1, 8, 8, 32, 8, 64, 12>, 2>>;

// The same sizes with two weights at once, without the last two.
template <bool ADDS>
using TwoWeights = Units<Packed, PackedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 48>, 2, ADDS>,
                         PackedBuild<ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 20>, 1, ADDS>,
                         PackedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40>, 4, ADDS>,
                         PackedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40>, 5, ADDS>,
                         PackedBuild<ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 40>, 9, ADDS>>;

// A ZCU104's; kernels of 2 x 2; 3 x 3 with few kernels in flight; one whose numbers all differ; kernels of 5 x 5; one
// kernel in flight, wide numbers; kernels of 1 x 1.
using Windows = Units<ShiftWindow, ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>,
                      ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 8>, ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 8>,
                      ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 8>, ClusterBuild<1, 5, 5, 8, 8, 32, 4, 32, 8>,
                      ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 4>, ClusterBuild<3, 1, 1, 8, 8, 32, 8, 64, 12>>;

template <class Action>
int with_unit(char variant, int number, const Action& action) {
    switch (variant) {
        case 'A':
            return with_build(number, action, static_cast<const Windows*>(nullptr));
        case 'B':
            return with_build(number, action, static_cast<const WithIndices*>(nullptr));
        case 'C':
            return with_build(number, action, static_cast<const TwoWeights<false>*>(nullptr));
        case 'D':
            return with_build(number, action, static_cast<const TwoWeights<true>*>(nullptr));
        default:
            return with_build(number, action, static_cast<const Stationary*>(nullptr));
    }
}

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the unit stops with an error.
int cluster_unit_numbers(char variant, int number, int32_t* numbers) {
    return with_unit(variant, number, Numbers{numbers});
}

int cluster_unit_run(char variant, int number, Layer* layer) { return with_unit(variant, number, Run{layer}); }

}  // extern "C"
