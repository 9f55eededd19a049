// Words on their way to memory: assembled lane by lane in every port, then written while the next ones are assembled.
#pragma once
#include "bfpga/memory/activation_memory.hpp"

namespace bfpga {

template <class Config>
class OutgoingWords {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;

   public:
    OutgoingWords() {
#pragma HLS ARRAY_PARTITION variable=assembled_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=outgoing_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=request_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=slot_ complete dim=0
    }

    // `slots`: clocks that a word of all ports takes to write.
    void start(coordinate_t slots) {
#pragma HLS INLINE
        slots_ = slots;
        waiting_ = false;
    }

    // The mantissa of a lane of a port's word.
    void assemble(int port, int lane, typename G::mantissa_t mantissa) {
#pragma HLS INLINE
    Lanes_Assemble:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            if (lane == l) {
                assembled_[port].lane[l] = mantissa;
            }
        }
    }

    // The words are complete: they wait for the write port. A port writes in its slot.
    void send(const Request<Config> (&request)[Config::columns], const coordinate_t (&slot)[Config::columns]) {
#pragma HLS INLINE
        waiting_ = true;
        write_slot_ = 0;
    Ports_Send:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            outgoing_[i] = assembled_[i];
            request_[i] = request[i];
            slot_[i] = slot[i];
        }
    }

    // One clock of the write port. Before `assemble` and `send`, so a word is written after the clock in which it
    // became complete.
    template <class Memory>
    void write(Memory& memory) {
#pragma HLS INLINE
        if (!waiting_) {
            return;
        }
        Request<Config> request[Config::columns];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
    Ports_Enable:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            request[i] = request_[i];
            request[i].active = request[i].active && slot_[i] == write_slot_;
        }
        memory.write(request, outgoing_);
        ++write_slot_;
        waiting_ = write_slot_ != slots_;
    }

   private:
    Word<Config> assembled_[Config::columns];
    Word<Config> outgoing_[Config::columns];
    Request<Config> request_[Config::columns];
    coordinate_t slot_[Config::columns];
    coordinate_t slots_, write_slot_;
    bool waiting_;
};

}  // namespace bfpga
