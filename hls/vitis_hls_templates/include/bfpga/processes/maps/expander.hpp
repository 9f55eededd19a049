// The plain beats of a kernel's input, from the masks of chunks and the values that are not zero.
#pragma once
#include "bfpga/processes/held_beat.hpp"
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
#pragma HLS ARRAY_PARTITION variable=counts_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=numbers_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=number_ complete dim=0
    }

    // Until a chunk with `stop` has come.
    void run(stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values, stream<wire_t<Plain>>& plain) {
#pragma HLS INLINE
        chunk_.drop();
        counted_ = false;
        known_ = false;
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
            const bool needs = wanted_ > left_;
            const bool leaves = begun_ && (!needs || value_.there());
            const bool stops = chunk_.there() && chunk_.beat().stop;
            const bool takes = last_ && known_ && (leaves || !begun_);
            if (leaves) {
                send(needs, plain);
            }
            if (takes) {
                take();
                running = !stops;
            } else if (leaves) {
                shift();
            }
            if ((leaves && needs) || !value_.there()) {
                value_.next(values);
            }
            next_chunk(takes, masks);
        } while (running);
    }

   private:
    // The next plain beat, with the values of the beat that is held if it `needs` them.
    void send(bool needs, stream<wire_t<Plain>>& plain) {
#pragma HLS INLINE
        Plain next = before_;
        if (needs) {
            next = value_.beat();
        }
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

    // A chunk comes when the one before has been taken, and its values are counted in two cycles: all while the beats
    // of the one before leave.
    void next_chunk(bool taken, stream<wire_t<Chunk>>& masks) {
#pragma HLS INLINE
        known_ = counted_ && !taken;
        counted_ = chunk_.there() && !taken;
    Masks_Number:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            numbers_[k] = counts_[k];
            counts_[k] = Form::ones(chunk_.beat().mask[k]);
        }
        if (taken) {
            chunk_.drop();
        } else if (!chunk_.there()) {
            chunk_.next(masks);
        }
    }

    void take() {
#pragma HLS INLINE
        const Chunk& chunk = chunk_.beat();
    Masks_Take:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            mask_[k] = chunk.mask[k];
            number_[k] = numbers_[k];
        }
        begun_ = true;
        count_ = static_cast<typename Form::count_t>(chunk.count - 1);
        last_ = chunk.count == 1;
        wanted_ = numbers_[0];
        left_ = 0;
    }

    // To the next plain beat of the chunk; none follows its last one.
    void shift() {
#pragma HLS INLINE
        begun_ = !last_;
        wanted_ = number_[1];
    Masks_Shift:
        for (int k = 0; k + 1 < Form::beats; ++k) {
#pragma HLS UNROLL
            mask_[k] = mask_[k + 1];
            number_[k] = number_[k + 1];
        }
        last_ = last_ || count_ == 1;
        count_ = static_cast<typename Form::count_t>(count_ - 1);
    }

    HeldBeat<Chunk> chunk_;
    bool counted_;  // in `counts_` are its numbers of values
    bool known_;    // its numbers of values are
    HeldBeat<Plain> value_;
    // Values of plain beats: of the chunk that is held, of the beats that are left.
    place_t counts_[Form::beats], numbers_[Form::beats], number_[Form::beats];
    typename Form::mask_t mask_[Form::beats];  // of the plain beats that are left, the next one first
    typename Form::count_t count_;             // of them after the next one
    bool begun_, last_;                        // there is a next one; it is the chunk's last
    place_t wanted_, left_;                    // values of the next plain beat; of those read that are left
    Plain before_;                             // whose last values these are
};

}  // namespace bfpga
