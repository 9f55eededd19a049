// The forwarder of an array that skips zeros of activations: finished sums wait here for the sums buffer, while their
// groups go on.
//
// The groups of a half have the pixels of one group, so their sums leave together, row by row, when the last of them
// has ended the pass's part of its chunk; half by half, pass by pass. A half without pixels takes a cycle. If a pixel's
// lanes have a group each, their sums are added on the way out.
#pragma once
#include "bfpga/processes/skip_array/activation_words.hpp"
#include "bfpga/processes/skip_array/chunk_marks.hpp"
#include "bfpga/processes/skip_array/pair_sums.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Cycles from the write of a row's sums to their next read at least: sums come late in the pipeline, after those of all
// lanes are added, and are read early in it.
constexpr int slice_guard = 12;

// What leaves in a cycle, if anything: the sums of a row of one group of pixels of a run.
template <class Config>
struct RowSums {
    using group_t = uint_t<bit_length(Config::skip_halves* Config::skip_passes - 1)>;
    using row_t = uint_t<bit_length(Config::rows - 1)>;

    bool there;
    group_t group;
    row_t row;
    SumBeat<Config> sums;
};

template <class Config, class Storage>
class PassForwarder {
    using T = SparseTypes<Config>;
    using Pair = PairSums<Config::accumulator_bits, Config::skip_chunk>;
    using Row = RowSums<Config>;
    using half_t = uint_t<bit_length(Config::skip_halves)>;
    static constexpr int halves = Config::skip_halves;
    static constexpr int columns = Config::columns;
    // Cycles that the sums of a half take: rows of it are added again in the next chunk, or leave, `slice_guard` cycles
    // later.
    static constexpr int clocks = Config::rows > slice_guard ? Config::rows : slice_guard;
    using clock_t = uint_t<bit_length(clocks)>;

   public:
    using kept_t = typename Pair::kept_t;

    // What happens in a cycle: the sums of a half are through, those of a group of pixels are, those of a pass.
    struct Moves {
        bool sent[halves];
        bool ends_group, ends_pass;
    };

    PassForwarder() {
#pragma HLS ARRAY_PARTITION variable=finished_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=there_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=complete_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
    Groups_Clear:
        for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
            there_[g] = false;
        }
    Halves_Clear:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            complete_[h] = false;
        }
        half_ = 0;
        clock_ = 0;
        last_clock_ = false;
        sends_ = false;
        hidden_ = false;
        shows_ = true;
        group_ = 0;
    }

    // Whether a group cannot finish.
    bool shut(int group) const { return there_[group]; }

    // Sends the sums whose turn it is, if they are valid and the sink is ready. `pass`: what they are of.
    Moves send(bool takes, const ChunkMarks& pass, Row& row) {
#pragma HLS INLINE
        const bool last_half = half_ == halves - 1;
        const bool through = sends_ && last_clock_;
        row.there = sends_ && shows_;
        row.group = group_;
        row.row = static_cast<typename Row::row_t>(clock_ & static_cast<clock_t>((1 << row_bits) - 1));
        if (row.there || !native_integers) {  // a simulation saves the time
            show(row);
            add_lanes(pass.apart, row);
        }
        Moves moves;
    Halves_Sent:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            moves.sent[h] = through && half_ == h;
        }
        moves.ends_group = through && !hidden_;
        moves.ends_pass = through && last_half;
        // After the end of a slice, room for another one is known a cycle later.
        const bool slice = last_half && pass.closes && pass.leaves;
        const half_t next_half = last_half ? static_cast<half_t>(0) : static_cast<half_t>(half_ + 1);
        const bool hides = pass.single && !last_half;
        const bool begins = takes && complete_[static_cast<int>(half_)];
        const bool follows = takes && halves > 1 && complete_[static_cast<int>(next_half)] && !slice;
        const bool before_last = clock_ == clocks - 2;
        if (sends_) {
            shows_ = last_clock_ ? !hides : clock_ < Config::rows - 1;
            clock_ = last_clock_ ? static_cast<clock_t>(0) : static_cast<clock_t>(clock_ + 1);
            last_clock_ = last_clock_ ? hides : before_last;
        }
        sends_ = !sends_ ? begins : through ? follows : true;
        if (through) {
            hidden_ = hides;
            half_ = next_half;
            group_ = last_half && pass.leaves ? static_cast<typename Row::group_t>(0)
                                              : static_cast<typename Row::group_t>(group_ + 1);
        }
        return moves;
    }

    // The finished sums of a pair of rows, in a cycle in which its group is not shut.
    void keep(int group, int pair, const kept_t& sums) {
#pragma HLS INLINE
        finished_[group % columns].set(group / columns * T::pairs + pair, sums);
    }

    // One cycle, after `send`: whether the groups finish.
    void step(const Moves& moves, const bool (&finishes)[T::groups]) {
#pragma HLS INLINE
    Halves_Step:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            bool all = true;
        Columns_Step:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                const int g = h * columns + i;
                all = all && there_[g];
                there_[g] = finishes[g] || (there_[g] && !moves.sent[h]);
            }
            complete_[h] = all && !moves.sent[h];
        }
    }

   private:
    static constexpr int row_bits = bit_length(Config::rows - 1);

    void show(Row& row) const {
#pragma HLS INLINE
        const int pair = static_cast<int>(row.row) / 2;
        const bool odd = (row.row & 1) != 0;
    Columns_Send:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            int_t<Config::accumulator_bits> low = 0;
            int_t<Config::accumulator_bits> high = 0;
            Pair::read(finished_[i].get(static_cast<int>(half_) * T::pairs + pair), low, high);
            row.sums.sum[i] = odd ? high : low;
        }
    }

    // The first column gets the sums of those that have a lane of its pixel, if any; these have no pixel.
    static void add_lanes(bool apart, Row& row) {
#pragma HLS INLINE
        int_t<Config::accumulator_bits> others = 0;
    Lanes_Add:
        for (int l = 1; l < (T::may_be_apart ? Config::lanes : 0); ++l) {
#pragma HLS UNROLL
            others = static_cast<int_t<Config::accumulator_bits>>(others + row.sums.sum[l]);
            row.sums.sum[l] = apart ? static_cast<int_t<Config::accumulator_bits>>(0) : row.sums.sum[l];
        }
        const int_t<Config::accumulator_bits> added = apart ? others : static_cast<int_t<Config::accumulator_bits>>(0);
        row.sums.sum[0] = static_cast<int_t<Config::accumulator_bits>>(row.sums.sum[0] + added);
    }

    using Finished = typename Storage::RegisterSets::template Set<kept_t, halves * T::pairs>;

    Finished finished_[columns];
    // Of a group: its sums are there; of a half: those of all its groups were, a cycle ago
    bool there_[T::groups];
    bool complete_[halves];
    // Whose turn it is: the half, the group of the run, the cycle of it, whether that has a row
    half_t half_;
    typename Row::group_t group_;
    clock_t clock_;
    bool last_clock_, shows_;
    bool sends_;   // its sums leave
    bool hidden_;  // it has no pixels
};

}  // namespace bfpga
