// The plain beats of a kernel's input, from the masks of chunks and the values that are not zero.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

template <class Config>
class MapExpander {
    using Form = MapForm<Config>;
    using Chunk = ChunkBeat<Config>;
    using Plain = PlainBeat<Config>;
    using place_t = typename Form::place_t;
    using value_t = typename Form::value_t;

   public:
    MapExpander() {
#pragma HLS ARRAY_PARTITION variable=mask_ complete dim=0
    }

    // Until a chunk with `stop` has come.
    void run(stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values, stream<wire_t<Plain>>& plain) {
#pragma HLS INLINE
        last_ = true;
        begun_ = false;
        bool running = true;
        PipelinedLoop loop("Expander");
    Expander:
        do {
// II=1: a plain beat is written, of at most one beat of values more. Carried: values of the beat before that are left,
// a number of `values` at most, the masks of the chunk, and the number of values of the next plain beat.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool needs = begun_ && wanted_ > left_;
            Plain next = before_;
            const bool there = !needs || next_values(values, next);
            if (begun_ && there) {
                send(needs, next, plain);
            }
            wire_t<Chunk> word = {};
            if (there && !last_) {
                shift();
            } else if (there && masks.read_nb(word)) {
                const Chunk chunk = from_wire<Chunk>(word);
                take(chunk);
                running = !chunk.stop;
            } else if (there) {
                begun_ = false;
            }
        } while (running);
    }

   private:
    // Whether there is a beat of values.
    static bool next_values(stream<wire_t<Plain>>& values, Plain& next) {
#pragma HLS INLINE
        wire_t<Plain> word = {};
        if (!values.read_nb(word)) {
            return false;
        }
        next = from_wire<Plain>(word);
        return true;
    }

    // The next plain beat; if it `needs` them, with the values of the beat `next`.
    void send(bool needs, const Plain& next, stream<wire_t<Plain>>& plain) {
#pragma HLS INLINE
        value_t both[2 * Form::values];
#pragma HLS ARRAY_PARTITION variable=both complete dim=0
        value_t old[Form::values], more[Form::values], out[Form::values];
#pragma HLS ARRAY_PARTITION variable=old complete dim=0
#pragma HLS ARRAY_PARTITION variable=more complete dim=0
#pragma HLS ARRAY_PARTITION variable=out complete dim=0
        Form::get(before_.data, old);
        Form::get(next.data, more);
    Values_Join:
        for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
            both[v] = old[v];
            both[Form::values + v] = more[v];
        }
        Form::template move<false>(both, static_cast<place_t>(Form::values - left_));
    Values_Place:
        for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
            const place_t place = Form::ones(mask_[0], v);
            value_t found = 0;
        Places_Select:
            for (int p = 0; p <= v; ++p) {
#pragma HLS UNROLL
                found = static_cast<value_t>(found | (place == p ? both[p] : static_cast<value_t>(0)));
            }
            out[v] = Form::has(mask_[0], v) ? found : static_cast<value_t>(0);
        }
        Plain beat;
        Form::set(beat.data, out);
        plain.write(to_wire(beat));
        const place_t more_left = static_cast<place_t>(left_ + Form::values - wanted_);
        left_ = needs ? more_left : static_cast<place_t>(left_ - wanted_);
        before_ = next;
    }

    void take(const Chunk& chunk) {
#pragma HLS INLINE
    Masks_Take:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            mask_[k] = chunk.mask[k];
        }
        begun_ = true;
        count_ = static_cast<typename Form::count_t>(chunk.count - 1);
        last_ = chunk.count == 1;
        wanted_ = Form::ones(chunk.mask[0]);
        left_ = 0;
    }

    void shift() {
#pragma HLS INLINE
        wanted_ = Form::ones(mask_[1]);
    Masks_Shift:
        for (int k = 0; k + 1 < Form::beats; ++k) {
#pragma HLS UNROLL
            mask_[k] = mask_[k + 1];
        }
        last_ = count_ == 1;
        count_ = static_cast<typename Form::count_t>(count_ - 1);
    }

    typename Form::mask_t mask_[Form::beats];  // of the plain beats that are left, the next one first
    typename Form::count_t count_;             // of them behind the next one
    bool begun_, last_;                        // there is a next one; it is the chunk's last
    place_t wanted_, left_;                    // values of the next plain beat; of those read that are left
    Plain before_;                             // whose last values these are
};

}  // namespace bfpga
