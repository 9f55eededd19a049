// A loop that writes one stream in two ways, never both at once: what takes many clocks to compute, and what takes none.
#include "bfpga/ports/stream.hpp"

void alternating(bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
    static uint32_t held;
    static bool flushes;
    bool more = true;
Alternate:
    while (more) {
#pragma HLS PIPELINE II = 1
        if (flushes) {
            results.write(held);
            flushes = false;
        } else {
            const uint32_t word = words.read();
            more = word != 0;
            results.write((word * word + 7u) * (word | 1u));
            held = word;
            flushes = (word & 1u) != 0;
        }
    }
}
