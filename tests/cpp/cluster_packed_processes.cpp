// processes/sparse_cluster: clusters with units of variants C and D.
#include "cluster_processes.hpp"

namespace {

// As those of variant E: 2 x 2 units of variant C; 2 x 3 of D, whose numbers all differ; 4 x 4 of a ZCU104.
using All = List<PackedBuild<ClusterBuild<2, 3, 3, 8, 8, 32, 4, 64, 40, 4>, 3, false>,
                 PackedBuild<ClusterBuild<3, 2, 3, 6, 5, 24, 4, 128, 40, 6>, 2, true>,
                 PackedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 48, 16>, 2, false>>;

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the cluster stops with an error.
int cluster_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_run(int number, Layer* layer) {
    return with_build(number, Run<bfpga::PackedProcesses>{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
