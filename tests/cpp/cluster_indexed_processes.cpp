// processes/sparse_cluster: clusters with units of variant B.
#include "cluster_processes.hpp"

namespace {

// As those of variant E: 2 x 2 units; 2 x 3 whose numbers all differ; 4 x 4 of a ZCU104.
using All = List<IndexedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40, 4>, 6>,
                 IndexedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40, 6>, 5>,
                 IndexedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 72, 16>, 4>>;

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the cluster stops with an error.
int cluster_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_run(int number, Layer* layer) {
    return with_build(number, Run<bfpga::IndexedProcesses>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
