// A memory of wide words, one read and one write per cycle: in block memories, or in UltraRAM.
//
// A block memory is narrow, so every item of a word has its own. An UltraRAM is 72 bits wide and four thousand words
// deep: there the items of a word are packed into as many as its bits need.
#pragma once
#include "bfpga/numeric/waivers.hpp"

namespace bfpga {

// Items of PARTS elements each. GUARD: iterations between the write of a word and its first read, or more.
template <class T, int WORDS, int ITEMS, int PARTS, int GUARD, bool ULTRA>
struct WideWords {
    T cell[WORDS][ITEMS][PARTS];
    Waiver<InterRawDistance<24>, WORDS> waiver;

    WideWords() {
        static_assert(GUARD >= 24, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell complete dim=2
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
// A word is read by operations after the one that wrote it, `GUARD` iterations later or more, and no word is written
// while a read of it is outstanding.
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=24 true
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }
};

template <class T, int WORDS, int ITEMS, int PARTS, int GUARD>
struct WideWords<T, WORDS, ITEMS, PARTS, GUARD, true> {
    T cell[WORDS][ITEMS][PARTS];
    Waiver<InterRawDistance<24>, WORDS> waiver;

    WideWords() {
        static_assert(GUARD >= 24, "the distance that the pragma states");
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=2
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=uram
// As in block memories. An UltraRAM has no initial content (UG573): no word is read that was not written.
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=24 true
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }
};

// The word at an address.
template <class Words, class T, int ITEMS, int PARTS>
inline void read_word(const Words& words, int address, T (&word)[ITEMS][PARTS]) {
#pragma HLS INLINE
    words.waiver.reads(address);
Items_Read:
    for (int i = 0; i < ITEMS; ++i) {
#pragma HLS UNROLL
    Parts_Read:
        for (int p = 0; p < PARTS; ++p) {
#pragma HLS UNROLL
            word[i][p] = words.cell[address][i][p];
        }
    }
}

template <class Words, class T, int ITEMS, int PARTS>
inline void write_word(Words& words, int address, const T (&word)[ITEMS][PARTS]) {
#pragma HLS INLINE
    words.waiver.writes(address);
Items_Write:
    for (int i = 0; i < ITEMS; ++i) {
#pragma HLS UNROLL
    Parts_Write:
        for (int p = 0; p < PARTS; ++p) {
#pragma HLS UNROLL
            words.cell[address][i][p] = word[i][p];
        }
    }
}

}  // namespace bfpga
