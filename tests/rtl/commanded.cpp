// A process with all that stands between loops: commands, a constructor, a division, a local array, two ways on, a
// variable that lasts from start to start, one that is copied whole and indexed, fields of which one is chosen, an element
// in front of an index.
#include "bfpga/ports/stream.hpp"

namespace {

struct History {
    uint32_t sums[8];
    uint32_t next;
};

struct Lanes {
    bool mask[2];
    uint8_t lane[2];
};

struct Mark {
    uint16_t digit;
    uint32_t sum;
};

struct Totals {
    Totals() {
#pragma HLS ARRAY_PARTITION variable = lanes complete dim = 0
#pragma HLS ARRAY_PARTITION variable = line complete dim = 0
#pragma HLS ARRAY_PARTITION variable = cuts complete dim = 0
#pragma HLS BIND_STORAGE variable = histories type = ram_s2p impl = lutram
        for (int n = 0; n < 4; ++n) {
            sums[n] = 100 * n;
        }
        starts = 7;
    }
    uint32_t sums[4];
    uint32_t starts;
    uint16_t words[64];
    uint16_t line[5];
    uint16_t cuts[4][5];
    History histories[16];
    Lanes lanes[2];
    Mark recent;
    Mark older;
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
        uint32_t chosen = 0;
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
                for (int k = 0; k < 2; ++k) {
#pragma HLS UNROLL
                    Lanes& own = totals.lanes[k];
                    uint8_t value = 0;
                    bool found = false;
                    for (int l = 1; l >= 0; --l) {
#pragma HLS UNROLL
                        value = own.mask[l] ? own.lane[l] : value;
                        found = found || own.mask[l];
                    }
                    chosen += found ? value << k : 0;
                    for (int l = 0; l < 2; ++l) {
#pragma HLS UNROLL
                        own.mask[l] = word >> (2 * k + l) & 1u;
                        own.lane[l] = uint8_t(word >> (8 * k + 8 * l));
                    }
                }
                last = n + 1 == count;
                ++n;
            }
        }
        totals.sums[slot] = sum;
        History history = totals.histories[command >> 12 & 15u];
        history.sums[history.next & 7u] = sum;
        ++history.next;
        const uint32_t remembered = history.sums[command >> 16 & 7u];
        totals.histories[command >> 12 & 15u] = history;
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
        Mark mark;
        mark.digit = uint16_t(sum & 15u);
        mark.sum = sum;
        const bool again = slot == 2;
        totals.recent = again ? totals.older : mark;
        totals.older = slot == 1 ? mark : totals.older;
        results.write(totals.recent.sum + totals.recent.digit);
        results.write(remembered);
        results.write(chosen);
        const uint32_t band = command >> 20 & 3u;
        const int limit = int(command >> 22 & 7u);
        const bool along = command >> 25 & 1u;
        results.write(along ? totals.line[limit - 1] : totals.cuts[band][limit - 1]);
        uint16_t& cut = along ? totals.line[limit] : totals.cuts[band][limit];
        cut = uint16_t(sum);
    }
    ++totals.starts;
}
