// The skip array's state of chunks until their sums have left.
#pragma once
#include "bfpga/processes/wires.hpp"

namespace bfpga {

struct ChunkMarks {
    bool opens;   // the first of its pass
    bool closes;  // and the last one
    bool single;  // the pass has half 0 alone
    // Of source activations
    bool leaves;  // the pass is the last one of its run
    bool apart;   // groups have lanes of one pixel
};

// Marks of up to N chunks in their order.
template <int N>
class ChunkQueue {
    using count_t = uint_t<bit_length(N)>;

   public:
    ChunkQueue() {
#pragma HLS ARRAY_PARTITION variable=marks_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        count_ = 0;
    }

    bool empty() const { return count_ == 0; }
    const ChunkMarks& first() const { return marks_[0]; }

    // One cycle: whether the first one leaves, and whether another one comes.
    void step(bool leaves, bool comes, const ChunkMarks& marks) {
#pragma HLS INLINE
        const count_t rest = static_cast<count_t>(count_ - (leaves ? 1 : 0));
        simulation_check(!comes || rest < N, "the skip array",
                         "gets more chunks than it has given credits for:", N + 1);
    Chunks_Step:
        for (int k = 0; k < N; ++k) {
#pragma HLS UNROLL
            if (comes && rest == k) {
                marks_[k] = marks;
            } else if (leaves) {
                marks_[k] = marks_[k < N - 1 ? k + 1 : k];
            }
        }
        count_ = static_cast<count_t>(rest + (comes ? 1 : 0));
    }

   private:
    ChunkMarks marks_[N];
    count_t count_;
};

}  // namespace bfpga
