// processes/tile: maps on tiles of several sizes.
#include <memory>

#include "bfpga/processes/tile/tile_process.hpp"
#include "cluster_kernel_config.hpp"
#include "cluster_units.hpp"

namespace {

template <int KERNEL, int ROWS, int LANES, int TILE_ROWS, int TILE_COLUMNS, int PARALLEL, int MANTISSA, int WEIGHT,
          int ACC, class MULTIPLIER = bfpga::LaneDsp>
struct TileBuild : ClusterKernel<4, LANES, ROWS, 1, 1, KERNEL, 16, 64, 64, MANTISSA, WEIGHT, ACC, MULTIPLIER, 1> {
    static constexpr bool has_tile = true;
    static constexpr int tile_rows = TILE_ROWS;
    static constexpr int tile_columns = TILE_COLUMNS;
    static constexpr int tile_parallel = PARALLEL;
};

// Kernels of 3 x 3; of 2 x 2, two blocks of rows at once; of 5 x 5, a channel a word; two products in a DSP block.
using All =
    List<TileBuild<3, 8, 4, 12, 15, 3, 8, 8, 32>, TileBuild<2, 4, 2, 8, 10, 4, 6, 5, 24>,
         TileBuild<5, 16, 1, 20, 25, 5, 8, 8, 32>, TileBuild<3, 16, 4, 18, 36, 6, 8, 8, 32, bfpga::LaneDspPacked>>;

struct Sizes {
    int32_t* value;

    template <class Config>
    int apply() const {
        using D = bfpga::TileTypes<Config>;
        const int32_t numbers[] = {D::C::lanes, Config::cluster_kernel, D::C::planes, D::rows, D::columns, D::parallel};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Maps {
    const int32_t* map;  // (maps, 8), the stop last
    int32_t maps;
    const int32_t* cell;  // (cells, lanes)
    int32_t cells;
};

// Takes a block when the next one comes, and notes the clock.
template <class Config>
class TimedReceiver : public BlockReceiver<Config> {
   public:
    using BlockReceiver<Config>::BlockReceiver;

    void wait(const std::string& stream, bool full) override {
#ifdef BFPGA_WAIVERS_CHECKED
        clocks = bfpga::PipelinedLoop::number(bfpga::PipelinedLoop::running()->now());
#endif
        BlockReceiver<Config>::wait(stream, full);
    }

    int64_t clocks = 0;
};

struct RunTile {
    Layer* layer;
    const Maps* maps;

    template <class Config>
    int apply() const {
        return caught(layer->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using C = bfpga::ClusterConfig<Config>;
        constexpr int cells = bfpga::ClusterUnitTypes<C>::cells;
        const unsigned rarely = static_cast<unsigned>(layer->rarely);
        PatientSender<bfpga::MapBeat<C>> to_maps("maps", 1, rarely);
        PatientSender<bfpga::MapCellBeat<C>> to_cells("cells", 2, rarely);
        PatientSender<bfpga::StepBeat<C>> steps("steps", 3, rarely);
        TimedReceiver<C> blocks(*layer);
        for (int n = 0; n < maps->maps; ++n) {
            to_maps.words.push_back(bfpga::to_wire(map_of<C>(maps->map + n * 8)));
        }
        for (int n = 0; n < maps->cells; ++n) {
            bfpga::MapCellBeat<C> cell = {};
            for (int l = 0; l < C::lanes; ++l) {
                cell.value[l] = static_cast<typename bfpga::ClusterUnitTypes<C>::value_t>(maps->cell[n * C::lanes + l]);
            }
            to_cells.words.push_back(bfpga::to_wire(cell));
        }
        for (int n = 0; n < layer->steps; ++n) {
            steps.words.push_back(bfpga::to_wire(step_of<C>(layer->step + n * (cells + 3))));
        }
        bfpga::StepBeat<C> stop = {};
        stop.stop = true;
        steps.words.push_back(bfpga::to_wire(stop));
        std::make_unique<bfpga::TileProcess<Config>>()->run(to_maps.to, to_cells.to, steps.to, blocks.from);
        blocks.take_all();
        layer->clocks = blocks.clocks;
        if (!to_cells.empty()) {
            throw bfpga::StreamError("the tile has left cells in their stream");
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the tile stops with an error.
int tile_sizes(int number, int32_t* numbers) {
    return with_build(number, Sizes{numbers}, static_cast<const All*>(nullptr));
}

int tile_run(int number, Layer* layer, const Maps* maps) {
    return with_build(number, RunTile{layer, maps}, static_cast<const All*>(nullptr));
}

}  // extern "C"
