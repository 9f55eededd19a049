// Double buffering: one set is filled while the other one is used. Sets fill in turns, and are used in turns.
#pragma once
#include "bfpga/numeric/numeric.hpp"

namespace bfpga {

// GUARD: cycles from the one in which a set is whole to its first use at least, more than a loop has between the stages
// that write and that read.
template <int GUARD>
class TwoSets {
   public:
    TwoSets() {
#pragma HLS ARRAY_PARTITION variable=full_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=readable_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=whole_ complete dim=0
        clear();
    }

    void clear() {
#pragma HLS INLINE
        writing_ = false;
        reading_ = false;
        opened_ = false;
    Sets_Clear:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            full_[s] = false;
            readable_[s] = false;
        }
    Clocks_Clear:
        for (int k = 0; k < GUARD; ++k) {
#pragma HLS UNROLL
            whole_[k] = false;
        }
    }

    // The set that comes, that is used: whether it is the second one.
    bool writing() const { return writing_; }
    bool reading() const { return reading_; }
    // Whether the set that comes has room, the one that is next can be used, no set has anything.
    bool room() const { return !full_[writing_ ? 1 : 0]; }
    bool readable() const { return readable_[reading_ ? 1 : 0]; }
    bool empty() const { return !full_[0] && !full_[1]; }

    // One cycle; `whole`: the set that comes is; `ended`: the one that is used has been.
    void step(bool whole, bool ended) {
#pragma HLS INLINE
        const bool opens = whole_[GUARD - 1];
    Sets_Keep:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            const bool left = ended && reading_ == (s == 1);
            full_[s] = (full_[s] && !left) || (whole && writing_ == (s == 1));
            readable_[s] = (readable_[s] && !left) || (opens && opened_ == (s == 1));
        }
        writing_ = writing_ != whole;
        reading_ = reading_ != ended;
        opened_ = opened_ != opens;
    Clocks_Keep:
        for (int k = GUARD - 1; k > 0; --k) {
#pragma HLS UNROLL
            whole_[k] = whole_[k - 1];
        }
        whole_[0] = whole;
    }

   private:
    bool writing_, reading_, opened_;  // opened_: the set that can be used next
    bool full_[2], readable_[2];
    bool whole_[GUARD];  // [k]: a set was whole k cycles before
};

}  // namespace bfpga
