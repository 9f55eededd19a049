// The record of a map: how the partition has cut it, and what each unit has received of it (SC R25, R33, R56).
//
// A record is words of 32 bits: those of the partition, then one of each unit, the values other than zero that it was
// given, for all blocks together. The partition sends its words to the distributor, which sends the whole record when
// the cells of the last block have gone. STORE appends the records that its descriptor names to its tensor.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Words of the partition: flags and moves, the largest and the smallest work of a piece.
constexpr int cut_words = 3;

// The first of them.
inline int_t<32> cut_word(uint32_t moves, bool reached, bool counted) {
#pragma HLS INLINE
    return static_cast<int_t<32>>(static_cast<int32_t>((moves << MapRecordFields::moves) |
                                                       ((reached ? 1U : 0U) << MapRecordFields::reached) |
                                                       ((counted ? 1U : 0U) << MapRecordFields::counted)));
}

// An empty record stream, for an array that reports nothing.
struct NoRecords {
    bool read_nb(int_t<32>&) const { return false; }
    void write(const int_t<32>&) const {}
};

// The values that each unit of a map has got; their words leave one by one.
template <class Config>
class UnitValues {
    static constexpr int units = Config::units;
    using count_t = uint_t<bit_length(Config::lanes)>;

   public:
    UnitValues() : took_(), values_() {
#pragma HLS ARRAY_PARTITION variable=took_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=values_ complete dim=0
    }

    // A unit gets the cell of this cycle, or not.
    void take(int unit, bool taken) {
#pragma HLS INLINE
        took_next_[unit] = taken;
    }

    // A cycle: what the cell of the cycle before holds is added. `clear`: a map begins; `shift`: the first unit's word
    // has left.
    template <class Cell>
    void step(const Cell& cell, bool clear, bool shift) {
#pragma HLS INLINE
        const count_t more = count_;
        int found = 0;  // in 8 bits g++ 12 adds -1 for each value
    Lanes_Count:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            found += cell.value[l] != 0 ? 1 : 0;
        }
        count_ = static_cast<count_t>(found);
    Units_Count:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            const uint_t<32> next = u + 1 < units ? values_[u + 1 < units ? u + 1 : u] : static_cast<uint_t<32>>(0);
            const uint_t<32> sum = static_cast<uint_t<32>>(
                values_[u] + (took_[u] ? static_cast<uint_t<32>>(more) : static_cast<uint_t<32>>(0)));
            values_[u] = clear ? static_cast<uint_t<32>>(0) : shift ? next : sum;
            took_[u] = took_next_[u];
        }
    }

    // The first unit's word.
    int_t<32> word() const { return static_cast<int_t<32>>(values_[0]); }

   private:
    bool took_[units], took_next_[units];  // the cell of the cycle before, of this one
    count_t count_ = 0;                    // values of the cell of the cycle before
    uint_t<32> values_[units];
};

}  // namespace bfpga
