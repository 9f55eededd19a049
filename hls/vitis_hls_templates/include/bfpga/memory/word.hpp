// A word of the activation memory.
#pragma once
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// `lanes` consecutive channels of one pixel.
template <class Config>
struct Word {
    typename Geometry<Config>::mantissa_t lane[Config::lanes];

    // All lanes zero. (An ap_int that is only default-initialised has no value.)
    static Word zero() {
#pragma HLS INLINE
        Word word;
    Lanes_Zero:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = 0;
        }
        return word;
    }
};

}  // namespace bfpga
