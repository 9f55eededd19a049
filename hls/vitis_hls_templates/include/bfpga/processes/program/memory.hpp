// Descriptors that stay on the chip: blocks of words as wide as a beat of the host's stream.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

template <class Config>
class ProgramMemory {
    using beat_t = bits_t<Config::stream_bits>;

   public:
    static constexpr int words_per_beat = Config::stream_bits / 32;
    static constexpr int beats = Config::program_descriptors * (Descriptor::words / words_per_beat);
    static constexpr int address_bits = bit_length(beats - 1);

    ProgramMemory() {
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
    }

    beat_t at(uint_t<address_bits> address) const {
#pragma HLS INLINE
        return cell_[address];
    }

    void set(uint_t<address_bits> address, const beat_t& beat) {
#pragma HLS INLINE
        cell_[address] = beat;
    }

   private:
    beat_t cell_[beats];
};

}  // namespace bfpga
