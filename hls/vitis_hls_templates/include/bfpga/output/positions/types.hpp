// Fixed-point positions from the data of the same pass: the numbers of a build (docs/dynamic-positions.md, FP 2).
//
// A statistics pass collects where the bits of exact wide results are, the selector fixes one shift from that, and the
// main pass converts the wide results with it: position_statistics.hpp, position_selector.hpp, position_converter.hpp.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/numeric/registers.hpp"

namespace bfpga {

// What is kept of the highest bits: the largest position (an OR, no counter), counts of the uppermost eight positions,
// or counts of all.
enum class NsbKept { Maximum, Coarse, Histogram };
// What is kept of the lowest bits.
enum class LsbKept { None, Minimum, Histogram };

// Positions that a coarse histogram counts; a power of two, so that a position's counter is given by its lowest bits.
constexpr int kCoarsePositions = 8;

// A build derives from it and hides what differs.
struct PositionDefaults {
    static constexpr int acc_width = 32;  // bits of a wide result
    static constexpr int out_width = 8;   // bits of a narrow one
    static constexpr int lanes = 16;      // results of a clock; 1 for the scalar unit
    static constexpr int count_bits = 32;
    static constexpr NsbKept nsb = NsbKept::Histogram;
    static constexpr LsbKept lsb = LsbKept::None;
    static constexpr Rounding rounding = Rounding::Rne;
    static constexpr Saturation saturation = Saturation::Full;
    using RegisterSets = ArrayRegisters;
};

template <class Config>
struct PositionTypes {
    static_assert(Config::acc_width >= 16 && Config::acc_width <= 48, "wide results have 16 to 48 bits");
    static_assert(Config::out_width >= 4 && Config::out_width <= 16, "narrow results have 4 to 16 bits");
    static_assert(Config::lanes >= 1 && Config::lanes <= 64, "1 to 64 results a clock");
    static_assert(Config::count_bits >= 8 && Config::count_bits <= 32, "counters have 8 to 32 bits");

    static constexpr int bins = Config::acc_width + 1;  // bin 0: no such bit; bin i + 1: position i

    using wide_t = int_t<Config::acc_width>;
    using narrow_t = int_t<Config::out_width>;
    using count_t = uint_t<Config::count_bits>;
    using lanes_t = uint_t<7>;       // a number of lanes
    using one_hot_t = uint_t<bins>;  // a bin as the one bit that is set; no bit: a lane without a result
};

}  // namespace bfpga
