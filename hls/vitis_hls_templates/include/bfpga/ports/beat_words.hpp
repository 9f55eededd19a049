// The words of a tensor in the beats of its stream.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/memory/word.hpp"
#include "bfpga/numeric/checks.hpp"

namespace bfpga {

// Groups of activation words in beats: word i of group k is word k * transfer_pixels + i of the beat; word n starts at
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

   private:
    static int bit(int group, int pixel, int lane) {
#pragma HLS INLINE
        return ((group * pixels + pixel) * Config::lanes + lane) * Config::container_bits;
    }
};

// Beats of a tensor, used only by a simulation that reports them.
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

}  // namespace bfpga
