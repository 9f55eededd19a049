// Transfers between the streams and the memories: LOAD, STORE and WEIGHTS.
//
// Each takes one clock a word; the return value is the number of clocks its loops took.
#pragma once
#include "bfpga/activation_memory.hpp"
#include "bfpga/weight_memory.hpp"

namespace bfpga {

// Activation words in beats: word k of a beat lies at bit k * lanes * container_bits, lane l at l * container_bits.
template <class Config>
struct BeatWords {
    using beat_t = bits_t<Config::stream_bits>;
    static constexpr int word_bits = Config::lanes * Config::container_bits;

    static Word<Config> get(const beat_t& beat, int k) {
#pragma HLS INLINE
        Word<Config> word;
    Lanes_Get:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = get_signed<Config::mantissa_bits>(beat, k * word_bits + l * Config::container_bits);
        }
        return word;
    }

    static void set(beat_t& beat, int k, const Word<Config>& word) {
#pragma HLS INLINE
    Lanes_Set:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            set_signed<Config::container_bits>(beat, k * word_bits + l * Config::container_bits, word.lane[l]);
        }
    }
};

// Walks the words of a tensor: pixel by pixel, inside a pixel word by word.
template <class Config>
class WordWalk {
   public:
    explicit WordWalk(const PixelWalk<Config>& walk) : walk_(walk), pixel_(Pixel<Config>::first(walk)), word_(0) {}

    Address<Config> address() const {
#pragma HLS INLINE
        Address<Config> address = pixel_.address;
        address.word += word_;
        return address;
    }

    // To the next word; true if it belongs to the next pixel.
    bool next() {
#pragma HLS INLINE
        ++word_;
        if (word_ != walk_.pixel_words) {
            return false;
        }
        word_ = 0;
        pixel_ = pixel_.after(walk_.step, walk_);
        return true;
    }

   private:
    PixelWalk<Config> walk_;
    Pixel<Config> pixel_;
    typename Geometry<Config>::word_t word_;
};

// Beats of a tensor: only a simulation that reports them asks.
template <class Config>
long long beats_of(int32_t pixels, int32_t pixel_words) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    const long long words = static_cast<long long>(pixels) * pixel_words;
    return (words + Config::words_per_beat - 1) / Config::words_per_beat;
#else
    (void)pixels;
    (void)pixel_words;
    return 0;
#endif
}

// LOAD: header beat, then the words of `output_pixels` pixels. `exponent`: what the header says.
template <class Config, class Memory, class Source>
int load_tensor(const Descriptor& d, Memory& memory, Source& input, int32_t& exponent) {
    using Words = BeatWords<Config>;
    input.expect(1, "tensor in slot", d.output_slot);
    exponent = static_cast<int32_t>(get_signed<32>(input.read(), 0));
    input.expect(beats_of<Config>(d.output_pixels, d.output_pixel_words), "tensor in slot", d.output_slot);
    int clocks = 1;
    WordWalk<Config> walk(output_walk<Config>(d));
    typename Words::beat_t beat = 0;
    int in_beat = 0;
Words_Load:
    for (int pixels = d.output_pixels; pixels > 0;) {
// II=1: one beat is read at most, one word written; a bank has one write port and one word is written a clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=65536
        if (in_beat == 0) {
            beat = input.read();
        }
        memory.write(walk.address(), Words::get(beat, in_beat));
        in_beat = in_beat + 1 == Config::words_per_beat ? 0 : in_beat + 1;
        if (walk.next()) {
            --pixels;
        }
        ++clocks;
    }
    return clocks;
}

// STORE: header beat, then the words of `output_pixels` pixels; the last beat ends the packet if END_PACKET is set.
template <class Config, class Memory, class Sink>
int store_tensor(const Descriptor& d, const Memory& memory, Sink& output, int32_t exponent) {
    using Words = BeatWords<Config>;
    typename Words::beat_t header = 0;
    set_signed<32>(header, 0, exponent);
    output.write(header, false);
    int clocks = 1;
    WordWalk<Config> walk(input_walk<Config>(d));
    typename Words::beat_t beat = 0;
    int in_beat = 0;
Words_Store:
    for (int pixels = d.output_pixels; pixels > 0;) {
// II=1: one word is read, one beat written at most; the beat is a register that is filled word by word.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=65536
        Words::set(beat, in_beat, memory.read(walk.address()));
        if (walk.next()) {
            --pixels;
        }
        const bool last = pixels == 0;
        const bool full = in_beat + 1 == Config::words_per_beat;
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
Rows_Load:
    for (int row = 0; row < d.parameter_rows; ++row) {
// II=1: one beat is read and one row written; the memory has a write port of its own.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=0 max=2048
        const bits_t<Config::weight_stream_bits> beat = stream.read();
        Parameters<Config> parameter;
        parameter.bias = get_signed<Config::bias_bits>(beat, 0);
        parameter.exponent = get_signed<16>(beat, 32);
        parameters.write(d.parameter_base + row, parameter);
        ++clocks;
    }
    stream.expect(weight_beats<Config>(d.weight_words), "weights from word", d.weight_base);
    WeightBeats<Config> beats;
    int in_word = 0;
Beats_Load:
    for (int word = 0; word < d.weight_words;) {
// II=1: one beat is read; a word is written with its last beat, to memories with a write port of their own.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=0 max=16384
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
