// The output of a kernel with compressed maps: masks of chunks to one stream, the values that are not zero to another.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

template <class Config>
class MapCompressor {
    using Form = MapForm<Config>;
    using Chunk = ChunkBeat<Config>;
    using Plain = PlainBeat<Config>;
    using Stored = StoredBeat<Config>;
    using place_t = typename Form::place_t;
    using value_t = typename Form::value_t;
    using beyond_t = int_t<Form::place_bits + 2>;

   public:
    MapCompressor() {
#pragma HLS ARRAY_PARTITION variable=mask_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=rest_ complete dim=0
    }

    // Until a beat with `stop` has come.
    void run(stream<wire_t<Stored>>& stored, stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values) {
#pragma HLS INLINE
        first_ = true;
        flushes_ = false;
        fill_ = 0;
        left_ = false;
        count_ = 0;
        beats_ = 0;
        bool running = true;
        PipelinedLoop loop("Compressor");
    Compressor:
        do {
// II=1: a beat is read, a beat of values and a chunk are written at most. Carried: the values that are left and their
// number, the masks of the chunk and two counts.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            wire_t<Stored> word = {};
            if (flushes_) {
                if (left_) {
                    write(rest_, values);
                }
                left_ = false;
                flushes_ = false;
            } else if (stored.read_nb(word)) {
                const Stored beat = from_wire<Stored>(word);
                running = !beat.stop;
                take(beat, masks, values);
            }
        } while (running);
    }

   private:
    void take(const Stored& beat, stream<wire_t<Chunk>>& masks, stream<wire_t<Plain>>& values) {
#pragma HLS INLINE
        value_t both[2 * Form::values], low[Form::values];
#pragma HLS ARRAY_PARTITION variable=both complete dim=0
#pragma HLS ARRAY_PARTITION variable=low complete dim=0
        const typename Form::mask_t mask = squeeze(beat, both);
        const place_t found = Form::ones(mask);
        Form::template move<true>(both, fill_);
        // In parallel: the values with those of the beat, and those of them that no beat of values holds.
        const place_t sum = static_cast<place_t>(fill_ + found);
        const place_t behind = static_cast<place_t>(fill_ + static_cast<place_t>(found - Form::values));
        // The sign shows, without a comparison after the sum, whether there are more than a beat holds.
        const beyond_t beyond = static_cast<beyond_t>(fill_ + static_cast<beyond_t>(found - Form::values - 1));
        const bool spills = beyond >= 0;
        const bool more = fill_ != 0 || found != 0;
    Values_Merge:
        for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
            // Places after the values that are left hold zeros.
            low[v] = static_cast<value_t>(both[v] | (first_ ? static_cast<value_t>(0) : rest_[v]));
        }
        if (spills || left_) {
            value_t out[Form::values];
#pragma HLS ARRAY_PARTITION variable=out complete dim=0
        Values_Leave:
            for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
                out[v] = left_ ? rest_[v] : low[v];
            }
            write(out, values);
        }
    Values_Keep:
        for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
            rest_[v] = spills ? both[Form::values + v] : low[v];
        }
        const typename Form::count_t before = first_ ? static_cast<typename Form::count_t>(0) : count_;
        count_ = static_cast<typename Form::count_t>(before + (spills ? 1 : 0));
        chunk(beat, mask, more, masks);
        left_ = first_ && more;
        fill_ = first_ ? static_cast<place_t>(0) : spills ? behind : sum;
    }

    // The mask of a beat; its values that are not zero, packed, followed by zeros.
    static typename Form::mask_t squeeze(const Stored& beat, value_t (&both)[2 * Form::values]) {
#pragma HLS INLINE
        value_t value[Form::values];
#pragma HLS ARRAY_PARTITION variable=value complete dim=0
        Form::get(beat.plain.data, value);
        uint32_t bits = 0;
    Values_Look:
        for (int v = 0; v < Form::values; ++v) {
#pragma HLS UNROLL
            bits |= static_cast<uint32_t>(value[v] != 0 || !beat.packed ? 1 : 0) << v;
        }
        const typename Form::mask_t mask = static_cast<typename Form::mask_t>(bits);
    Places_Fill:
        for (int p = 0; p < 2 * Form::values; ++p) {
#pragma HLS UNROLL
            both[p] = 0;
        Values_Squeeze:
            for (int v = p; v < Form::values; ++v) {
#pragma HLS UNROLL
                const bool here = Form::has(mask, v) && Form::ones(mask, v) == p;
                both[p] = static_cast<value_t>(both[p] | (here ? value[v] : static_cast<value_t>(0)));
            }
        }
        return mask;
    }

    // The mask joins those of its chunk, which may end with it. `more`: values of it are in no beat yet.
    void chunk(const Stored& beat, typename Form::mask_t mask, bool more, stream<wire_t<Chunk>>& masks) {
#pragma HLS INLINE
        Chunk sent;
    Masks_Join:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            const typename Form::mask_t known = first_ ? static_cast<typename Form::mask_t>(0) : mask_[k];
            mask_[k] = beats_ == k ? mask : known;
            sent.mask[k] = mask_[k];
        }
        const bool ends = beat.ends || beats_ == Form::beats - 1;
        sent.count = static_cast<typename Form::count_t>(count_ + (more ? 1 : 0));
        sent.bare = !beat.packed;
        sent.last = beat.last;
        sent.stop = beat.stop;
        if (ends || beat.stop) {
            masks.write(to_wire(sent));
        }
        first_ = ends;
        beats_ = ends ? static_cast<typename Form::count_t>(0) : static_cast<typename Form::count_t>(beats_ + 1);
        flushes_ = beat.ends;
    }

    static void write(const value_t (&value)[Form::values], stream<wire_t<Plain>>& values) {
#pragma HLS INLINE
        Plain beat;
        Form::set(beat.data, value);
        values.write(to_wire(beat));
    }

    typename Form::mask_t mask_[Form::beats];
    value_t rest_[Form::values];            // values that are in no beat yet, then zeros
    place_t fill_;                          // their number within the chunk
    bool left_;                             // those of the chunk before are there still
    typename Form::count_t count_, beats_;  // beats of values of the chunk that are full, its plain beats so far
    bool first_;                            // the next beat begins a chunk
    bool flushes_;                          // before it the values that are left leave
};

}  // namespace bfpga
