// AXI-Stream ends of the core: only these handle beats with TLAST.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"
#include "bfpga/ports/stream.hpp"

// A kernel that is read as LLVM IR has beats of data and TLAST alone.
#ifndef BFPGA_VISIBLE_STREAMS
#include <ap_axi_sdata.h>
#endif

namespace bfpga {

#ifdef BFPGA_VISIBLE_STREAMS
template <int N>
using axis_beat = axis_word<N>;
#else
// The vendor's type in its C simulation, C synthesis and co-simulation alike.
template <int N>
using axis_beat = ap_axiu<N, 0, 0, 0>;
#endif

template <int N>
using axis_stream = stream<axis_beat<N>>;

// The core's input. TLAST of an input is ignored: descriptors give the length.
template <int N>
class AxisSource {
   public:
    explicit AxisSource(axis_stream<N>& beats) : beats_(beats) {}

    bits_t<N> read() {
#pragma HLS INLINE
        return beats_.read().data;
    }

    // Whether there was a beat, which `data` has then.
    bool read_nb(bits_t<N>& data) {
#pragma HLS INLINE
        axis_beat<N> beat;
        if (!beats_.read_nb(beat)) {
            return false;
        }
        data = beat.data;
        return true;
    }

    // The purpose of the next reads; a simulated stream reports it when empty.
    void expect(long long count, const char* what, int number) {
#pragma HLS INLINE
#ifdef BFPGA_STREAM_SHIM
        beats_.expect(count, std::string("beats of ") + what + " " + std::to_string(number));
#else
        (void)count;
        (void)what;
        (void)number;
#endif
    }

   private:
    axis_stream<N>& beats_;
};

// What the core writes to.
template <int N>
class AxisSink {
   public:
    explicit AxisSink(axis_stream<N>& beats) : beats_(beats) {}

    void write(const bits_t<N>& data, bool last) {
#pragma HLS INLINE
        axis_beat<N> beat;
        beat.data = data;
        beat.last = last;
#ifndef BFPGA_VISIBLE_STREAMS
        beat.keep = -1;
        beat.strb = -1;
#endif
        beats_.write(beat);
    }

   private:
    axis_stream<N>& beats_;
};

}  // namespace bfpga
