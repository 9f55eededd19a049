// Accumulators of a unit that works on micro-tiles: banks of the full grid, with or without a window in registers.
//
// The full grid lies in as many banks as a tile has cells: bank = (row mod tile rows, column mod tile columns), so the
// products of one weight with any cells of one tile meet different banks (SC 7.3). Adders stand at the banks, therefore
// one crossbar from lanes to banks does what a read network and a write network would do (SC R93).
#pragma once
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

// Sums of a full grid, read and written once a clock in each bank.
template <class Config, int BankRows, int BankColumns>
class GridMemory {
    using T = TileUnitTypes<Config>;
    using accumulator_t = typename T::accumulator_t;

   public:
    static constexpr int banks = BankRows * BankColumns;
    static constexpr int words_down = divided_up(T::grid_rows, BankRows);
    static constexpr int words_across = divided_up(T::grid_columns, BankColumns);

    // A sum is read, added and written in one clock: memory of LUTs reads without one.
    GridMemory() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
    }

    static int bank(int row, int column) {
#pragma HLS INLINE
        return row % BankRows * BankColumns + column % BankColumns;
    }
    static int word(int row, int column) {
#pragma HLS INLINE
        return row / BankRows * words_across + column / BankColumns;
    }

    accumulator_t read(int bank, int word) const {
#pragma HLS INLINE
        return cell_[bank][word];
    }
    void write(int bank, int word, accumulator_t value) {
#pragma HLS INLINE
        cell_[bank][word] = value;
    }

    // All sums are zero (SC R77); where every sum is taken, they are again afterwards.
    void clear() {
    Words_Clear:
        for (int w = 0; w < words_down * words_across; ++w) {
// II=1: a word of every bank a clock.
#pragma HLS PIPELINE II=1
        Banks_Clear:
            for (int b = 0; b < banks; ++b) {
#pragma HLS UNROLL
                cell_[b][w] = 0;
            }
        }
    }

    // sum += amount, modulo 2**accumulator_bits (SC 2.7).
    template <class Amount>
    static accumulator_t sum(accumulator_t before, const Amount& amount) {
#pragma HLS INLINE
        const int_t<Config::accumulator_bits + 1> wide =
            static_cast<int_t<Config::accumulator_bits + 1>>(before) + amount;
        return low_bits<Config::accumulator_bits>(wide);
    }

    accumulator_t take(int row, int column) {
#pragma HLS INLINE
        const int b = bank(row, column);
        const int w = word(row, column);
        const accumulator_t value = cell_[b][w];
        cell_[b][w] = 0;
        return value;
    }

   private:
    accumulator_t cell_[banks][words_down * words_across] = {};
};

// The banks themselves are added to: no window, no transfer (SC R76). Products of one bank clash.
template <class Config>
class BankedSums {
    using T = TileUnitTypes<Config>;
    using Grid = GridMemory<Config, Config::tile_rows, Config::tile_columns>;

   public:
    static constexpr bool clash_by_bank = true;

    // A tile begins; row, column: its first cell.
    void open(int row, int column, TileUnitCounters&) {
#pragma HLS INLINE
        row_ = row;
        column_ = column;
    }
    void close(TileUnitCounters&) {}

    // The products of a round, at most one a bank (SC R92, R96).
    void add(const LaneProduct<Config> (&lane)[Config::lanes]) {
#pragma HLS INLINE
    Banks_Add:
        for (int b = 0; b < Grid::banks; ++b) {
#pragma HLS UNROLL
            typename T::pair_t amount = 0;
            int word = 0;
            bool hit = false;
        Lanes_Select:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const int row = row_ + static_cast<int>(lane[l].row);
                const int column = column_ + static_cast<int>(lane[l].column);
                if (lane[l].valid && Grid::bank(row, column) == b) {
                    simulation_check(!hit, "a round", "adds twice to bank", b);
                    amount = lane[l].value;
                    word = Grid::word(row, column);
                    hit = true;
                }
            }
            if (hit) {
                grid_.write(b, word, Grid::sum(grid_.read(b, word), amount));
            }
        }
    }

    void clear() { grid_.clear(); }
    typename T::accumulator_t take(int row, int column) { return grid_.take(row, column); }

   private:
    Grid grid_;
    int32_t row_ = 0, column_ = 0;
};

// A window in registers, loaded from the banks when a tile begins and stored to where it came from when it ends (SC
// R76, R95). A tile begins at a bank's word, so a clock moves a word of every bank. Products of one word clash.
template <class Config>
class TileWindowSums {
    using T = TileUnitTypes<Config>;
    using Grid = GridMemory<Config, Config::tile_rows, Config::tile_columns>;

   public:
    static constexpr bool clash_by_bank = false;
    // Clocks of one transfer.
    static constexpr int transfer =
        divided_up(T::window_rows, Config::tile_rows) * divided_up(T::window_columns, Config::tile_columns);

    TileWindowSums() {
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
    }

    void open(int row, int column, TileUnitCounters& counters) {
        row_ = row;
        column_ = column;
        move(true, counters);
    }

    void close(TileUnitCounters& counters) { move(false, counters); }

    void add(const LaneProduct<Config> (&lane)[Config::lanes]) {
#pragma HLS INLINE
    Words_Add:
        for (int n = 0; n < T::window_rows * T::window_columns; ++n) {
#pragma HLS UNROLL
            typename T::pair_t amount = 0;
            bool hit = false;
        Lanes_Select:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                if (lane[l].valid && lane[l].row == n / T::window_columns && lane[l].column == n % T::window_columns) {
                    simulation_check(!hit, "a round", "adds twice to window word", n);
                    amount = lane[l].value;
                    hit = true;
                }
            }
            if (hit) {
                word_[n] = Grid::sum(word_[n], amount);
            }
        }
    }

    void clear() { grid_.clear(); }
    typename T::accumulator_t take(int row, int column) { return grid_.take(row, column); }

   private:
    void move(bool load, TileUnitCounters& counters) {
    Window_Down:
        for (int down = 0; down < T::window_rows; down += Config::tile_rows) {
// The loop inside is the pipelined one.
#pragma HLS LOOP_TRIPCOUNT min=1 max=8
        Window_Across:
            for (int across = 0; across < T::window_columns; across += Config::tile_columns) {
// II=1: one word of each bank a clock, and no bank is read and written by one transfer.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=8
                ++counters.transfers;
            Banks_Move:
                for (int b = 0; b < Grid::banks; ++b) {
#pragma HLS UNROLL
                    move_word(load, down + b / Config::tile_columns, across + b % Config::tile_columns, b);
                }
            }
        }
    }

    // Words of the window beyond the full grid (below and right of the last tiles) do not exist.
    void move_word(bool load, int row, int column, int bank) {
#pragma HLS INLINE
        const bool exists = row < T::window_rows && column < T::window_columns && row_ + row < T::grid_rows &&
                            column_ + column < T::grid_columns;
        if (exists) {
            const int at = Grid::word(row_ + row, column_ + column);
            if (load) {
                word_[row * T::window_columns + column] = grid_.read(bank, at);
            } else {
                grid_.write(bank, at, word_[row * T::window_columns + column]);
            }
        }
    }

    Grid grid_;
    typename T::accumulator_t word_[T::window_rows * T::window_columns] = {};
    int32_t row_ = 0, column_ = 0;
};

}  // namespace bfpga
