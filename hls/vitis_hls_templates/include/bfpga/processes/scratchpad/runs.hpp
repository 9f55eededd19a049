// Turns in runs, of an array that skips zeros of activations: up to N groups or passes are a run, which repeats, for
// one slice of output channels after the other, before the next one comes.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"

namespace bfpga {

// Counts the turns of runs of N; the last run has the remainder. `MaySingle`: or of runs of one turn each.
template <int N, int Bits, bool MaySingle = false>
class RunTurns {
    using turn_t = uint_t<bit_length(N)>;

   public:
    // `runs`, of which the last one has `rest` turns besides its first. Counts when it has been restarted.
    void set(int_t<Bits> runs, turn_t rest) { set(runs, rest, runs == 1); }

    // `alone`: whether there is one run.
    void set(int_t<Bits> runs, turn_t rest, bool alone) {
#pragma HLS INLINE
        runs_.set(static_cast<int_t<Bits>>(runs - 1), alone);
        rest_ = rest;
        first_ = alone ? rest : static_cast<turn_t>(N - 1);
        singles_ = false;
    }

    // Runs of one turn each.
    void set_singles(int32_t turns) {
#pragma HLS INLINE
        set(static_cast<int_t<Bits>>(turns), 0);
        first_ = 0;
        singles_ = true;
    }

    // The runs of `turns` turns; N is a power of two. `alone`: there is one run.
    void set_turns(int32_t turns) { set_turns(turns, turns <= N); }
    void set_turns(int32_t turns, bool alone) {
#pragma HLS INLINE
        static_assert((N & (N - 1)) == 0, "runs are counted by bits");
        constexpr int shift = bit_length(N) - 1;
        set(static_cast<int_t<Bits>>((turns + N - 1) >> shift), static_cast<turn_t>((turns - 1) & (N - 1)), alone);
    }

    // Whether the turn is the first one of its run, the last one; whether the run is the last one.
    bool first() const { return is_first_; }
    bool last() const { return last_; }
    bool last_run() const { return runs_.last(); }

    // Whether the next turn is the last one of all, if the run repeats or, `on`, the next one comes.
    bool ends_next(bool on) const {
#pragma HLS INLINE
        const bool in_run = runs_.last() && left_ == 1;
        const bool again = runs_.last() && single_;
        const bool behind = next_is_last_ && next_single_;
        const bool wrapped = on ? behind : again;
        return last_ ? wrapped : in_run;
    }

    // One cycle: to the next turn; after the last one of the run to its first one again or, if the run goes on, to the
    // first one of the next run.
    void step(bool next, bool on, bool starts) {
#pragma HLS INLINE
        // Whether there is a next turn is known last.
        const bool last_before = last_;
        const bool may_go_on = last_ & on;
        const bool goes_on = next & may_go_on;
        const turn_t again = on ? next_others_ : others_;
        const bool single_again = on ? next_single_ : single_;
        const turn_t left = last_ ? again : static_cast<turn_t>(left_ - 1);
        const bool last = last_ ? single_again : left_ == 1;
        // The length of the next run is known a cycle after the run has begun.
        const turn_t behind = runs_.last() ? first_ : runs_.before_last() ? rest_ : whole();
        left_ = starts ? first_ : next ? left : left_;
        last_ = starts ? first_ == 0 : next ? last : last_;
        is_first_ = starts | (next ? last_before : is_first_);
        others_ = starts ? first_ : goes_on ? next_others_ : others_;
        single_ = starts ? first_ == 0 : goes_on ? next_single_ : single_;
        next_others_ = behind;
        next_single_ = behind == 0;
        next_is_last_ = runs_.before_last();
        runs_.step_late(goes_on, starts);
    }

   private:
    // Turns of a whole run after the first one.
    turn_t whole() const { return static_cast<turn_t>(MaySingle && singles_ ? 0 : N - 1); }

    Turns<Bits> runs_;
    bool singles_;
    // Turns after the first one: of the last run, of the first one; of the run, of the next one; after this one
    turn_t rest_, first_, others_, next_others_, left_;
    bool single_, next_single_, last_, is_first_;
    bool next_is_last_;  // of the next run
};

// How often a walk over the pixels of runs returns to the begin of one: a run repeats for each chunk of each slice. A
// set of pixels is a turn.
template <class Config, int N>
class RunRepeats {
    static constexpr int bits = 16;

   public:
    // `halves`: a set has two groups; `chunks` of a slice. An operation that reads no chunks goes over its pixels once.
    void take(const Descriptor& d, bool halves, int32_t chunks) {
#pragma HLS INLINE
        const int32_t groups = d.groups;
        const bool one = groups <= N;
        const bool one_of_halves = groups <= 2 * N;
        repeats_ = reads_chunks<Config>(d);
        sets_.set_turns(halves ? (groups + 1) >> 1 : groups, halves ? one_of_halves : one);
        chunks_.set(static_cast<int_t<bits>>(chunks));
        blocks_.set(static_cast<int_t<bits>>(d.blocks));
        once_ = chunks == 1 && d.blocks == 1;
    }

    // Whether the walk returns after the set, and whether another run begins there.
    bool returns() const { return repeats_ && sets_.last() && !last_; }
    bool goes_on() const { return sets_.last() && last_; }

    void step(bool set, bool starts) {
#pragma HLS INLINE
        const bool chunk = set & sets_.last();
        const bool block = chunk & chunks_.last();
        sets_.step(set, last_, starts);
        // A cycle later: no two sets are filled without one between.
        last_ = starts ? once_ : chunks_.last() && blocks_.last();
        chunks_.step(chunk, starts);
        blocks_.step(block, starts);
    }

   private:
    RunTurns<N, Geometry<Config>::coordinate_bits> sets_;
    Turns<bits> chunks_, blocks_;
    bool repeats_, once_;
    bool last_;  // the last repetition of the run
};

}  // namespace bfpga
