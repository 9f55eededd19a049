// processes/sparse_cluster: units of variants C and D, their three processes one after the other.
#include <memory>

#include "bfpga/processes/sparse_cluster/merge.hpp"
#include "bfpga/processes/sparse_cluster/packed.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_units.hpp"

namespace {

// A ZCU104's; kernels of 2 x 2 and one value at once; 3 x 3 and four; one whose numbers all differ; one kernel in
// flight, wide numbers, all values of a tile at once; then the same of variant D.
template <bool ADDS>
using With = List<PackedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 48>, 2, ADDS>,
                  PackedBuild<ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 20>, 1, ADDS>,
                  PackedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40>, 4, ADDS>,
                  PackedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40>, 5, ADDS>,
                  PackedBuild<ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 40>, 9, ADDS>>;
using Merging = With<false>;
using Adding = With<true>;

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

constexpr int kinds = 5;

template <class Action>
int with_either(int number, const Action& action) {
    return number < kinds ? with_build(number, action, static_cast<const Merging*>(nullptr))
                          : with_build(number - kinds, action, static_cast<const Adding*>(nullptr));
}

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the unit stops with an error.
int cluster_unit_numbers(int number, int32_t* numbers) { return with_either(number, Numbers{numbers}); }

int cluster_unit_run(int number, Layer* layer) { return with_either(number, Run<Packed>{layer}); }

}  // extern "C"
