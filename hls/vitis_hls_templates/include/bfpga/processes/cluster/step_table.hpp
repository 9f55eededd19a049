// The steps of a word of channels, as a unit has them: one set is computed with while the next one comes (SC R59, R60).
#pragma once
#include "bfpga/processes/cluster/beats.hpp"
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

// Clocks between the write of a step and its first read: more than the loop has between these stages.
constexpr int step_guard = 6;

// Words of steps beyond which they lie in block memory: look-up tables would be too many.
constexpr int most_table_words = 1024;

// The memory of the steps.
template <class Entry, int Words, bool InBlocks>
struct StepCells {
    StepCells() {
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=lutram
// A set is read when `step_guard` clocks have passed, and written anew when its values have ended.
#pragma HLS DEPENDENCE variable=cell inter false
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }

    wire_t<Entry> cell[Words];
    mutable Waiver<InterFalseBefore<step_guard>, Words> waiver;
};

template <class Entry, int Words>
struct StepCells<Entry, Words, true> {
    StepCells() {
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
// As above.
#pragma HLS DEPENDENCE variable=cell inter false
        waiver.states("cell", __FILE__, __LINE__ - 1);
    }

    wire_t<Entry> cell[Words];
    mutable Waiver<InterFalseBefore<step_guard>, Words> waiver;
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

    StepTable() : writing_(false), reading_(false), arriving_(false), lane_(0), step_(0) {
#pragma HLS ARRAY_PARTITION variable=last_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=full_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=readable_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=loading_ complete dim=0
        clear();
    }

    void clear() {
#pragma HLS INLINE
        held_.drop();
        writing_ = false;
        reading_ = false;
        arriving_ = false;
        lane_ = 0;
        step_ = 0;
    Sets_Clear:
        for (int s = 0; s < sets; ++s) {
#pragma HLS UNROLL
            full_[s] = false;
            readable_[s] = false;
        }
    Clocks_Clear:
        for (int k = 0; k < step_guard; ++k) {
#pragma HLS UNROLL
            loading_[k] = false;
        }
    }

    // Whether the set of the values that come next can be read.
    bool readable() const { return readable_[reading_ ? 1 : 0]; }

    // The number of the last step of a channel.
    step_t last(typename T::lane_t channel) const {
#pragma HLS INLINE
        return last_[reading_ ? 1 : 0][static_cast<int>(channel)];
    }

    Entry read(typename T::lane_t channel, step_t step, bool used) const {
#pragma HLS INLINE
        const int word = address(reading_, channel, step);
        if (used) {
            cell_.waiver.reads(word);
        }
        return from_wire<Entry>(cell_.cell[word]);
    }

    // A clock; `ends`: the values of the set that is read have ended.
    void step(bool ends, stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        const bool takes = held_.there() && !full_[writing_ ? 1 : 0];
        const bool completes = takes && held_.beat().last && lane_ == lanes - 1;
        if (takes) {
            simulation_check(static_cast<int>(step_) < Config::unit_steps, "a channel", "has too many steps:", step_);
            write(address(writing_, static_cast<typename T::lane_t>(lane_), step_));
        }
        guard(ends, completes);
        if (takes) {
            advance(completes);
        }
        reading_ = ends ? !reading_ : reading_;
        writing_ = completes ? !writing_ : writing_;
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
        last_[writing_ ? 1 : 0][static_cast<int>(lane_)] = step_;
    }

    void advance(bool completes) {
#pragma HLS INLINE
        const bool last = held_.beat().last;
        step_ = last ? static_cast<step_t>(0) : static_cast<step_t>(step_ + 1);
        lane_ = completes ? static_cast<typename T::lane_t>(0)
                : last    ? static_cast<typename T::lane_t>(lane_ + 1)
                          : lane_;
    }

    // Sets become complete in turns.
    void guard(bool ends, bool completes) {
#pragma HLS INLINE
        const bool arrives = loading_[step_guard - 1];
    Sets_Guard:
        for (int s = 0; s < sets; ++s) {
#pragma HLS UNROLL
            const bool freed = ends && (s == 1) == reading_;
            full_[s] = (full_[s] && !freed) || (completes && (s == 1) == writing_);
            readable_[s] = (readable_[s] && !freed) || (arrives && (s == 1) == arriving_);
        }
        arriving_ = arrives ? !arriving_ : arriving_;
    Clocks_Guard:
        for (int k = step_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            loading_[k] = loading_[k - 1];
        }
        loading_[0] = completes;
    }

    HeldBeat<Beat> held_;
    StepCells<Entry, words, (words > most_table_words)> cell_;
    step_t last_[sets][lanes];
    bool writing_, reading_, arriving_;  // whether it is the second set
    bool full_[sets], readable_[sets];
    bool loading_[step_guard];  // [k]: a set was complete k clocks before
    typename T::lane_t lane_;
    step_t step_;
};

}  // namespace bfpga
