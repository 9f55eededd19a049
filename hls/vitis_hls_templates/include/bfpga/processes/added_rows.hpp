// Which rows of a product's sums meet a word of the tensor that is added to them.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"

namespace bfpga {

// A kernel whose products add nothing.
template <class Config, bool There = Config::residual_adds>
class AddedRows {
   public:
    void start(const Descriptor&) {}
    bool adds() const { return false; }
    bool meets() const { return false; }
    bool sums_alone() const { return false; }
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
        alone_ = !adds_ && takes_sums(d);
        given_.start((d.output_rows + Config::lanes - 1) / Config::lanes);
        all_.start(sum_blocks<Config>(d) * pass_words<Config>(d));
    }

    // Whether the operation adds a tensor, whether the row meets a word of it, and whether it is made of sums alone.
    bool adds() const { return adds_; }
    bool meets() const { return meets_; }
    bool sums_alone() const { return alone_; }

    // One cycle; `ends_word`: the last row of a word leaves. Blocks may have more words than the output.
    void next(bool ends_word) {
#pragma HLS INLINE
        const bool group = all_.last();
        const bool meets = adds_ & (group | (meets_ & !given_.last()));
        const bool alone = adds_ ? !meets : alone_;
        meets_ = ends_word ? meets : meets_;
        alone_ = ends_word ? alone : alone_;
        given_.step_late(ends_word, given_.last() | group, false);
        all_.step(ends_word, false);
    }

   private:
    static bool takes_sums(const Descriptor& d) {
#pragma HLS INLINE
        return (static_cast<Operation>(d.operation) == Operation::Gemm || works_on_rows<Config>(d)) &&
               !takes_accumulators<Config>(d);
    }

    bool adds_, meets_, alone_;
    Turns<bits> given_, all_;  // words of a group that the output has, and those of its blocks
};

}  // namespace bfpga
