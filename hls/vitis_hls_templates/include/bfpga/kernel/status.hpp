// What a start of a kernel reports, and the traces of its operations.
#pragma once
#include <cstdint>

#include "bfpga/contract/descriptor.hpp"

namespace bfpga {

// What a start reports: counters that wrap, sticky bits of `Status`, checksums of its streams.
struct KernelStatus {
    uint32_t cycles;
    uint32_t overflows;
    uint32_t underflows;
    int32_t bits;
    uint32_t input_checksum;
    uint32_t weight_checksum;
    uint32_t output_checksum;
};

// Receives every finished descriptor, or what the processes of a kernel do with it; the hardware has no trace.
struct NoTrace {
    void finished(int, const Descriptor&, uint32_t) {}
    void finished(int, uint32_t) {}
    void filled(uint32_t) {}
    void word(int, int, int32_t) {}
};

}  // namespace bfpga
