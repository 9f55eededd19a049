// Streams between processes: `hls::stream`, the vendor's in its tool and the bounded, named FIFO of `shim/` elsewhere.
//
// The top function has one signature this way, which C/RTL co-simulation needs: its test bench is the C simulation's.
#pragma once
#include <hls_stream.h>

namespace bfpga {

template <class T>
using stream = hls::stream<T>;

}  // namespace bfpga
