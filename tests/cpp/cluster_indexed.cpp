// processes/sparse_cluster: units of variant B, their two processes one after the other.
#include <memory>

#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_units.hpp"

namespace {

// A ZCU104's; kernels of 2 x 2 and three values at once; 3 x 3 and six; one whose numbers all differ; one kernel in
// flight, wide numbers, all values of a tile at once; the first with two products in a DSP block; kernels of 1 x 1.
using All = List<IndexedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 72>, 4>,
                 IndexedBuild<ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 20>, 3>,
                 IndexedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40>, 6>,
                 IndexedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40>, 5>,
                 IndexedBuild<ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 40>, 9>,
                 IndexedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 72, 1, bfpga::LaneDspPacked>, 4>,
                 IndexedBuild<ClusterBuild<3, 1, 1, 8, 8, 32, 8, 64, 12>, 2>>;

struct Indexed {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        bfpga::stream<bfpga::wire_t<bfpga::TileBeat<Config>>> groups("groups");
        std::make_unique<bfpga::TileGather<Config>>()->run(pieces.to, groups);
        std::make_unique<bfpga::IndexedProcess<Config>>()->run(groups, steps.to, sums, reports);
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the unit stops with an error.
int cluster_unit_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_unit_run(int number, Layer* layer) {
    return with_build(number, Run<Indexed>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
