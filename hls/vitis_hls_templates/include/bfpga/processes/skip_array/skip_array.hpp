// The process of the skip array, which replaces the array: groups that multiply by one entry a cycle each, so that
// zeros take no time.
//
// A pass is the pixels of all lanes. Its window comes from the scratchpad in chunks, entries come to each group
// separately; a group works on one kernel after the other, and the sums buffer adds a kernel's sums of each chunk. Sums
// leave in the order of the output's rows, whichever group has computed them. A chunk whose words all groups have used
// returns a credit: the scratchpad sends a chunk only with one, so the process accepts every operand without a stall,
// even if its sums are not taken.
#pragma once
#include "bfpga/processes/skip_array/chunk_marks.hpp"
#include "bfpga/processes/skip_array/entry.hpp"
#include "bfpga/processes/skip_array/group.hpp"
#include "bfpga/processes/skip_array/sums_buffer.hpp"

namespace bfpga {

template <class Config, class Storage, class Source = StoredEntries<Config>>
class SkipArrayProcess {
    using Operands = OperandBeat<Config>;
    using Sums = SumBeat<Config>;
    using Forwarder = SumForwarder<Config, Storage>;
    using T = WindowTypes<Config>;
    static constexpr int groups = Config::skip_groups;
    static constexpr int halves = Config::skip_halves;
    using half_t = uint_t<bit_length(halves)>;
    using address_t = typename T::address_t;

   public:
    SkipArrayProcess() {
#pragma HLS ARRAY_PARTITION variable=group_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=half_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=loading_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=base_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_before_ complete dim=0
    }

    // Computes until a `stop` beat has come and all sums have left. `entries`: a stream for each group.
    template <class... Entries>
    void run(stream<wire_t<Operands>>& operands, stream<wire_t<Sums>>& sums, stream<bool>& windows,
             Entries&... entries) {
#pragma HLS INLINE
        static_assert(sizeof...(Entries) == groups, "every group has a stream of entries");
        clear();
        bool running = true;
        PipelinedLoop loop("Skip");
    Skip:
        while (running) {
// II=1: a sum takes one addition; flags and counters are registers that a few of them decide; what is written to a
// memory is read `skip_guard` cycles later.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Operands& beat = held_.beat();
            const bool stops = held_.there() && beat.stop;
            const bool takes = held_.there() && !beat.stop && half_[static_cast<int>(turn_)].free();
            const bool ends_chunk = takes && beat.fires && beat.last && last_half();
            running = !ended_;
            ended_ = stops && chunks_.empty() && sums_.idle();
            bool loaded[T::chunks];
#pragma HLS ARRAY_PARTITION variable=loaded complete dim=0
            bool finishes[groups];
#pragma HLS ARRAY_PARTITION variable=finishes complete dim=0
            bool ends[groups];
#pragma HLS ARRAY_PARTITION variable=ends complete dim=0
            const ChunkMarks leaving = chunks_.first();
            KernelSums<Config> kernel = {};
            const typename Forwarder::Moves moves = forwarder_.send(sums_.takes(leaving), leaving.single, kernel);
            sums_.step(kernel, leaving, left_, sums);
            guard(loaded);
            step_groups<0>(loaded, finishes, ends, entries...);
            forwarder_.step(moves, finishes, ends);
            write(takes);
            give_back(windows);
            const ChunkMarks marks = {beat.opens, beat.closes, beat.single, false, false};
            chunks_.step(left_, ends_chunk, marks);
            left_ = moves.closes;
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
        chunks_.clear();
        left_ = false;
        ended_ = false;
        turn_ = 0;
    Groups_Clear:
        for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
            group_[g].clear();
        }
    Halves_Clear:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            half_[h].clear();
        }
        comes_ = 0;
        loads_ = 0;
        begin_ = 0;
        last_base_ = 0;
    Chunks_Clear:
        for (int c = 0; c < T::chunks; ++c) {
#pragma HLS UNROLL
            used_[c] = false;
            used_before_[c] = false;
            base_[c] = 0;
        }
    Clocks_Clear:
        for (int k = 0; k < skip_guard; ++k) {
#pragma HLS UNROLL
            loading_[k] = false;
        }
    }

    // Which chunk has been complete for so long that it can be read.
    void guard(bool (&loaded)[T::chunks]) {
#pragma HLS INLINE
        const bool readable = loading_[skip_guard - 1];
    Chunks_Guard:
        for (int c = 0; c < T::chunks; ++c) {
#pragma HLS UNROLL
            loaded[c] = readable && loads_ == c;
        }
        if (readable) {
            loads_ = T::next(loads_);
        }
    Clocks_Guard:
        for (int k = skip_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            loading_[k] = loading_[k - 1];
        }
        bool complete = false;
    Halves_Guard:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            complete = complete || half_[h].completes();
        }
        loading_[0] = complete;
    }

    // Whether the beat is for the last half that its pass has.
    bool last_half() const { return held_.beat().single || turn_ == halves - 1; }

    template <int G, class First, class... Others>
    void step_groups(const bool (&loaded)[T::chunks], bool (&finishes)[groups], bool (&ends)[groups], First& entries,
                     Others&... others) {
#pragma HLS INLINE
        group_[G].step(window_, forwarder_, G, loaded, base_, entries, finishes[G], ends[G]);
        step_groups<G + 1>(loaded, finishes, ends, others...);
    }

    template <int G>
    void step_groups(const bool (&)[T::chunks], bool (&)[groups], bool (&)[groups]) {
#pragma HLS INLINE
    }

    // What the halves write, then the beat that one of them takes.
    void write(bool takes) {
#pragma HLS INLINE
        const Operands& beat = held_.beat();
        const bool alone = half_[0].completes();
    Halves_Write:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
            half_[h].step(window_, h);
            if (h > 0 && alone) {
                half_[h].pass_over(half_[0].address());
            }
            if (takes && turn_ == h) {
                half_[h].take(beat, last_half());
            }
        }
        // Halves before the last one may have gone on.
        if (loading_[0]) {
            keep_base(half_[halves - 1].address());
        }
        // Set after the end of the chunk before, whose last word may be written in this cycle.
        slides_ = takes && last_half() ? beat.slides : slides_;
        if (takes && beat.fires) {
            turn_ = last_half() ? static_cast<half_t>(0) : static_cast<half_t>(turn_ + 1);
        }
    }

    // The chunk that has come ends before `end`. One that slides keeps the window of the chunk before, but for as many
    // words as it has.
    void keep_base(address_t end) {
#pragma HLS INLINE
        const address_t words = T::between(begin_, end);
        const address_t base = slides_ ? T::behind(last_base_, words) : begin_;
        base_[static_cast<int>(comes_)] = base;
        last_base_ = base;
        begin_ = end;
        comes_ = T::next(comes_);
    }

    // A credit for a chunk that no group needs any more. No two become free in a cycle: a group ends one at a time.
    void give_back(stream<bool>& windows) {
#pragma HLS INLINE
        bool freed = false;
    Chunks_Free:
        for (int c = 0; c < T::chunks; ++c) {
#pragma HLS UNROLL
            freed = freed || (used_before_[c] && !used_[c]);
            used_before_[c] = used_[c];
            bool used = false;
        Groups_Use:
            for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
                used = used || group_[g].pending(c);
            }
            used_[c] = used;
        }
        if (freed) {
            windows.write(true);
        }
    }

    HeldBeat<Operands> held_;
    WindowMemory<Config> window_;
    HalfWriter<Config> half_[halves];
    half_t turn_;                        // the half whose word comes next
    bool loading_[skip_guard];           // [k]: a chunk was complete k cycles before
    typename T::chunk_t comes_, loads_;  // the chunk that comes; that can be read next
    address_t base_[T::chunks];          // where the window of each begins
    address_t begin_, last_base_;        // where the words that come begin; the window of the chunk before
    bool slides_;                        // the chunk that comes does
    bool used_[T::chunks], used_before_[T::chunks];
    SkipGroup<Config, Storage, Source> group_[groups];
    Forwarder forwarder_;
    // One chunk leaves when those after it fill the windows.
    ChunkQueue<T::chunks + 1> chunks_;
    bool left_;   // the first of them, in the cycle before
    bool ended_;  // all that came before the stop has left
    SumsBuffer<Config> sums_;
};

}  // namespace bfpga
