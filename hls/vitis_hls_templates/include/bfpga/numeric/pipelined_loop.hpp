// Pipelined loops, by name. Hardware has none of this; a simulation counts iterations, see
// simulation/pipelined_loop.hpp.
//
//     before a loop:  PipelinedLoop loop("Label");
//     in its body:    loop.iteration();  // the first statement
//     after it:       loop.ended();      // unless the scope ends there
#pragma once
#include "bfpga/numeric/checks.hpp"

#ifdef BFPGA_SIMULATION
#include "bfpga/simulation/pipelined_loop.hpp"
#else

namespace bfpga {

class PipelinedLoop {
   public:
    explicit PipelinedLoop(const char*) {}

    void iteration() {
#pragma HLS INLINE
    }

    void ended() {
#pragma HLS INLINE
    }
};

}  // namespace bfpga

#endif
