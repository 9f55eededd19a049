// What goes to the lanes of a unit of variant A: all cells of a micro-tile where they are, zeros too (SC R83, R85).
#pragma once
#include "bfpga/processes/sparse_cluster/tile_beats.hpp"

namespace bfpga {

// The cells of one channel and micro-tile, a lane for each, or a mark of the piece.
template <class Config>
struct WholeTileBeat : TileMarks<Config> {
    using T = ClusterUnitTypes<Config>;
    using Values = PackedNumbers<T::cells, Config::value_bits>;
    static constexpr int groups = 1;  // of a tile and channel
    static constexpr int marks = Values::bits;
    static constexpr int bits = marks + TileMarks<Config>::mark_bits;

    typename T::value_t value[T::cells];  // row after row

    int values() const { return nonzero_values(value); }

    // Of a mark that drains.
    typename T::value_t last_kernel() const { return value[0]; }

    // Takes the cells of a tile as they are; whether one is not zero: others are not sent (SC R69).
    bool gather(const typename T::value_t (&tile)[T::cells], int) {
#pragma HLS INLINE
        bool some = false;
    Cells_Take:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            value[n] = tile[n];
            some = some || tile[n] != 0;
        }
        return some;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Values::pack(to, value);
        this->pack_marks(to, marks);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Values::unpack(from, value);
        this->unpack_marks(from, marks);
    }
};

}  // namespace bfpga
