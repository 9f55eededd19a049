// Types and widths that follow from a configuration, and the checks that make it a legal one.
#pragma once
#include "bfpga/types.hpp"

namespace bfpga {

// Bits of the unsigned number `value`.
constexpr int bit_length(long long value) {
    int bits = 0;
    for (; value > 0; value >>= 1) {
        ++bits;
    }
    return bits;
}

template <class Config>
struct Geometry {
    static_assert(Config::columns >= 1 && Config::rows >= 1 && Config::lanes >= 1, "an array has at least one tile");
    static_assert(Config::rows % Config::lanes == 0,
                  "rows must be a multiple of lanes: an output word holds whole groups of rows");
    static_assert(Config::words_per_block * Config::lanes == Config::rows, "words_per_block is rows / lanes");
    static_assert(Config::banks >= Config::columns, "every column needs a bank of its own");
    static_assert(Config::stream_bits % 32 == 0, "a beat of the input stream holds whole descriptor words");
    static_assert(Config::stream_bits % (Config::lanes * Config::container_bits) == 0,
                  "a beat of the input stream holds whole activation words");
    static_assert(Config::transfer_pixels >= 1 && Config::transfer_pixels <= Config::banks &&
                      (Config::transfer_pixels & (Config::transfer_pixels - 1)) == 0 &&
                      Config::words_per_beat % Config::transfer_pixels == 0,
                  "the pixels of a transfer's group lie in different banks and a beat holds whole groups");
    static_assert(Config::weight_stream_bits >= 64, "a beat of the weight stream holds a bias and a row exponent");
    static_assert(Config::weight_stream_bits % Config::container_bits == 0, "a beat holds whole weights");
    static_assert(Config::beats_per_weight_word * Config::weight_stream_bits >=
                      Config::rows * Config::lanes * Config::container_bits,
                  "a weight word fits its beats");

    // An activation address is right modulo 2**word_bits; words of taps outside the image are never read.
    static constexpr int word_bits = bit_length(Config::activation_words) + 1;
    static constexpr int bank_bits = bit_length(2 * Config::banks) + 1;
    // Pixel counts and image coordinates: windows may reach beyond the largest tensor by its own size.
    static constexpr int coordinate_bits =
        bit_length(static_cast<long long>(Config::banks) * Config::activation_words * Config::lanes) + 3;
    static constexpr int weight_address_bits = bit_length(Config::weight_words) + 1;
    static constexpr int parameter_address_bits = bit_length(Config::parameter_rows) + 1;

    using word_t = int_t<word_bits>;
    using bank_t = int_t<bank_bits>;
    using coordinate_t = int_t<coordinate_bits>;
    using weight_address_t = int_t<weight_address_bits>;
    using parameter_address_t = int_t<parameter_address_bits>;
    using mantissa_t = int_t<Config::mantissa_bits>;
};

}  // namespace bfpga
