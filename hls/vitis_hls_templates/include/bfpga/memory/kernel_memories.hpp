// What every engine of a kernel is given: the memories that all of them share, and the exponents of the layer.
#pragma once
#include "bfpga/memory/activation_memory.hpp"
#include "bfpga/memory/weight_memory.hpp"

namespace bfpga {

// Exponents of a layer: its operands, its accumulators, its result.
struct LayerExponents {
    int32_t first;
    int32_t second;
    int32_t accumulator;
    int32_t output;
};

template <class Config, class Storage>
struct KernelMemories {
    ActivationMemory<Config, typename Storage::Ports>& activations;
    WeightMemory<Config>& weights;
    ParameterMemory<Config>& parameters;
};

}  // namespace bfpga
