// Which rows of a product's sums meet a word of the tensor that is added to them.
#pragma once
#include "bfpga/memory/adds_tensor.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"

namespace bfpga {

// A kernel whose products add nothing.
template <class Config, bool There = Config::residual_adds>
class AddedRows {
   public:
    void start(const Descriptor&) {}
    bool meets() const { return false; }
    void next(bool) {}
};

template <class Config>
class AddedRows<Config, true> {
    static constexpr int bits = Geometry<Config>::coordinate_bits;

   public:
    void start(const Descriptor& d) {
#pragma HLS INLINE
        adds_ = adds_tensor<Config>(d);
        meets_ = adds_;
        given_.start((d.output_rows + Config::lanes - 1) / Config::lanes);
        all_.start(sum_blocks<Config>(d) * pass_words<Config>(d));
    }

    // Whether the row meets a word.
    bool meets() const { return meets_; }

    // A row leaves; `ends_word`: the last one of a word. Blocks may have more words than the output.
    void next(bool ends_word) {
#pragma HLS INLINE
        const bool group = all_.last();
        if (ends_word) {
            meets_ = adds_ & (group | (meets_ & !given_.last()));
        }
        given_.step_late(ends_word, given_.last() | group, false);
        all_.step(ends_word, false);
    }

   private:
    bool adds_, meets_;
    Turns<bits> given_, all_;  // words of a group that the output has, and those of its blocks
};

}  // namespace bfpga
