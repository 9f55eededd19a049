// The order in which results come: group by group, all words of its pixels. Of an array that skips zeros of activations
// they come run by run, slice by slice, group by group: of each the words of the slice's output channels.
#pragma once
#include "bfpga/processes/scratchpad/passes.hpp"
#include "bfpga/processes/scratchpad/runs.hpp"

namespace bfpga {

// Groups of pixels of a run.
template <class Config>
constexpr int run_groups() {
    return Config::skip_halves * Config::skip_passes;
}

// Position of the written word in runs; empty where there are none.
template <class Config, bool Runs = Config::skip_activations>
class ResultOrder {
    using word_t = typename ScratchpadTypes<Config>::word_t;

   public:
    void take(const Descriptor&) {}
    bool last_word() const { return false; }
    bool last_group() const { return false; }
    bool last() const { return false; }
    word_t first_word(word_t) const { return 0; }
    void step(bool, word_t, bool) {}
};

template <class Config>
class ResultOrder<Config, true> {
    using word_t = typename ScratchpadTypes<Config>::word_t;
    static constexpr int slice_words = Config::words_per_block;
    static constexpr int bits = 16;

   public:
    void take(const Descriptor& d) {
#pragma HLS INLINE
        const int32_t before_last = static_cast<int32_t>(slice_words) * (d.blocks - 1);
        const int32_t others = output_words<Config>(d) - before_last - 1;
        words_.set(static_cast<int_t<bits>>(d.blocks), static_cast<uint_t<bit_length(slice_words)>>(others));
        groups_.set_turns(d.groups);
    }

    // Whether the word is the last one of its group in the slice, the group the last one of the run, both the last ones
    // of all.
    bool last_word() const { return words_.last(); }
    bool last_group() const { return groups_.last(); }
    bool last() const { return groups_.last() && groups_.last_run() && words_.last_run(); }

    // The first word of the next group, after the last `word` of one.
    word_t first_word(word_t word) const {
#pragma HLS INLINE
        const word_t next = words_.last_run() ? static_cast<word_t>(0) : static_cast<word_t>(word + 1);
        return groups_.last() ? next : first_;
    }

    // One cycle; `done`: a word of a group has been written; `word`: the next one.
    void step(bool done, word_t word, bool starts) {
#pragma HLS INLINE
        const bool group = done & words_.last();
        const bool slice = group & groups_.last();
        if (starts | slice) {
            first_ = starts ? static_cast<word_t>(0) : word;
        }
        const bool last_group = groups_.last();
        groups_.step(group, words_.last_run(), starts);
        words_.step(done, last_group, starts);
    }

   private:
    RunTurns<slice_words, bits> words_;  // a run: those of a slice
    RunTurns<run_groups<Config>(), Geometry<Config>::coordinate_bits> groups_;
    word_t first_;  // of the slice
};

}  // namespace bfpga
