// processes/sparse_cluster: units of variant A, their two processes one after the other.
#include <memory>

#include "bfpga/processes/sparse_cluster/shift_window.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_units.hpp"

namespace {

// A ZCU104's; kernels of 2 x 2; 3 x 3 with few kernels in flight; one whose numbers all differ; kernels of 5 x 5; one
// kernel in flight, wide numbers; the first with two products in a DSP block; kernels of 1 x 1.
using All = List<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>, ClusterBuild<1, 2, 2, 8, 8, 32, 4, 64, 8>,
                 ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 8>, ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 8>,
                 ClusterBuild<1, 5, 5, 8, 8, 32, 4, 32, 8>, ClusterBuild<1, 3, 3, 16, 16, 48, 1, 256, 4>,
                 ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 1, bfpga::LaneDspPacked>,
                 ClusterBuild<3, 1, 1, 8, 8, 32, 8, 64, 12>>;

struct ShiftWindow {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        using Tile = bfpga::WholeTileBeat<Config>;
        bfpga::stream<bfpga::wire_t<Tile>> tiles("tiles");
        std::make_unique<bfpga::TileGather<Config, Tile>>()->run(pieces.to, tiles);
        std::make_unique<bfpga::ShiftWindowProcess<Config>>()->run(tiles, steps.to, sums, reports);
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the unit stops with an error.
int cluster_unit_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_unit_run(int number, Layer* layer) {
    return with_build(number, Run<ShiftWindow>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
