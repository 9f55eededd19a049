// What the weights process has for a sparse cluster: all words of a block of output channels, then the parameters of
// its rows, for each group of pixels of the map again.
#pragma once
#include "bfpga/processes/skip_array/slice_read.hpp"

namespace bfpga {

template <class Config>
struct StoredKernels {
    using Beats = WeightBeats<Config>;
    using Memory = WeightMemory<Config>;
    using Read = WeightRead<Config, SliceRows<Config>>;

    static void send(const WeightWord<Config>& word, const Read&, stream<wire_t<WeightBeat<Config>>>& weight_words) {
#pragma HLS INLINE
        WeightBeat<Config> weight;
        weight.weight = word;
        weight.two_hot = false;
        weight.power_of_two = false;
        weight_words.write(to_wire(weight));
    }
};

}  // namespace bfpga
