// A process with a memory of structures: numbers with a sign, narrow and in a wide type, a field that nobody reads, one that equals another, one
// that is always the same, and one that begins with another word than it gets.
#include "bfpga/numeric/types.hpp"
#include "bfpga/ports/stream.hpp"

namespace {

struct Entry {
    bool flag;
    bfpga::int_t<18> value;
    uint16_t unread;
    bool again;
    uint8_t kind;
    uint8_t first;
    int32_t wide;
};

struct Entries {
    Entries() {
#pragma HLS BIND_STORAGE variable = cell type = ram_s2p impl = bram
        for (int n = 0; n < 16; ++n) {
            cell[n].kind = 5;
            cell[n].first = 3;
        }
    }
    Entry cell[16];
};

}  // namespace

void recorded(bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
    static Entries entries;
    bool more = true;
Record:
    while (more) {
#pragma HLS PIPELINE II = 4
        const uint32_t word = words.read();
        const uint32_t address = word & 15u;
        more = (word >> 31) == 0;
        const Entry entry = entries.cell[address];
        results.write(uint32_t(entry.flag) | uint32_t(entry.again) << 1 | uint32_t(entry.kind) << 2 |
                      uint32_t(entry.first) << 10);
        results.write(uint32_t(int32_t(entry.value)));
        results.write(uint32_t(entry.wide));
        Entry next = entry;
        if ((word >> 30 & 1u) != 0) {
            next.flag = word >> 4 & 1u;
            next.value = bfpga::low_bits<18>(int32_t(word) >> 5);
            next.unread = uint16_t(word);
            next.again = next.flag;
            next.kind = 5;
            next.first = 0;
            next.wide = int32_t(word) >> 23;
        }
        entries.cell[address] = next;
    }
}
