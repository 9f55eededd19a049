// A tensor that is added to the sums of a product, brought to their unit: what a row shares, and a column's adder.
#pragma once
#include "bfpga/memory/adds_tensor.hpp"
#include "bfpga/output/layer_registers.hpp"

namespace bfpga {

// Sum of two numbers, clamped to the range of ACC bits.
template <int ACC>
inline Saturated<ACC> saturating_sum(int_t<ACC> a, int_t<ACC> b) {
#pragma HLS INLINE
    using sum_t = int_t<ACC + 1>;
    constexpr int64_t largest = (static_cast<int64_t>(1) << (ACC - 1)) - 1;
    const sum_t sum = static_cast<sum_t>(static_cast<factor_t<ACC + 1, ACC>>(a) + b);
    // A sum is outside if its highest bits differ.
    const bool negative = sum < 0;
    const bool outside = negative != (((sum >> (ACC - 1)) & 1) != 0);
    const int64_t bound = negative ? -largest - 1 : largest;
    Saturated<ACC> result = {outside ? static_cast<int_t<ACC>>(bound) : static_cast<int_t<ACC>>(sum), outside};
    return result;
}

// A kernel whose products add nothing.
template <class Config, bool There = Config::residual_adds>
class AddedTensor {
    static constexpr int ACC = Config::accumulator_bits;

   public:
    void start(const Descriptor&, const LayerExponents&) {}
    void row(exponent_t) {}
    Saturated<ACC> to(int_t<ACC> sum, int_t<Config::mantissa_bits>) const {
#pragma HLS INLINE
        Saturated<ACC> result = {sum, false};
        return result;
    }
};

template <class Config>
class AddedTensor<Config, true> {
    static constexpr int ACC = Config::accumulator_bits;
    static constexpr int MW = Config::mantissa_bits;
    using Range = RangeShift<Saturation::Full, ACC, MW>;

   public:
    void start(const Descriptor& d, const LayerExponents& exponents) {
#pragma HLS INLINE
        adds_ = adds_tensor<Config>(d);
        exponent_ = static_cast<exponent_t>(exponents.second);
    }

    // A row whose sums have this exponent.
    void row(exponent_t unit) {
#pragma HLS INLINE
        range_ = Range::by(static_cast<exponent_t>(unit - exponent_));
    }

    // The sum with a mantissa of the tensor. It has saturated if either of both has.
    Saturated<ACC> to(int_t<ACC> sum, int_t<MW> mantissa) const {
#pragma HLS INLINE
        const int_t<MW> own = adds_ ? mantissa : static_cast<int_t<MW>>(0);
        const Saturated<ACC> aligned = shift_saturate<Config::rounding, Saturation::Full, ACC, MW>(own, range_);
        Saturated<ACC> result = saturating_sum<ACC>(sum, aligned.value);
        result.changed = result.changed | aligned.changed;
        return result;
    }

   private:
    bool adds_;
    exponent_t exponent_;
    Range range_;
};

}  // namespace bfpga
