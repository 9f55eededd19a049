// processes/sparse_cluster: clusters with units of variant E.
#include "cluster_processes.hpp"

namespace {

// 2 x 2 units; 2 x 3 whose numbers all differ; 4 x 4 of a ZCU104.
using All = List<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 16, 4>, ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 9, 6>,
                 ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16, 16>>;

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the cluster stops with an error.
int cluster_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_run(int number, Layer* layer) {
    return with_build(number, Run<bfpga::DataStationaryProcesses>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
