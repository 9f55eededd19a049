// The write side of a computing operation: results of a group go to its pixels, a run of consecutive pixels a cycle.
//
// The pixels of a group in one row of the output are consecutive in memory, and all of them are where the rows have no
// gap between them. Such a run needs one address and one rotation, which the walk stores in a table.
#pragma once
#include "bfpga/memory/adds_tensor.hpp"
#include "bfpga/processes/scratchpad/banks.hpp"
#include "bfpga/processes/scratchpad/passes.hpp"
#include "bfpga/processes/scratchpad/result_order.hpp"
#include "bfpga/processes/scratchpad/walker.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Consecutive pixels of a group: the address of the first one, and the bank that port 0 would have.
template <class Config>
struct OutputRun {
    Place<Config> first;
    typename ScratchpadTypes<Config>::bank_t rotation;
};

// The runs of a group, and the run of each of its columns.
template <class Config>
struct GroupRuns {
    using T = ScratchpadTypes<Config>;
    static constexpr int columns = Config::columns;

    OutputRun<Config> run[columns];
    typename T::port_t run_of[columns];
    bool active[columns];
};

template <class Config>
class ResultWriter {
    using T = ScratchpadTypes<Config>;
    static constexpr int columns = Config::columns;
    static constexpr int bits = 16;
    static constexpr int run_bits = bit_length(T::ports) + 1;
    using run_count_t = int_t<run_bits>;

   public:
    ResultWriter() {
#pragma HLS ARRAY_PARTITION variable=spare_.run complete dim=0
#pragma HLS ARRAY_PARTITION variable=spare_.run_of complete dim=0
#pragma HLS ARRAY_PARTITION variable=spare_.active complete dim=0
#pragma HLS ARRAY_PARTITION variable=group_.run complete dim=0
#pragma HLS ARRAY_PARTITION variable=group_.run_of complete dim=0
#pragma HLS ARRAY_PARTITION variable=group_.active complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        walk_.clear();
        due_.clear();
        begun_ = false;
        returned_ = false;
        adds_returned_ = false;
        running_ = false;
        open_ = false;
        held_ = false;
        ready_ = false;
        closes_ = false;
    Columns_Clear:
        for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
            spare_.active[c] = false;
            group_.active[c] = false;
        }
    }

    // What the next operation needs.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        walk_.take(d);
        runs_ = Config::skip_activations && reads_chunks<Config>(d);
        order_.take(d);
        setup_.take(Place<Config>::of(d.output_word, d.output_bank), Stride<Config>::to_neighbour(d.output_pixel_words),
                    d.output_wrap_word, d.output_wrap_bank, d.output_pixel_words);
        gaps_ = d.output_wrap_word != 0 || d.output_wrap_bank != 0;
        pixel_words_ = static_cast<typename T::word_t>(d.output_pixel_words);
        const bool wide = sends_accumulators<Config>(d);
        const int words = pass_words<Config>(d);
        pass_.set(static_cast<int_t<bits>>(wide ? Config::lanes * words : words));
        words_.set(static_cast<int_t<bits>>(wide ? static_cast<int>(d.output_rows) : output_words<Config>(d)));
        groups_.set(static_cast<typename T::coordinate_t>(d.groups));
        returns_ = writes_words<Config>(d);
        adds_ = adds_tensor<Config>(d);
    }

    // Whether results are due; an unfinished walk delays the start of the next operation.
    bool running() const { return !walk_.full() | running_; }
    // A run is written in this cycle. Results of a KEPT operation may be there before their pass has begun.
    bool writes() const { return held_ & ready_; }
    // The last word of a pass was written in the cycle before.
    bool returned() const { return returned_; }
    // A word to which a tensor was added was written in the cycle before.
    bool adds_returned() const { return Config::residual_adds && adds_returned_; }

    void write(RunWrite<Config>& write) const {
#pragma HLS INLINE
        const OutputRun<Config> run = group_.run[static_cast<int>(run_)];
        write.first.bank = run.first.bank;
        write.first.word = static_cast<typename T::word_t>(run.first.word + word_);
        write.carried = static_cast<typename T::word_t>(write.first.word + pixel_words_);
        write.rotation = run.rotation;
    Columns_Write:
        for (int c = 0; c < T::ports; ++c) {
#pragma HLS UNROLL
            const int column = c < columns ? c : 0;
            write.word[c] = word_held_[column];
            write.mask[c] = c < columns && group_.active[column] && group_.run_of[column] == run_;
        }
    }

    // One cycle; `begun`: the results of another group, or pass of it, are awaited; `starts`: an operation does.
    void step(stream<wire_t<ResultBeat<Config>>>& results, bool begun, bool starts) {
#pragma HLS INLINE
        const bool writes = this->writes();
        const bool last_word = in_runs() ? order_.last_word() : words_.last();
        const bool done = held_ & closes_;
        const bool group = held_ & (closes_ & last_word);
        const bool ends_pass = in_runs() ? last_word && order_.last_group() : last_word || pass_.last();
        const bool pass = held_ & (closes_ & ends_pass);
        const bool next_group = !open_ & running_ & walk_.full();
        if (done) {
            const typename T::word_t first = in_runs() ? order_.first_word(word_) : static_cast<typename T::word_t>(0);
            word_ = last_word ? first : static_cast<typename T::word_t>(word_ + 1);
        } else if (starts) {
            word_ = 0;
        }
        const typename T::port_t next_run =
            done ? static_cast<typename T::port_t>(0) : static_cast<typename T::port_t>(run_ + 1);
        if (next_group) {
            run_ = 0;
            columns_.set(static_cast<run_count_t>(last_run_), last_run_ == 0);
            columns_.restart();
        } else if (writes) {
            run_ = next_run;
            columns_.next();
        }
        hand_over(next_group);
        fill();
        walk_.step(setup_, next_group, starts);
        pass_.step_late(done, ends_pass, starts);
        words_.step_late(done, starts);
        const bool last_group = in_runs() ? order_.last() : groups_.last();
        const bool ends = group & last_group;
        groups_.step_late(group, starts);
        order_.step(done, word_, starts);
        // Whether any are due in the next cycle: those of this one, less the last if it returns.
        const bool lone = due_.lone(begun_) & ends_pass;
        const bool due = (due_.any() | begun_) & !(done & lone);
        due_.step(begun_, pass);
        begun_ = begun;
        returned_ = pass;
        adds_returned_ = Config::residual_adds && (done & adds_);
        open_ = next_group | (open_ & !group);
        const bool asks = running_ & (!held_ | closes_);
        const bool stays = held_ & !closes_;
        bool there = false;
        if (asks) {
            there = receive(results);
        }
        held_ = there | stays;
        running_ = (starts & returns_) | (running_ & !ends);
        ready_ = open_ & due;
        closes_ = (columns_.last() & open_) & due;
    }

   private:
    // Whether results come in runs.
    bool in_runs() const { return Config::skip_activations && runs_; }

    bool receive(stream<wire_t<ResultBeat<Config>>>& results) {
#pragma HLS INLINE
        wire_t<ResultBeat<Config>> wire;
        if (!results.read_nb(wire)) {
            return false;
        }
        const ResultBeat<Config> beat = from_wire<ResultBeat<Config>>(wire);
    Columns_Receive:
        for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
            word_held_[c] = beat.word[c];
        }
        return true;
    }

    void hand_over(bool take) {
#pragma HLS INLINE
    Columns_Take:
        for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
            if (take) {
                group_.run[c] = spare_.run[c];
                group_.run_of[c] = spare_.run_of[c];
                group_.active[c] = spare_.active[c];
                spare_.active[c] = false;
            }
        }
    }

    // The walk's pixel goes to its column; it begins a run in the first column, and after a gap.
    void fill() {
#pragma HLS INLINE
        const bool fills = walk_.fills();
        // Of what weighs no result takes the group, and the next operation may fill fewer columns.
        const bool active = walk_.active() && (!Config::operand_weights || returns_);
        const bool first = walk_.column() == 0;
        const bool begins = first || (gaps_ && walk_.begins_row() && walk_.active());
        const typename T::port_t run = first    ? static_cast<typename T::port_t>(0)
                                       : begins ? static_cast<typename T::port_t>(last_run_ + 1)
                                                : last_run_;
        const OutputRun<Config> here = {walk_.place(), rotation(walk_.place().bank, walk_.column())};
    Columns_Fill:
        for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
            if (fills && walk_.column() == c) {
                spare_.run_of[c] = run;
                spare_.active[c] = active;
            }
            if (fills && begins && run == c) {
                spare_.run[c] = here;
            }
        }
        if (fills) {
            last_run_ = run;
        }
    }

    // The bank `column` banks before `bank`.
    static typename T::bank_t rotation(typename T::bank_t bank, typename T::port_t column) {
#pragma HLS INLINE
        using sum_t = typename T::bank_sum_t;
        typename T::bank_t result;
        bank_sum<Config>(bank, static_cast<sum_t>(static_cast<sum_t>(Config::banks) - static_cast<sum_t>(column)),
                         result);
        return result;
    }

    // The operation
    WalkSetup<Config> setup_;
    bool gaps_, returns_, runs_, adds_;
    typename T::word_t pixel_words_;
    // The walk
    using Repeats = typename std::conditional<Config::skip_activations, RunRepeats<Config, run_groups<Config>()>,
                                              OnePass<Config>>::type;
    SerialWalk<Config, 1, Repeats> walk_;
    typename T::port_t last_run_;
    GroupRuns<Config> spare_, group_;
    // The word that is written
    Word<Config> word_held_[columns];
    typename T::word_t word_;
    typename T::port_t run_;
    Turns<bits> words_, pass_;
    Turns<Geometry<Config>::coordinate_bits> groups_;
    Turns<run_bits> columns_;
    ResultOrder<Config> order_;
    bool running_, open_, held_;
    bool ready_, closes_;  // a run of what is held may be written; it is the word's last one
    // Passes whose results are due; what the reader has begun, a cycle later, and what has returned
    AwaitedPasses due_;
    bool begun_, returned_, adds_returned_;
};

}  // namespace bfpga
