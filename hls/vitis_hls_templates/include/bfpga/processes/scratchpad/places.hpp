// Addresses of pixels in the banks of the scratchpad, and the steps from one to another: one addition modulo the banks,
// one addition of words; words never select banks, so each may have a cycle of its own.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/memory/word.hpp"

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
    // A number of ports, and the index of one among them.
    using port_t = uint_t<bit_length(ports)>;
    // Cycles between the end of an operation and the first step of one that waits for it.
    static constexpr int start_guard = ProcessLimits::start_guard;
};

// Row blocks may read words beyond a tensor's last: their weights are zero, so in a simulation the value is too.
template <class Config>
bool inside_memory(typename Geometry<Config>::word_t word) {
#pragma HLS INLINE
    return word >= 0 && word < Config::activation_words;
}

// A step of banks (0 to `banks`), raised so that a bank and it overflow `bank_bits` bits where their sum reaches
// `banks`; what is left is the sum modulo `banks` then.
template <class Config>
inline typename ScratchpadTypes<Config>::bank_sum_t raised_step(typename ScratchpadTypes<Config>::bank_sum_t step) {
#pragma HLS INLINE
    using T = ScratchpadTypes<Config>;
    constexpr int rise = (1 << T::bank_bits) - Config::banks;
    return static_cast<typename T::bank_sum_t>(step + rise);
}

// (bank + step) mod banks; `raised`: the step, raised. Returns whether the sum has reached `banks`. Both sums are
// computed in parallel, and a bit of one selects.
template <class Config>
inline bool bank_sum(typename ScratchpadTypes<Config>::bank_t bank, typename ScratchpadTypes<Config>::bank_sum_t step,
                     typename ScratchpadTypes<Config>::bank_sum_t raised,
                     typename ScratchpadTypes<Config>::bank_t& sum) {
#pragma HLS INLINE
    using T = ScratchpadTypes<Config>;
    constexpr int mask = (1 << T::bank_bits) - 1;
    const typename T::bank_sum_t near = static_cast<typename T::bank_sum_t>(bank + step);
    const typename T::bank_sum_t far = static_cast<typename T::bank_sum_t>(bank + raised);
    const bool carry = (far >> T::bank_bits) != 0;
    sum = static_cast<typename T::bank_t>((carry ? far : near) & mask);
    return carry;
}

template <class Config>
inline bool bank_sum(typename ScratchpadTypes<Config>::bank_t bank, typename ScratchpadTypes<Config>::bank_sum_t step,
                     typename ScratchpadTypes<Config>::bank_t& sum) {
#pragma HLS INLINE
    return bank_sum<Config>(bank, step, raised_step<Config>(step), sum);
}

// A distance between pixels of a tensor. `carried`: the words if the banks begin anew.
template <class Config>
struct Stride {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;

    typename T::bank_t bank;
    typename T::bank_sum_t raised;  // the bank, for sums
    word_t word, carried;

    static Stride of(int32_t word, int32_t bank, int32_t pixel_words) {
#pragma HLS INLINE
        const typename T::bank_t own = static_cast<typename T::bank_t>(bank);
        const Stride stride = {own, raised_step<Config>(own), static_cast<word_t>(word),
                               static_cast<word_t>(word + pixel_words)};
        return stride;
    }

    // To the next pixel in memory.
    static Stride to_neighbour(int32_t pixel_words) {
#pragma HLS INLINE
        return Config::banks == 1 ? of(pixel_words, 0, pixel_words) : of(0, 1, pixel_words);
    }

    // `words`, `banks` (not more than there are) further; `pixel_words` of the tensor.
    Stride plus(word_t words, typename T::bank_sum_t banks, word_t pixel_words) const {
#pragma HLS INLINE
        Stride sum;
        const bool carry = bank_sum<Config>(bank, banks, sum.bank);
        sum.raised = raised_step<Config>(sum.bank);
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
        const bool carry = bank_sum<Config>(bank, step.bank, step.raised, place.bank);
        place.word = static_cast<typename T::word_t>(word + (carry ? step.carried : step.word));
        return place;
    }
};

}  // namespace bfpga
