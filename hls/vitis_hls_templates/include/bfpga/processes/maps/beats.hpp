// Tensors that travel compressed (SC 2.3, BITMAP): their form in the beats of a stream, and what the processes that
// write and read it send each other.
//
// A tensor goes in chunks of `beats` of its plain beats: a beat of masks, a bit for each value whether it is not zero,
// and in its last bits how many beats of values follow; then the values that are not zero, one after the other, filled
// up with zeros to a whole beat. `bfpga.formats.map_beats` is the same in numpy.
#pragma once
#include "bfpga/memory/geometry.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config>
struct MapForm {
    // A value: a mantissa in its container, or two of them where they share a byte.
    static constexpr int value_bits = Config::container_bits < 8 ? 8 : Config::container_bits;
    static constexpr int values = Config::stream_bits / value_bits;  // of a beat
    static constexpr int beats = value_bits - 1;                     // plain beats of a chunk
    static constexpr int count_bits = bit_length(beats);
    static constexpr int place_bits = bit_length(values);  // of a number of values, 0 to `values`
    static_assert(values * (beats + 1) == Config::stream_bits, "a beat holds the masks of a chunk and a count");
    static_assert((1 << values) > beats, "as many bits as a beat has values tell how many beats follow");

    using beat_t = bits_t<Config::stream_bits>;
    using value_t = uint_t<value_bits>;
    using mask_t = uint_t<values>;
    using count_t = uint_t<count_bits>;
    using place_t = uint_t<place_bits>;

    static mask_t all() {
#pragma HLS INLINE
        return static_cast<mask_t>((static_cast<uint32_t>(1) << values) - 1);
    }

    static bool has(mask_t mask, int value) {
#pragma HLS INLINE
        return ((static_cast<uint32_t>(mask) >> value) & 1) != 0;
    }

    // Bits of the mask below `end`.
    static place_t ones(mask_t mask, int end = values) {
#pragma HLS INLINE
        int count = 0;
    Mask_Count:
        for (int v = 0; v < values; ++v) {
#pragma HLS UNROLL
            count += v < end && has(mask, v) ? 1 : 0;
        }
        return static_cast<place_t>(count);
    }

    static void get(const beat_t& beat, value_t (&value)[values]) {
#pragma HLS INLINE
    Values_Get:
        for (int v = 0; v < values; ++v) {
#pragma HLS UNROLL
            value[v] = static_cast<value_t>(get_signed<value_bits>(beat, v * value_bits));
        }
    }

    static void set(beat_t& beat, const value_t (&value)[values]) {
#pragma HLS INLINE
        beat = 0;
    Values_Set:
        for (int v = 0; v < values; ++v) {
#pragma HLS UNROLL
            set_signed<value_bits>(beat, v * value_bits, static_cast<int64_t>(value[v]));
        }
    }

    // Values moved to places by a number of 0 to `values`, in stages of one bit each: `Up`: to higher places.
    template <bool Up>
    static void move(value_t (&value)[2 * values], place_t by) {
#pragma HLS INLINE
    Stages_Move:
        for (int bit = 0; bit < place_bits; ++bit) {
#pragma HLS UNROLL
            const bool moves = ((static_cast<uint32_t>(by) >> bit) & 1) != 0;
        Values_Move:
            for (int n = 0; n < 2 * values; ++n) {
#pragma HLS UNROLL
                // From the end towards which nothing moves, so that what is read is of the stage before.
                const int to = Up ? 2 * values - 1 - n : n;
                const int from = Up ? to - (1 << bit) : to + (1 << bit);
                const bool inside = from >= 0 && from < 2 * values;
                const value_t other = inside ? value[inside ? from : 0] : static_cast<value_t>(0);
                value[to] = moves ? other : value[to];
            }
        }
    }
};

// A beat of a stream as a stream between processes carries it.
template <class Config>
struct PlainBeat {
    static constexpr int bits = Config::stream_bits;

    bits_t<Config::stream_bits> data;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Words_Pack:
        for (int word = 0; word < bits / 32; ++word) {
#pragma HLS UNROLL
            set_signed<32>(to, 32 * word, get_signed<32>(data, 32 * word));
        }
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        data = 0;
    Words_Unpack:
        for (int word = 0; word < bits / 32; ++word) {
#pragma HLS UNROLL
            set_signed<32>(data, 32 * word, get_signed<32>(from, 32 * word));
        }
    }
};

// A beat that `store` sends.
template <class Config>
struct StoredBeat {
    static constexpr int bits = Config::stream_bits + 4;

    PlainBeat<Config> plain;
    bool packed;  // it belongs to a tensor that travels compressed
    bool ends;    // the header, or the tensor, ends with it
    bool last;    // TLAST
    bool stop;    // the start ends; nothing else counts

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        plain.pack(to);
        const bool flag[4] = {packed, ends, last, stop};
        PackedFlags<4>::pack(to, Config::stream_bits, flag);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        plain.unpack(from);
        bool flag[4];
        PackedFlags<4>::unpack(from, Config::stream_bits, flag);
        packed = flag[0];
        ends = flag[1];
        last = flag[2];
        stop = flag[3];
    }
};

// A chunk: its masks, and a count of beats: towards the host those of values, from the host plain ones.
template <class Config>
struct ChunkBeat {
    using Form = MapForm<Config>;
    static constexpr int mask_bits = Form::values * Form::beats;
    static constexpr int flags_low = mask_bits + Form::values;
    static constexpr int bits = flags_low + 3;

    typename Form::mask_t mask[Form::beats];
    typename Form::count_t count;
    bool bare;  // towards the host: its values go without a beat of masks
    bool last;  // TLAST with its last beat
    bool stop;  // the start ends; nothing else counts

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Masks_Pack:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            set_signed<Form::values>(to, k * Form::values, static_cast<int64_t>(mask[k]));
        }
        set_signed<Form::values>(to, mask_bits, static_cast<int64_t>(count));
        const bool flag[3] = {bare, last, stop};
        PackedFlags<3>::pack(to, flags_low, flag);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
    Masks_Unpack:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            mask[k] = mask_at(from, k);
        }
        count = static_cast<typename Form::count_t>(mask_at(from, Form::beats));
        bool flag[3];
        PackedFlags<3>::unpack(from, flags_low, flag);
        bare = flag[0];
        last = flag[1];
        stop = flag[2];
    }

    // The masks of plain beats: every value is there.
    void fill() {
#pragma HLS INLINE
    Masks_Fill:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            mask[k] = Form::all();
        }
    }

    // From a beat of masks, and to one.
    void read(const typename Form::beat_t& beat) {
#pragma HLS INLINE
    Masks_Read:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            mask[k] = mask_at(beat, k);
        }
    }

    static typename Form::count_t values_of(const typename Form::beat_t& beat) {
#pragma HLS INLINE
        return static_cast<typename Form::count_t>(mask_at(beat, Form::beats));
    }

    typename Form::beat_t masks() const {
#pragma HLS INLINE
        typename Form::beat_t beat = 0;
    Masks_Write:
        for (int k = 0; k < Form::beats; ++k) {
#pragma HLS UNROLL
            set_signed<Form::values>(beat, k * Form::values, static_cast<int64_t>(mask[k]));
        }
        set_signed<Form::values>(beat, mask_bits, static_cast<int64_t>(count));
        return beat;
    }

   private:
    template <class Bits>
    static typename Form::mask_t mask_at(const Bits& from, int k) {
#pragma HLS INLINE
        return static_cast<typename Form::mask_t>(
            static_cast<uint64_t>(field_at<Form::values>(from, k * Form::values)) & static_cast<uint64_t>(Form::all()));
    }
};

}  // namespace bfpga
