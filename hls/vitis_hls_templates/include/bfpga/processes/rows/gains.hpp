// What the weights process sends beside the words of an array: gains of the process of rows.
#pragma once
#include "bfpga/processes/rows/beats.hpp"
#include "bfpga/processes/weights.hpp"

namespace bfpga {

// The words of an array's weights, and the scales of channels.
template <class Config>
struct StoredWithGains : StoredWeights<Config> {
    using Words = stream<wire_t<WeightBeat<Config>>>;
    using Gains = stream<wire_t<RowGainBeat>>;

    static void send(const WeightWord<Config>& word, const WeightRead<Config>& read, Words& words, Gains&) {
#pragma HLS INLINE
        StoredWeights<Config>::send(word, read, words);
    }
};

// A gain is in the place of an exponent.
template <class Config>
struct GainsOf<StoredWithGains<Config>> {
    using Stored = StoredWithGains<Config>;

    static void send(const WeightRead<Config>& read, int_t<16> gain, typename Stored::Words&,
                     typename Stored::Gains& gains) {
#pragma HLS INLINE
        static_assert(RowNumbers::gain_bits == 16, "a gain has the bits of an exponent");
        if (read.gain()) {
            const RowGainBeat beat = {gain};
            gains.write(to_wire(beat));
        }
    }
};

}  // namespace bfpga
