// How much work is above and left of every cell of a map: the work of a rectangle is four words (SC 4.1).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/sparse_cluster/map_beats.hpp"

namespace bfpga {

// Cycles between the write of a word and its first read: more than a loop has between these stages.
constexpr int table_guard = 8;

// Lines [first, end) of a map.
struct Lines {
    line_t first, end;
};

template <class Config>
class WorkTable {
    static constexpr int lines = Config::map_lines;  // of the largest map, each way
    static_assert((lines & (lines - 1)) == 0, "addresses are put together of bits");
    static constexpr int words = lines * lines;
    static constexpr int corners = 4;

   public:
    using work_t = int_t<Config::work_bits>;

    WorkTable() {
        static_assert(table_guard >= 8, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A row is read when the next one comes, `table_guard` cycles after its last write.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // The work above and left of the limits between lines; a limit of 0 has none.
    work_t above(int corner, line_t row, line_t column, bool used) const {
#pragma HLS INLINE
        const bool none = row == 0 || column == 0;
        const int word = none ? 0 : address(static_cast<line_t>(row - 1), static_cast<line_t>(column - 1));
        if (used && !none) {
            cell_waiver_.reads(corner * words + word);
        }
        const work_t found = cell_[corner][word];
        return none ? static_cast<work_t>(0) : found;
    }

    work_t work(const Lines& rows, const Lines& columns, bool used) const {
#pragma HLS INLINE
        const work_t below =
            static_cast<work_t>(above(0, rows.end, columns.end, used) - above(1, rows.end, columns.first, used));
        const work_t before =
            static_cast<work_t>(above(2, rows.first, columns.end, used) - above(3, rows.first, columns.first, used));
        return static_cast<work_t>(below - before);
    }

    void write(line_t row, line_t column, work_t work) {
#pragma HLS INLINE
        const int word = address(row, column);
    Corners_Write:
        for (int k = 0; k < corners; ++k) {
#pragma HLS UNROLL
            cell_waiver_.writes(k * words + word);
            cell_[k][word] = work;
        }
    }

   private:
    static int address(line_t row, line_t column) {
#pragma HLS INLINE
        return (static_cast<int>(row) * lines + static_cast<int>(column)) & (words - 1);
    }

    work_t cell_[corners][words];  // a copy for each corner of a rectangle
    mutable Waiver<InterRawDistance<8>, corners * words> cell_waiver_;
};

// The work of each column of a map, from its first row on.
template <class Config>
class ColumnWork {
    static constexpr int lines = Config::map_lines;

   public:
    using work_t = int_t<Config::work_bits>;

    ColumnWork() {
        static_assert(table_guard >= 8, "the distance that the pragma states");
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
// A column is met again in the next row, which comes `table_guard` cycles after the end of this one.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // The work of a column with `more` of it; `opens`: in its first row.
    work_t add(line_t column, work_t more, bool opens) {
#pragma HLS INLINE
        const int word = static_cast<int>(column) & (lines - 1);
        cell_waiver_.reads(word);
        cell_waiver_.writes(word);
        const work_t before = cell_[word];
        const work_t work = static_cast<work_t>((opens ? static_cast<work_t>(0) : before) + more);
        cell_[word] = work;
        return work;
    }

   private:
    work_t cell_[lines];
    Waiver<InterRawDistance<8>, lines> cell_waiver_;
};

}  // namespace bfpga
