// The beats that leave a kernel with compressed maps: of every chunk its masks, where they are sent, and its values.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

template <class Config>
class MapJoiner {
    using Form = MapForm<Config>;
    using Chunk = ChunkBeat<Config>;
    using Plain = PlainBeat<Config>;

   public:
    // Until a chunk with `stop` has come.
    template <class Sink>
    void run(stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values, Sink& sink) {
#pragma HLS INLINE
        chunk_ = true;
        last_ = false;
        left_ = 0;
        bool running = true;
        PipelinedLoop loop("Joiner");
    Joiner:
        do {
// II=1: a beat is written. Carried: the beats of values that are left of the chunk.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            wire_t<Chunk> word = {};
            const bool begins = chunk_ && masks.read_nb(word);
            const Chunk chunk = from_wire<Chunk>(word);
            running = !(begins && chunk.stop);
            step(begins, chunk, values, sink);
        } while (running);
    }

   private:
    // The first beat of a chunk that `begins`, its masks or a value, or the next value: none if there is none yet.
    template <class Sink>
    void step(bool begins, const Chunk& chunk, stream<wire_t<Plain>>& values, Sink& sink) {
#pragma HLS INLINE
        const bool told = begins && !chunk.bare && !chunk.stop;
        const bool wants = begins ? chunk.bare && !chunk.stop : !chunk_;
        wire_t<Plain> value = {};
        const bool taken = wants && values.read_nb(value);
        const typename Form::count_t before = begins ? chunk.count : left_;
        const bool ends = before == (taken ? 1 : 0);
        const bool last = begins ? chunk.last : last_;
        if (told || taken) {
            sink.write(taken ? from_wire<Plain>(value).data : chunk.masks(), last && ends);
        }
        if (begins || taken) {
            chunk_ = ends;
            last_ = last;
            left_ = static_cast<typename Form::count_t>(before - (taken ? 1 : 0));
        }
    }

    bool chunk_, last_;
    typename Form::count_t left_;
};

}  // namespace bfpga
