// Windows in chunks, of a kernel whose array is a skip array (processes/skip_array/skip_array.hpp).
//
// A pass of a GEMM has two halves there: pixel groups 2n and 2n + 1, the last one possibly alone. A step of the window
// is read for one half after the other, and the window is cut into chunks of `chunk_steps` steps, the last one shorter.
// Where an operation has blocks (channels with kernels of their own) a pass goes through the windows of all blocks,
// each a chunk. MAX, SUM and a GEMM that reads nothing have passes of one group as in any kernel.
//
// The array buffers `chunk_buffers` chunks and returns a credit for each that it has finished. A chunk begins only with
// a credit, so the array accepts its beats without a stall, at its write rate: a step in `lanes` cycles, or in one
// where lanes are separate (skip/window.hpp). The nest keeps to that pace. So `operands` never applies backpressure to
// the loop, and no deadlock is possible:
// * results are taken in every cycle, so the output stage always finds room and takes the sums of the array, which
//   returns the credits in the end. Passes in flight whose results have no room in their stream are harmless;
// * the output stage takes vectors after the sums of the operation before. While `vectors` is full the loop takes no
//   results, so vectors begin when all earlier results are back, and those of their own passes have room;
// * an operation begins when all credits of the one before are back, for its chunks may be larger, and a start ends
//   with none missing. Credits depend on nothing later: entries and parameters come from another process;
// * groups of a store have credits of their own (transfer.hpp).
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/scratchpad/paces.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Replaces the stream of credits where the array holds no windows.
struct NoWindows {};
// Replaces the stream of operands of a skip array where there is one array.
struct NoOperands {};

// State of the nest's loops for a step that is issued.
struct WindowStep {
    bool slot_ends;    // its last slot
    bool behind_ends;  // the next slot is the last one of its half
    bool slot_alone;   // a half has one slot
    bool window_ends;  // the window's last step
    bool last_block;
};

// In which order windows are read: whole; in the chunks of a pass; chunk by chunk of all passes of a run.
enum class ChunkOrder { None, Passes, Runs };

template <class Config>
constexpr ChunkOrder chunk_order() {
    return Config::skip_groups == 0   ? ChunkOrder::None
           : Config::skip_activations ? ChunkOrder::Runs
                                      : ChunkOrder::Passes;
}

template <class Config, ChunkOrder Order = chunk_order<Config>()>
class PassChunks {
   public:
    void clear() {}
    void take(const Descriptor&) {}

    // Whether a step of the window ends with a slot that is the last one, of its half.
    bool step_ends(bool slot_ends) const { return slot_ends; }
    // Whether a step ends the reading of a pass; `window_ends`: that of a window, `step_ends`: of the step.
    bool pass_ends(bool window_ends, bool, const WindowStep&) const { return window_ends; }
    // Whether the nest returns after the step, or marks where it will do so; whether the window is left where it ends;
    // whether a pass is the last one, `last`: by the count of passes.
    bool returns(bool, const WindowStep&) const { return false; }
    bool goes_on(bool, const WindowStep&) const { return false; }
    bool leaves_window() const { return true; }
    bool last_pass(bool last) const { return last; }
    // Whether the nest must wait after the next step; whether the next pass may begin, right after the last step of one
    // that is issued, or later; whether a stalled step resumes.
    bool halts() const { return false; }
    bool may_follow() const { return true; }
    bool may_begin() const { return true; }
    bool resumes() const { return false; }
    bool waits() const { return false; }
    // Whether results are awaited for a group of pixels from now on: the first of a pass, or the second.
    bool begins_group(bool begins, bool) const { return begins; }
    // Whether those of a pass may be awaited besides; `begun`: those of another one are since the cycle before,
    // `returned`: others have come.
    bool has_room(const AwaitedPasses& awaited, bool begun, bool returned) const {
#pragma HLS INLINE
        return !awaited.most(begun) | returned;
    }

    bool chunked() const { return false; }
    // Whether the array has left all chunks; whether it has left another one.
    bool left_all() const { return true; }
    bool hears(NoWindows&) const { return false; }
    void step(bool, bool, bool, bool, bool) {}
    void walk(bool, const WindowStep&, bool) {}
    int half() const { return 0; }
    template <class Beat>
    void mark(Beat& beat) const {
#pragma HLS INLINE
        beat.opens = false;
        beat.closes = false;
        beat.single = false;
        beat.slides = false;
        beat.apart = false;
        beat.leaves = false;
    }
};

// Chunks that the array has not left yet.
class HeldChunks {
    static constexpr int limit = 4;

   public:
    HeldChunks() {
#pragma HLS ARRAY_PARTITION variable=most_ complete dim=0
    }

    void clear() { count_.clear(); }

    // `most`: that the array has room for.
    void set(int32_t most) {
#pragma HLS INLINE
        simulation_check(most >= 1 && most <= limit, "an operation", "has chunks of a number of buffers:", most);
    Numbers_Set:
        for (int n = 0; n <= limit; ++n) {
#pragma HLS UNROLL
            most_[n] = most == n;
        }
    }

    bool any() const { return count_.any(); }
    // Whether there is room for another one; `begun`: besides one that begins in this cycle.
    bool room(bool begun) const {
#pragma HLS INLINE
        bool full = false;
    Numbers_Room:
        for (int n = 1; n <= limit; ++n) {
#pragma HLS UNROLL
            const bool held = count_.is(n);
            const bool fills = count_.is(n - 1);
            full = full | (most_[n] & (held | (begun & fills)));
        }
        return !full;
    }

    // One cycle; `begun`: a chunk has; `left`: the array has left one.
    void step(bool begun, bool left) { count_.step(begun, left); }

   private:
    FlaggedCount<limit> count_;
    bool most_[limit + 1];
};

template <class Config>
class PassChunks<Config, ChunkOrder::Passes> {
    static_assert(Config::skip_halves == 2, "a pass has two halves");
    static_assert(!Config::tap_reuse && !Config::wide_memory, "a window is read for each column, and for products");
    static constexpr int step_bits = bit_length(Config::skip_chunk) + 1;
    static constexpr int group_bits = Geometry<Config>::coordinate_bits;
    // Cycles from the read of a half until it may be read again.
    static constexpr int rest = Config::lanes - 1;

   public:
    void clear() {
#pragma HLS INLINE
        held_.clear();
        room_ = false;
        next_ = Step();
        begins_ = false;
        waits_ = false;
        pace_.set(static_cast<uint_t<pace_bits>>(unpaced ? 1 : rest));
        pace_.step(true, true, true);
    }

    // What the next operation needs.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        const int32_t groups = d.groups;
        chunked_ = reads_chunks<Config>(d);
        slides_ = d.has(Flag::Slides);
        odd_ = chunked_ && (groups & 1) != 0;
        alone_ = chunked_ && groups == 1;
        before_last_.set(groups <= 4 ? static_cast<int_t<group_bits>>(1)
                                     : static_cast<int_t<group_bits>>((groups - 1) >> 1));
        apart_ = d.has(Flag::LanesApart);
        steps_.set(static_cast<int_t<step_bits>>(d.chunk_steps));
        if (chunked_) {
            held_.set(d.chunk_buffers);
            simulation_check(d.chunk_steps >= 1 && d.chunk_steps * (apart_ ? 1 : Config::lanes) <= Config::skip_chunk,
                             "an operation", "has chunks that do not fit; steps of a chunk:", d.chunk_steps);
        }
    }

    bool step_ends(bool) const { return step_ends_; }
    bool returns(bool, const WindowStep&) const { return false; }
    bool goes_on(bool, const WindowStep&) const { return false; }
    bool leaves_window() const { return true; }
    bool last_pass(bool last) const { return last; }
    bool pass_ends(bool, bool step_ends, const WindowStep& now) const {
#pragma HLS INLINE
        return step_ends & (now.window_ends & (!chunked_ | now.last_block));
    }

    // After the last half of a step: the array still writes the first one, or has no room for the next chunk.
    bool halts() const { return next_.ends & !(keeps_pace() && (!next_.chunk_ends || room_behind())); }
    bool may_follow() const { return !chunked_ || (keeps_pace() && room_behind()); }
    bool may_begin() const { return !begins_ && (!chunked_ || (pace_.reached() && room_)); }
    bool resumes() const { return waits_ && pace_.reached() && (!needs_room_ || room_); }
    bool waits() const { return waits_; }
    bool begins_group(bool begins, bool go) const { return begins | (go & next_.second); }
    // Three groups of pixels: those of the pass that would begin, and one that the flags do not yet count.
    bool has_room(const AwaitedPasses& awaited, bool begun, bool) const { return !awaited.nearly_most(begun); }

    bool chunked() const { return chunked_; }
    bool left_all() const { return !held_.any(); }
    bool hears(stream<bool>& windows) const {
#pragma HLS INLINE
        bool credit = false;
        return held_.any() && windows.read_nb(credit);
    }

    // One cycle; `go`: the next step is issued; `stops`: the nest must wait after it, inside a pass; `left`: the array
    // has finished a chunk; `awaits`: results are due; `starts`: an operation starts.
    void step(bool go, bool stops, bool left, bool awaits, bool starts) {
#pragma HLS INLINE
        waits_ = stops | (waits_ & !resumes());
        needs_room_ = stops ? next_.chunk_ends : needs_room_;
        begins_ = starts | (begins_ & (held_.any() | (awaits & !chunked_)));
        pace_.step(true, go & next_.paces, false);
        const bool begun = go & next_.begins_chunk;
        room_ = held_.room(begun);
        held_.step(begun, left);
        issue_ = next_;
    }

    // The nest advances by one step.
    void walk(bool on, const WindowStep& now, bool starts) {
#pragma HLS INLINE
        const bool window_ends = step_ends_ & now.window_ends;
        const bool pass_ends = window_ends & now.last_block;
        const bool half = on & now.slot_ends;
        const bool ends = on & step_ends_;
        const bool chunk_ends = steps_.last() || now.window_ends;
        const bool window = on & window_ends;
        const bool pass = on & pass_ends;
        if (on) {
            prepare(now, chunk_ends);
        } else if (starts) {
            next_ = Step();
        }
        const bool alone = odd_ && before_last_.last();
        const bool single = starts ? alone_ : (single_ | (pass & alone));
        half_ = !starts & (half ? !last_half_ : half_);
        const bool whole = !chunked_ | single_ | (now.window_ends & now.last_block & alone);
        const bool last_half = ends ? whole : half | last_half_;
        const bool whole_first = !chunked_ | alone_;
        // What the next step ends, if the nest goes on, which is decided last.
        const bool last_half_behind = step_ends_ ? whole : now.slot_ends | last_half_;
        const bool ends_behind = now.behind_ends & last_half_behind;
        const bool ends_here = starts ? now.slot_alone & whole_first : step_ends_;
        last_half_ = starts ? whole_first : last_half;
        step_ends_ = on ? ends_behind : ends_here;
        single_ = single;
        first_ = starts | (ends ? chunk_ends : first_);
        opens_ = starts | ((ends & chunk_ends) ? now.window_ends : opens_);
        begun_ = starts | (ends ? (now.window_ends & now.last_block) : begun_);
        steps_.step(ends, window | starts);
        before_last_.step(pass, starts);
    }

    template <class Beat>
    void mark(Beat& beat) const {
#pragma HLS INLINE
        beat.first = issue_.first;
        beat.last = issue_.last;
        beat.opens = issue_.opens;
        beat.closes = issue_.closes;
        beat.single = issue_.single;
        beat.slides = slides_;
        beat.apart = issue_.apart;
        beat.leaves = false;
    }
    // The half that a step reads.
    int half() const { return issue_.half ? 1 : 0; }

   private:
    static constexpr bool unpaced = rest == 0;
    static constexpr int pace_bits = bit_length(Config::lanes);

    // A step. Its end flags are false unless it belongs to a chunk.
    struct Step {
        bool ends, chunk_ends;     // all its halves have been read with it; it is the last one of its chunk as well
        bool paces, begins_chunk;  // its first half has been read with it; it is the first one of a chunk as well
        bool second;               // its second half has been read with it, for the first time in the pass
        bool turns;                // the first half may be read after it, or must wait for the pace
        bool half, first, last, opens, closes, single, apart;
    };

    // Whether the first half may be read again after a step that is issued in this cycle.
    bool keeps_pace() const { return unpaced || (next_.turns && pace_.reached()); }
    // Whether there is room for another chunk. A chunk that begins with this step is counted a cycle later.
    bool room_behind() const { return room_ && !next_.begins_chunk; }

    void prepare(const WindowStep& now, bool chunk_ends) {
#pragma HLS INLINE
        const bool in_chunk = chunked_ & now.slot_ends;
        next_.ends = in_chunk & step_ends_;
        next_.chunk_ends = next_.ends & chunk_ends;
        next_.paces = in_chunk & !half_ & !apart_;
        next_.turns = half_ | apart_;
        next_.begins_chunk = in_chunk & !half_ & first_;
        next_.second = in_chunk & half_ & begun_;
        next_.half = half_;
        next_.first = first_;
        next_.last = chunk_ends;
        next_.opens = opens_;
        next_.closes = now.window_ends & now.last_block;
        next_.single = single_;
        next_.apart = apart_;
    }

    // The operation
    bool chunked_, odd_, alone_;     // of its groups
    bool slides_;                    // its windows keep rows of those before
    bool apart_;                     // lanes are separate
    Turns<group_bits> before_last_;  // passes before the last one
    Turns<step_bits> steps_;
    // The step of the nest: its half, whether that is the last one; whether the step is the first one of a chunk, in
    // the first chunk of a window, the first one of a pass; whether the pass has one half; whether the slot ends the
    // step
    bool half_, last_half_, first_, opens_, begun_, single_, step_ends_;
    // The step that comes, the one that is executed
    Step next_, issue_;
    // Room of the array
    HeldChunks held_;
    bool room_;  // for another one; what the array has just left is not counted
    Pace<pace_bits> pace_;
    bool begins_;              // an operation waits for the one before
    bool waits_, needs_room_;  // a step waits, for more than the pace
};

}  // namespace bfpga
