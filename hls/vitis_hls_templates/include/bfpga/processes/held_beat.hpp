// A beat that has left its stream and waits until its process can use it.
//
// The stream is asked without waiting: a process goes on when there is nothing, so that what its pipeline holds leaves
// it and a neighbour that waits for that is never kept from sending more. A step uses the beat that an earlier one has
// taken from the stream; nothing is chosen between the stream and the register.
#pragma once
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Beat>
class HeldBeat {
   public:
    HeldBeat() : there_(false), beat_() {}

    bool there() const { return there_; }
    const Beat& beat() const { return beat_; }

    // The beat has been used.
    void drop() {
#pragma HLS INLINE
        there_ = false;
    }

    // Nothing is taken from the stream: the process has what it needs from elsewhere.
    void stand_in() {
#pragma HLS INLINE
        there_ = true;
    }

    // Takes the next beat; the one that was there has been used.
    void next(stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        wire_t<Beat> word;
        there_ = from.read_nb(word);
        if (there_) {
            beat_ = from_wire<Beat>(word);
        }
    }

   private:
    bool there_;
    Beat beat_;
};

}  // namespace bfpga
