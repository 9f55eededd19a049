// Products that add a tensor to their sums: residual connections (docs/kernel.md).
#pragma once
#include "bfpga/contract/descriptor.hpp"

namespace bfpga {

// Whether a product adds a tensor to its sums (ADDS_SECOND of contract/descriptor.py).
template <class Config>
inline bool adds_tensor(const Descriptor& d) {
#pragma HLS INLINE
    return Config::residual_adds && static_cast<Operation>(d.operation) == Operation::Gemm && d.has(Flag::Compressed);
}

// Where that tensor is, in words of fields that other arrays have (ADD_WORDS there): the address of its first pixel,
// and the words that a pixel holds.
inline int32_t added_word(const Descriptor& d) { return d.chunk_steps; }
inline int32_t added_bank(const Descriptor& d) { return d.chunk_buffers; }
inline int32_t added_pixel_words(const Descriptor& d) { return d.entry_words; }

}  // namespace bfpga
