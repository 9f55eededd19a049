// Transfers between the streams and the memories: LOAD, STORE and WEIGHTS.
//
// LOAD and STORE move one word of each of `transfer_pixels` pixels a clock, WEIGHTS one beat; the return value is the
// number of clocks the loops took.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/memory/activation_memory.hpp"
#include "bfpga/memory/weight_memory.hpp"

namespace bfpga {

// Groups of activation words in beats: word i of group k is word k * transfer_pixels + i of the beat; word n lies at
// bit n * lanes * container_bits, its lane l at l * container_bits.
template <class Config>
struct BeatWords {
    using beat_t = bits_t<Config::stream_bits>;
    static constexpr int pixels = Config::transfer_pixels;
    static constexpr int groups = Config::words_per_beat / Config::transfer_pixels;

    static void get(const beat_t& beat, int group, Word<Config> (&word)[pixels]) {
#pragma HLS INLINE
    Pixels_Get:
        for (int i = 0; i < pixels; ++i) {
#pragma HLS UNROLL
        Lanes_Get:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                word[i].lane[l] = get_signed<Config::mantissa_bits>(beat, bit(group, i, l));
            }
        }
    }

    static void set(beat_t& beat, int group, const Word<Config> (&word)[pixels]) {
#pragma HLS INLINE
    Pixels_Set:
        for (int i = 0; i < pixels; ++i) {
#pragma HLS UNROLL
        Lanes_Set:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                set_signed<Config::container_bits>(beat, bit(group, i, l), word[i].lane[l]);
            }
        }
    }

    static void clear(Word<Config> (&word)[pixels]) {
#pragma HLS INLINE
    Pixels_Clear:
        for (int i = 0; i < pixels; ++i) {
#pragma HLS UNROLL
            word[i] = Word<Config>::zero();
        }
    }

   private:
    static int bit(int group, int pixel, int lane) {
#pragma HLS INLINE
        return ((group * pixels + pixel) * Config::lanes + lane) * Config::container_bits;
    }
};

// Walks a tensor: row by row, in a row `transfer_pixels` pixels after the other, word by word of these pixels together.
//
// The pixels of a row follow each other, so those of a group lie in banks that follow each other.
template <class Config>
class TransferWalk {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    static constexpr int pixels = Config::transfer_pixels;

   public:
    TransferWalk(const PixelWalk<Config>& walk, int32_t output_pixels)
        : first_(walk.start.address),
          column_(0),
          word_(0),
          left_(output_pixels),
          pixel_words_(walk.pixel_words),
          width_(walk.width),
          last_pixels_(((walk.width - 1) & (pixels - 1)) + 1),
          group_(following(0, 0, pixels)),
          next_row_(following(walk.wrap.address.word, walk.wrap.address.bank, last_pixels_)) {}

    bool running() const { return left_ > 0; }

    // The same word of every pixel of the group; inactive beyond the end of the row.
    void requests(Request<Config> (&request)[pixels]) const {
#pragma HLS INLINE
    Pixels_Request:
        for (int i = 0; i < pixels; ++i) {
#pragma HLS UNROLL
            request[i].active = column_ + i < width_;
            request[i].address = first_.plus(Address<Config>::of(0, i), pixel_words_);
            request[i].address.word += word_;
        }
    }

    // To the next word of the group, to the next group, or to the first group of the next row.
    void next() {
#pragma HLS INLINE
        ++word_;
        if (word_ != pixel_words_) {
            return;
        }
        word_ = 0;
        const bool wraps = column_ + pixels >= width_;
        first_ = first_.plus(wraps ? next_row_ : group_, pixel_words_);
        column_ = wraps ? static_cast<coordinate_t>(0) : static_cast<coordinate_t>(column_ + pixels);
        left_ -= wraps ? last_pixels_ : static_cast<coordinate_t>(pixels);
        simulation_check(left_ >= 0, "a transfer",
                         "ends inside a row; pixels moved beyond its end:", -static_cast<long long>(left_));
    }

   private:
    // An address step, `count` pixels longer.
    Address<Config> following(typename G::word_t word, typename G::bank_t bank, coordinate_t count) const {
#pragma HLS INLINE
        const Address<Config> step = {word, bank};
        return step.plus(Address<Config>::of(0, static_cast<int32_t>(count)), pixel_words_);
    }

    Address<Config> first_;  // pixel 0 of the group
    coordinate_t column_;    // its place in the row
    typename G::word_t word_;
    coordinate_t left_;  // pixels from this group on
    typename G::word_t pixel_words_;
    coordinate_t width_;
    coordinate_t last_pixels_;  // pixels in the last group of a row
    Address<Config> group_;     // to the next group of the row
    Address<Config> next_row_;  // from the last group of a row to the next row
};

// Beats of a tensor: only a simulation that reports them asks.
template <class Config>
long long beats_of(const Descriptor& d, int32_t pixel_words) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    simulation_check(d.output_width > 0, "a load", "has rows without pixels; output_width is", d.output_width);
    const long long rows = d.output_pixels / d.output_width;
    const long long groups = rows * ((d.output_width + Config::transfer_pixels - 1) / Config::transfer_pixels);
    return (groups * pixel_words + BeatWords<Config>::groups - 1) / BeatWords<Config>::groups;
#else
    (void)d;
    (void)pixel_words;
    return 0;
#endif
}

// LOAD: header beat, then the words of `output_pixels` pixels. `exponent`: what the header says.
template <class Config, class Memory, class Source>
int load_tensor(const Descriptor& d, Memory& memory, Source& input, int32_t& exponent) {
    using Words = BeatWords<Config>;
    input.expect(1, "tensor in slot", d.output_slot);
    exponent =
        static_cast<int32_t>(get_signed<TensorHeaderFields::exponent_bits>(input.read(), TensorHeaderFields::exponent));
    input.expect(beats_of<Config>(d, d.output_pixel_words), "tensor in slot", d.output_slot);
    int clocks = 1;
    TransferWalk<Config> walk(output_walk<Config>(d), d.output_pixels);
    typename Words::beat_t beat = 0;
    int in_beat = 0;
    PipelinedLoop loop("Groups_Load");
Groups_Load:
    while (walk.running()) {
// II=1: one beat is read at most, one word of every pixel of the group written, each to a bank of its own.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=65536
        loop.iteration();
        if (in_beat == 0) {
            beat = input.read();
        }
        Request<Config> request[Config::transfer_pixels];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        Word<Config> word[Config::transfer_pixels];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
        walk.requests(request);
        Words::get(beat, in_beat, word);
        memory.write(request, word);
        in_beat = in_beat + 1 == Words::groups ? 0 : in_beat + 1;
        walk.next();
        ++clocks;
    }
    return clocks;
}

// STORE: header beat, then the words of `output_pixels` pixels; the last beat ends the packet if END_PACKET is set.
template <class Config, class Memory, class Sink>
int store_tensor(const Descriptor& d, const Memory& memory, Sink& output, int32_t exponent) {
    using Words = BeatWords<Config>;
    typename Words::beat_t header = 0;
    set_signed<TensorHeaderFields::exponent_bits>(header, TensorHeaderFields::exponent, exponent);
    output.write(header, false);
    int clocks = 1;
    TransferWalk<Config> walk(input_walk<Config>(d), d.output_pixels);
    typename Words::beat_t beat = 0;
    int in_beat = 0;
    PipelinedLoop loop("Groups_Store");
Groups_Store:
    while (walk.running()) {
// II=1: one word of every pixel of the group is read, each from a bank of its own; one beat is written at most, and
// until then it is a register that is filled group by group.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=65536
        loop.iteration();
        Request<Config> request[Config::transfer_pixels];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        Word<Config> word[Config::transfer_pixels];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
        walk.requests(request);
        Memory::check_range(request, "a store");
        Words::clear(word);
        memory.read(request, word);
        Words::set(beat, in_beat, word);
        walk.next();
        const bool last = !walk.running();
        const bool full = in_beat + 1 == Words::groups;
        if (full || last) {
            output.write(beat, last && d.has(Flag::EndPacket));
            beat = 0;
        }
        in_beat = full ? 0 : in_beat + 1;
        ++clocks;
    }
    return clocks;
}

template <class Config>
long long weight_beats(int32_t words) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    return static_cast<long long>(words) * Config::beats_per_weight_word;
#else
    (void)words;
    return 0;
#endif
}

// WEIGHTS: rows of bias and exponent, then weight words.
template <class Config, class Source>
int load_weights(const Descriptor& d, WeightMemory<Config>& weights, ParameterMemory<Config>& parameters,
                 Source& stream) {
    int clocks = 0;
    stream.expect(d.parameter_rows, "parameters from row", d.parameter_base);
    PipelinedLoop rows("Rows_Load");
Rows_Load:
    for (int row = 0; row < d.parameter_rows; ++row) {
// II=1: one beat is read and one row written; the memory has a write port of its own.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=0 max=2048
        rows.iteration();
        const bits_t<Config::weight_stream_bits> beat = stream.read();
        Parameters<Config> parameter;
        parameter.bias = get_signed<Config::bias_bits>(beat, ParameterRowFields::bias);
        parameter.exponent = get_signed<ParameterRowFields::exponent_bits>(beat, ParameterRowFields::exponent);
        parameters.write(d.parameter_base + row, parameter);
        ++clocks;
    }
    stream.expect(weight_beats<Config>(d.weight_words), "weights from word", d.weight_base);
    WeightBeats<Config> beats;
    int in_word = 0;
    PipelinedLoop loop("Beats_Load");
Beats_Load:
    for (int word = 0; word < d.weight_words;) {
// II=1: one beat is read; a word is written with its last beat, to memories with a write port of their own.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=0 max=16384
        loop.iteration();
        beats.set(in_word, stream.read());
        if (++in_word == Config::beats_per_weight_word) {
            weights.write(d.weight_base + word, beats.word());
            in_word = 0;
            ++word;
        }
        ++clocks;
    }
    return clocks;
}

}  // namespace bfpga
