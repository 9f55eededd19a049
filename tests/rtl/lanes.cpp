// Lanes of a word that are stored on different ways through the code, all of them in each iteration that stores one.
#include "bfpga/ports/stream.hpp"

namespace {

struct Sums {
    Sums() {
#pragma HLS ARRAY_RESHAPE variable = cell complete dim = 2
#pragma HLS BIND_STORAGE variable = cell type = ram_s2p impl = bram
    }
    uint8_t cell[16][3];
};

}  // namespace

// A word: its lower half a place, three products behind it, whether it ends the sums and whether it adds.
void lanes(bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
    static Sums sums;
    bool more = true;
Add:
    while (more) {
#pragma HLS PIPELINE II = 4
        const uint32_t word = words.read();
        const uint32_t place = word & 15u;
        const bool clears = word >> 28 & 1u;
        const bool adds = word >> 29 & 1u;
        more = word >> 31 == 0;
        uint8_t taken[3];
        for (int l = 0; l < 3; ++l) {
#pragma HLS UNROLL
            taken[l] = sums.cell[place][l];
        }
        results.write(uint32_t(taken[0]) | uint32_t(taken[1]) << 8 | uint32_t(taken[2]) << 16);
        if (adds || clears) {
            for (int l = 0; l < 3; ++l) {
#pragma HLS UNROLL
                if (clears) {
                    sums.cell[place][l] = 0;
                } else {
                    sums.cell[place][l] = uint8_t(taken[l] + (word >> (4 + 8 * l) & 255u));
                }
            }
        }
    }
}
