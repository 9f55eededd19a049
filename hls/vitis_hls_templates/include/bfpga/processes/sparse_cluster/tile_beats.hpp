// What goes to the lanes of a unit of variant B: groups of values out of one micro-tile, and weights one by one.
#pragma once
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// The tag of a micro-tile's values: their channel and tile, or a mark of the piece.
template <class Config>
struct TileMarks {
    using T = ClusterUnitTypes<Config>;
    static constexpr int mark_bits = T::lane_bits + T::place_bits + 6;  // a bit more than fields, as in a PieceBeat

    typename T::lane_t channel;
    typename T::place_t place;  // of the tile, which is a block; of marks as in a PieceBeat
    bool is_value, opens, ends, drains, stop;

    // From bit `low` on.
    template <class Bits>
    void pack_marks(Bits& to, int low) const {
#pragma HLS INLINE
        set_signed<T::lane_bits>(to, low, static_cast<int64_t>(channel));
        set_signed<T::place_bits>(to, low + T::lane_bits, static_cast<int64_t>(place));
        const bool mark[5] = {is_value, opens, ends, drains, stop};
        PackedFlags<5>::pack(to, low + T::lane_bits + T::place_bits, mark);
    }

    template <class Bits>
    void unpack_marks(const Bits& from, int low) {
#pragma HLS INLINE
        channel = unsigned_at<T::lane_bits>(from, low);
        place = unsigned_at<T::place_bits>(from, low + T::lane_bits);
        bool mark[5];
        PackedFlags<5>::unpack(from, low + T::lane_bits + T::place_bits, mark);
        is_value = mark[0];
        opens = mark[1];
        ends = mark[2];
        drains = mark[3];
        stop = mark[4];
    }
};

// How many values are not zero.
template <class Value, int N>
inline int nonzero_values(const Value (&value)[N]) {
#pragma HLS INLINE
    int count = 0;
Values_Count:
    for (int n = 0; n < N; ++n) {
#pragma HLS UNROLL
        count += value[n] != 0 ? 1 : 0;
    }
    return count;
}

// Values of one channel and micro-tile, one a lane with its place in the tile, or a mark of the piece.
template <class Config>
struct TileBeat : TileMarks<Config> {
    using T = ClusterUnitTypes<Config>;
    static constexpr int products = Config::products;
    static constexpr int groups = (T::cells + products - 1) / products;  // of a tile and channel, at most
    static constexpr int lane_bits = Config::value_bits + 2 * T::phase_bits;
    static constexpr int marks = products * lane_bits;
    static constexpr int bits = marks + TileMarks<Config>::mark_bits;

    typename T::value_t value[products];  // 0: the lane is idle
    typename T::phase_t row_phase[products], column_phase[products];

    int values() const { return nonzero_values(value); }

    // Of a mark that drains.
    typename T::value_t last_kernel() const { return value[0]; }

    // Takes the values of a group out of those of a tile, after those of earlier groups; whether it has any.
    bool gather(const typename T::value_t (&tile)[T::cells], int group) {
#pragma HLS INLINE
        using rank_t = uint_t<bit_length(T::cells + products)>;
        const rank_t first = static_cast<rank_t>(group * products);
        rank_t rank = 0;
        rank_t of_cell[T::cells];
#pragma HLS ARRAY_PARTITION variable=of_cell complete dim=0
    Cells_Count:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            of_cell[n] = rank;
            rank = static_cast<rank_t>(rank + (tile[n] != 0 ? 1 : 0));
        }
    Lanes_Gather:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
            value[p] = 0;
            row_phase[p] = 0;
            column_phase[p] = 0;
        Cells_Gather:
            for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
                const bool here = tile[n] != 0 && of_cell[n] == static_cast<rank_t>(first + p);
                // One cell at most has this rank: what the cells have is one number.
                value[p] =
                    static_cast<typename T::value_t>(value[p] | (here ? tile[n] : static_cast<typename T::value_t>(0)));
                row_phase[p] = static_cast<typename T::phase_t>(row_phase[p] | (here ? n / T::columns : 0));
                column_phase[p] = static_cast<typename T::phase_t>(column_phase[p] | (here ? n % T::columns : 0));
            }
        }
        return rank > first;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Lanes_Pack:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
            const int low = p * lane_bits;
            set_signed<Config::value_bits>(to, low, static_cast<int64_t>(value[p]));
            set_signed<T::phase_bits>(to, low + Config::value_bits, static_cast<int64_t>(row_phase[p]));
            set_signed<T::phase_bits>(to, low + Config::value_bits + T::phase_bits,
                                      static_cast<int64_t>(column_phase[p]));
        }
        this->pack_marks(to, marks);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
    Lanes_Unpack:
        for (int p = 0; p < products; ++p) {
#pragma HLS UNROLL
            const int low = p * lane_bits;
            value[p] = static_cast<typename T::value_t>(get_signed<Config::value_bits>(from, low));
            row_phase[p] = unsigned_at<T::phase_bits>(from, low + Config::value_bits);
            column_phase[p] = unsigned_at<T::phase_bits>(from, low + Config::value_bits + T::phase_bits);
        }
        this->unpack_marks(from, marks);
    }
};

// What a unit of variant B keeps of a step: its one weight, and the offset of products from their values (SC E2).
template <class Config>
struct WeightEntry {
    using T = ClusterUnitTypes<Config>;
    static constexpr int row_offsets = Config::weight_bits;
    static constexpr int column_offsets = row_offsets + T::phase_bits;
    static constexpr int plane_numbers = column_offsets + T::phase_bits;
    static constexpr int marks = plane_numbers + T::plane_bits;
    static constexpr int bits = marks + 2;

    typename T::weight_t weight;
    typename T::phase_t row_offset, column_offset;
    typename T::plane_t plane;
    bool adds;

    static WeightEntry of(const StepBeat<Config>& step) {
#pragma HLS INLINE
        WeightEntry entry;
        entry.weight = 0;
        entry.row_offset = 0;
        entry.column_offset = 0;
        entry.plane = step.plane;
        entry.adds = step.adds;
        bool found = false;
    Weights_Find:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool here = step.weight[n] != 0;
            simulation_check(!here || !found, "a step of variant B", "has a second weight at", n);
            found = found || here;
            entry.weight = here ? step.weight[n] : entry.weight;
            entry.row_offset = here ? static_cast<typename T::phase_t>(T::rows - 1 - n / T::columns) : entry.row_offset;
            entry.column_offset =
                here ? static_cast<typename T::phase_t>(T::columns - 1 - n % T::columns) : entry.column_offset;
        }
        return entry;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<Config::weight_bits>(to, 0, static_cast<int64_t>(weight));
        set_signed<T::phase_bits>(to, row_offsets, static_cast<int64_t>(row_offset));
        set_signed<T::phase_bits>(to, column_offsets, static_cast<int64_t>(column_offset));
        set_signed<T::plane_bits>(to, plane_numbers, static_cast<int64_t>(plane));
        set_signed<1>(to, marks, adds ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        weight = static_cast<typename T::weight_t>(get_signed<Config::weight_bits>(from, 0));
        row_offset = unsigned_at<T::phase_bits>(from, row_offsets);
        column_offset = unsigned_at<T::phase_bits>(from, column_offsets);
        plane = unsigned_at<T::plane_bits>(from, plane_numbers);
        adds = flag_at(from, marks);
    }
};

}  // namespace bfpga
