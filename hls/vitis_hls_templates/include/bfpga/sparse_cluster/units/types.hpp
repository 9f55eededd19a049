// The sparse cluster's comparison units: their numbers, and what their parts tell each other (docs/sparse-cluster.md).
//
// Variants A to D cut a piece into micro-tiles and hold the values of one tile while weights come and go. They compute
// what variant E computes, with other clocks: they exist so that these are counted. Tiles and lanes are numbers of a
// build; kernels, pieces, the cap on weights and the merge policy are run-time numbers up to those of the build.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Which of two products that meet in one word waits (SC R101).
enum class MergePolicy { DeferLater, DeferEarlier };

// The numbers of a unit; a build derives from it and hides what differs.
struct TileUnitDefaults {
    static constexpr int lanes = 8;      // multipliers
    static constexpr int tile_rows = 4;  // cells of a micro-tile
    static constexpr int tile_columns = 4;
    static constexpr int kernel_rows = 3;  // the largest kernel
    static constexpr int kernel_columns = 3;
    static constexpr int piece_rows = 28;  // the largest piece
    static constexpr int piece_columns = 28;
    static constexpr int input_bits = 8;
    static constexpr int weight_bits = 8;
    static constexpr int accumulator_bits = 32;
    static constexpr int weights_per_round = 2;  // variants C and D: the largest cap on new weights of a round
    static constexpr int kernels_in_flight = 4;  // variant E
    static constexpr int dependence_latency = 4;
    using Multiplier = LaneDsp;
};

constexpr int divided_up(int number, int divisor) { return (number + divisor - 1) / divisor; }
constexpr int bits_for(int number) { return number <= 1 ? 0 : 1 + bits_for((number + 1) / 2); }

// Sizes and types that follow from the numbers.
template <class Config>
struct TileUnitTypes {
    static_assert(Config::lanes >= 1 && Config::lanes <= 32, "a unit has 1 to 32 lanes");
    static_assert(Config::tile_rows >= 1 && Config::tile_rows <= 16 && Config::tile_columns >= 1 &&
                      Config::tile_columns <= 16,
                  "a micro-tile has 1 to 16 rows and columns");
    static_assert(Config::kernel_rows >= 1 && Config::kernel_rows <= 16 && Config::kernel_columns >= 1 &&
                      Config::kernel_columns <= 16,
                  "a kernel has 1 to 16 rows and columns; a larger one is split");
    static_assert(Config::piece_rows >= 1 && Config::piece_rows <= 256 && Config::piece_columns >= 1 &&
                      Config::piece_columns <= 256,
                  "a piece has 1 to 256 rows and columns: its indices are bytes");
    static_assert(Config::input_bits >= 2 && Config::input_bits <= 16, "inputs have 2 to 16 bits");
    static_assert(Config::weight_bits >= 2 && Config::weight_bits <= 16, "weights have 2 to 16 bits");
    static_assert(Config::accumulator_bits >= 16 && Config::accumulator_bits <= 48, "accumulators have 16 to 48 bits");
    static_assert(Config::weights_per_round >= 1, "a round holds a weight at least");
    static_assert(Config::kernels_in_flight >= 1 && Config::kernels_in_flight <= 64, "1 to 64 kernels in flight");

    static constexpr int tile_cells = Config::tile_rows * Config::tile_columns;
    static constexpr int kernel_cells = Config::kernel_rows * Config::kernel_columns;
    static constexpr int window_rows = Config::tile_rows + Config::kernel_rows - 1;  // SC E9
    static constexpr int window_columns = Config::tile_columns + Config::kernel_columns - 1;
    static constexpr int grid_rows = Config::piece_rows + Config::kernel_rows - 1;  // SC E3
    static constexpr int grid_columns = Config::piece_columns + Config::kernel_columns - 1;
    static constexpr int product_bits = Config::input_bits + Config::weight_bits;
    static_assert(Config::accumulator_bits >= product_bits + bits_for(kernel_cells),
                  "accumulators hold all products of a kernel (SC E10)");
    // A round takes one value of a lane at least from each weight, so more weights than lanes never meet.
    static constexpr int weight_cap =
        Config::weights_per_round < Config::lanes ? Config::weights_per_round : Config::lanes;

    using value_t = int_t<Config::input_bits>;
    using weight_t = int_t<Config::weight_bits>;
    using product_t = int_t<product_bits>;
    using pair_t = int_t<product_bits + 1>;  // a product, or the sum of two
    using accumulator_t = int_t<Config::accumulator_bits>;
    using place_t = int_t<10>;  // a row or a column of tile, window or full grid
};

// The value of a piece that is not zero, with its place in the piece (SC R46).
template <class Config>
struct PieceValue {
    typename TileUnitTypes<Config>::value_t value;
    typename TileUnitTypes<Config>::place_t row;
    typename TileUnitTypes<Config>::place_t column;
};

// Rows and columns that a piece stores, and how it is walked (SC R79).
struct PieceWalk {
    int32_t rows;
    int32_t columns;
    bool tiles_by_column;   // micro-tiles column by column instead of row by row
    bool values_by_column;  // the values of a tile likewise
    bool keep_zeros;        // variant A: zeros stay in the lanes (SC R85)
};

// The weights that are issued, in their order; zeros are not among them unless the host wants them (SC R19, R84, R147).
template <class Config>
class IssuedWeights {
    using T = TileUnitTypes<Config>;

   public:
    IssuedWeights() {
#pragma HLS ARRAY_PARTITION variable=value_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=column_ complete dim=0
    }

    // A kernel of this size begins.
    void clear(int rows, int columns) {
#pragma HLS INLINE
        simulation_check(rows <= Config::kernel_rows && columns <= Config::kernel_columns, "a kernel",
                         "has more rows or columns than the build:", rows > columns ? rows : columns);
        rows_ = rows;
        columns_ = columns;
        count_ = 0;
    }

    void push(typename T::weight_t value, int row, int column) {
#pragma HLS INLINE
        simulation_check(count_ < T::kernel_cells, "a kernel", "has more weights than cells:", count_ + 1);
        value_[count_] = value;
        row_[count_] = row;
        column_[count_] = column;
        ++count_;
    }

    int count() const { return count_; }
    typename T::weight_t value(int number) const { return value_[number]; }
    // Where the products of the weight lie in the window, relative to their cells (SC E2).
    typename T::place_t row_offset(int number) const { return rows_ - 1 - row_[number]; }
    typename T::place_t column_offset(int number) const { return columns_ - 1 - column_[number]; }

   private:
    typename T::weight_t value_[T::kernel_cells] = {};
    typename T::place_t row_[T::kernel_cells] = {};
    typename T::place_t column_[T::kernel_cells] = {};
    typename T::place_t rows_ = 1, columns_ = 1;
    int32_t count_ = 0;
};

// What a lane gives away: a product (or the sum of two) and its word in the window (SC R74, R91).
template <class Config>
struct LaneProduct {
    typename TileUnitTypes<Config>::pair_t value;
    typename TileUnitTypes<Config>::place_t row;
    typename TileUnitTypes<Config>::place_t column;
    bool valid;
};

// What a unit counted (SC R153). loads: values brought into lanes (R75). transfers: clocks in which a window is loaded
// or stored (E13). moves: cells by which variant A's window moved between two weights. waits: clocks of variant E in
// which a sum is not back yet.
struct TileUnitCounters {
    int64_t rounds;
    int64_t iterations;
    int64_t issued;
    int64_t idle;
    int64_t conflicts;
    int64_t merged;
    int64_t fifo_peak;
    int64_t tiles;
    int64_t tiles_skipped;
    int64_t loads;
    int64_t transfers;
    int64_t moves;
    int64_t waits;
};

}  // namespace bfpga
