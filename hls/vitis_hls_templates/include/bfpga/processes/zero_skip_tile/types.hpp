// Numbers and types of a tile that replaces a kernel's array.
#pragma once
#include "bfpga/processes/sparse_cluster/layer.hpp"

namespace bfpga {

// The tile stores a map as cells, its full grid as sums: `rows` x `columns` of them, `parallel` rows at a time, for all
// kernels in flight.
template <class Config>
struct TileTypes {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    static constexpr int rows = Config::tile_rows;
    static constexpr int columns = Config::tile_columns;
    static constexpr int parallel = Config::tile_parallel;
    static_assert(rows % parallel == 0, "steps are whole groups of rows");
    static_assert(parallel % T::rows == 0 && columns % T::columns == 0, "blocks lie in one group of rows");

    static constexpr int groups = rows / parallel;    // of rows: cycles of a weight at most
    static constexpr int lanes = parallel * columns;  // multipliers
    static constexpr int cell_rows = rows - T::rows + 1;
    static constexpr int cell_columns = columns - T::columns + 1;
    static constexpr int blocks_down = parallel / T::rows;  // in a group of rows
    static constexpr int blocks_across = columns / T::columns;

    using value_t = typename T::value_t;
    using product_t = typename T::product_t;
    using accumulator_t = typename T::accumulator_t;
    using group_t = uint_t<bit_length(groups)>;
    using lane_t = typename T::lane_t;
    using plane_t = typename T::plane_t;
    using phase_t = typename T::phase_t;
};

}  // namespace bfpga
