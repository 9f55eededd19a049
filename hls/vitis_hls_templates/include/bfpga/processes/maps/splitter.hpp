// The input of a kernel with compressed maps, taken apart: masks of chunks to one stream, values to another.
//
// The host sends frames: a beat with a header word: how many plain beats follow (bits 0 to 29), whether they are
// compressed (30) and whether the frame is the last one of the start (31); then the beats. What is not compressed goes
// in chunks too, of full masks.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

template <class Config>
class MapSplitter {
    using Form = MapForm<Config>;
    using Chunk = ChunkBeat<Config>;
    using Plain = PlainBeat<Config>;
    using left_t = int_t<32>;

   public:
    // One start.
    template <class Source>
    void run(Source& source, stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values) {
#pragma HLS INLINE
        start();
        bool running = true;
        PipelinedLoop loop("Splitter");
    Splitter:
        do {
// II=1: a beat is read, and at most a chunk and a beat of values are written. Carried: what the next beat is, the plain
// beats of the frame that are left, and the beats of values of the chunk.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Turn now = turn_;
            running = !now.over;
            typename Form::beat_t beat = 0;
            if (!now.over) {
                source.expect(1, "an input frame", 0);
                if (source.read_nb(beat)) {
                    step(now, beat, masks, values);
                }
            }
        } while (running);
        loop.ended();
        Chunk stop;
        stop.fill();
        stop.count = 0;
        stop.bare = false;
        stop.last = false;
        stop.stop = true;
        masks.write(to_wire(stop));
    }

   private:
    // What the next beat is; `over`: none comes.
    struct Turn {
        bool frame, masks, over;
        bool first;  // of the values of a chunk that has no beat of masks
    };

    void start() {
#pragma HLS INLINE
        turn_.frame = true;
        turn_.masks = false;
        turn_.over = false;
        turn_.first = false;
        packed_ = false;
        last_ = false;
        ends_ = false;
        short_ = false;
        single_ = false;
        left_ = 0;
        values_ = 0;
    }

    void step(const Turn& now, const typename Form::beat_t& beat, stream<wire_t<Chunk>>& masks,
              stream<wire_t<Plain>>& values) {
#pragma HLS INLINE
        const int64_t word = get_signed<32>(beat, 0);
        const bool packed = ((word >> 30) & 1) != 0;
        const typename Form::count_t plain =
            static_cast<typename Form::count_t>(short_ ? left_ : static_cast<left_t>(Form::beats));
        const typename Form::count_t follow = Chunk::values_of(beat);
        if (now.masks || now.first) {
            Chunk chunk;
            chunk.read(beat);
            if (now.first) {
                chunk.fill();
            }
            chunk.count = plain;
            chunk.bare = false;
            chunk.last = false;
            chunk.stop = false;
            masks.write(to_wire(chunk));
        }
        if (!now.frame && !now.masks) {
            Plain value;
            value.data = beat;
            values.write(to_wire(value));
        }
        // The last beat of a chunk is followed by the next one, or the next frame.
        const bool begins = now.masks || now.first;
        const bool frame_ends = begins ? short_ : ends_;
        const bool alone = now.first ? single_ : values_ == 1;
        const bool done = !now.frame && (now.masks ? follow == 0 : alone);
        const bool next = now.frame || (done && !frame_ends);
        const bool compressed = now.frame ? packed : packed_;
        turn_.frame = done && frame_ends && !last_;
        turn_.over = done && frame_ends && last_;
        turn_.masks = next && compressed;
        turn_.first = next && !compressed;
        const typename Form::count_t before = now.first ? plain : values_;
        values_ = now.masks ? follow : static_cast<typename Form::count_t>(before - 1);
        ends_ = frame_ends;
        // What the next chunk is, from what is left before this one.
        const left_t count = static_cast<left_t>(word & 0x3fffffff);
        short_ = now.frame ? count <= Form::beats : begins ? left_ <= 2 * Form::beats : short_;
        single_ = now.frame ? count == 1 : begins ? left_ == Form::beats + 1 : single_;
        left_ = now.frame ? count : begins ? static_cast<left_t>(left_ - Form::beats) : left_;
        last_ = now.frame ? word < 0 : last_;
        packed_ = compressed;
    }

    Turn turn_;
    bool packed_, last_;   // of the frame
    bool ends_;            // the chunk is the last one of the frame
    bool short_, single_;  // no chunk follows the next one; the next one is a single plain beat
    left_t left_;          // plain beats of the frame that are in no chunk yet
    typename Form::count_t values_;
};

}  // namespace bfpga
