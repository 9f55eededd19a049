// Where pixels lie in the banks of the scratchpad, and the steps from one to another: one addition modulo the banks,
// one addition of words, and the words never decide about the banks, so that each may have a clock of its own.
#pragma once
#include "bfpga/memory/activation_memory.hpp"

namespace bfpga {

template <class Config>
struct ScratchpadTypes {
    using word_t = typename Geometry<Config>::word_t;
    using coordinate_t = typename Geometry<Config>::coordinate_t;

    // Words read or written together: those of the columns, or of the pixels of a transfer.
    static constexpr int ports = Config::columns > Config::transfer_pixels ? Config::columns : Config::transfer_pixels;
    static constexpr int bank_bits = Config::banks > 1 ? bit_length(Config::banks - 1) : 1;
    using bank_t = uint_t<bank_bits>;
    using bank_sum_t = uint_t<bank_bits + 1>;
    // A number of ports, and the place of one among them.
    using port_t = uint_t<bit_length(ports)>;
    // Clocks between the end of an operation and the first step of one that waits for it. More than any pipeline has
    // between the stage that writes and the stage that reads (the build compares), and than registered comparisons lag.
    static constexpr int start_guard = 24;
};

// (a + b) mod banks for a < banks and b <= banks; returns whether the sum has reached `banks`.
template <class Config>
inline bool bank_sum(typename ScratchpadTypes<Config>::bank_sum_t a, typename ScratchpadTypes<Config>::bank_sum_t b,
                     typename ScratchpadTypes<Config>::bank_t& sum) {
#pragma HLS INLINE
    using bank_t = typename ScratchpadTypes<Config>::bank_t;
    using bank_sum_t = typename ScratchpadTypes<Config>::bank_sum_t;
    const bank_sum_t both = static_cast<bank_sum_t>(a + b);
    const bool carry = both >= Config::banks;
    sum = carry ? static_cast<bank_t>(both - Config::banks) : static_cast<bank_t>(both);
    return carry;
}

// A distance between pixels of a tensor. `carried`: the words if the banks begin anew.
template <class Config>
struct Stride {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;

    typename T::bank_t bank;
    word_t word, carried;

    static Stride of(int32_t word, int32_t bank, int32_t pixel_words) {
#pragma HLS INLINE
        const Stride stride = {static_cast<typename T::bank_t>(bank), static_cast<word_t>(word),
                               static_cast<word_t>(word + pixel_words)};
        return stride;
    }

    // `words`, `banks` (not more than there are) further; `pixel_words` of the tensor.
    Stride plus(word_t words, typename T::bank_sum_t banks, word_t pixel_words) const {
#pragma HLS INLINE
        Stride sum;
        const bool carry = bank_sum<Config>(bank, banks, sum.bank);
        sum.word = static_cast<word_t>(words + (carry ? carried : word));
        sum.carried = static_cast<word_t>(sum.word + pixel_words);
        return sum;
    }
};

// A word of bank `bank`.
template <class Config>
struct Place {
    using T = ScratchpadTypes<Config>;

    typename T::word_t word;
    typename T::bank_t bank;

    static Place of(int32_t word, int32_t bank) {
#pragma HLS INLINE
        const Place place = {static_cast<typename T::word_t>(word), static_cast<typename T::bank_t>(bank)};
        return place;
    }

    static Place of(const Stride<Config>& distance) {
#pragma HLS INLINE
        const Place place = {distance.word, distance.bank};
        return place;
    }

    Place after(const Stride<Config>& step) const {
#pragma HLS INLINE
        Place place;
        const bool carry = bank_sum<Config>(bank, step.bank, place.bank);
        place.word = static_cast<typename T::word_t>(word + (carry ? step.carried : step.word));
        return place;
    }
};

}  // namespace bfpga
