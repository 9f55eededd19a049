// The beats that leave a kernel with compressed maps: of every chunk its masks, where they are told, and its values.
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
            wire_t<Plain> value = {};
            if (chunk_ && masks.read_nb(word)) {
                const Chunk chunk = from_wire<Chunk>(word);
                running = !chunk.stop;
                begin(chunk, values, sink);
            } else if (!chunk_ && values.read_nb(value)) {
                sink.write(from_wire<Plain>(value).data, last_ && left_ == 1);
                chunk_ = left_ == 1;
                left_ = static_cast<typename Form::count_t>(left_ - 1);
            }
        } while (running);
    }

   private:
    // The first beat of a chunk: its masks, or its first value if that is there.
    template <class Sink>
    void begin(const Chunk& chunk, stream<wire_t<Plain>>& values, Sink& sink) {
#pragma HLS INLINE
        wire_t<Plain> value = {};
        const bool taken = !chunk.stop && chunk.bare && values.read_nb(value);
        const typename Form::count_t behind = static_cast<typename Form::count_t>(chunk.count - (taken ? 1 : 0));
        if (!chunk.stop && (taken || !chunk.bare)) {
            sink.write(chunk.bare ? from_wire<Plain>(value).data : chunk.masks(), chunk.last && behind == 0);
        }
        chunk_ = behind == 0;
        last_ = chunk.last;
        left_ = behind;
    }

    bool chunk_, last_;
    typename Form::count_t left_;
};

}  // namespace bfpga
