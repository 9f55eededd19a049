// Counters whose end is known a step before it comes: a decision is an AND of registers.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Counts `limit` (1 or more) steps, again and again; `last()`: the step that comes is the last of them.
template <int N>
class Down {
   public:
    bool last() const { return last_; }

    void start(uint_t<N> limit) {
#pragma HLS INLINE
        limit_ = limit;
        one_ = limit == 1;
        restart();
    }

    void restart() {
#pragma HLS INLINE
        left_ = limit_;
        last_ = one_;
    }

    void step(bool enable) {
#pragma HLS INLINE
        const bool next = last_ ? one_ : left_ == 2;
        const uint_t<N> fewer = last_ ? limit_ : static_cast<uint_t<N>>(left_ - 1);
        if (enable) {
            left_ = fewer;
            last_ = next;
        }
    }

   private:
    uint_t<N> limit_, left_;
    bool one_, last_;
};

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

}  // namespace bfpga
