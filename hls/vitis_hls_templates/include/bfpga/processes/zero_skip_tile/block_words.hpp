// What the weights process has for a tile: the stored words of a block of output channels, as many of each block, then
// the parameters of its rows.
#pragma once
#include "bfpga/processes/sparse_cluster/kernel_words.hpp"

namespace bfpga {

// The walk over the words of consecutive blocks, `weight_block_step` of them each.
template <class Config>
class BlockRead : public WeightRead<Config, SliceRows<Config>> {
   public:
    void start(const Descriptor& d) {
#pragma HLS INLINE
        Descriptor words = d;
        words.kernel_height = 1;
        words.kernel_width = 1;
        words.channel_words = d.weight_block_step;
        WeightRead<Config, SliceRows<Config>>::start(words);
    }
};

template <class Config>
struct StoredBlocks : StoredKernels<Config> {
    using Read = BlockRead<Config>;
};

}  // namespace bfpga
