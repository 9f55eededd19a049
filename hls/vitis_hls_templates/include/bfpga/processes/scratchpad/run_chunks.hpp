// Windows in chunks, of a kernel whose array skips zeros of activations (processes/skip_array/sparse_array.hpp).
//
// A pass has two halves, pixel groups 2n and 2n + 1, the last one possibly alone, and up to `skip_passes` passes are a
// run. The reads of the nest's steps are ordered run > slice (block) > chunk > pass > step > half: the weights of a
// chunk stay in the array for a run, so each pass of the run reads its steps, and the window goes on after the last
// one. Operations that read no windows go by as in any kernel.
//
// The array has room for a few segments of `skip_queue` / 4 steps of a pass and returns a credit for each that it has
// finished. A segment begins only with a credit, so the array accepts its beats without a stall: chunks.hpp shows why
// no deadlock is possible. The differences: results come slice by slice of a run, so slices are counted instead of
// groups, and none of them waits for another one's reads; and segments are equally long in all operations, so one
// begins while credits of the one before are out.
#pragma once
#include "bfpga/processes/scratchpad/chunks.hpp"
#include "bfpga/processes/scratchpad/runs.hpp"
#include "bfpga/processes/skip_array/activation_words.hpp"

namespace bfpga {

template <class Config>
class PassChunks<Config, ChunkOrder::Runs> {
    using T = SparseTypes<Config>;
    static_assert(Config::skip_halves == 2, "a pass has two halves");
    static_assert(!Config::tap_reuse && !Config::wide_memory, "a window is read for each column, and for products");
    static constexpr int step_bits = bit_length(Config::skip_chunk) + 1;

   public:
    void clear() {
#pragma HLS INLINE
        held_.clear();
        held_.set(T::segments);
        room_ = true;
        next_ = Step();
        begins_ = false;
        windows_ = false;
        waits_ = false;
    }

    // What the next operation needs.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        const int32_t groups = d.groups;
        chunked_ = reads_chunks<Config>(d);
        odd_ = chunked_ && (groups & 1) != 0;
        alone_ = !chunked_ || groups == 1;
        passes_.set_turns((groups + 1) >> 1, groups <= 2 * Config::skip_passes);
        last_alone_ = !chunked_ || (odd_ && ((((groups + 1) >> 1) - 1) & (Config::skip_passes - 1)) == 0);
        steps_.set(static_cast<int_t<step_bits>>(d.chunk_steps));
        segment_.set(static_cast<int_t<step_bits>>(T::segment_steps));
        counts_ = Config::has_cluster && chunked_ && d.most_moves != 0;
        apart_ = chunked_ && d.has(Flag::LanesApart);
        simulation_check(!chunked_ || (d.chunk_steps >= 1 && d.chunk_steps <= T::chunk_steps), "an operation",
                         "has chunks that do not fit; steps of a chunk:", d.chunk_steps);
    }

    bool step_ends(bool) const { return step_ends_; }
    bool pass_ends(bool, bool step_ends, const WindowStep& now) const {
#pragma HLS INLINE
        const bool chunk_ends = chunked_ && steps_.last();
        return step_ends & (now.window_ends | chunk_ends);
    }
    // Whether the nest returns to the chunk's begin after the step, for another pass, or marks the begin of the next
    // chunk.
    bool returns(bool step_ends, const WindowStep& now) const {
#pragma HLS INLINE
        const bool may = chunked_ && step_ends && !passes_.last();
        return may & chunk_ends(now);
    }
    bool goes_on(bool step_ends, const WindowStep& now) const {
#pragma HLS INLINE
        const bool may = step_ends && passes_.last();
        return may & chunk_ends(now);
    }
    // Whether the window is left where it ends.
    bool leaves_window() const { return !chunked_ || passes_.last(); }

    // After the last half of a step there is no room for the next segment.
    bool halts() const { return next_.ends_segment & !room_behind(); }
    bool may_follow() const { return !chunked_ || room_behind(); }
    bool may_begin() const { return !begins_ && (!chunked_ || room_); }
    bool resumes() const { return waits_ && room_; }
    bool waits() const { return waits_; }
    bool last_pass(bool last) const { return chunked_ ? next_.ends_runs & next_.last_block : last; }
    bool begins_group(bool begins, bool) const { return begins & (!chunked_ | next_.begins_slice); }
    // Three: those of the pass that would begin, and what the flags do not yet count.
    bool has_room(const AwaitedPasses& awaited, bool begun, bool) const { return !awaited.nearly_most(begun); }

    // Whether the skip array gets what is read, not the systolic array.
    bool chunked() const { return chunked_; }
    bool left_all() const { return !held_.any(); }
    bool hears(stream<bool>& windows) const {
#pragma HLS INLINE
        bool credit = false;
        return held_.any() && windows.read_nb(credit);
    }

    // One cycle; `go`: the next step is issued; `stops`: the nest must wait after it, inside a pass; `left`: a credit
    // has come; `awaits`: results are due; `starts`: an operation starts.
    void step(bool go, bool stops, bool left, bool awaits, bool starts) {
#pragma HLS INLINE
        waits_ = stops | (waits_ & !resumes());
        const bool in_order = Config::dense_beside && !windows_;
        begins_ = starts | (begins_ & awaits & !(chunked_ | in_order));
        windows_ = chunked_ | (windows_ & awaits);
        const bool begun = go & next_.begins_segment;
        room_ = held_.room(begun);
        held_.step(begun, left);
        issue_ = next_;
    }

    // The nest advances by one step.
    void walk(bool on, const WindowStep& now, bool starts) {
#pragma HLS INLINE
        const bool ends = on & step_ends_;
        const bool half = on & now.slot_ends;
        const bool pass = ends & (chunked_ & chunk_ends(now));
        const bool chunk = pass & passes_.last();
        if (on) {
            prepare(now);
        } else if (starts) {
            next_ = Step();
        }
        first_ = starts | (ends ? chunk_ends(now) : first_);
        begins_segment_ = starts | (ends ? segment_.last() || chunk_ends(now) : begins_segment_);
        opens_ = starts | (chunk ? now.window_ends : opens_);
        counting_ = starts ? counts_ : counting_ & !(chunk & now.window_ends);
        half_ = !starts & (half ? !last_half_ : half_);
        const bool on_run = now.window_ends && now.last_block;
        // Whether the pass after a step has no second half. The successor of a pass with both halves is known in its
        // second cycle; after one without, the run begins again.
        const bool of_run = single_ ? last_alone_ : in_run_;
        const bool of_next = single_ ? last_alone_ : in_next_;
        const bool in_window = steps_.last() ? of_run : single_;
        const bool behind_window = now.last_block ? of_next : of_run;
        const bool single_behind = now.window_ends ? behind_window : in_window;
        // Whether the next slot is of its pass's last half, if the nest goes on, which is decided last.
        const bool last_behind = step_ends_ ? single_behind : now.slot_ends | last_half_;
        const bool last_here = starts ? alone_ : last_half_;
        const bool ends_here = starts ? now.slot_alone & alone_ : step_ends_;
        const bool single_here = starts ? alone_ : single_;
        last_half_ = on ? last_behind : last_here;
        step_ends_ = on ? now.behind_ends & last_behind : ends_here;
        single_ = ends ? single_behind : single_here;
        in_run_ = odd_ && passes_.ends_next(false);
        in_next_ = odd_ && passes_.ends_next(true);
        passes_.step(pass, on_run, starts);
        steps_.step(ends, pass | starts);
        segment_.step(ends, pass | starts);
    }

    template <class Beat>
    void mark(Beat& beat) const {
#pragma HLS INLINE
        // In a beat for a systolic array the flags mean the pass's first and last step.
        if (!Config::dense_beside || chunked_) {
            beat.first = issue_.first;
            beat.last = issue_.last;
        }
        beat.opens = issue_.opens;
        beat.closes = issue_.closes;
        beat.single = issue_.single;
        beat.slides = false;
        beat.apart = apart_;
        beat.leaves = issue_.leaves;
    }
    // The half that a step reads.
    int half() const { return issue_.half ? 1 : 0; }

   private:
    // A step. Its end flags are false unless it belongs to a chunk.
    struct Step {
        bool ends_segment;                  // with it a segment ends
        bool ends_runs, last_block;         // the block in all runs; with both the whole operation ends
        bool begins_segment, begins_slice;  // with it a segment, what a run has of a slice
        bool half, first, last, opens, closes, single, leaves;
    };

    // Whether a step is the last one that its pass reads of the chunk.
    bool chunk_ends(const WindowStep& now) const { return steps_.last() || now.window_ends; }
    // Whether there is room for a segment after the step. One that begins with it is counted a cycle later.
    bool room_behind() const { return room_ && !next_.begins_segment; }

    void prepare(const WindowStep& now) {
#pragma HLS INLINE
        const bool ends = chunk_ends(now);
        const bool in_chunk = chunked_ & now.slot_ends;
        next_.ends_segment = (in_chunk & step_ends_) & (ends | segment_.last());
        next_.ends_runs = now.window_ends && passes_.last() && passes_.last_run();
        next_.last_block = now.last_block;
        next_.begins_segment = in_chunk & !half_ & begins_segment_;
        next_.begins_slice = (first_ & opens_) & passes_.first() & !counting_;
        next_.half = half_;
        next_.first = first_;
        next_.last = ends;
        next_.opens = opens_;
        next_.closes = now.window_ends;
        next_.single = chunked_ & single_;
        next_.leaves = passes_.last();
    }

    // The operation
    bool chunked_, odd_, alone_;  // of its groups
    bool last_alone_;             // its last run has a single half alone
    bool counts_;                 // its first slice is read to be counted, and has no results
    bool apart_;                  // the lanes of its only pixel go to a group each
    RunTurns<Config::skip_passes, Geometry<Config>::coordinate_bits> passes_;
    Turns<step_bits> steps_, segment_;
    // The step of the nest: its half, whether that is the last one, whether its pass has no second one; whether it is
    // the first one that its pass reads of a chunk, in the first chunk of a window, the first one of a segment; whether
    // the slot ends the step
    bool in_run_, in_next_;  // the next pass has no second half: of the same run, of the next one
    bool half_, last_half_, single_, first_, opens_, begins_segment_, step_ends_;
    bool counting_;  // it is of the slice that is counted
    // The step that comes, the one that is executed
    Step next_, issue_;
    // Room of the array
    HeldChunks held_;
    bool room_;     // for another one; what the array has just left is not counted
    bool begins_;   // an operation waits for the one before
    bool windows_;  // results of windows are awaited
    bool waits_;    // a step waits
};

}  // namespace bfpga
