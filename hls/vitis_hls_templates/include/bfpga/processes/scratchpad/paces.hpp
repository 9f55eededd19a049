// Minimum durations, and the number of passes in flight.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// A duration of at least `limit` (1 or more) steps; `reached()`: it may end with the next step.
template <int N>
class Pace {
   public:
    bool reached() const { return reached_; }

    // Counts when it has been restarted.
    void set(uint_t<N> limit) {
#pragma HLS INLINE
        set(limit, limit == 1);
    }

    // As above; `one`: there is nothing to count, whatever the limit.
    void set(uint_t<N> limit, bool one) {
#pragma HLS INLINE
        limit_ = limit;
        one_ = one;
    }

    // One cycle; `enable`: with a step. `restart`, after a step, or `starts`: from the first one again.
    void step(bool enable, bool restart, bool starts) {
#pragma HLS INLINE
        const bool next = reached_ | (enable & (left_ == 2));
        const uint_t<N> less = static_cast<uint_t<N>>(left_ - 1);
        reached_ = (restart | starts) ? one_ : next;
        left_ = (restart | starts) ? limit_ : enable ? less : left_;
    }

   private:
    uint_t<N> limit_, left_;
    bool one_, reached_;
};

// A count of at most `limit` that changes by one at a time: one flag for each number.
template <int LIMIT>
class FlaggedCount {
   public:
    static constexpr int limit = LIMIT;

    FlaggedCount() {
#pragma HLS ARRAY_PARTITION variable=are_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
    Numbers_Clear:
        for (int n = 0; n <= limit; ++n) {
#pragma HLS UNROLL
            are_[n] = n == 0;
        }
    }

    bool is(int number) const { return are_[number]; }
    bool any() const { return !are_[0]; }

    // One cycle; `comes`: one more does; `goes`: one of them does.
    void step(bool comes, bool goes) {
#pragma HLS INLINE
        bool next[limit + 1];
#pragma HLS ARRAY_PARTITION variable=next complete dim=0
    Numbers_Count:
        for (int n = 0; n <= limit; ++n) {
#pragma HLS UNROLL
            const bool fewer = n > 0 && are_[n > 0 ? n - 1 : 0];
            const bool more = n < limit && are_[n < limit ? n + 1 : limit];
            next[n] = comes == goes ? are_[n] : comes ? fewer : more;
        }
    Numbers_Keep:
        for (int n = 0; n <= limit; ++n) {
#pragma HLS UNROLL
            are_[n] = next[n];
        }
    }

   private:
    bool are_[limit + 1];
};

// Passes that have begun and whose results have not come: the stream of results bounds them.
class AwaitedPasses {
    using Count = FlaggedCount<ProcessLimits::awaited_passes>;

   public:
    void clear() { count_.clear(); }

    bool any() const { return count_.any(); }
    // Whether there is one; `begun`: besides those that are counted, another one is.
    bool lone(bool begun) const {
#pragma HLS INLINE
        const bool none = count_.is(0);
        const bool one = count_.is(1);
        return begun ? none : one;
    }
    // Whether another one has no room; `begun` as above.
    bool most(bool begun) const {
#pragma HLS INLINE
        const bool all = count_.is(Count::limit);
        const bool last = count_.is(Count::limit - 1);
        return all | (last & begun);
    }
    // Whether fewer than three could be added; `begun` as above.
    bool nearly_most(bool begun) const {
#pragma HLS INLINE
        const bool none = count_.is(Count::limit);
        const bool one = count_.is(Count::limit - 1);
        const bool two = count_.is(Count::limit - 2);
        const bool three = count_.is(Count::limit - 3);
        return (none | one | two) | (three & begun);
    }

    // One cycle; `begun`: a pass has; `returned`: the results of one have come.
    void step(bool begun, bool returned) { count_.step(begun, returned); }

   private:
    Count count_;
};

}  // namespace bfpga
