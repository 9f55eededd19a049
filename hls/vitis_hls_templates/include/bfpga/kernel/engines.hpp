// The engines that may stand beside the systolic array in a kernel (docs/engines.md). `Config` names those of a build
// and includes their headers: a build that lacks one has nothing of it.
#pragma once
#include "bfpga/memory/kernel_memories.hpp"
#include "bfpga/output/exponent_selector.hpp"

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

// All of them, behind the interface that the array has too. Another engine is one more part, its case and its clearing.
template <class Config, class Storage>
class EnginesBeside {
   public:
    // Whether one of the engines executes an operation, built in or not.
    static bool executes(Operation operation) {
#pragma HLS INLINE
        return operation == Operation::ZeroSkip || operation == Operation::Sparse;
    }

    // One descriptor; returns the clocks its loops took.
    template <class WeightSource, class Counters>
    uint32_t run(const Descriptor& d, const LayerExponents& exponents, KernelMemories<Config, Storage>& memories,
                 PolicySlot<Config>& policy, WeightSource& weight_stream, Counters& counters) {
        if (static_cast<Operation>(d.operation) == Operation::ZeroSkip) {
            return zero_skip_.run(d, exponents, memories, policy, weight_stream, counters);
        }
        return sparse_.run(d, exponents, memories, policy, weight_stream, counters);
    }

    // The sums of operations that were given up are forgotten.
    void clear() {
        zero_skip_.clear();
        sparse_.clear();
    }

   private:
    typename Config::template ZeroSkip<Storage> zero_skip_;
    typename Config::template SparseCluster<Storage> sparse_;
};

}  // namespace bfpga
