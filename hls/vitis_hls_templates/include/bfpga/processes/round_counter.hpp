// A counter of a nest of loops: so many turns, then from the beginning.
#pragma once
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// Whether a turn is the last one is a register, compared one turn ahead: what depends on it waits for no comparison.
template <class Config>
class RoundCounter {
    using coordinate_t = typename Geometry<Config>::coordinate_t;

   public:
    // `turns`: 1 or more.
    void start(int32_t turns) {
#pragma HLS INLINE
        turns_ = static_cast<coordinate_t>(turns);
        left_ = turns_;
        single_ = turns_ == 1;
        last_ = single_;
    }

    bool last() const { return last_; }

    void next() {
#pragma HLS INLINE
        const bool before_last = left_ == 2;
        left_ = last_ ? turns_ : static_cast<coordinate_t>(left_ - 1);
        last_ = last_ ? single_ : before_last;
    }

   private:
    coordinate_t turns_, left_;
    bool single_, last_;
};

}  // namespace bfpga
