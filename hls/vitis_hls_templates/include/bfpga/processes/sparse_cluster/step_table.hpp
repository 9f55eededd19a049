// The steps of a word of channels, as a unit has them: one set is computed with while the next one comes (SC R59, R60).
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/beats.hpp"
#include "bfpga/processes/two_sets.hpp"

namespace bfpga {

// Cycles between the write of a step and its first read: more than the loop has between these stages.
constexpr int step_guard = 6;

// Words of steps beyond which they are stored in block memory: look-up tables would be too many.
constexpr int most_table_words = 1024;

// The memory of the steps.
template <class Entry, int Words, bool InBlocks>
struct StepCells {
    StepCells() {
        static_assert(step_guard >= 6, "the distance that the pragma states");
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=lutram
// A set is read when `step_guard` cycles have passed, and written anew when its values have ended.
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=6 true
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }

    wire_t<Entry> cell[Words];
    mutable Waiver<InterRawDistance<6>, Words> waiver;
};

template <class Entry, int Words>
struct StepCells<Entry, Words, true> {
    StepCells() {
        static_assert(step_guard >= 6, "the distance that the pragma states");
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
// As above.
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=6 true
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }

    wire_t<Entry> cell[Words];
    mutable Waiver<InterRawDistance<6>, Words> waiver;
};

// `Stored`: what of a step a unit keeps.
template <class Config, class Stored>
class StepTable {
    using T = ClusterUnitTypes<Config>;
    using Beat = StepBeat<Config>;
    static constexpr int lanes = Config::lanes;
    static constexpr int sets = 2;
    static constexpr int list = 1 << bit_length(Config::unit_steps - 1);  // steps of a channel, as addresses have them
    static constexpr int slots = 1 << (lanes > 1 ? bit_length(lanes - 1) : 0);
    static constexpr int words = sets * slots * list;

   public:
    using Entry = Stored;
    using step_t = uint_t<bit_length(list)>;

    StepTable() : lane_(0), step_(0) {
#pragma HLS ARRAY_PARTITION variable=last_ complete dim=0
    }

    // Whether the set of the values that come next can be read.
    bool readable() const { return turns_.readable(); }

    // The number of the last step of a channel.
    step_t last(typename T::lane_t channel) const {
#pragma HLS INLINE
        return last_[turns_.reading() ? 1 : 0][static_cast<int>(channel)];
    }

    Entry read(typename T::lane_t channel, step_t step, bool used) const {
#pragma HLS INLINE
        const int word = address(turns_.reading(), channel, step);
        if (used) {
            cell_.waiver.reads(word);
        }
        return from_wire<Entry>(cell_.cell[word]);
    }

    // A cycle; `ends`: the values of the set that is read have ended.
    void step(bool ends, stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        const bool takes = held_.there() && turns_.room();
        const bool completes = takes && held_.beat().last && lane_ == lanes - 1;
        if (takes) {
            simulation_check(static_cast<int>(step_) < Config::unit_steps, "a channel", "has too many steps:", step_);
            write(address(turns_.writing(), static_cast<typename T::lane_t>(lane_), step_));
        }
        if (takes) {
            advance(completes);
        }
        turns_.step(completes, ends);
        if (takes || !held_.there()) {
            held_.next(from);
        }
    }

   private:
    static int address(bool set, typename T::lane_t lane, step_t step) {
#pragma HLS INLINE
        return ((set ? slots : 0) + static_cast<int>(lane)) * list + static_cast<int>(step);
    }

    void write(int word) {
#pragma HLS INLINE
        cell_.waiver.writes(word);
        cell_.cell[word] = to_wire(Entry::of(held_.beat()));
        last_[turns_.writing() ? 1 : 0][static_cast<int>(lane_)] = step_;
    }

    void advance(bool completes) {
#pragma HLS INLINE
        const bool last = held_.beat().last;
        step_ = last ? static_cast<step_t>(0) : static_cast<step_t>(step_ + 1);
        lane_ = completes ? static_cast<typename T::lane_t>(0)
                : last    ? static_cast<typename T::lane_t>(lane_ + 1)
                          : lane_;
    }

    HeldBeat<Beat> held_;
    StepCells<Entry, words, (words > most_table_words)> cell_;
    step_t last_[sets][lanes];
    TwoSets<step_guard> turns_;
    typename T::lane_t lane_;
    step_t step_;
};

}  // namespace bfpga
