// processes/sparse_cluster: units of variant E.
#include <memory>

#include "bfpga/processes/sparse_cluster/data_stationary.hpp"
#include "cluster_units.hpp"

namespace {

// A ZCU104's; one whose numbers all differ; kernels of 5 x 5; one kernel in flight; the first
// with two products in a DSP block, with products in logic, and with wide words.
using All =
    List<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>, ClusterBuild<2, 2, 3, 6, 5, 24, 4, 128, 9>,
         ClusterBuild<1, 5, 5, 8, 8, 32, 4, 32, 40>, ClusterBuild<3, 1, 1, 16, 16, 48, 1, 256, 8>,
         ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 1, bfpga::LaneDspPacked>,
         ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 1, bfpga::LaneLut>, ClusterBuild<16, 3, 3, 8, 8, 32, 16, 64, 20>>;

struct DataStationary {
    template <class Config, class Pieces, class Steps, class Sums, class Reports>
    static void run(Pieces& pieces, Steps& steps, Sums& sums, Reports& reports) {
        std::make_unique<bfpga::DataStationaryProcess<Config>>()->run(pieces.to, steps.to, sums, reports);
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the unit stops with an error.
int cluster_unit_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_unit_run(int number, Layer* layer) {
    return with_build(number, Run<DataStationary>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
