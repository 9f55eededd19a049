// The forwarder of the skip array: finished sums wait here for the sums buffer, while their groups go on.
//
// Sums leave in rounds: the first kernel of each group, then the second of each group that has one. A group whose chunk
// has ended has none; as no group has more kernels than the one before it, the round ends there. The chunk has left
// when all groups have ended it, and nothing of the next one is stored earlier.
#pragma once
#include "bfpga/processes/skip_array/entry.hpp"
#include "bfpga/processes/skip_array/pair_sums.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// The sums of a pair of lanes for a kernel in one chunk, in which it has a value for each wide word at most.
template <class Config>
using KernelPair = PairSums<Config::accumulator_bits, Config::skip_chunk>;

// What leaves in a cycle, if anything: sums of one half of a finished kernel, and the row that they are for.
template <class Config>
struct KernelSums {
    using half_t = uint_t<bit_length(Config::skip_halves)>;
    using row_t = typename Entry<Config>::position_t;

    bool there;
    half_t half;
    row_t row;  // counted from one
    SumBeat<Config> sums;
};

template <class Config, class Storage>
class SumForwarder {
    using Pair = KernelPair<Config>;
    using Kernel = KernelSums<Config>;
    using half_t = typename Kernel::half_t;
    static constexpr int groups = Config::skip_groups;
    static constexpr int halves = Config::skip_halves;
    static constexpr int pairs = Config::columns / 2;
    using group_t = uint_t<bit_length(groups)>;

   public:
    using row_t = typename Kernel::row_t;
    using kept_t = typename Pair::kept_t;

    // What leaves in a cycle: the group whose last sums do, and the end of a chunk.
    struct Moves {
        bool sent[groups];
        bool closes;
    };

    SumForwarder() {
#pragma HLS ARRAY_PARTITION variable=finished_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=there_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=over_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
    Groups_Clear:
        for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
            there_[g] = false;
            over_[g] = false;
        }
        all_over_ = false;
        group_ = 0;
        half_ = 0;
    }

    // Whether a group can finish neither a kernel nor a chunk.
    bool shut(int group) const { return there_[group] || over_[group]; }

    // Sends the sums whose turn it is, if they are valid and the sink is ready. `single`: half 0 is all.
    Moves send(bool takes, bool single, Kernel& kernel) {
#pragma HLS INLINE
        const bool there = there_[static_cast<int>(group_)] && takes;
        const bool wraps = !there_[static_cast<int>(group_)] && over_[static_cast<int>(group_)];
        const bool last_half = single || half_ == halves - 1;
        kernel.there = there;
        kernel.half = half_;
        kernel.row = row_[static_cast<int>(group_)];
        if (there || !native_integers) {  // a simulation saves the time
        Pairs_Send:
            for (int p = 0; p < pairs; ++p) {
#pragma HLS UNROLL
                const kept_t kept = finished_[p].get(static_cast<int>(group_) * halves + static_cast<int>(half_));
                Pair::read(kept, kernel.sums.sum[2 * p], kernel.sums.sum[2 * p + 1]);
            }
        }
        Moves moves;
    Groups_Sent:
        for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
            moves.sent[g] = there && last_half && group_ == g;
        }
        moves.closes = wraps && group_ == 0 && all_over_;
        const bool last_group = group_ == groups - 1;
        const group_t next = last_group ? static_cast<group_t>(0) : static_cast<group_t>(group_ + 1);
        group_ = there && last_half ? next : wraps ? static_cast<group_t>(0) : group_;
        half_ = !there ? half_ : last_half ? static_cast<half_t>(0) : static_cast<half_t>(half_ + 1);
        return moves;
    }

    // The finished sums of a pair of lanes, in a cycle in which its group is not shut.
    void keep(int group, int half, int pair, const kept_t& sums) {
#pragma HLS INLINE
        finished_[pair].set(group * halves + half, sums);
    }

    // The row of the sums, in the same cycle.
    void keep_row(int group, row_t row) {
#pragma HLS INLINE
        row_[group] = row;
    }

    // One cycle, after `send`: whether the groups finish a kernel, or their chunk.
    void step(const Moves& moves, const bool (&finishes)[groups], const bool (&ends)[groups]) {
#pragma HLS INLINE
        bool all = true;
    Groups_Step:
        for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
            all = all && over_[g];
            there_[g] = finishes[g] || (there_[g] && !moves.sent[g]);
            over_[g] = ends[g] || (over_[g] && !moves.closes);
        }
        all_over_ = all;
    }

   private:
    using Finished = typename Storage::RegisterSets::template Set<kept_t, groups * halves>;

    Finished finished_[pairs];
    row_t row_[groups];
    // Of a group: its sums are there; its chunk has ended
    bool there_[groups], over_[groups];
    bool all_over_;  // a cycle ago
    // Whose turn it is
    group_t group_;
    half_t half_;
};

}  // namespace bfpga
