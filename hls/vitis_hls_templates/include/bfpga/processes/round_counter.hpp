// A counter of a nest of loops: so many turns, then from the beginning.
#pragma once
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// Counts down from two less than the number of turns, so that the sign says which turn is the last: no comparison.
template <class Config>
class RoundCounter {
    using coordinate_t = typename Geometry<Config>::coordinate_t;

   public:
    // `turns`: 1 or more.
    void start(int32_t turns) {
#pragma HLS INLINE
        begin_ = static_cast<coordinate_t>(turns - 2);
        left_ = begin_;
    }

    bool last() const { return left_ < 0; }

    void next() {
#pragma HLS INLINE
        left_ = last() ? begin_ : static_cast<coordinate_t>(left_ - 1);
    }

   private:
    coordinate_t begin_, left_;
};

}  // namespace bfpga
