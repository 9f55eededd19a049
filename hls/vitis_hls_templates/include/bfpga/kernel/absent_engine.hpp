// What stands for an engine that a kernel does not have. `Config` names the engines beside the array (docs/engines.md).
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/checks.hpp"

namespace bfpga {

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
