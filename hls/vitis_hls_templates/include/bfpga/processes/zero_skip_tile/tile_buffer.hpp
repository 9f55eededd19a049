// The cells of a map, a word of channels in each of two sets: what is read is shifted by whole rows and columns (ZS
// R19, R30-R34).
//
// Rows alternate between `parallel` banks, so that as many consecutive rows are read at once, and each column has a
// memory of its own: a row shift is the address where a bank is read, and which bank is which row; a column shifter
// follows the memories. Every cell is stored once. Padding is not written: what is outside the map reads as zero.
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/zero_skip_tile/types.hpp"

namespace bfpga {

// Cycles between the write of a cell and its first read: more than the loop has between these stages.
constexpr int tile_set_guard = 6;

// Where a cell of the map is stored.
template <class Config>
struct CellPlace {
    using D = TileTypes<Config>;
    using bank_t = uint_t<bit_length(D::parallel)>;

    bank_t bank;                // row modulo `parallel`
    typename D::group_t index;  // row / `parallel`
    line_t column;

    void first() {
#pragma HLS INLINE
        bank = 0;
        index = 0;
        column = 0;
    }

    // After the last cell of a row.
    void next_row() {
#pragma HLS INLINE
        const bool wraps = bank == D::parallel - 1;
        bank = wraps ? static_cast<bank_t>(0) : static_cast<bank_t>(bank + 1);
        index = wraps ? static_cast<typename D::group_t>(index + 1) : index;
        column = 0;
    }
};

template <class Config>
class MapBuffer {
    using D = TileTypes<Config>;
    using T = typename D::T;
    using Cell = MapCellBeat<typename D::C>;
    using group_t = typename D::group_t;
    using lane_t = typename D::lane_t;
    using phase_t = typename D::phase_t;
    using value_t = typename D::value_t;
    static constexpr int banks = D::parallel;
    static constexpr int columns = D::cell_columns;
    static constexpr int words = 2 * D::groups;

   public:
    MapBuffer() : bank_rows_(), inside_() {
        static_assert(tile_set_guard >= 6, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=2
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
// A set is read when `tile_set_guard` cycles have passed since it was loaded, and loaded when it has been used.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=6 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=bank_rows_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=inside_ complete dim=0
    }

    // A cell of the set that is loaded; `first`: of a map with `width` columns.
    void write(bool set, const CellPlace<Config>& place, const Cell& cell, bool first, line_t width) {
#pragma HLS INLINE
        const int word = (set ? D::groups : 0) + static_cast<int>(place.index);
    Banks_Write:
        for (int b = 0; b < banks; ++b) {
#pragma HLS UNROLL
            const bool bank = place.bank == b;
            group_t& rows = bank_rows_[set ? 1 : 0][b];
            rows = bank ? static_cast<group_t>(place.index + 1) : first ? static_cast<group_t>(0) : rows;
        Columns_Write:
            for (int x = 0; x < columns; ++x) {
#pragma HLS UNROLL
                if (bank && place.column == x) {
                    cell_waiver_.writes((b * columns + x) * words + word);
                    cell_[b][x][word] = to_wire(cell);
                }
            }
        }
    Columns_Open:
        for (int x = 0; x < columns; ++x) {
#pragma HLS UNROLL
            inside_[set ? 1 : 0][x] = first ? width > x : inside_[set ? 1 : 0][x];
        }
    }

    // One channel of the rows that a group of sums adds, shifted down and to the right: lane (r, x) gets the cell of
    // row `group` * parallel + r - `down` and column x - `right`. `used`: somebody needs them.
    void read(bool set, group_t group, lane_t channel, phase_t down, phase_t right, bool used,
              value_t (&lane)[D::lanes]) const {
#pragma HLS INLINE
        value_t cell[banks][columns];
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
    Banks_Read:
        for (int b = 0; b < banks; ++b) {
#pragma HLS UNROLL
            // The row that this bank has is in the group before, if the shift goes beyond the group's first row.
            const bool before = static_cast<int>(down) + b >= banks;
            const bool there = !(before && group == 0);
            const group_t index = before && there ? static_cast<group_t>(group - 1) : group;
            const bool row = there && index < bank_rows_[set ? 1 : 0][b];
            const int word = (set ? D::groups : 0) + (row ? static_cast<int>(index) : 0);
        Columns_Read:
            for (int x = 0; x < columns; ++x) {
#pragma HLS UNROLL
                const bool shown = row && inside_[set ? 1 : 0][x];
                if (used && shown) {
                    cell_waiver_.reads((b * columns + x) * words + word);
                }
                const Cell found = from_wire<Cell>(cell_[b][x][word]);
                const value_t value = found.value[static_cast<int>(channel)];
                cell[b][x] = shown ? value : static_cast<value_t>(0);
            }
        }
        shift(cell, down, right, lane);
    }

   private:
    // Row r is in bank r - down, column x in memory x - right: each a selection of as many as a kernel has lines.
    static void shift(const value_t (&cell)[banks][columns], phase_t down, phase_t right, value_t (&lane)[D::lanes]) {
#pragma HLS INLINE
    Rows_Shift:
        for (int r = 0; r < banks; ++r) {
#pragma HLS UNROLL
            value_t row[columns];
#pragma HLS ARRAY_PARTITION variable=row complete dim=0
        Cells_Shift:
            for (int x = 0; x < columns; ++x) {
#pragma HLS UNROLL
                row[x] = 0;
            Rows_Choose:
                for (int i = 0; i < T::rows; ++i) {
#pragma HLS UNROLL
                    const value_t chosen = down == i ? cell[(r - i + banks) % banks][x] : static_cast<value_t>(0);
                    row[x] = static_cast<value_t>(row[x] | chosen);
                }
            }
        Lanes_Shift:
            for (int x = 0; x < D::columns; ++x) {
#pragma HLS UNROLL
                value_t value = 0;
            Columns_Choose:
                for (int j = 0; j < T::columns; ++j) {
#pragma HLS UNROLL
                    const bool inside = x >= j && x - j < columns;
                    const value_t chosen = inside && right == j ? row[inside ? x - j : 0] : static_cast<value_t>(0);
                    value = static_cast<value_t>(value | chosen);
                }
                lane[r * D::columns + x] = value;
            }
        }
    }

    wire_t<Cell> cell_[banks][columns][words];  // the words of the first set, then of the second one
    mutable Waiver<InterRawDistance<6>, banks * columns * words> cell_waiver_;
    group_t bank_rows_[2][banks];  // rows of the map in a bank
    bool inside_[2][columns];      // the map has this column
};

}  // namespace bfpga
