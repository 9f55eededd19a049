// The zero-coefficient-skip engine: its numbers, and what its parts tell each other (docs/zero-skip.md).
//
// A coefficient is broadcast to all lanes and multiplies a whole tile of outputs, one row (or several) a clock. Zero
// coefficients are never issued. All sizes of a layer are run-time numbers up to those of the build.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// What multiplies (array/lane_multiplier.hpp) and how a row is shifted (zero_skip/tile.hpp).
struct LaneDspPacked;
struct StagedColumns;
struct DirectColumns;

// The numbers of an engine; a build derives from it and hides what differs.
struct ZeroSkipDefaults {
    static constexpr int tile_height = 32;  // outputs of a tile
    static constexpr int tile_width = 32;
    static constexpr int lanes = 32;         // multipliers of a row
    static constexpr int rows_parallel = 1;  // rows of a step
    static constexpr int kernels_in_flight = 16;
    static constexpr int kernel_height = 7;  // the largest kernel and stride
    static constexpr int kernel_width = 7;
    static constexpr int stride = 2;
    static constexpr int operand_bits = 8;
    static constexpr int coefficient_bits = 8;
    static constexpr int accumulator_bits = 32;
    static constexpr int accumulator_words = 512;  // rows of `rows_parallel * lanes` sums
    static constexpr int beat_cells = 8;           // cells that reach the tile buffer in a clock
    static constexpr int row_banks = 2;            // rows of the tile buffer that are written in a clock
    static constexpr int entry_depth = 4;          // entries that wait behind the decompressor
    static constexpr int dependence_latency = 4;   // clocks between two uses of a sum
    using Multiplier = LaneDspPacked;
    using Shifter = StagedColumns;
};

// Sizes and types that follow from the numbers.
template <class Config>
struct ZeroSkipTypes {
    static_assert(Config::tile_height >= 1 && Config::tile_height <= 256, "a tile has 1 to 256 rows");
    static_assert(Config::tile_width >= 1 && Config::tile_width <= 256, "a tile has 1 to 256 columns");
    static_assert(Config::lanes >= 1 && Config::lanes <= 256, "an engine has 1 to 256 lanes");
    static_assert(Config::rows_parallel >= 1 && Config::rows_parallel <= Config::tile_height,
                  "the rows of a step are rows of one tile");
    static_assert(Config::kernels_in_flight >= 1 && Config::kernels_in_flight <= 256, "1 to 256 kernels in flight");
    static_assert(Config::kernel_height >= 1 && Config::kernel_height <= 16, "entries hold ky in 4 bits");
    static_assert(Config::kernel_width >= 1 && Config::kernel_width <= 16, "entries hold kx in 4 bits");
    static_assert(Config::operand_bits >= 2 && Config::operand_bits <= 16, "image cells have 2 to 16 bits");
    static_assert(Config::coefficient_bits >= 2 && Config::coefficient_bits <= 16, "coefficients have 2 to 16 bits");
    static_assert(Config::accumulator_bits >= 16 && Config::accumulator_bits <= 48, "accumulators have 16 to 48 bits");
    static_assert(is_power_of_two(Config::beat_cells), "the cells of a beat are a power of two");
    static_assert(is_power_of_two(Config::row_banks), "the row banks are a power of two");
    static_assert(Config::row_banks >= Config::rows_parallel * Config::stride || Config::rows_parallel == 1,
                  "rows that are read together lie in different banks");
    static_assert(Config::entry_depth >= 2 && Config::entry_depth <= 16, "2 to 16 entries wait");
    static_assert(Config::dependence_latency >= 1 && Config::dependence_latency <= 8, "a sum returns in 1 to 8 clocks");

    static constexpr int chunks = (Config::tile_width + Config::lanes - 1) / Config::lanes;
    static constexpr int row_groups = (Config::tile_height + Config::rows_parallel - 1) / Config::rows_parallel;
    static constexpr int plane_words = row_groups * chunks;  // words of one kernel's sums
    static_assert(Config::accumulator_words >= Config::kernels_in_flight * plane_words,
                  "the accumulators hold a tile of every kernel in flight");
    static constexpr int buffer_rows = (Config::tile_height - 1) * Config::stride + Config::kernel_height;
    static constexpr int buffer_columns = (Config::tile_width - 1) * Config::stride + Config::kernel_width;
    static constexpr int bank_rows = (buffer_rows + Config::row_banks - 1) / Config::row_banks;
    static constexpr int positions = Config::kernel_height * Config::kernel_width;
    static constexpr int word_lanes = Config::rows_parallel * Config::lanes;
    static constexpr int product_bits = Config::operand_bits + Config::coefficient_bits;

    using operand_t = int_t<Config::operand_bits>;
    using coefficient_t = int_t<Config::coefficient_bits>;
    using product_t = int_t<product_bits>;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using kernel_t = uint_t<9>;      // of the kernels in flight
    using position_t = uint_t<5>;    // ky or kx, or their number
    using coordinate_t = int_t<16>;  // rows and columns of tile buffer and tile, clocks of a tile's walk
    using row_mask_t = uint_t<Config::kernel_width>;
};

// The order of the entries of a group of kernels.
enum class ZeroSkipOrder {
    ZMajor = 0,       // kernel by kernel
    PosMajor = 1,     // position by position
    Interleaved = 2,  // a round over the kernels
};

// Geometry of a layer, and the kernels of the group that is computed.
struct ZeroSkipLayer {
    int32_t kernels;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_y;
    int32_t stride_x;
    ZeroSkipOrder order;
    bool skip_zero;  // false: every position is an entry, for comparison
};

// One tile of one image as it comes. Cells outside [fill_top, + rows) x [fill_left, + columns) are zero.
struct TileWindow {
    int32_t fill_top;
    int32_t fill_left;
    int32_t rows;
    int32_t columns;
    int32_t pitch;  // cells from row to row on the stream
    int32_t tile_height;
    int32_t tile_width;
};

// A non-zero coefficient of a kernel.
template <class Config>
struct KernelEntry {
    typename ZeroSkipTypes<Config>::kernel_t kernel;
    typename ZeroSkipTypes<Config>::position_t ky;
    typename ZeroSkipTypes<Config>::position_t kx;
    typename ZeroSkipTypes<Config>::coefficient_t coefficient;
};

// What the loops of one layer counted (ZS R51).
struct ZeroSkipCounters {
    int64_t coef_entries;
    int64_t mac_rows;
    int64_t macs;
    int64_t compute_cycles;
    int64_t load_cycles;
    int64_t decode_cycles;
    int64_t hazard_stalls;
    int64_t shift_changes;
    int64_t loop_cycles;  // clocks of the loops that overlap compute, load and decompression
};

}  // namespace bfpga
