// A sparse cluster as the array of a kernel: its numbers, and the beats that configure its processes for an operation.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/processes/sparse_cluster/map_beats.hpp"

namespace bfpga {

// The numbers of a cluster out of those of a kernel: a block of output channels is in flight.
template <class Config>
struct ClusterConfig {
    static constexpr int lanes = Config::lanes;
    static constexpr int kernel_rows = Config::cluster_kernel;
    static constexpr int kernel_columns = Config::cluster_kernel;
    static constexpr int value_bits = Config::mantissa_bits;
    static constexpr int weight_bits = Config::weight_bits;
    static constexpr int accumulator_bits = Config::accumulator_bits;
    static constexpr int planes = Config::rows;
    static constexpr int unit_words = Config::cluster_words;
    static constexpr int unit_steps = Config::cluster_steps;
    static constexpr int grid_rows = Config::cluster_rows;
    static constexpr int grid_columns = Config::cluster_columns;
    static constexpr int units = grid_rows * grid_columns;
    static constexpr int map_lines = Config::cluster_lines;
    static constexpr int work_bits = 24;
    static constexpr bool halo = Config::cluster_halo;                   // pieces own outputs, else they share no cell
    static constexpr bool indexed = Config::cluster_indexed;             // units of variants B, C or D
    static constexpr bool shifts = Config::cluster_shifts;               // units of variant A; else of E
    static constexpr int weights = Config::cluster_weights;              // that values of these meet in a cycle
    static constexpr bool adds_pairs = Config::cluster_adds_pairs;       // units of variant D
    static constexpr int products = Config::cluster_products / weights;  // values of a block that are met at once
    using Multiplier = typename Config::ClusterMultiplier;
};

// Weight words that come for a block of output channels: words of channels, of each the taps of the kernel, row by row.
template <class Config>
struct KernelsBeat {
    static constexpr int fields = 3;
    static constexpr int bits = PackedLines<fields>::bits + 2;

    line_t words;          // of channels
    line_t rows, columns;  // of the kernel
    bool stop;             // the start ends

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        const line_t line[fields] = {words, rows, columns};
        PackedLines<fields>::pack(to, line);
        set_signed<1>(to, PackedLines<fields>::bits, stop ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        line_t line[fields];
        PackedLines<fields>::unpack(from, line);
        words = line[0];
        rows = line[1];
        columns = line[2];
        stop = flag_at(from, PackedLines<fields>::bits);
    }
};

// Which cells of the full grid are outputs: pixel (y, x) is cell (first_row + y * stride_row, first_column + x *
// stride_column).
template <class Config>
struct OutputsBeat {
    static constexpr int fields = 8;
    static constexpr int pixel_bits = 20;
    static constexpr int bits = PackedLines<fields>::bits + pixel_bits + 2;
    using pixel_t = uint_t<pixel_bits>;

    line_t block_rows, block_columns;  // of the full grid
    line_t width, group;               // pixels of a row; those that leave together
    line_t stride_row, stride_column;  // no more than a block has
    line_t first_row, first_column;    // in the first block
    pixel_t pixels;
    bool stop;  // the start ends

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        const line_t line[fields] = {block_rows, block_columns, width,     group,
                                     stride_row, stride_column, first_row, first_column};
        PackedLines<fields>::pack(to, line);
        set_signed<pixel_bits>(to, PackedLines<fields>::bits, static_cast<int64_t>(pixels));
        set_signed<1>(to, PackedLines<fields>::bits + pixel_bits, stop ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        line_t line[fields];
        PackedLines<fields>::unpack(from, line);
        block_rows = line[0];
        block_columns = line[1];
        width = line[2];
        group = line[3];
        stride_row = line[4];
        stride_column = line[5];
        first_row = line[6];
        first_column = line[7];
        pixels = unsigned_at<pixel_bits>(from, PackedLines<fields>::bits);
        stop = flag_at(from, PackedLines<fields>::bits + pixel_bits);
    }
};

// A map that is cut into pieces: equal ones, or from these on so that their work becomes even.
template <class Config>
struct PartitionBeat {
    static constexpr int fields = 6;
    static constexpr int difference_bits = 32;
    static constexpr int halo_bits = 3;  // of each way; a word has them where the form needs them
    static constexpr int halos = PackedLines<fields>::bits + difference_bits;
    static constexpr int marks = halos + (Config::halo ? 2 * halo_bits : 0);
    static constexpr int bits = marks + 3;

    line_t rows, columns;                // of the map
    line_t words;                        // of channels
    line_t moves;                        // of limits, at most; 0: the pieces are equal, and no cells come
    line_t joined_rows, joined_columns;  // pieces of the grid that are one
    int_t<32> work_difference;           // of two pieces at most; it is enough
    line_t halo_rows, halo_columns;      // of the kernel without one: lines that pieces share
    bool stop;                           // the start ends
    bool tells;                          // its result is reported (map_record.hpp)

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        const line_t line[fields] = {rows, columns, words, moves, joined_rows, joined_columns};
        PackedLines<fields>::pack(to, line);
        set_signed<difference_bits>(to, PackedLines<fields>::bits, static_cast<int64_t>(work_difference));
        if (Config::halo) {
            set_signed<halo_bits>(to, halos, static_cast<int64_t>(halo_rows));
            set_signed<halo_bits>(to, halos + halo_bits, static_cast<int64_t>(halo_columns));
        }
        const bool mark[2] = {stop, tells};
        PackedFlags<2>::pack(to, marks, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        line_t line[fields];
        PackedLines<fields>::unpack(from, line);
        rows = line[0];
        columns = line[1];
        words = line[2];
        moves = line[3];
        joined_rows = line[4];
        joined_columns = line[5];
        work_difference = static_cast<int_t<32>>(get_signed<difference_bits>(from, PackedLines<fields>::bits));
        halo_rows = Config::halo ? static_cast<line_t>(unsigned_at<halo_bits>(from, halos)) : static_cast<line_t>(0);
        halo_columns = Config::halo ? static_cast<line_t>(unsigned_at<halo_bits>(from, halos + halo_bits))
                                    : static_cast<line_t>(0);
        bool mark[2];
        PackedFlags<2>::unpack(from, marks, mark);
        stop = mark[0];
        tells = mark[1];
    }
};

}  // namespace bfpga
