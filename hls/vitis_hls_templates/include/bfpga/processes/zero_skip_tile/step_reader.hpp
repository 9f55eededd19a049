// Reads the steps of a tile out of stored words: a weight a cycle, with its place and its kernel, or the end of a
// channel (ZS R43-R47).
//
// A block of output channels begins with an entry of weight 0, whose place encodes what follows: entries, of which
// those of weight 0 end their channels, or plain weights, of each channel all taps and of each tap all kernels. Words
// of zeros precede a block that has fewer words than others. Plain weights that are zero make no step either: some are
// adjacent, of which a cycle takes the first one that is left.
//
// Entries of a channel may come in any order. Two steps of a kernel are `sum_distance` steps apart at least: one that
// comes earlier stalls, and pauses leave (ZS R40).
//
// It stalls only for words and on backpressure of the steps: words come block by block as the operations do, and their
// source waits only for results of the blocks before.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/zero_skip_tile/entry.hpp"

namespace bfpga {

template <class Config>
class StepReader {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using E = EntryCells<Config>;
    using Steps = TileStep<C>;
    using Kernels = KernelsBeat<C>;
    using Words = WeightBeat<Config>;
    using weight_t = typename T::weight_t;
    using plane_t = typename T::plane_t;
    using index_t = typename E::index_t;
    using channels_t = uint_t<20>;
    static constexpr int near = sum_distance - 1;
    // The place of the entry at the beginning of a block: 1, entries follow, or plain weights.
    static constexpr int plain_follow = 2;
    // Adjacent plain weights, and bits that mark which of them are left.
    static constexpr int together = E::together;
    using together_t = uint_t<together>;

   public:
    StepReader() : kernels_(), word_(), entry_(), weight_(), step_(), recent_(), rows_(0), columns_(0) {
#pragma HLS ARRAY_PARTITION variable=entry_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=recent_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=added_ complete dim=0
        clear();
    }

    // Until kernels with `stop` have come.
    void run(stream<wire_t<Kernels>>& kernels, stream<wire_t<Words>>& words, stream<wire_t<Steps>>& steps) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Read");
    Read:
        while (running) {
// II=1: what a word holds at a place is selected in one cycle, decoded in the next, and sent in a third; each stage
// advances when the one downstream does. The place is a counter; the kernels of the steps before are numbers and flags
// in registers.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool heard = kernels_.there() && !comes_;
            const bool stops = heard && kernels_.beat().stop && !there_;
            const bool begins = heard && !kernels_.beat().stop;
            const bool waits = there_ && step_.adds && met(step_.plane);
            running = !stops;
            if (there_ || stops) {
                steps.write(to_wire(sent(waits, stops)));
                remember(!waits && step_.adds);
            }
            const bool ends_word = take(held_ && !waits, waits);
            if (begins) {
                begin();
            }
            if (begins || !kernels_.there()) {
                kernels_.next(kernels);
            }
            if (ends_word || !word_.there()) {
                word_.next(words);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        kernels_.drop();
        comes_ = false;
        opens_ = false;
        plain_ = false;
        held_ = false;
        there_ = false;
        index_ = 0;
        sent_ = 0;
    Steps_Forget:
        for (int n = 0; n < near; ++n) {
#pragma HLS UNROLL
            added_[n] = false;
        }
    }

    // Whether one of the last steps adds to the sums of a kernel.
    bool met(plane_t plane) const {
#pragma HLS INLINE
        bool found = false;
    Steps_Compare:
        for (int n = 0; n < near; ++n) {
#pragma HLS UNROLL
            found = found || (added_[n] && recent_[n] == plane);
        }
        return found;
    }

    void remember(bool added) {
#pragma HLS INLINE
    Steps_Move:
        for (int n = near - 1; n > 0; --n) {
#pragma HLS UNROLL
            added_[n] = added_[n - 1];
            recent_[n] = recent_[n - 1];
        }
        added_[0] = added;
        recent_[0] = step_.plane;
    }

    // The step that is there, a pause in front of it, or the end of the start.
    Steps sent(bool waits, bool stops) const {
#pragma HLS INLINE
        Steps step = step_;
        step.adds = step_.adds && !waits && !stops;
        step.last = step_.last && !waits && !stops;
        step.stop = stops;
        return step;
    }

    // Other kernels begin.
    void begin() {
#pragma HLS INLINE
        const Kernels& beat = kernels_.beat();
        rows_ = static_cast<line_t>(beat.rows - 1);
        columns_ = static_cast<line_t>(beat.columns - 1);
        channels_ = static_cast<channels_t>(static_cast<channels_t>(beat.words) * C::lanes);
        comes_ = true;
        opens_ = true;
        plain_ = false;
        down_ = rows_;
        right_ = columns_;
        plane_ = 0;
        sent_ = 0;
    }

    // What is held becomes the next step, if it is one, and the register takes what follows in the word; whether the
    // word ends with that.
    bool take(bool takes, bool waits) {
#pragma HLS INLINE
        const typename E::place_t place = E::place(entry_);
        together_t used = 0;
    Weights_Find:
        for (int n = 0; n < together; ++n) {
#pragma HLS UNROLL
            const unsigned mark = weight_[n] != 0 ? 1 : 0;
            used = static_cast<together_t>(used | (mark << static_cast<unsigned>(n)));
        }
        const bool zero = entry_[0] == 0;
        const bool nothing = place == 0;
        const bool marks_plain = place == plain_follow;
        // Of plain weights those that have not been sent, the first of them, those after it.
        const together_t left = static_cast<together_t>(used & static_cast<together_t>(~sent_));
        const together_t less = static_cast<together_t>(left - 1);
        const together_t behind = static_cast<together_t>(left & less);
        const together_t first = static_cast<together_t>(left ^ behind);
        const bool whole = behind == 0;
        const bool last_planes = plane_ == C::planes - together;
        const bool ends_plain = whole && last_planes && down_ == 0 && right_ == 0;
        const bool ends = plain_ ? ends_plain : zero && !opens_;
        const bool ends_block = takes && ends && channels_ == 1;
        const bool opens = takes && opens_;
        simulation_check(!opens || (zero && static_cast<int>(place) <= plain_follow), "a block of stored words",
                         "begins with the place", static_cast<int>(place));
        simulation_check(!takes || opens_ || plain_ || zero || inside(place), "an entry", "lies beside its kernel, at",
                         static_cast<int>(place));
        there_ = waits || (takes && !opens_ && (!plain_ || left != 0 || ends));
        if (takes) {
            step_.weight = plain_ ? chosen(weight_, first) : entry_[0];
            step_.adds = plain_ ? left != 0 : !zero;
            step_.last = ends;
            step_.plane = plain_ ? static_cast<plane_t>(plane_ + number_of(first)) : E::plane(place);
            step_.down = static_cast<typename T::phase_t>(plain_ ? down_ : static_cast<line_t>(rows_ - E::row(place)));
            step_.right =
                static_cast<typename T::phase_t>(plain_ ? right_ : static_cast<line_t>(columns_ - E::column(place)));
            channels_ = ends ? static_cast<channels_t>(channels_ - 1) : channels_;
            sent_ = plain_ && !whole ? static_cast<together_t>(sent_ | first) : static_cast<together_t>(0);
            if (plain_ && whole) {
                next_planes(last_planes);
            }
        }
        const bool goes = takes && (!plain_ || whole);
        const bool reads = comes_ && word_.there() && (goes ? !opens_ && !ends_block : !held_);
        const bool ends_word = read(reads, opens, marks_plain, ends_block || (opens && nothing));
        held_ = reads || (held_ && !goes);
        plain_ = opens ? marks_plain : plain_;
        opens_ = opens_ && !(opens && !nothing);
        comes_ = comes_ && !ends_block;
        return ends_word;
    }

    // Registers what the word has at the place, and the place advances; `opens`: past the entry that begins a block,
    // `drops`: the rest of the word is none of this block. Returns whether the word ends.
    bool read(bool reads, bool opens, bool plain, bool drops) {
#pragma HLS INLINE
        if (reads) {
            E::template read<E::cells, E::entries>(word_.beat().weight, index_, entry_);
            E::template read<together, E::word_cells / together>(word_.beat().weight, index_, weight_);
        }
        const bool last_cell = plain_ ? index_ == E::word_cells - together : index_ == E::last_entry;
        const bool single = plain ? E::plain_from == E::word_cells : E::entries == 1;
        const bool rest = drops && (opens_ || index_ != 0);
        const bool goes_on = reads && !opens_;
        const bool ends_word = rest || (opens && single) || (goes_on && last_cell);
        const int begin = plain ? E::plain_from : E::cells;
        const index_t next = static_cast<index_t>(index_ + (plain_ ? together : E::cells));
        index_ = ends_word ? static_cast<index_t>(0) : opens ? static_cast<index_t>(begin) : goes_on ? next : index_;
        return ends_word;
    }

    bool inside(typename E::place_t place) const {
        return static_cast<line_t>(E::row(place)) <= rows_ && static_cast<line_t>(E::column(place)) <= columns_;
    }

    // The weight whose bit is set, and its number.
    static weight_t chosen(const weight_t (&weight)[together], together_t bit) {
#pragma HLS INLINE
        weight_t found = 0;
    Weights_Choose:
        for (int n = 0; n < together; ++n) {
#pragma HLS UNROLL
            const bool here = (static_cast<unsigned>(bit) >> static_cast<unsigned>(n) & 1U) != 0;
            found = static_cast<weight_t>(found | (here ? weight[n] : static_cast<weight_t>(0)));
        }
        return found;
    }
    static int number_of(together_t bit) {
#pragma HLS INLINE
        const unsigned bits = static_cast<unsigned>(bit);
        return ((bits & 0xAAU) != 0 ? 1 : 0) | ((bits & 0xCCU) != 0 ? 2 : 0) | ((bits & 0xF0U) != 0 ? 4 : 0);
    }

    // The plain weights after these: of the next kernels, the next tap, the next channel.
    void next_planes(bool last_planes) {
#pragma HLS INLINE
        const bool last_column = right_ == 0;
        const bool last_tap = last_column && down_ == 0;
        plane_ = last_planes ? static_cast<plane_t>(0) : static_cast<plane_t>(plane_ + together);
        if (last_planes) {
            right_ = last_column ? columns_ : static_cast<line_t>(right_ - 1);
            down_ = last_tap ? rows_ : last_column ? static_cast<line_t>(down_ - 1) : down_;
        }
    }

    HeldBeat<Kernels> kernels_;
    HeldBeat<Words> word_;
    // What was read of a word at a place: an entry, or plain weights
    bool held_;
    weight_t entry_[E::cells], weight_[together];
    Steps step_;            // that leaves next
    bool there_;            // there is one
    plane_t recent_[near];  // kernels of the steps before
    bool added_[near];      // they add
    // The block: whether it comes, has still to begin, and has plain weights; channels that are left
    bool comes_, opens_, plain_;
    channels_t channels_;
    line_t rows_, columns_;  // of its kernels, less one
    index_t index_;          // of the cell that comes next
    // The plain weights that come next: their tap, the first kernel, which of them have been sent
    line_t down_, right_;
    plane_t plane_;
    together_t sent_;
};

}  // namespace bfpga
