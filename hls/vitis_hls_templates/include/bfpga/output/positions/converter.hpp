// The converter of all lanes: shift, round, saturate, and count what saturates (FP R12).
//
// The numpy side is `convert` of formats/fixed_point.py.
#pragma once
#include "bfpga/output/positions/types.hpp"

namespace bfpga {

template <class Config>
class PositionConverter {
    using T = PositionTypes<Config>;

   public:
    using wide_t = typename T::wide_t;
    using narrow_t = typename T::narrow_t;
    using count_t = typename T::count_t;

    // The start of a main pass. The shift stays as it is until the next one, so no result waits for another.
    void start(int32_t shift) {
#pragma HLS INLINE
        shift_ = static_cast<exponent_t>(shift);
        saturated_ = 0;
    }

    // The results of a clock; lanes that are not valid give 0 and are not counted.
    void convert(const wide_t (&value)[Config::lanes], const bool (&valid)[Config::lanes],
                 narrow_t (&narrow)[Config::lanes]) {
#pragma HLS INLINE
        typename T::lanes_t changed = 0;
    Lanes_Convert:
        for (int lane = 0; lane < Config::lanes; ++lane) {
#pragma HLS UNROLL
            const wide_t seen = valid[lane] ? value[lane] : static_cast<wide_t>(0);
            const Saturated<Config::out_width> result =
                shift_saturate<Config::rounding, Config::saturation, Config::out_width, Config::acc_width>(seen,
                                                                                                           shift_);
            narrow[lane] = result.value;
            changed = static_cast<typename T::lanes_t>(changed + (result.changed ? 1 : 0));
        }
        saturated_ = static_cast<count_t>(saturated_ + changed);
    }

    count_t saturated() const { return saturated_; }

   private:
    exponent_t shift_ = 0;
    count_t saturated_ = 0;
};

}  // namespace bfpga
