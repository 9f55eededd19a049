// Streams between processes: `hls::stream`, the vendor's in its tool and the bounded, named FIFO of `shim/` elsewhere.
//
// The top function has one signature this way, which C/RTL co-simulation needs: its test bench is the C simulation's.
// With exact integers, which no vendor's tool reads, and without a simulation's checks, streams are those whose
// transfers can be seen in LLVM IR.
#pragma once
#include "bfpga/numeric/checks.hpp"

#if defined(BFPGA_EXACT_INTEGERS) && !defined(BFPGA_SIMULATION)
#define BFPGA_VISIBLE_STREAMS
#include "bfpga/ports/visible_stream.hpp"
#else
#include <hls_stream.h>
#endif

namespace bfpga {

#ifdef BFPGA_VISIBLE_STREAMS
template <class T>
using stream = VisibleStream<T>;
#else
template <class T>
using stream = hls::stream<T>;
#endif

}  // namespace bfpga
