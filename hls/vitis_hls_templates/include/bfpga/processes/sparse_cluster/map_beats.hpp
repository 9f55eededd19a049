// What travels around the units of a sparse cluster: a map with its numbers, its words, and the limits of its pieces.
#pragma once
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// Lines of a map, of its full grid and of its blocks, and numbers of words.
constexpr int line_bits = 10;
using line_t = uint_t<line_bits>;

// Fields of `line_bits` bits, one after the other.
template <int N>
struct PackedLines {
    static constexpr int bits = N * line_bits;

    template <class Bits>
    static void pack(Bits& to, const line_t (&line)[N]) {
#pragma HLS INLINE
    Lines_Pack:
        for (int n = 0; n < N; ++n) {
#pragma HLS UNROLL
            set_signed<line_bits>(to, n * line_bits, static_cast<int64_t>(line[n]));
        }
    }

    template <class Bits>
    static void unpack(const Bits& from, line_t (&line)[N]) {
#pragma HLS INLINE
    Lines_Unpack:
        for (int n = 0; n < N; ++n) {
#pragma HLS UNROLL
            line[n] = unsigned_at<line_bits>(from, n * line_bits);
        }
    }
};

// A map that is computed with some kernels.
template <class Config>
struct MapBeat {
    static constexpr int fields = 6;
    static constexpr int bits = PackedLines<fields>::bits + 4;

    line_t rows, columns;              // of the map
    line_t words;                      // of channels
    line_t last_kernel;                // in flight, counted from 0
    line_t block_rows, block_columns;  // of the full grid
    bool keeps;                        // the pieces are those of the map before
    bool stop;                         // the start ends
    bool tells;                        // its end sends the record of the map (map_record.hpp)

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        const line_t line[fields] = {rows, columns, words, last_kernel, block_rows, block_columns};
        PackedLines<fields>::pack(to, line);
        const bool mark[3] = {keeps, stop, tells};
        PackedFlags<3>::pack(to, PackedLines<fields>::bits, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        line_t line[fields];
        PackedLines<fields>::unpack(from, line);
        rows = line[0];
        columns = line[1];
        words = line[2];
        last_kernel = line[3];
        block_rows = line[4];
        block_columns = line[5];
        bool mark[3];
        PackedFlags<3>::unpack(from, PackedLines<fields>::bits, mark);
        keeps = mark[0];
        stop = mark[1];
        tells = mark[2];
    }
};

// The values of a cell in the channels of a word. Words of a map come raster by raster, a word of channels each.
template <class Config>
struct MapCellBeat {
    using T = ClusterUnitTypes<Config>;
    using Values = PackedNumbers<Config::lanes, Config::value_bits>;
    static constexpr int bits = Values::bits;

    typename T::value_t value[Config::lanes];

    bool any() const {
#pragma HLS INLINE
        bool found = false;
    Lanes_Any:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            found = found || value[l] != 0;
        }
        return found;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Values::pack(to, value);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Values::unpack(from, value);
    }
};

// The piece of a unit: cells that it gets, blocks that it has, and cells of the full grid that are taken from it: all
// with overlap-add, where pieces share no cell (SC R30); those of its outputs with halo, where they do (SC R29).
// Ends are exclusive. Several units may have a piece: of its cells with values each takes one in turn, and the sums of
// all are added.
template <class Config>
struct LimitsBeat {
    static constexpr int fields = 13;
    static constexpr int unit_bits = bit_length(Config::units);
    static constexpr int turns = PackedLines<fields>::bits;
    static constexpr int bits = turns + 2 * unit_bits + 2;
    using unit_t = uint_t<unit_bits>;

    line_t row, column, end_row, end_column;
    line_t block_row, block_column, end_block_row, end_block_column;
    line_t taken_row, taken_column, taken_end_row, taken_end_column;
    line_t last_place;       // its last block
    unit_t turn, last_turn;  // cells before the unit's first one, and between two of them
    bool used;               // the unit has a piece

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        const line_t line[fields] = {row,           column,           end_row,          end_column, block_row,
                                     block_column,  end_block_row,    end_block_column, taken_row,  taken_column,
                                     taken_end_row, taken_end_column, last_place};
        PackedLines<fields>::pack(to, line);
        set_signed<unit_bits>(to, turns, static_cast<int64_t>(turn));
        set_signed<unit_bits>(to, turns + unit_bits, static_cast<int64_t>(last_turn));
        set_signed<1>(to, turns + 2 * unit_bits, used ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        line_t line[fields];
        PackedLines<fields>::unpack(from, line);
        row = line[0];
        column = line[1];
        end_row = line[2];
        end_column = line[3];
        block_row = line[4];
        block_column = line[5];
        end_block_row = line[6];
        end_block_column = line[7];
        taken_row = line[8];
        taken_column = line[9];
        taken_end_row = line[10];
        taken_end_column = line[11];
        last_place = line[12];
        turn = unsigned_at<unit_bits>(from, turns);
        last_turn = unsigned_at<unit_bits>(from, turns + unit_bits);
        used = flag_at(from, turns + 2 * unit_bits);
    }
};

}  // namespace bfpga
