// The shape of a pass: the pixels of its group, the rows that it produces, their words.
#pragma once
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// Whether the columns take taps of a window from adjacent ones.
template <class Config>
inline bool reuses_taps(const Descriptor& d) {
#pragma HLS INLINE
    return Config::tap_reuse && static_cast<Operation>(d.operation) == Operation::Gemm && d.has(Flag::Neighbours);
}

// Whether a pass computes one word of each pixel: without the array, or with a row pair for each channel of a word.
template <class Config>
inline bool single_words(const Descriptor& d) {
#pragma HLS INLINE
    return static_cast<Operation>(d.operation) != Operation::Gemm || reuses_taps<Config>(d);
}

// Output channels of a pass.
template <class Config>
inline int pass_rows(const Descriptor& d) {
#pragma HLS INLINE
    return single_words<Config>(d) ? static_cast<int>(Config::lanes) : block_rows<Config>(d);
}

// Words that a pass produces.
template <class Config>
inline int pass_words(const Descriptor& d) {
#pragma HLS INLINE
    const bool doubled = Config::accumulator_rows > Config::rows && d.has(Flag::PowerOfTwo);
    return single_words<Config>(d) ? 1 : doubled ? 2 * Config::words_per_block : Config::words_per_block;
}

// Whether a skip array computes an operation: every GEMM, unless the kernel has a systolic array too.
template <class Config>
inline bool on_skip_array(const Descriptor& d) {
#pragma HLS INLINE
    const bool chosen = !Config::dense_beside || d.has(Flag::SkipArray);
    return Config::skip_groups > 0 && chosen && static_cast<Operation>(d.operation) == Operation::Gemm;
}

// Whether an operation reads a tensor that becomes weights.
template <class Config>
inline bool weighs(const Descriptor& d) {
#pragma HLS INLINE
    return Config::operand_weights && static_cast<Operation>(d.operation) == Operation::Weigh;
}

// Whether windows are read half by half and in chunks, for a skip array.
template <class Config>
inline bool reads_chunks(const Descriptor& d) {
#pragma HLS INLINE
    return on_skip_array<Config>(d) && !d.has(Flag::Kept);
}

// The operation as its reading side executes it. A sparse cluster gets its map cell by cell: as a kernel with a tap for
// each of its parts would, once for each block, and once more if it is to be counted. Zeros around the input are read
// along an axis with parts alone.
template <class Config>
inline Descriptor reading_of(const Descriptor& d) {
#pragma HLS INLINE
    Descriptor reading = d;
    if (Config::has_cluster && on_skip_array<Config>(d)) {
        reading.output_pixels = d.map_cells;
        reading.output_width = d.input_width;
        reading.groups = d.map_groups;
        reading.input_height = d.read_height;
        reading.input_width = d.read_width;
        reading.kernel_height = d.parts_down;
        reading.kernel_width = d.parts_across;
        reading.channel_words = d.part_words;
        reading.stride_y = 1;
        reading.stride_x = 1;
        reading.pad_top = d.parts_down > 1 ? d.pad_top : 0;
        reading.pad_left = d.parts_across > 1 ? d.pad_left : 0;
        reading.chunk_steps = 1;
        reading.chunk_buffers = d.channel_words;
        reading.blocks = d.blocks + (d.most_moves != 0 ? 1 : 0);
    }
    return reading;
}

// Columns that have a pixel in a group; given by the descriptor where pixel rows must be whole: for columns that take
// taps from adjacent ones, and for a skip array; and where pixels are rows or lanes of weights.
template <class Config>
inline int group_pixels(const Descriptor& d) {
#pragma HLS INLINE
    const bool given = reuses_taps<Config>(d) || reads_chunks<Config>(d) || weighs<Config>(d);
    return given ? static_cast<int>(d.group_columns) : active_columns<Config>(d);
}

// Words of a row of the process of rows.
template <class Config>
inline int32_t row_words(const Descriptor& d) {
#pragma HLS INLINE
    return (d.output_rows + Config::lanes - 1) >> (bit_length(Config::lanes) - 1);
}

// Blocks of output rows whose sums drain one after the other, and rows of each. A skip array that multiplies by stored
// weights has one of whole words.
template <class Config>
inline int32_t sum_blocks(const Descriptor& d) {
#pragma HLS INLINE
    if (works_on_rows<Config>(d)) {
        return row_words<Config>(d);
    }
    return Config::skip_groups > 0 && !Config::skip_activations ? 1 : d.blocks;
}

template <class Config>
inline int32_t sum_rows(const Descriptor& d) {
#pragma HLS INLINE
    const int32_t words = (d.output_rows + Config::lanes - 1) / Config::lanes;
    const bool entries = Config::skip_groups > 0 && !Config::skip_activations;
    return entries && static_cast<Operation>(d.operation) == Operation::Gemm ? words * Config::lanes
                                                                             : pass_rows<Config>(d);
}

// Whether accumulators go to the activation memory, a word each, or come from there (FP R24).
template <class Config>
inline bool sends_accumulators(const Descriptor& d) {
#pragma HLS INLINE
    return Config::wide_memory && d.has(Flag::Wide) && d.has(Flag::Keep);
}

template <class Config>
inline bool takes_accumulators(const Descriptor& d) {
#pragma HLS INLINE
    return Config::wide_memory && d.has(Flag::Wide) && d.has(Flag::Kept);
}

// Whether an operation writes to the activation memory: mantissas, or accumulators that it keeps.
template <class Config>
inline bool writes_words(const Descriptor& d) {
#pragma HLS INLINE
    return (!d.has(Flag::Measure) && !weighs<Config>(d)) || sends_accumulators<Config>(d);
}

}  // namespace bfpga
