// Storage policies: the same kernel in the forms that different tools need (hls-rules: one interface, several forms).
#pragma once
#include "bfpga/numeric/registers.hpp"

namespace bfpga {

// Access of a scratchpad to its banks (processes/scratchpad/banks.hpp).
struct SwitchedPorts;
struct IndexedPorts;

// Vitis HLS: partitioned arrays, every bank selects its address.
struct VitisStorage {
    using ScratchpadPorts = SwitchedPorts;
    using RegisterSets = ArrayRegisters;
};

// Compilers that ignore ARRAY_PARTITION: registers as scalars.
struct ScalarStorage {
    using ScratchpadPorts = SwitchedPorts;
    using RegisterSets = ScalarRegisters;
};

// Simulation: the ports index the banks directly. Same values and cycles.
struct SimulationStorage {
    using ScratchpadPorts = IndexedPorts;
    using RegisterSets = ArrayRegisters;
};

}  // namespace bfpga
