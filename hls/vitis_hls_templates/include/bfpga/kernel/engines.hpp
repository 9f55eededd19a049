// The engines that may stand beside the systolic array in a kernel (docs/engines.md). `Config` names those of a build and
// includes their headers: a build that lacks one has nothing of it.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/checks.hpp"

namespace bfpga {

// What stands for an engine that is not built in.
struct AbsentEngine {
    template <class Exponents, class Memories, class Policy, class WeightSource, class Counters>
    uint32_t run(const Descriptor& d, const Exponents&, Memories&, Policy&, WeightSource&, Counters&) {
#pragma HLS INLINE
        simulation_check(false, "a descriptor", "needs an engine that this kernel lacks, for operation", d.operation);
        return 0;
    }

    void clear() {
#pragma HLS INLINE
    }
};

}  // namespace bfpga
