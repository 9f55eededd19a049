// Storage policies: the same kernel in the forms that different tools need (hls-rules: one interface, several forms).
#pragma once
#include "bfpga/activation_memory.hpp"
#include "bfpga/registers.hpp"

namespace bfpga {

// Vitis HLS: partitioned arrays, every bank selects its address.
struct VitisStorage {
    using Ports = Crossbar;
    using RegisterSets = ArrayRegisters;
};

// Compilers that ignore ARRAY_PARTITION: registers as scalars.
struct ScalarStorage {
    using Ports = Crossbar;
    using RegisterSets = ScalarRegisters;
};

// Simulation: the columns index the banks directly. Same values and clocks.
struct SimulationStorage {
    using Ports = Direct;
    using RegisterSets = ArrayRegisters;
};

}  // namespace bfpga
