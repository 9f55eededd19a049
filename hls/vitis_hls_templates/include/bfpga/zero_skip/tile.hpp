// The tile buffer: two sets of rows with their halo, a start row, a column shift (ZS R30-R34).
//
// A row is written cell by cell and read as a whole, so every column is a memory of its own. Rows alternate between
// `row_banks`: a beat may end one row and begin the next, and rows that are read together lie in different banks.
// Padding is never stored: cells outside the window that was loaded read as zero. Nothing is written while an image is
// computed but the other set (ZS R21).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/zero_skip/types.hpp"

namespace bfpga {

// Cells of the image stream that arrive in one clock.
template <class Config>
struct CellBeat {
    typename ZeroSkipTypes<Config>::operand_t cell[Config::beat_cells];
};

template <class Config>
struct BufferRow {
    typename ZeroSkipTypes<Config>::operand_t cell[ZeroSkipTypes<Config>::buffer_columns];
};

// The command before the rows of a tile: four words (ZS 2.3).
struct TileCommand {
    bool first_image;
    bool last_image;
    bool last_tile;
    int32_t image;
    int32_t row0;  // of the buffer in image coordinates
    int32_t column0;
    TileWindow window;

    // The pitch on the stream is in whole words of `word_cells` cells.
    static TileCommand decode(const uint32_t (&word)[4], int word_cells) {
#pragma HLS INLINE
        simulation_check((word[0] & 0xFFF) == 0x154, "a tile command", "begins with the word", word[0]);
        TileCommand command;
        command.first_image = (word[0] >> 12 & 1) != 0;
        command.last_image = (word[0] >> 13 & 1) != 0;
        command.last_tile = (word[0] >> 14 & 1) != 0;
        command.image = static_cast<int32_t>(word[0] >> 16);
        command.row0 = static_cast<int16_t>(word[1] & 0xFFFF);
        command.column0 = static_cast<int16_t>(word[1] >> 16);
        command.window.rows = static_cast<int32_t>(word[2] & 0xFFFF);
        command.window.columns = static_cast<int32_t>(word[2] >> 16);
        command.window.pitch = (command.window.columns + word_cells - 1) & ~(word_cells - 1);
        command.window.fill_top = static_cast<int32_t>(word[3] & 0xFF);
        command.window.fill_left = static_cast<int32_t>(word[3] >> 8 & 0xFF);
        command.window.tile_height = static_cast<int32_t>(word[3] >> 16 & 0xFF) + 1;
        command.window.tile_width = static_cast<int32_t>(word[3] >> 24) + 1;
        return command;
    }
};

// Hardware: stages of 1, 2, 4, ... columns, two cells in a LUT.
struct StagedColumns {
    template <class Operand, int N>
    static void left(Operand (&cell)[N], int amount) {
#pragma HLS INLINE
    Stages_Shift:
        for (int step = 1; step < N; step *= 2) {
#pragma HLS UNROLL
        Columns_Shift:
            for (int j = 0; j < N; ++j) {
#pragma HLS UNROLL
                if ((amount & step) != 0) {
                    cell[j] = j + step < N ? cell[j + step < N ? j + step : 0] : static_cast<Operand>(0);
                }
            }
        }
    }
};

// Simulation: the same values, each cell moved once.
struct DirectColumns {
    template <class Operand, int N>
    static void left(Operand (&cell)[N], int amount) {
    Columns_Move:
        for (int j = 0; j < N; ++j) {
#pragma HLS UNROLL
            cell[j] = j + amount < N ? cell[j + amount < N ? j + amount : 0] : static_cast<Operand>(0);
        }
    }
};

template <class Config>
class TileBuffer {
    using T = ZeroSkipTypes<Config>;
    static constexpr int banks = Config::row_banks;

   public:
    using coordinate_t = typename T::coordinate_t;

    // Reads and writes of one clock go to different sets: no dependence through the memories.
    TileBuffer() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=2
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=4
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
#pragma HLS DEPENDENCE variable=cell_ inter false
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=inside_ complete dim=0
    }

    // A window is about to be loaded into a set.
    void open(int set, const TileWindow& window) {
#pragma HLS INLINE
        simulation_check(window.fill_top + window.rows <= T::buffer_rows, "a tile", "has rows up to",
                         window.fill_top + window.rows);
        simulation_check(window.fill_left + window.columns <= T::buffer_columns, "a tile", "has columns up to",
                         window.fill_left + window.columns);
        first_row_[set] = window.fill_top;
        end_row_[set] = window.fill_top + window.rows;
    Columns_Open:
        for (int j = 0; j < T::buffer_columns; ++j) {
#pragma HLS UNROLL
            inside_[set][j] = j >= window.fill_left && j < window.fill_left + window.columns;
        }
    }

    // Cells of a beat in rows [row, row + banks). Column `left` of row `row` is cell `offset` of the beat (which may
    // lie outside it), of the next row cell `offset + pitch`.
    void write(int set, coordinate_t row, coordinate_t left, coordinate_t offset, coordinate_t pitch,
               const CellBeat<Config>& beat) {
#pragma HLS INLINE
        const coordinate_t end = end_row_[set];
    Banks_Write:
        for (int b = 0; b < banks; ++b) {
#pragma HLS UNROLL
            // The row of this bank, and its place in the beat.
            const int q = (b - static_cast<int>(row)) & (banks - 1);
            const coordinate_t mine = row + q;
            const coordinate_t first = offset + q * pitch - left;
            if (mine < end) {
                const int address = static_cast<int>(mine) / banks;
            Columns_Write:
                for (int j = 0; j < T::buffer_columns; ++j) {
#pragma HLS UNROLL
                    const coordinate_t k = first + j;
                    if (inside_[set][j] && k >= 0 && k < Config::beat_cells) {
                        cell_waiver_.writes(word(set, b, address, j));
                        cell_[set][b][address][j] = beat.cell[static_cast<int>(k) & (Config::beat_cells - 1)];
                    }
                }
            }
        }
    }

    // Rows `row`, `row + step`, ... : the start row is the shift ky, the step is the stride (ZS R30).
    void read(int set, coordinate_t row, coordinate_t step, BufferRow<Config> (&result)[Config::rows_parallel]) const {
#pragma HLS INLINE
        BufferRow<Config> found[banks];
#pragma HLS ARRAY_PARTITION variable=found complete dim=0
        coordinate_t wanted[Config::rows_parallel];
#pragma HLS ARRAY_PARTITION variable=wanted complete dim=0
    Rows_Address:
        for (int r = 0; r < Config::rows_parallel; ++r) {
#pragma HLS UNROLL
            wanted[r] = row + r * step;
        }
    Banks_Read:
        for (int b = 0; b < banks; ++b) {
#pragma HLS UNROLL
            int address = 0;
        Rows_Match:
            for (int r = 0; r < Config::rows_parallel; ++r) {
#pragma HLS UNROLL
                if ((static_cast<int>(wanted[r]) & (banks - 1)) == b) {
                    address = static_cast<int>(wanted[r]) / banks;
                }
            }
            found[b] = bank_row(set, b, address < T::bank_rows ? address : 0);
        }
    Rows_Select:
        for (int r = 0; r < Config::rows_parallel; ++r) {
#pragma HLS UNROLL
            const bool present = wanted[r] >= first_row_[set] && wanted[r] < end_row_[set];
            const BufferRow<Config>& source = found[static_cast<int>(wanted[r]) & (banks - 1)];
        Columns_Select:
            for (int j = 0; j < T::buffer_columns; ++j) {
#pragma HLS UNROLL
                const bool shown = present && inside_[set][j];
                result[r].cell[j] = shown ? source.cell[j] : static_cast<typename T::operand_t>(0);
            }
        }
    }

   private:
    static int word(int set, int bank, int address, int column) {
#pragma HLS INLINE
        return ((set * banks + bank) * T::bank_rows + address) * T::buffer_columns + column;
    }

    BufferRow<Config> bank_row(int set, int bank, int address) const {
#pragma HLS INLINE
        BufferRow<Config> row;
    Columns_Read:
        for (int j = 0; j < T::buffer_columns; ++j) {
#pragma HLS UNROLL
            cell_waiver_.reads(word(set, bank, address, j));
            row.cell[j] = cell_[set][bank][address][j];
        }
        return row;
    }

    typename T::operand_t cell_[2][banks][T::bank_rows][T::buffer_columns] = {};
    Waiver<InterFalse, 2 * banks * T::bank_rows * T::buffer_columns> cell_waiver_;
    bool inside_[2][T::buffer_columns] = {};
    coordinate_t first_row_[2] = {};
    coordinate_t end_row_[2] = {};
};

// Brings the cells of a window into a set of the buffer: a beat a clock while a beat touches `row_banks` rows at most.
template <class Config>
class TileLoader {
    using coordinate_t = typename ZeroSkipTypes<Config>::coordinate_t;

   public:
    void start(int set, const TileWindow& window, TileBuffer<Config>& buffer) {
#pragma HLS INLINE
        buffer.open(set, window);
        set_ = set;
        row_ = window.fill_top;
        end_ = window.fill_top + window.rows;
        left_ = window.fill_left;
        pitch_ = window.pitch;
        column_ = 0;
        used_ = 0;
        busy_ = window.rows > 0 && window.columns > 0;
    }

    void stop() { busy_ = false; }
    bool busy() const { return busy_; }

    // One clock. `source.read()` gives the next beat.
    template <class Source>
    void step(TileBuffer<Config>& buffer, Source& source) {
#pragma HLS INLINE
        if (!busy_) {
            return;
        }
        if (used_ == 0) {
            beat_ = source.read();
        }
        buffer.write(set_, row_, left_, static_cast<coordinate_t>(used_ - column_), pitch_, beat_);
        advance();
        busy_ = row_ < end_;
    }

   private:
    void advance() {
#pragma HLS INLINE
        const coordinate_t room = Config::row_banks * pitch_ - column_;  // cells of the rows of this clock
        const coordinate_t rest = Config::beat_cells - used_;
        if (room < rest) {
            used_ += room;
            row_ += Config::row_banks;
            column_ = 0;
            return;
        }
        used_ = 0;
        column_ += rest;
    Rows_Finish:
        for (int q = 0; q < Config::row_banks; ++q) {
#pragma HLS UNROLL
            if (column_ >= pitch_) {
                column_ -= pitch_;
                ++row_;
            }
        }
    }

    CellBeat<Config> beat_;
    coordinate_t row_ = 0, end_ = 0, left_ = 0, pitch_ = 0;
    coordinate_t column_ = 0;  // cells of row_ that are there
    coordinate_t used_ = 0;    // cells of beat_ that are written
    int set_ = 0;
    bool busy_ = false;
};

}  // namespace bfpga
