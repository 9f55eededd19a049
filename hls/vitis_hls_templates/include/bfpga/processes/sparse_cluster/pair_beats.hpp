// What units of variants C and D compute with: two weights of a kernel a step, and the products of a round.
#pragma once
#include "bfpga/processes/sparse_cluster/tile_beats.hpp"

namespace bfpga {

// What a unit keeps of a step: its weights, and the offset of products from their values (SC E2).
template <class Config>
struct PairEntry {
    using T = ClusterUnitTypes<Config>;
    using phase_t = typename T::phase_t;
    using Weights = PackedNumbers<Config::weights, Config::weight_bits>;
    static constexpr int offset_bits = 2 * T::phase_bits;
    static constexpr int plane_numbers = Weights::bits + Config::weights * offset_bits;
    static constexpr int marks = plane_numbers + T::plane_bits;
    static constexpr int bits = marks + 2;  // one spare bit: each flag is read with the bit above it

    typename T::weight_t weight[Config::weights];  // 0: the lanes are idle
    phase_t row_offset[Config::weights], column_offset[Config::weights];
    typename T::plane_t plane;
    bool adds;

    static PairEntry of(const StepBeat<Config>& step) {
#pragma HLS INLINE
        PairEntry entry;
        entry.plane = step.plane;
        entry.adds = step.adds;
        bool free[T::cells];
#pragma HLS ARRAY_PARTITION variable=free complete dim=0
    Weights_Free:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            free[n] = step.weight[n] != 0;
        }
    Weights_Find:
        for (int w = 0; w < Config::weights; ++w) {
#pragma HLS UNROLL
            entry.weight[w] = 0;
            entry.row_offset[w] = 0;
            entry.column_offset[w] = 0;
            bool found = false;
        Taps_Find:
            for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
                // One tap at most is the first of those that are left: what the taps have is one number.
                const bool here = free[n] && !found;
                entry.weight[w] = static_cast<typename T::weight_t>(
                    entry.weight[w] | (here ? step.weight[n] : static_cast<typename T::weight_t>(0)));
                entry.row_offset[w] = static_cast<phase_t>(
                    entry.row_offset[w] |
                    (here ? static_cast<phase_t>(T::rows - 1 - n / T::columns) : static_cast<phase_t>(0)));
                entry.column_offset[w] = static_cast<phase_t>(
                    entry.column_offset[w] |
                    (here ? static_cast<phase_t>(T::columns - 1 - n % T::columns) : static_cast<phase_t>(0)));
                found = found || free[n];
                free[n] = free[n] && !here;
            }
        }
    Weights_Check:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            simulation_check(!free[n], "a step of variants C and D", "has a third weight at", n);
        }
        return entry;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Weights::pack(to, weight);
    Offsets_Pack:
        for (int w = 0; w < Config::weights; ++w) {
#pragma HLS UNROLL
            const int low = Weights::bits + w * offset_bits;
            set_signed<T::phase_bits>(to, low, static_cast<int64_t>(row_offset[w]));
            set_signed<T::phase_bits>(to, low + T::phase_bits, static_cast<int64_t>(column_offset[w]));
        }
        set_signed<T::plane_bits>(to, plane_numbers, static_cast<int64_t>(plane));
        set_signed<1>(to, marks, adds ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Weights::unpack(from, weight);
    Offsets_Unpack:
        for (int w = 0; w < Config::weights; ++w) {
#pragma HLS UNROLL
            const int low = Weights::bits + w * offset_bits;
            row_offset[w] = unsigned_at<T::phase_bits>(from, low);
            column_offset[w] = unsigned_at<T::phase_bits>(from, low + T::phase_bits);
        }
        plane = unsigned_at<T::plane_bits>(from, plane_numbers);
        adds = flag_at(from, marks);
    }
};

// The products of a round, one a lane: first those of the first weight, then those of the second one (SC R98). Or a
// block whose sums leave, or a pause: no product is met again too early, however soon rounds follow each other.
template <class Config>
struct RoundBeat {
    using T = ClusterUnitTypes<Config>;
    static constexpr int lanes = Config::products * Config::weights;
    static constexpr int bank_bits = T::cells > 1 ? bit_length(T::cells - 1) : 1;
    using bank_t = uint_t<bank_bits>;
    using Products = PackedNumbers<lanes, T::product_bits>;
    static constexpr int lane_bits = bank_bits + T::place_bits;
    static constexpr int places = Products::bits + lanes * lane_bits;
    static constexpr int plane_numbers = places + T::place_bits;
    static constexpr int valids = plane_numbers + T::plane_bits;
    static constexpr int clash_marks = valids + lanes;
    static constexpr int marks = clash_marks + T::cells;
    static constexpr int bits = marks + 3;  // one spare bit: each flag is read with the bit above it

    typename T::product_t product[lanes];
    bank_t bank[lanes];                // where it is added
    typename T::place_t block[lanes];  // and in which block
    bool valid[lanes];                 // the lane has a product
    bool clashes[T::cells];            // two products of the bank cannot leave at once
    typename T::plane_t plane;         // the kernel
    typename T::place_t place;         // the block that leaves
    bool takes;                        // its sums leave
    bool stop;                         // the start ends

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Products::pack(to, product);
    Lanes_Pack:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const int low = Products::bits + l * lane_bits;
            set_signed<bank_bits>(to, low, static_cast<int64_t>(bank[l]));
            set_signed<T::place_bits>(to, low + bank_bits, static_cast<int64_t>(block[l]));
        }
        set_signed<T::place_bits>(to, places, static_cast<int64_t>(place));
        set_signed<T::plane_bits>(to, plane_numbers, static_cast<int64_t>(plane));
        PackedFlags<lanes>::pack(to, valids, valid);
        PackedFlags<T::cells>::pack(to, clash_marks, clashes);
        const bool mark[2] = {takes, stop};
        PackedFlags<2>::pack(to, marks, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Products::unpack(from, product);
    Lanes_Unpack:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const int low = Products::bits + l * lane_bits;
            bank[l] = unsigned_at<bank_bits>(from, low);
            block[l] = unsigned_at<T::place_bits>(from, low + bank_bits);
        }
        place = unsigned_at<T::place_bits>(from, places);
        plane = unsigned_at<T::plane_bits>(from, plane_numbers);
        PackedFlags<lanes>::unpack(from, valids, valid);
        PackedFlags<T::cells>::unpack(from, clash_marks, clashes);
        bool mark[2];
        PackedFlags<2>::unpack(from, marks, mark);
        takes = mark[0];
        stop = mark[1];
    }
};

}  // namespace bfpga
