// processes/zero_skip_tile: maps on tiles of several sizes, their weights as stored words.
#include <memory>

#include "bfpga/processes/zero_skip_tile/step_reader.hpp"
#include "bfpga/processes/zero_skip_tile/tile_process.hpp"
#include "cluster_kernel_config.hpp"
#include "cluster_units.hpp"
#include "process_ends.hpp"

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
        const int32_t numbers[] = {D::C::lanes, Config::cluster_kernel, D::C::planes, D::rows, D::columns,
                                   D::parallel, D::C::weight_bits};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Maps {
    const int32_t* map;  // (maps, 8), the stop last
    int32_t maps;
    const int32_t* cell;  // (cells, lanes)
    int32_t cells;
    const int32_t* kernel;   // (maps - 1, 3): words of channels, rows and columns of the kernels
    int64_t adding, others;  // steps that were read
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
    Maps* maps;

    template <class Config>
    int apply() const {
        return caught(layer->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using C = bfpga::ClusterConfig<Config>;
        const unsigned rarely = static_cast<unsigned>(layer->rarely);
        PatientSender<bfpga::MapBeat<C>> to_maps("maps", 1, rarely);
        PatientSender<bfpga::MapCellBeat<C>> to_cells("cells", 2, rarely);
        PatientSender<bfpga::TileStep<C>> steps("steps", 3, rarely);
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
        read_steps<Config>(steps.words);
        std::make_unique<bfpga::TileProcess<Config>>()->run(to_maps.to, to_cells.to, steps.to, blocks.from);
        blocks.take_all();
        layer->clocks = blocks.clocks;
        if (!to_cells.empty()) {
            throw bfpga::StreamError("the tile has left cells in their stream");
        }
    }

   private:
    // The steps out of the stored words, the stop last.
    template <class Config, class Steps>
    void read_steps(Steps& read) const {
        using C = bfpga::ClusterConfig<Config>;
        constexpr int cells = Config::rows * Config::lanes;
        BeatSender<bfpga::KernelsBeat<C>> kernels("kernels", 4, static_cast<unsigned>(layer->rarely));
        BeatSender<bfpga::WeightBeat<Config>> words("weight_words", 5, static_cast<unsigned>(layer->rarely));
        for (int n = 0; n < maps->maps; ++n) {
            bfpga::KernelsBeat<C> beat = {};
            beat.stop = n == maps->maps - 1;
            if (!beat.stop) {
                beat.words = static_cast<bfpga::line_t>(maps->kernel[3 * n]);
                beat.rows = static_cast<bfpga::line_t>(maps->kernel[3 * n + 1]);
                beat.columns = static_cast<bfpga::line_t>(maps->kernel[3 * n + 2]);
            }
            kernels.words.push_back(bfpga::to_wire(beat));
        }
        for (int n = 0; n < layer->steps; ++n) {
            bfpga::WeightBeat<Config> beat = {};
            for (int k = 0; k < cells; ++k) {
                beat.weight.row[k / Config::lanes][k % Config::lanes] =
                    bfpga::low_bits<Config::weight_bits>(layer->step[n * cells + k]);
            }
            words.words.push_back(bfpga::to_wire(beat));
        }
        bfpga::stream<bfpga::wire_t<bfpga::TileStep<C>>> to("steps");
        std::make_unique<bfpga::StepReader<Config>>()->run(kernels.to, words.to, to);
        if (!kernels.empty() || !words.empty()) {
            throw bfpga::StreamError("words are left");
        }
        while (!to.empty()) {
            read.push_back(to.read());
            const bool adds = bfpga::from_wire<bfpga::TileStep<C>>(read.back()).adds;
            maps->adding += adds ? 1 : 0;
            maps->others += adds ? 0 : 1;
        }
        --maps->others;
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the tile stops with an error.
int tile_sizes(int number, int32_t* numbers) {
    return with_build(number, Sizes{numbers}, static_cast<const All*>(nullptr));
}

int tile_run(int number, Layer* layer, Maps* maps) {
    return with_build(number, RunTile{layer, maps}, static_cast<const All*>(nullptr));
}

}  // extern "C"
