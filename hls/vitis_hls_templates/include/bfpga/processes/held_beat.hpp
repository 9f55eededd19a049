// A register for a beat read from its stream until its process can use it.
//
// The read is non-blocking: a process goes on when the stream is empty, so its pipeline drains, and an upstream process
// that waits for those results is never stalled. A step uses the beat that an earlier one has read; there is no
// multiplexer between the stream and the register.
//
// A beat lasts from start to start: one that is read before a process has heard of the end of its start is of the next
// start, whose words may be there while this process still ends, for example because it sets its sums to zero first.
// Only the beat that ends a start may be dropped at the begin of the next one.
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

    // Nothing is read from the stream: the process has another source.
    void stand_in() {
#pragma HLS INLINE
        there_ = true;
    }

    // Takes the next beat; the one that was there has been used.
    void next(stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        wire_t<Beat> word = wire_t<Beat>();
        there_ = from.read_nb(word);
        if (there_) {
            beat_ = from_wire<Beat>(word);
        }
    }

   private:
    bool there_;
    Beat beat_;
};

// In its place where nothing comes.
template <class Beat>
class NoBeat {
   public:
    bool there() const { return false; }
    Beat beat() const { return Beat(); }
};

}  // namespace bfpga
