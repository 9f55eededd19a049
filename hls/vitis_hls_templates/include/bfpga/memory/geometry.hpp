// Types and widths that follow from a configuration, and the checks that make it a legal one.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

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
    static_assert(Config::weight_stream_bits % Config::weight_container_bits == 0, "a beat holds whole weights");
    static_assert(Config::accumulator_rows == Config::rows || Config::accumulator_rows == 2 * Config::rows,
                  "a tile has one accumulator, or two for power-of-two weights");

    // An activation address is right modulo 2**word_bits; words of taps outside the image are never read.
    static constexpr int word_bits = bit_length(Config::activation_words) + 1;
    // Pixel counts and image coordinates: windows may reach beyond the largest tensor by its own size.
    static constexpr int coordinate_bits =
        bit_length(static_cast<long long>(Config::banks) * Config::activation_words * Config::lanes) + 3;
    static constexpr int weight_address_bits = bit_length(Config::weight_words) + 1;
    static constexpr int parameter_address_bits = bit_length(Config::parameter_rows) + 1;

    using word_t = int_t<word_bits>;
    using coordinate_t = int_t<coordinate_bits>;
    using weight_address_t = int_t<weight_address_bits>;
    using parameter_address_t = int_t<parameter_address_bits>;
    using mantissa_t = int_t<Config::mantissa_bits>;
    // A weight as stored: a mantissa, or the bits of a word of a shift unit.
    using weight_t = int_t<Config::weight_bits>;
};

// Output channels of one pass: one per row, or two where a unit multiplies with two powers of two at once.
template <class Config>
inline int block_rows(const Descriptor& d) {
#pragma HLS INLINE
    return Config::accumulator_rows > Config::rows && d.has(Flag::PowerOfTwo) ? 2 * Config::rows : Config::rows;
}

// Whether the process of rows does an operation; a kernel without it has none.
template <class Config>
inline bool works_on_rows(const Descriptor& d) {
#pragma HLS INLINE
    return Config::row_columns > 0 && static_cast<Operation>(d.operation) == Operation::Rows;
}

// Whether the weights of an operation are a tensor (SECOND_WEIGHS of contract/descriptor.py).
template <class Config>
inline bool multiplies_tensors(const Descriptor& d) {
#pragma HLS INLINE
    return Config::operand_weights && static_cast<Operation>(d.operation) == Operation::Gemm &&
           d.has(Flag::NegateSecond);
}

// Active columns: shift columns need weights that they can shift by.
template <class Config>
inline int active_columns(const Descriptor& d) {
#pragma HLS INLINE
    if (works_on_rows<Config>(d)) {
        return Config::row_columns;
    }
    const bool linear = static_cast<Operation>(d.operation) == Operation::Gemm && !d.has(Flag::TwoHot);
    return Config::shift_columns > 0 && linear ? Config::columns - Config::shift_columns : Config::columns;
}

}  // namespace bfpga
