// Broadcasts every step of the kernels to all units (SC R60). Its stream buffers them for a unit that lags.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

template <class Config>
class StepBroadcast {
    using Steps = StepBeat<Config>;

   public:
    // Until a step with `stop` has come. `to`: a stream for each unit.
    template <class... To>
    void run(stream<wire_t<Steps>>& steps, To&... to) {
#pragma HLS INLINE
        static_assert(sizeof...(To) == Config::units, "every unit has a stream of steps");
        bool running = true;
        PipelinedLoop loop("Steps");
    Steps:
        while (running) {
// II=1: a step a cycle.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !(held_.there() && held_.beat().stop);
            if (held_.there() && !held_.beat().stop) {
                send(to_wire(held_.beat()), to...);
            }
            held_.next(steps);
        }
    }

   private:
    template <class First, class... Others>
    static void send(const wire_t<Steps>& step, First& to, Others&... others) {
#pragma HLS INLINE
        to.write(step);
        send(step, others...);
    }

    static void send(const wire_t<Steps>&) {
#pragma HLS INLINE
    }

    HeldBeat<Steps> held_;
};

}  // namespace bfpga
