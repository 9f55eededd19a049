// A process with all that stands between loops: commands, a constructor, a division, a local array, two ways on, a
// variable that lasts from start to start.
#include "bfpga/ports/stream.hpp"

namespace {

struct Totals {
    Totals() {
        for (int n = 0; n < 4; ++n) {
            sums[n] = 100 * n;
        }
        starts = 7;
    }
    uint32_t sums[4];
    uint32_t starts;
    uint16_t words[64];
};

}  // namespace

void commanded(bfpga::stream<uint32_t>& commands, bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
    static Totals totals;
    bool more = true;
    while (more) {
        const uint32_t command = commands.read();
        const uint32_t count = command & 31u;
        const uint32_t slot = command >> 5 & 3u;
        more = (command >> 31) == 0;
        uint32_t sum = totals.sums[slot];
        uint32_t largest = 0;
        if (count != 0) {
            uint32_t n = 0;
            bool last = false;
        Gather:
            while (!last) {
#pragma HLS PIPELINE II = 1
                const uint32_t word = words.read();
                totals.words[n + slot] = uint16_t(word);
                sum += word * 3u;
                largest = word > largest ? word : largest;
                last = n + 1 == count;
                ++n;
            }
        }
        totals.sums[slot] = sum;
        uint32_t digits[8];
        for (int k = 0; k < 8; ++k) {
#pragma HLS UNROLL
            digits[k] = sum >> 4 * k & 15u;
        }
        results.write(digits[command >> 8 & 7u] + 1000u * totals.starts);
        if (command >> 30 & 1u) {
            results.write(sum / (largest + 1u));
        } else {
            results.write(totals.words[slot]);
        }
    }
    ++totals.starts;
}
