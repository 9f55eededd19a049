// The nest of a computing operation: group > block > kernel row > kernel column > channel word > slot.
//
// The nest is a step ahead: the next step's reads and end flags are registers, and one flag decides whether it is
// issued. An issued step is a register too and is executed one step later, when the registers of a new group are set.
// For a skip array a step has two halves and passes go by in chunks (chunks.hpp), or chunks in passes (run_chunks.hpp).
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/scratchpad/chunks.hpp"
#include "bfpga/processes/scratchpad/places.hpp"
#include "bfpga/processes/scratchpad/run_chunks.hpp"

namespace bfpga {

// Words of all output channels of a pixel.
template <class Config>
inline int output_words(const Descriptor& d) {
#pragma HLS INLINE
    constexpr int shift = bit_length(Config::lanes) - 1;
    const int32_t more = d.output_rows + Config::lanes - 1;
    return (Config::lanes & (Config::lanes - 1)) == 0 ? more >> shift : more / Config::lanes;
}

// The passes over a group of pixels.
template <class Config, bool Rows = (Config::row_columns > 0)>
class GroupPasses {
    using count_t = int_t<16>;

   public:
    // Counts when it has been restarted.
    void take(const Descriptor&, count_t passes, bool returns) {
#pragma HLS INLINE
        passes_.set(passes);
        returns_ = returns;
    }

    bool last() const { return passes_.last(); }
    // Whether results come of the pass that goes on, or begins next.
    bool returns() const { return returns_; }

    // One cycle; `on`, known late: to the next pass.
    void step(bool on, bool starts) {
#pragma HLS INLINE
        passes_.step_late(on, starts);
    }

   private:
    Turns<16> passes_;
    bool returns_;
};

// A row of the process of rows is read in several turns of passes, of which the last one gives results.
template <class Config>
class GroupPasses<Config, true> {
    using count_t = int_t<16>;

   public:
    // `passes`: of a turn.
    void take(const Descriptor& d, count_t passes, bool returns) {
#pragma HLS INLINE
        passes_.set(passes);
        turns_.set(works_on_rows<Config>(d) ? static_cast<count_t>(d.blocks) : static_cast<count_t>(1));
        writes_ = returns;
        returns_ = returns;
    }

    bool last() const { return passes_.last() && turns_.last(); }
    bool returns() const { return returns_; }

    void step(bool on, bool starts) {
#pragma HLS INLINE
        returns_ = on ? writes_ && turns_.last() : returns_;
        turns_.step_late(on & passes_.last(), starts);
        passes_.step_late(on, starts);
    }

   private:
    Turns<16> passes_, turns_;
    bool writes_, returns_;
};

// What a step reads.
template <class Config>
struct ReadIssue {
    using T = ScratchpadTypes<Config>;

    bool valid;
    bool fires, first, last;  // of the step: its last slot; of the pass: its first, its last step
    int_t<16> slot;
    typename T::word_t offset;  // word in the pixel
    Place<Config> tap;          // distance from the first tap
    typename T::coordinate_t y, x;
};

template <class Config>
class PassNest {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;
    using coordinate_t = typename T::coordinate_t;
    static constexpr int bits = 16;
    // A slot for each row of the pixels of a group at most.
    static constexpr int slot_bits = bit_length(T::ports) + 1;
    using limit_t = int_t<bits>;

   public:
    void clear() {
#pragma HLS INLINE
        active_ = false;
        between_ = false;
        pausing_ = false;
        primes_ = false;
        begun_ = false;
        needs_group_ = true;
        next_.last = false;
        awaited_.clear();
        chunks_.clear();
        issue_.valid = false;
    }

    // What the next operation needs.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        const bool single = single_words<Config>(d) && !weighs<Config>(d);
        const int32_t narrow = d.write_slots > Config::lanes ? d.write_slots : static_cast<int32_t>(Config::lanes);
        const bool wide = sends_accumulators<Config>(d);
        const int32_t window = wide ? static_cast<int32_t>(Config::lanes) * d.write_slots : narrow;
        slots_.set(static_cast<int_t<slot_bits>>(d.read_slots));
        kernel_width_.set(static_cast<limit_t>(d.kernel_width));
        kernel_height_.set(static_cast<limit_t>(d.kernel_height));
        words_.set(single ? static_cast<limit_t>(0) : static_cast<limit_t>(d.channel_words - 1),
                   single | (d.channel_words == 1));
        const limit_t blocks = single ? static_cast<limit_t>(output_words<Config>(d)) : static_cast<limit_t>(d.blocks);
        const bool whole = on_skip_array<Config>(d);
        const bool chunked = reads_chunks<Config>(d);
        chunks_.take(d);
        blocks_.set(blocks);
        passes_.take(d, whole ? static_cast<limit_t>(1) : blocks, writes_words<Config>(d));
        block_step_ = single ? static_cast<word_t>(1) : static_cast<word_t>(d.block_step);
        window_ = static_cast<limit_t>(window);
        one_word_ = single_words<Config>(d);
        two_blocks_ = pass_words<Config>(d) > Config::words_per_block;
        drains_ = !whole && !weighs<Config>(d);
        groups_.set(static_cast<coordinate_t>(chunked ? (d.groups + 1) >> 1 : d.groups));
        group_columns_ = static_cast<typename T::port_t>(chunked ? 1 : group_pixels<Config>(d));
        tap_x_ = Stride<Config>::of(d.tap_x_word, d.tap_x_bank, d.input_pixel_words);
        tap_y_ = Stride<Config>::of(d.tap_y_word, d.tap_y_bank, d.input_pixel_words);
        dilation_y_ = static_cast<coordinate_t>(d.dilation_y);
        dilation_x_ = static_cast<coordinate_t>(d.dilation_x);
        reads_ = !d.has(Flag::Kept) || takes_accumulators<Config>(d);
    }

    // Whether passes are left, or an issued read: it needs the operation's parameters.
    bool running() const { return chunks_.waits() | active_ | between_ | pausing_ | issue_.valid; }
    const ReadIssue<Config>& issue() const { return issue_; }
    const PassChunks<Config>& chunks() const { return chunks_; }

    // A step's action, from registers alone: it reads; it begins a pass, or one that needs the pixels of a new group.
    // `may`: no store has the port.
    bool goes(bool may) const { return active_ & may; }
    bool begins(bool may) const { return between_ & goes(may); }
    bool takes_group(bool may) const { return needs_group_ & (between_ & goes(may)); }
    // Whether results of a group of pixels are awaited from now on. MEASURE: none come back, unless they are
    // accumulators.
    bool asks(bool may) const { return chunks_.begins_group(begins(may), goes(may)) && passes_.returns(); }

    // Whether results are awaited since the cycle before.
    bool begun() const { return begun_; }

    // One cycle; `full`: the pixels of a pass are there, `fills`: in the next one; `returned`: the results of a group
    // have arrived; `left`: the array has left a chunk; `lets`: what it adds lets a pass begin; `starts`: an operation
    // does. Returns whether the cycle is one of the operation's work.
    bool step(bool may, bool full, bool fills, bool returned, bool left, bool lets, bool starts) {
#pragma HLS INLINE
        // `&` and `|`, here and elsewhere in the process: flags are evaluated in parallel, not one conditionally on
        // another.
        const bool go = goes(may);
        const bool begin = begins(may);
        const bool ticks = (go & !primes_) | pausing_;
        const bool drained = drain_.reached();
        const bool walked = columns_.reached();
        const bool may_end = drained & (!last_block_ | walked);
        const bool ends_reading = (go & next_.last) | pausing_;
        const bool pass = (go ? next_.last : pausing_) & may_end;
        const bool on = go ? primes_ | (next_.last & may_end) : pausing_ & may_end;
        const bool group = pass & last_block_;
        const bool last_pass = chunks_.last_pass(last_pass_);
        const bool room = chunks_.has_room(awaited_, begun_, returned) & lets;
        const bool halts = chunks_.halts();
        // The needs of a pass that ends in the cycle in which it began are known a cycle later.
        const bool may_come = !last_block_ | full;
        const bool may_follow = (!between_) & (room & (may_come | fills)) & chunks_.may_follow();
        const bool follows = last_pass ? false : may_end & may_follow;
        const bool may_enter = !needs_group_ | full;
        const bool enters = between_ & (room & (may_enter | fills)) & chunks_.may_begin();
        const bool resumes = enters | chunks_.resumes();
        const bool goes_on = (primes_ ? !may : active_) | resumes;
        // Of a skip array, decided last by whether a step goes; none does in a pause.
        const bool active_behind = next_.last ? follows : !(halts | primes_);
        const bool active_else = pausing_ ? follows : active_ | (starts | resumes);
        const bool between_behind = primes_ | (next_.last & (may_end & !last_pass));
        const bool between_else = pausing_ ? may_end & !last_pass : between_;
        const bool awaits = awaited_.any() | begun_;
        const bool answered = passes_.returns();
        awaited_.step(begun_, returned);
        begun_ = chunks_.begins_group(begin, go) & answered;
        needs_group_ = pass ? last_block_ : needs_group_ & !begin;
        active_ =
            Config::skip_groups > 0 ? (go ? active_behind : active_else) : starts | (ends_reading ? follows : goes_on);
        pausing_ = ends_reading & !may_end;
        between_ = go ? between_behind : between_else;
        drain_.step(ticks, pass, starts);
        set_paces();
        columns_.step(ticks, group, starts);
        walk_passes(on, starts);
        chunks_.step(go, go & !ends_reading & halts, left, awaits, starts);
        issue(go);
        walk(go, starts);
        primes_ = starts | (primes_ & !go);
        return ticks;
    }

   private:
    // The window times the words of a pass: one, or those of a block or two; known a cycle after the operation's
    // parameters, in which none begins. A window of more than one lane takes more than a cycle.
    void set_paces() {
#pragma HLS INLINE
        columns_.set(group_columns_);
        const limit_t block = static_cast<limit_t>(window_ * Config::words_per_block);
        const limit_t wide = static_cast<limit_t>(block + block);
        const limit_t limit = one_word_ ? window_ : two_blocks_ ? wide : block;
        drain_.set(limit, !drains_ || (Config::lanes == 1 && limit == 1));
    }

    void issue(bool go) {
#pragma HLS INLINE
        issue_ = next_;
        issue_.valid = go && reads_ && !primes_;
    }

    // The passes are one ahead: the end flags of the current or next pass are registers.
    void walk_passes(bool on, bool starts) {
#pragma HLS INLINE
        const bool last_block = passes_.last();
        const bool last_pass = last_block & groups_.last();
        if (on) {
            last_block_ = last_block;
            last_pass_ = last_pass;
        }
        groups_.step_late(on & last_block, starts);
        passes_.step(on, starts);
    }

    // The nest advances by one step, and its previous state becomes the next step.
    void walk(bool on, bool starts) {
#pragma HLS INLINE
        const bool slot_ends = slots_.last();
        const bool word_ends = chunks_.step_ends(slot_ends);
        const bool tap_ends = words_.last();
        const bool last_column = kernel_width_.last();
        const bool last_row = kernel_height_.last();
        const bool row_ends = tap_ends & last_column;
        const bool window_ends = (last_column & last_row) & tap_ends;
        const bool read_ends = word_ends & window_ends;
        const WindowStep step = {slot_ends, slots_.last_behind(), slots_.alone(), window_ends, blocks_.last()};
        const bool returns = on & chunks_.returns(word_ends, step);
        const bool marks = starts | (on & chunks_.goes_on(word_ends, step));
        const bool word = on & word_ends;
        const bool tap = word & tap_ends;
        const bool row = word & row_ends;
        const bool read = word & window_ends;
        const bool leaves = chunks_.leaves_window();
        const bool block = word & (window_ends & leaves);
        if (on) {
            prepare(slot_ends, chunks_.pass_ends(read_ends, word_ends, step));
        } else if (starts) {
            next_.last = false;
        }
        chunks_.walk(on, step, starts);
        walk_words(on, on & slot_ends, word, block, starts);
        walk_taps(tap, row, read | starts);
        first_ = word ? read_ends : starts | first_;
        slots_.step(on, starts);
        if (chunk_order<Config>() == ChunkOrder::Runs) {
            words_.step(word, starts, returns, begin_.words);
            kernel_width_.step(tap, starts, returns, begin_.columns);
            kernel_height_.step(row, starts, returns, begin_.rows);
        } else {
            words_.step_late(word, starts);
            kernel_width_.step_late(tap, starts);
            kernel_height_.step_late(row, starts);
        }
        blocks_.step(block, starts);
        // Where the nest returns, its advance is discarded.
        return_or_mark(returns, marks);
    }

    // Back to the begin of the chunk, or a begin that is kept.
    void return_or_mark(bool returns, bool marks) {
#pragma HLS INLINE
        constexpr bool repeated = chunk_order<Config>() == ChunkOrder::Runs;
        if (repeated && returns) {
            word_ = begin_.word;
            tap_ = begin_.tap;
            next_row_ = begin_.next_row;
            y_ = begin_.y;
            x_ = begin_.x;
        } else if (repeated && marks) {
            begin_.words = words_.mark();
            begin_.columns = kernel_width_.mark();
            begin_.rows = kernel_height_.mark();
            begin_.word = word_;
            begin_.tap = tap_;
            begin_.next_row = next_row_;
            begin_.y = y_;
            begin_.x = x_;
        }
    }

    void prepare(bool slot_ends, bool read_ends) {
#pragma HLS INLINE
        next_.fires = slot_ends;
        next_.first = first_;
        next_.last = read_ends;
        next_.slot = slot_;
        next_.offset = static_cast<word_t>(block_word_ + word_);
        next_.tap = tap_;
        next_.y = y_;
        next_.x = x_;
    }

    void walk_words(bool on, bool slots, bool word, bool read, bool starts) {
#pragma HLS INLINE
        const limit_t next_slot = static_cast<limit_t>(slot_ + 1);
        const word_t next_word = static_cast<word_t>(word_ + 1);
        const word_t next_block = static_cast<word_t>(block_word_ + block_step_);
        slot_ = (starts | slots) ? static_cast<limit_t>(0) : on ? next_slot : slot_;
        word_ = (starts | (word & words_.last())) ? static_cast<word_t>(0) : word ? next_word : word_;
        block_word_ = (starts | (read & blocks_.last())) ? static_cast<word_t>(0) : read ? next_block : block_word_;
    }

    // `next_row_` is one kernel row ahead, so any tap is one addition to a register.
    void walk_taps(bool tap, bool row, bool again) {
#pragma HLS INLINE
        const Place<Config> next_tap = tap_.after(tap_x_);
        const Place<Config> row_ahead = next_row_.after(tap_y_);
        const coordinate_t next_y = static_cast<coordinate_t>(y_ + dilation_y_);
        const coordinate_t next_x = static_cast<coordinate_t>(x_ + dilation_x_);
        if (again) {
            tap_ = Place<Config>::of(0, 0);
            next_row_ = Place<Config>::of(tap_y_);
            y_ = 0;
            x_ = 0;
        } else if (row) {
            tap_ = next_row_;
            next_row_ = row_ahead;
            y_ = next_y;
            x_ = 0;
        } else if (tap) {
            tap_ = next_tap;
            x_ = next_x;
        }
    }

    // The operation
    word_t block_step_;
    Stride<Config> tap_x_, tap_y_;
    coordinate_t dilation_y_, dilation_x_;
    typename T::port_t group_columns_;
    limit_t window_;  // of the pass that drains, if it does
    bool drains_, one_word_, two_blocks_;
    bool reads_;  // KEPT: nothing is read, the passes go by, unless the memory has the accumulators
    // The nest
    Turns<slot_bits> slots_;
    Turns<bits> words_, kernel_width_, kernel_height_;
    AheadTurns<bits> blocks_;
    limit_t slot_;
    word_t word_, block_word_;
    Place<Config> tap_, next_row_;
    coordinate_t y_, x_;
    bool first_;
    // Where the chunk begins that passes read one after the other
    struct {
        typename Turns<bits>::Mark words, columns, rows;
        word_t word;
        Place<Config> tap, next_row;
        coordinate_t y, x;
    } begin_;
    ReadIssue<Config> next_;
    // The passes: a step reads as soon as it may (`active_`), and is a pass's first (`between_`), another one, or none,
    // while the nest gets ahead (`primes_`); a pass whose reads are shorter than its minimum duration pauses
    GroupPasses<Config> passes_;
    Turns<Geometry<Config>::coordinate_bits> groups_;
    PassChunks<Config> chunks_;
    Pace<bits> drain_;
    Pace<bit_length(ScratchpadTypes<Config>::ports)> columns_;
    AwaitedPasses awaited_;
    bool begun_;  // results of a pass are awaited since the cycle before, and not counted
    bool active_, between_, pausing_, primes_;
    bool needs_group_;             // the pass that begins next
    bool last_block_, last_pass_;  // the pass that goes on, or begins next
    ReadIssue<Config> issue_;
};

}  // namespace bfpga
