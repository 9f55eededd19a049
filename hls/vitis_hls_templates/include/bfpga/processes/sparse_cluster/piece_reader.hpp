// Takes the words of a unit's queue apart: one value that is not zero after the other (SC R69), and the marks between.
//
// A task waits while the one before is computed. It is taken in one cycle and the next one comes in a later one, so
// neither depends on the other; a value takes two steps at least, which hides that.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// A value with its channel, or a mark.
template <class Config>
struct PieceTask {
    using T = ClusterUnitTypes<Config>;

    bool is_value;
    typename T::value_t value;
    typename T::lane_t channel;
    typename T::place_t place;
    typename T::phase_t row_phase, column_phase;
    bool opens, ends, drains, stop;

    int values() const { return 1; }  // that it issues
    typename T::value_t last_kernel() const { return value; }
};

template <class Config>
class PieceReader {
    using T = ClusterUnitTypes<Config>;
    static constexpr int lanes = Config::lanes;

   public:
    using Beat = PieceBeat<Config>;
    using Task = PieceTask<Config>;

    PieceReader() : there_(false), task_(), word_() {
#pragma HLS ARRAY_PARTITION variable=waits_ complete dim=0
    Lanes_Clear:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            waits_[l] = false;
        }
    }

    bool there() const { return there_; }
    const PieceTask<Config>& task() const { return task_; }

    // A cycle; `taken`: the task that was there.
    void step(bool taken, stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        bool any = false;
    Lanes_Wait:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            any = any || waits_[l];
        }
        const bool marked = held_.there() && held_.beat().marked();
        const bool tells = !there_ && !any && marked;
        const bool opens = !any && held_.there() && !marked;
        if (!there_ && any) {
            give_value();
        } else if (tells) {
            give_mark();
        }
        if (opens) {
            open();
        }
        there_ = there_ ? !taken : any || marked;
        if (tells || opens || !held_.there()) {
            held_.next(from);
        }
    }

   private:
    // The first value that waits.
    void give_value() {
#pragma HLS INLINE
        bool found = false;
        task_.is_value = true;
        task_.place = word_.place;
        task_.row_phase = word_.row_phase;
        task_.column_phase = word_.column_phase;
    Lanes_Give:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const bool chosen = waits_[l] && !found;
            task_.value = chosen ? word_.value[l] : task_.value;
            task_.channel = chosen ? static_cast<typename T::lane_t>(l) : task_.channel;
            found = found || waits_[l];
            waits_[l] = waits_[l] && !chosen;
        }
    }

    void give_mark() {
#pragma HLS INLINE
        const Beat& beat = held_.beat();
        task_.is_value = false;
        task_.value = beat.value[0];
        task_.place = beat.place;
        task_.opens = beat.opens;
        task_.ends = beat.ends;
        task_.drains = beat.drains;
        task_.stop = beat.stop;
    }

    // The next word of values.
    void open() {
#pragma HLS INLINE
        word_ = held_.beat();
    Lanes_Open:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            waits_[l] = word_.value[l] != 0;
        }
    }

    HeldBeat<Beat> held_;
    bool there_;
    PieceTask<Config> task_;
    Beat word_;
    bool waits_[lanes];  // values of the word
};

}  // namespace bfpga
