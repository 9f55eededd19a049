// The process of an array that skips zeros of activations, which replaces the array: each output pixel of a pass has
// its own group, which multiplies by one activation a cycle, for all rows at once, so that zeros take no time.
//
// Output channels are cut into slices of `rows`, pixels into runs of up to `skip_passes` passes, windows into chunks.
// The weights of a chunk of a slice come once for all passes of a run and are held by every group
// (skip/wide_weights.hpp); the activations of a pass come step by step, half by half, and the nonzero ones wait in a
// queue for each group (skip/activation_words.hpp). The sums buffer accumulates the chunks of a slice, which drains
// when complete. An operation of one pixel has a group for each lane of its words instead, and a weight word comes in
// one cycle: the sums of these groups are added where they leave them. A segment of steps that all groups have finished
// returns a credit: the scratchpad sends one only with a credit, so the process accepts every operand without a stall,
// even if its sums are not taken or weights are late.
#pragma once
#include "bfpga/processes/skip_array/slice_sums.hpp"
#include "bfpga/processes/skip_array/sparse_group.hpp"

namespace bfpga {

template <class Config, class Storage>
class SparseArrayProcess {
    using Operands = OperandBeat<Config>;
    using Weights = WeightBeat<Config>;
    using Sums = SumBeat<Config>;
    using Forwarder = PassForwarder<Config, Storage>;
    using T = SparseTypes<Config>;
    static constexpr int columns = Config::columns;
    static constexpr int lanes = Config::lanes;
    static constexpr int halves = Config::skip_halves;
    static_assert(Config::skip_groups == T::groups, "each pixel of a pass has a group");
    using half_t = uint_t<bit_length(halves)>;

   public:
    SparseArrayProcess() {
#pragma HLS ARRAY_PARTITION variable=group_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_before_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=needs_ complete dim=0
    Buffers_Clear:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            needs_[b] = false;
        }
    }

    // Computes until a `stop` beat has come and all sums have left.
    void run(stream<wire_t<Operands>>& operands, stream<wire_t<Weights>>& weight_words, stream<wire_t<Sums>>& sums,
             stream<bool>& windows) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Sparse");
    Sparse:
        while (running) {
// II=1: a sum takes one addition in its DSP block; flags and counters are registers that a few of them decide; what is
// written to a memory is read `skip_guard` cycles later.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Operands& beat = held_.beat();
            const bool stops = held_.there() && beat.stop;
            const bool takes = held_.there() && !beat.stop;
            running = !ended_;
            ended_ = stops && passes_.empty() && sums_.idle();
            bool loaded[2];
#pragma HLS ARRAY_PARTITION variable=loaded complete dim=0
            bool begins[T::segments];
#pragma HLS ARRAY_PARTITION variable=begins complete dim=0
            bool finishes[T::groups];
#pragma HLS ARRAY_PARTITION variable=finishes complete dim=0
            const ChunkMarks leaving = passes_.first();
            RowSums<Config> row;
            const typename Forwarder::Moves moves = forwarder_.send(sums_.takes(), leaving, row);
            sums_.step(row, leaving, moves.ends_group, moves.ends_pass, sums);
            spreader_.loaded(loaded);
            begin_segment(begins);
        Groups_Step:
            for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
                finishes[g] = group_[g].step(queues_, weights_, forwarder_, g, loaded, begins);
            }
            // After the reads of the groups, which need none of its words yet.
            spreader_.step(weights_, needs_, weight_words);
            forwarder_.step(moves, finishes);
            queue();
            give_back(windows);
            take(takes);
            const bool ends_pass = takes && beat.fires && beat.last && last_half();
            const ChunkMarks marks = {beat.opens, beat.closes, beat.single, beat.leaves, beat.apart};
            passes_.step(moves.ends_pass, ends_pass, marks);
            if (takes || !held_.there()) {
                held_.next(operands);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        held_.drop();
        forwarder_.clear();
        sums_.clear();
        passes_.clear();
        ended_ = false;
        turn_ = 0;
        step_ = 0;
        comes_ = 0;
        complete_ = false;
        fired_ = true;
    Groups_Clear:
        for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
            group_[g].clear();
        }
    Segments_Clear:
        for (int s = 0; s < T::segments; ++s) {
#pragma HLS UNROLL
            used_[s] = false;
            used_before_[s] = false;
        }
    }

    // Whether the beat that is held is for the last half that its pass has.
    bool last_half() const { return held_.beat().single || turn_ == halves - 1; }

    // Whether a column has the word of the first one, of an operation whose lanes are apart.
    bool shares(int column) const { return T::may_be_apart && column < lanes && held_.beat().apart; }

    // The words of the beat that is held; with the last slot of a step all of them are there. A column that no beat
    // has a word for has zeros.
    void take(bool takes) {
#pragma HLS INLINE
        const Operands& beat = held_.beat();
        if (takes) {
        Columns_Take:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                const bool shared = shares(i);
                if (shared && beat.mine[0]) {
                    word_[i] = beat.word[0];
                } else if (!shared && beat.mine[i]) {
                    word_[i] = beat.word[i];
                } else if (fired_) {
                    word_[i] = Word<Config>::zero();
                }
            }
            fired_ = beat.fires;
            simulation_check(!beat.fires || beat.first == (step_taken_ == 0), "what a pass reads of a chunk",
                             "begins somewhere else than its first step; step", step_taken_);
        }
        const bool fires = takes && beat.fires;
        complete_ = fires;
        half_ = turn_;
        last_half_ = last_half();
        single_ = beat.single;
        last_ = beat.last;
        leaves_ = beat.leaves;
        apart_ = T::may_be_apart && beat.apart;
        if (fires) {
            turn_ = last_half_ ? static_cast<half_t>(0) : static_cast<half_t>(turn_ + 1);
            step_taken_ = !last_half_ ? step_taken_ : last_ ? 0 : step_taken_ + 1;
        }
    }

    // Whether the word that is complete begins a segment: that of all groups.
    void begin_segment(bool (&begins)[T::segments]) const {
#pragma HLS INLINE
    Segments_Begin:
        for (int s = 0; s < T::segments; ++s) {
#pragma HLS UNROLL
            begins[s] = complete_ && half_ == 0 && T::begins_segment(step_) && comes_ == s;
        }
    }

    // The complete word goes to the queues of its half, as far as it is nonzero, or something ends with it. Groups of a
    // half without pixels receive ends alone.
    void queue() {
#pragma HLS INLINE
        const bool ends_segment = last_ || T::ends_segment(step_);
    Columns_Queue:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            ActivationWord<Config> word;
            word.step = step_;
            word.ends_segment = ends_segment;
            word.last = last_;
            word.leaves = leaves_;
            bool any = false;
            bool two = false;
            bool three = false;
        Lanes_Queue:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                word.lane[l] = word_[i].lane[l];
                // Of lanes that are apart a group has its own.
                const bool serves = !apart_ || l == i;
                word.mask[l] = serves && word.lane[l] != 0;
                three = three || (two && word.mask[l]);
                two = two || (any && word.mask[l]);
                any = any || word.mask[l];
            }
            word.one = !two;
            word.three = three;
            ActivationWord<Config> none = word;
            none.one = true;
            none.three = false;
        Lanes_None:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                none.mask[l] = false;
            }
        Halves_Queue:
            for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
                const bool own = half_ == h;
                const bool hears = complete_ && (own || single_);
                const bool writes = hears && (ends_segment || (own && any));
                group_[h * columns + i].take(queues_, h * columns + i, writes, own ? word : none);
            }
        }
        if (complete_ && last_half_) {
            step_ = last_ ? static_cast<typename T::step_t>(0) : T::next(step_);
            comes_ = ends_segment ? T::next_segment(comes_) : comes_;
        }
    }

    // A credit for a segment that all groups have finished. No two become free in a cycle: a group ends one at a time.
    void give_back(stream<bool>& windows) {
#pragma HLS INLINE
        bool freed = false;
    Segments_Free:
        for (int s = 0; s < T::segments; ++s) {
#pragma HLS UNROLL
            freed = freed || (used_before_[s] && !used_[s]);
            used_before_[s] = used_[s];
            bool used = false;
        Groups_Pend:
            for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
                used = used || group_[g].pending(s);
            }
            used_[s] = used;
        }
    Buffers_Need:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            bool needs = false;
        Groups_Need:
            for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
                needs = needs || group_[g].uses(b);
            }
            needs_[b] = needs;
        }
        if (freed) {
            windows.write(true);
        }
    }

    HeldBeat<Operands> held_;
    // The words of a half of a step as they come; whether the last beat completed one
    Word<Config> word_[columns];
    bool fired_;
    half_t turn_;         // the half whose word comes next
    int step_taken_ = 0;  // for checks alone
    // The word that was complete in the cycle before: what it is, its step, the segment that comes
    bool complete_, last_half_, single_, last_, leaves_, apart_;
    half_t half_;
    typename T::step_t step_;
    typename T::segment_t comes_;
    bool used_[T::segments], used_before_[T::segments];  // segments that a group is not done with
    bool needs_[2];                                      // buffers of weights that a group has not left
    ActivationQueues<Config> queues_;
    WideWeights<Config> weights_;
    WeightSpreader<Config> spreader_;
    SparseGroup<Config, Storage> group_[T::groups];
    Forwarder forwarder_;
    // Credits are back before sums have left: of two passes besides those that wait in the queues.
    ChunkQueue<T::segments + 2> passes_;
    bool ended_;  // all that came before the stop has left
    SliceSums<Config> sums_;
};

}  // namespace bfpga
