// The nest of a computing operation: group > block > kernel row > kernel column > channel word > slot.
//
// Every "is last" is a register, so a step is an AND of flags. What a step reads is a register too (`ReadIssue`) and is
// executed in the step behind, when the registers of a new group are in place.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/scratchpad/places.hpp"

namespace bfpga {

// Words that a pass leaves behind: of the rows of a block, or the one word of a pass whose operands bypass the array.
template <class Config>
inline int pass_words(const Descriptor& d) {
#pragma HLS INLINE
    const bool gemm = static_cast<Operation>(d.operation) == Operation::Gemm;
    const bool doubled = Config::accumulator_rows > Config::rows && d.has(Flag::PowerOfTwo);
    return !gemm ? 1 : doubled ? 2 * Config::words_per_block : Config::words_per_block;
}

// Words of all output channels of a pixel.
template <class Config>
inline int output_words(const Descriptor& d) {
#pragma HLS INLINE
    constexpr int shift = bit_length(Config::lanes) - 1;
    const int32_t more = d.output_rows + Config::lanes - 1;
    return (Config::lanes & (Config::lanes - 1)) == 0 ? more >> shift : more / Config::lanes;
}

// What lasts `limit` (1 or more) steps at least; `reached()`: it may end with the step that comes.
template <int N>
class Pace {
   public:
    bool reached() const { return reached_; }

    void start(uint_t<N> limit) {
#pragma HLS INLINE
        limit_ = limit;
        one_ = limit == 1;
        left_ = limit;
        reached_ = one_;
    }

    void step(bool enable, bool ends) {
#pragma HLS INLINE
        const bool next = ends ? one_ : reached_ || left_ == 2;
        const uint_t<N> fewer = ends ? limit_ : static_cast<uint_t<N>>(left_ - 1);
        if (enable) {
            left_ = fewer;
            reached_ = next;
        }
    }

   private:
    uint_t<N> limit_, left_;
    bool one_, reached_;
};

// Limits of the nest.
template <class Config>
struct NestSetup {
    static constexpr int bits = 16;
    using T = ScratchpadTypes<Config>;
    using coordinate_t = typename T::coordinate_t;
    using limit_t = int_t<bits>;

    limit_t slots, words, kernel_width, kernel_height, blocks, drain;
    coordinate_t groups;
    typename T::port_t columns;
    typename T::word_t block_step;
    Stride<Config> tap_x, tap_y;
    coordinate_t dilation_y, dilation_x;
    bool reads;    // KEPT: nothing is read, the passes go by
    bool returns;  // MEASURE: no results come back

    void take(const Descriptor& d) {
#pragma HLS INLINE
        const bool gemm = static_cast<Operation>(d.operation) == Operation::Gemm;
        const int32_t window = d.write_slots > Config::lanes ? d.write_slots : static_cast<int32_t>(Config::lanes);
        slots = static_cast<limit_t>(d.read_slots);
        kernel_width = static_cast<limit_t>(d.kernel_width);
        kernel_height = static_cast<limit_t>(d.kernel_height);
        // A pass without the array computes one word.
        words = gemm ? static_cast<limit_t>(d.channel_words) : static_cast<limit_t>(1);
        blocks = gemm ? static_cast<limit_t>(d.blocks) : static_cast<limit_t>(output_words<Config>(d));
        block_step = gemm ? static_cast<typename T::word_t>(d.block_step) : static_cast<typename T::word_t>(1);
        drain = drain_of(window, pass_words<Config>(d));
        groups = static_cast<coordinate_t>(d.groups);
        columns = static_cast<typename T::port_t>(active_columns<Config>(d));
        tap_x = Stride<Config>::of(d.tap_x_word, d.tap_x_bank, d.input_pixel_words);
        tap_y = Stride<Config>::of(d.tap_y_word, d.tap_y_bank, d.input_pixel_words);
        dilation_y = static_cast<coordinate_t>(d.dilation_y);
        dilation_x = static_cast<coordinate_t>(d.dilation_x);
        reads = !d.has(Flag::Kept);
        returns = !d.has(Flag::Measure);
    }

   private:
    // window x words, for the three numbers of words there are.
    static limit_t drain_of(int32_t window, int words) {
#pragma HLS INLINE
        const int32_t block = window * Config::words_per_block;
        return static_cast<limit_t>(words == 1 ? window : words == Config::words_per_block ? block : block + block);
    }
};

// What a step reads.
template <class Config>
struct ReadIssue {
    using T = ScratchpadTypes<Config>;

    bool valid;
    bool fires, first, last;  // of the step: its last slot; of the pass: its first, its last step
    int_t<NestSetup<Config>::bits> slot;
    typename T::word_t offset;  // word in the pixel
    Place<Config> tap;          // distance from the first tap
    typename T::coordinate_t y, x;
};

template <class Config>
class PassNest {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;
    using coordinate_t = typename T::coordinate_t;
    static constexpr int bits = NestSetup<Config>::bits;
    using limit_t = typename NestSetup<Config>::limit_t;

   public:
    void clear() {
#pragma HLS INLINE
        running_ = false;
        reading_ = false;
        pausing_ = false;
        needs_group_ = false;
        awaits_none_ = true;
        awaits_one_ = false;
        awaits_two_ = false;
        issue_.valid = false;
    }

    void start(const NestSetup<Config>& n) {
#pragma HLS INLINE
        slots_.start(n.slots);
        words_.start(n.words);
        kernel_width_.start(n.kernel_width);
        kernel_height_.start(n.kernel_height);
        blocks_.start(n.blocks);
        groups_.start(n.groups);
        drain_.start(n.drain);
        columns_.start(n.columns);
        slot_ = 0;
        word_ = 0;
        block_word_ = 0;
        tap_ = Place<Config>::of(0, 0);
        next_row_ = Place<Config>::of(n.tap_y);
        y_ = 0;
        x_ = 0;
        first_ = true;
        running_ = true;
        needs_group_ = true;
    }

    // Whether passes are left, or a read that has been decided: it needs the operation's numbers.
    bool running() const { return running_ || issue_.valid; }
    const ReadIssue<Config>& issue() const { return issue_; }

    // What a step does, from registers alone. `full`: the pixels of a group are there; `may`: no store has the port.
    bool begins(bool full, bool may) const {
#pragma HLS INLINE
        return running_ && !reading_ && !pausing_ && !awaits_two_ && may && (!needs_group_ || full);
    }
    bool goes(bool begins, bool may) const { return begins || (reading_ && may); }
    // Whether results of a pass are due. Those of a KEPT operation may come before the operation has begun.
    bool awaits() const { return !awaits_none_; }
    bool takes_group(bool begins) const { return begins && needs_group_; }

    // A clock, with what `begins` and `goes` have said; `returned`: the results of a pass have arrived. Returns whether
    // the clock is one of the operation's work.
    bool step(const NestSetup<Config>& n, bool begins, bool goes, bool returned) {
#pragma HLS INLINE
        const bool ticks = goes || pausing_;
        // What ends with the step, were there one: of registers alone, so that `goes` is one AND before each.
        const bool word_ends = slots_.last();
        const bool tap_ends = word_ends && words_.last();
        const bool row_ends = tap_ends && kernel_width_.last();
        const bool read_ends = row_ends && kernel_height_.last();
        const bool pass_may_end = drain_.reached() && (!blocks_.last() || columns_.reached());
        const bool pass_ends = read_ends && pass_may_end;
        const bool pause_ends = pausing_ && pass_may_end;
        const bool word = goes && word_ends;
        const bool tap = goes && tap_ends;
        const bool row = goes && row_ends;
        const bool read = goes && read_ends;
        const bool pass = (goes && pass_ends) || pause_ends;
        const bool group = (goes && pass_ends && blocks_.last()) || (pause_ends && blocks_.last());
        const bool end =
            (goes && pass_ends && blocks_.last() && groups_.last()) || (pause_ends && blocks_.last() && groups_.last());
        issue(n, goes);
        if (word) {
            first_ = read;
        }
        walk_words(n, goes, word, pass);
        walk_taps(n, tap, row, read);
        needs_group_ = group || (needs_group_ && !begins);
        running_ = running_ && !end;
        pausing_ = (goes && read_ends && !pass_may_end) || (pausing_ && !pass_may_end);
        reading_ = (goes || reading_) && !read;
        await(begins && n.returns, returned);
        if (goes) {
            slots_.next();
        }
        if (word) {
            words_.next();
        }
        if (tap) {
            kernel_width_.next();
        }
        if (row) {
            kernel_height_.next();
        }
        if (pass) {
            blocks_.next();
        }
        if (group) {
            groups_.next();
        }
        drain_.step(ticks, pass);
        columns_.step(ticks, group);
        return ticks;
    }

   private:
    void issue(const NestSetup<Config>& n, bool goes) {
#pragma HLS INLINE
        issue_.valid = goes && n.reads;
        issue_.fires = slots_.last();
        issue_.first = first_;
        issue_.last = slots_.last() && words_.last() && kernel_width_.last() && kernel_height_.last();
        issue_.slot = slot_;
        issue_.offset = static_cast<word_t>(block_word_ + word_);
        issue_.tap = tap_;
        issue_.y = y_;
        issue_.x = x_;
    }

    void walk_words(const NestSetup<Config>& n, bool goes, bool word, bool pass) {
#pragma HLS INLINE
        const limit_t next_slot = slots_.last() ? static_cast<limit_t>(0) : static_cast<limit_t>(slot_ + 1);
        const word_t next_word = words_.last() ? static_cast<word_t>(0) : static_cast<word_t>(word_ + 1);
        const word_t next_block =
            blocks_.last() ? static_cast<word_t>(0) : static_cast<word_t>(block_word_ + n.block_step);
        if (goes) {
            slot_ = next_slot;
        }
        if (word) {
            word_ = next_word;
        }
        if (pass) {
            block_word_ = next_block;
        }
    }

    // `next_row_` is one kernel row ahead, so a tap is one addition to a register wherever it lies.
    void walk_taps(const NestSetup<Config>& n, bool tap, bool row, bool read) {
#pragma HLS INLINE
        const Place<Config> next_tap = tap_.after(n.tap_x);
        const Place<Config> row_ahead = next_row_.after(n.tap_y);
        const coordinate_t next_y = static_cast<coordinate_t>(y_ + n.dilation_y);
        const coordinate_t next_x = static_cast<coordinate_t>(x_ + n.dilation_x);
        if (read) {
            tap_ = Place<Config>::of(0, 0);
            next_row_ = Place<Config>::of(n.tap_y);
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

    // Passes that await results, one flag for each number: 2 at most.
    void await(bool one_more, bool returned) {
#pragma HLS INLINE
        static_assert(ProcessLimits::awaited_passes == 2, "the stream of results has room for those that have a flag");
        const bool more = one_more && !returned;
        const bool fewer = returned && !one_more;
        const bool none = (awaits_none_ && !more) || (awaits_one_ && fewer);
        const bool one = (awaits_none_ && more) || (awaits_two_ && fewer) || (awaits_one_ && !more && !fewer);
        const bool two = (awaits_one_ && more) || (awaits_two_ && !fewer);
        awaits_none_ = none;
        awaits_one_ = one;
        awaits_two_ = two;
    }

    Turns<bits> slots_, words_, kernel_width_, kernel_height_, blocks_;
    Turns<Geometry<Config>::coordinate_bits> groups_;
    Pace<bits> drain_;
    Pace<bit_length(ScratchpadTypes<Config>::ports)> columns_;
    limit_t slot_;
    word_t word_, block_word_;
    Place<Config> tap_, next_row_;
    coordinate_t y_, x_;
    bool first_, running_, reading_, pausing_, needs_group_;
    bool awaits_none_, awaits_one_, awaits_two_;
    ReadIssue<Config> issue_;
};

}  // namespace bfpga
