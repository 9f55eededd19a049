// One group of an array that skips zeros of activations: an activation a cycle times the weights of all rows.
//
// The current word issues its nonzero lanes, lowest first. Two more words are prefetched from the queue, so that the
// memory of the queue has a cycle of its own.
#pragma once
#include "bfpga/processes/skip_array/pass_forwarder.hpp"
#include "bfpga/processes/skip_array/wide_weights.hpp"

namespace bfpga {

template <class Config, class Storage>
class SparseGroup {
    using T = SparseTypes<Config>;
    using Forwarder = PassForwarder<Config, Storage>;
    using Queues = ActivationQueues<Config>;
    using Own = ActivationWord<Config>;
    using lane_t = typename WideWeights<Config>::lane_t;
    using count_t = uint_t<bit_length(Config::skip_queue)>;
    static constexpr int lanes = Config::lanes;

   public:
    SparseGroup() {
#pragma HLS ARRAY_PARTITION variable=arrived_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=mask_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=sums_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=pending_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=uses_ complete dim=0
        // Weights of the next start may be there before this one has ended.
        buffer_ = false;
        ready_ = false;
    Buffers_Clear:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            uses_[b] = false;
        }
    }

    void clear() {
#pragma HLS INLINE
        to_ = 0;
        from_ = 0;
        count_ = 0;
        any_ = false;
        waits_ = false;
        next_there_ = false;
        there_ = false;
        one_ = false;
        three_ = false;
        ends_ = false;
        begins_ = true;
        segment_ = 0;
    Clocks_Clear:
        for (int k = 0; k < skip_guard; ++k) {
#pragma HLS UNROLL
            arrived_[k] = false;
        }
    Segments_Clear:
        for (int s = 0; s < T::segments; ++s) {
#pragma HLS UNROLL
            pending_[s] = false;
        }
    }

    // Whether it needs a buffer of weights; whether it has a segment before it.
    bool uses(int buffer) const { return uses_[buffer]; }
    bool pending(int segment) const { return pending_[segment]; }

    // A word comes, if `writes`.
    void take(Queues& queues, int number, bool writes, const Own& word) {
#pragma HLS INLINE
        if (writes) {
            queues.write(number, to_, word.pack());
            to_ = Queues::behind(to_);
        }
    Clocks_Take:
        for (int k = skip_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            arrived_[k] = arrived_[k - 1];
        }
        arrived_[0] = writes;
    }

    // A cycle: multiplies an activation, if there is one, its weights are there and, at an end, the forwarder is free.
    // `loaded`: of each buffer of weights, whether it can be read from now on; `begins`: of each segment, whether its
    // first word comes. Returns whether the sums of a pass have ended.
    bool step(const Queues& queues, const WideWeights<Config>& weights, Forwarder& forwarder, int number,
              const bool (&loaded)[2], const bool (&begins)[T::segments]) {
#pragma HLS INLINE
        const bool one = one_;
        const bool was_there = there_;
        const bool there = ready_ & there_;
        const bool held = ends_ && forwarder.shut(number);
        const bool fires = there & !held;
        const bool ends_word = fires && one_;
        const bool finishes = fires && ends_;
        const bool moves = fires ? one_ : !there_;
        if (fires || !native_integers) {  // a simulation saves the time
            multiply(weights, forwarder, number, fires, finishes);
        }
        leave(ends_word, fires, loaded, begins);
        go_on(fires, moves);
        fetch(queues, number, fires, moves, one, was_there);
        return finishes;
    }

   private:
    // Adds value * weights in all rows, to zero where a pass begins. What does not fire adds zero, so that the sums
    // need no bypass of the adder.
    void multiply(const WideWeights<Config>& weights, Forwarder& forwarder, int number, bool fires, bool finishes) {
#pragma HLS INLINE
        lane_t lane = 0;
        typename T::mantissa_t value = 0;
        bool found = false;
    Lanes_Choose:
        for (int l = lanes - 1; l >= 0; --l) {
#pragma HLS UNROLL
            lane = mask_[l] ? static_cast<lane_t>(l) : lane;
            value = mask_[l] ? word_.lane[l] : value;
            found = found || mask_[l];
        }
        const typename T::mantissa_t factor = fires && found ? value : static_cast<typename T::mantissa_t>(0);
        const WideWord<Config> word =
            weights.read(number, WideWeights<Config>::address(buffer_, word_.step, lane), fires && found);
        const bool begins = fires && begins_;
    Pairs_Multiply:
        for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
            sums_[p].accumulate(word.pair[p], factor, begins);
            if (finishes) {
                forwarder.keep(number, p, sums_[p].kept());
            }
        }
        begins_ = fires ? ends_ : begins_;
    }

    // What the group has done with a segment, or with the weights of a chunk.
    void leave(bool ends_word, bool fires, const bool (&loaded)[2], const bool (&begins)[T::segments]) {
#pragma HLS INLINE
        const bool ends_segment = ends_word && word_.ends_segment;
        const bool may_end = ends_ && word_.leaves;
        const bool ends_chunk = fires & may_end;
    Segments_Leave:
        for (int s = 0; s < T::segments; ++s) {
#pragma HLS UNROLL
            simulation_check(!begins[s] || !pending_[s], "a group", "has no room for a segment; segment", s);
            pending_[s] = begins[s] || (pending_[s] && !(ends_segment && segment_ == s));
        }
        segment_ = ends_segment ? T::next_segment(segment_) : segment_;
        const bool own = loaded[buffer_ ? 1 : 0] || uses_[buffer_ ? 1 : 0];
        const bool other = loaded[buffer_ ? 0 : 1] || uses_[buffer_ ? 0 : 1];
        ready_ = ends_chunk ? other : own;
    Buffers_Leave:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            uses_[b] = loaded[b] || (uses_[b] && !(ends_chunk && buffer_ == (b == 1)));
        }
        buffer_ = buffer_ != ends_chunk;
    }

    // To the next lane of the word, or to the next word. What fires decides comes last.
    void go_on(bool fires, bool moves) {
#pragma HLS INLINE
        const Own behind = Own::unpack(next_);
        const bool one_behind = behind.one;
        const bool ends_behind = behind.one && behind.last;
        const bool one_next = !three_;
        const bool ends_next = one_next && word_.last;
        const bool one_fired = one_ ? one_behind : one_next;
        const bool ends_fired = one_ ? ends_behind : ends_next;
        const bool one_else = there_ ? one_ : one_behind;
        const bool ends_else = there_ ? ends_ : ends_behind;
        const bool three_fired = one_ ? behind.three : all();
        const bool three_else = there_ ? three_ : behind.three;
        one_ = fires ? one_fired : one_else;
        three_ = fires ? three_fired : three_else;
        ends_ = fires ? ends_fired : ends_else;
        if (moves) {
            there_ = next_there_;
            word_ = behind;
        Lanes_Begin:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                mask_[l] = behind.mask[l];
            }
        } else if (fires) {
            clear_lowest();
        }
    }

    // Whether more than two lanes remain after this one, of four at most.
    bool all() const {
#pragma HLS INLINE
        static_assert(lanes <= 4, "a word has four channels at most");
        bool all = lanes == 4;
    Lanes_All:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            all = all && mask_[l];
        }
        return all;
    }

    void clear_lowest() {
#pragma HLS INLINE
        bool before = false;
    Lanes_Clear:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const bool there = mask_[l];
            mask_[l] = there && before;
            before = before || there;
        }
    }

    // The prefetched words move up, and another one leaves the queue if a register was free in the cycle before: two of
    // three cycles bring one.
    void fetch(const Queues& queues, int number, bool fires, bool moves, bool one, bool there) {
#pragma HLS INLINE
        const bool comes = arrived_[skip_guard - 1];
        const bool more = count_ > 1;
        const bool some = count_ != 0;
        const bool fetches = any_ && !(waits_ && next_there_);
        const bool moves_up = !next_there_ || moves;
        const typename Own::code_t found = queues.read(number, from_, fetches);
        if (moves_up) {
            next_ = waiting_;
        }
        if (fetches) {
            waiting_ = found;
        }
        // If the next word goes, and if it stays; what fires decides last.
        const bool waits_gone = fetches;
        const bool waits_else = fetches || (waits_ && next_there_);
        const bool next_gone = waits_;
        const bool next_else = waits_ || next_there_;
        const bool waits_fired = one ? waits_gone : waits_else;
        const bool waits_not = there ? waits_else : waits_gone;
        const bool next_fired = one ? next_gone : next_else;
        const bool next_not = there ? next_else : next_gone;
        waits_ = fires ? waits_fired : waits_not;
        next_there_ = fires ? next_fired : next_not;
        simulation_check(count_ < Config::skip_queue || !comes, "a group", "has no room for a word; words:", count_);
        count_ = comes == fetches ? count_ : static_cast<count_t>(comes ? count_ + 1 : count_ - 1);
        any_ = comes || (fetches ? more : some);
        from_ = fetches ? Queues::behind(from_) : from_;
    }

    // The queue
    typename Queues::place_t to_, from_;
    bool arrived_[skip_guard];  // [k]: k + 1 cycles before a word has come
    count_t count_;
    bool any_;
    // The prefetched words, the second one and the next one, and the current one: its remaining lanes; whether only one
    // is left, whether more than two are, whether the sums end with the lane
    bool waits_, next_there_, there_;
    typename Own::code_t waiting_, next_;
    Own word_;
    bool mask_[lanes];
    bool one_, three_, ends_;
    // The sums
    bool begins_;
    PairSums<Config::accumulator_bits, Config::skip_chunk> sums_[T::pairs];
    // Segments that are not done; the one of the next activation
    bool pending_[T::segments];
    typename T::segment_t segment_;
    // Buffers of weights that it has not left; the one that it reads next, and whether it may
    bool uses_[2];
    bool buffer_, ready_;
};

}  // namespace bfpga
