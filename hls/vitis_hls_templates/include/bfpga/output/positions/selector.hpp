// The shift selector: from statistics of wide results to the shift of the main pass, once a layer (FP 2.3, R17).
//
// The numpy side is formats/position_rules.py.
#pragma once
#include "bfpga/output/positions/statistics.hpp"

namespace bfpga {

// The order is that of the register.
enum class PositionRule { Max, Rate, Lsb, Window };

// The registers of a rule. `margin` is added to the shift of any rule; the limits come last.
struct RuleRegisters {
    PositionRule rule;
    int32_t rate_log2;
    int32_t margin;
    int32_t shift_min;
    int32_t shift_max;
};

// Smallest position with at most count / 2**rate_log2 results above it. Counts are added from the top: one adder and
// one multiplexer for all bins, because a layer waits for them only once.
template <class Config>
inline int32_t tolerated_position(const PositionStatistics<Config>& statistics, int32_t rate_log2) {
    using count_t = typename PositionTypes<Config>::count_t;
    simulation_check(Config::nsb != NsbKept::Maximum, "a build without counters of positions", "has rate_log2",
                     rate_log2);
    simulation_check(rate_log2 >= 0 && rate_log2 < 32, "the register rate_log2", "holds 0 to 31, not", rate_log2);
    // 2**r * above <= count, without the wide product.
    const count_t allowed = static_cast<count_t>(statistics.count() >> static_cast<amount_t>(rate_log2));
    count_t above = 0;
    bool reached = false;
    int32_t position = 0;
Bins_Scan:
    for (int bin = Config::acc_width; bin >= 2; --bin) {
// II=1: a multiplexer, an addition, a comparison.
#pragma HLS PIPELINE II=1
        above = static_cast<count_t>(above + statistics.nsb_count(bin));
        if (above > allowed && !reached) {
            reached = true;
            position = bin - 1;
        }
    }
    // A coarse histogram does not know the counts below its positions.
    const int32_t lowest = Config::nsb == NsbKept::Coarse ? statistics.nsb_max() - kCoarsePositions : 0;
    return position > lowest ? position : lowest;
}

// The shift of a rule before margin and limits.
template <class Config>
inline int32_t rule_shift(const PositionStatistics<Config>& statistics, const RuleRegisters& registers) {
#pragma HLS INLINE
    constexpr int32_t used = Config::out_width - 2;  // position of the highest bit beside the sign
    const int32_t largest = statistics.nsb_max() - used;
    if (registers.rule == PositionRule::Max) {
        return largest;
    }
    if (registers.rule == PositionRule::Rate) {
        const int32_t tolerated = tolerated_position<Config>(statistics, registers.rate_log2) - used;
        const int32_t limited = tolerated > registers.shift_min ? tolerated : registers.shift_min;
        return limited < largest ? limited : largest;
    }
    simulation_check(Config::lsb != LsbKept::None, "a build without statistics of the lowest bits", "has rule",
                     static_cast<long long>(registers.rule));
    const int32_t lowest = statistics.lsb_min();
    return registers.rule == PositionRule::Lsb || lowest > largest ? lowest : largest;
}

// Right shift of the converter, left if negative; 0 if there was nothing but 0 and -1.
template <class Config>
inline int32_t select_shift(const PositionStatistics<Config>& statistics, const RuleRegisters& registers) {
    if (statistics.nsb_max() < 0) {
        return 0;
    }
    const int32_t shift = rule_shift<Config>(statistics, registers) + registers.margin;
    return shift < registers.shift_min   ? registers.shift_min
           : shift > registers.shift_max ? registers.shift_max
                                         : shift;
}

}  // namespace bfpga
