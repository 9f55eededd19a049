// processes/sparse_cluster: what stands before and behind the units of a kernel's cluster, by itself. Weight words
// become steps; blocks of the full grid become sums of output pixels.
#include <cstdint>
#include <memory>

#include "bfpga/processes/sparse_cluster/grid_sums.hpp"
#include "bfpga/processes/sparse_cluster/step_maker.hpp"
#include "build_list.hpp"
#include "cluster_kernel_config.hpp"
#include "process_ends.hpp"

namespace {

// 2 x 2 units; one whose numbers all differ, with kernels of 2 x 2; two kernels in flight; two with units of variant B;
// of C; of A.
using All =
    List<ClusterKernel<4, 4, 4, 2, 2, 3, 64, 64, 32, 8, 8, 32>, ClusterKernel<3, 2, 8, 2, 3, 2, 128, 128, 16, 6, 5, 24>,
         ClusterKernel<2, 1, 2, 1, 2, 3, 64, 32, 16, 8, 8, 24>,
         ClusterKernel<4, 4, 16, 2, 2, 3, 64, 64, 32, 8, 8, 32, bfpga::LaneDsp, 4>,
         ClusterKernel<3, 2, 4, 2, 3, 2, 128, 128, 16, 6, 5, 24, bfpga::LaneDsp, 2>,
         ClusterKernel<4, 4, 16, 2, 2, 3, 64, 64, 32, 8, 8, 32, bfpga::LaneDsp, 4, 2>,
         ClusterKernel<3, 2, 4, 2, 3, 2, 128, 128, 16, 6, 5, 24, bfpga::LaneDsp, 0, 1, false, true>>;

struct Work {
    const int32_t* layer;  // (layers, fields): of kernels, or of outputs
    int32_t layers;
    const int32_t* word;  // (words, rows * lanes) weights, or (words, cells of a block) sums
    int32_t words;
    int32_t rarely;    // streams have nothing yet in so many of 8 cases
    int32_t capacity;  // of `made`, in words
    int32_t* made;     // (steps, cells + 3), or (rows, columns)
    int32_t count;     // of words that were made
    char* message;     // (256)
};

// Whatever a process sends is kept.
template <class Process, class First, class Second, class To>
void run_between(Process& process, First& first, Second& second, To& to) {
    process.run(first.to, second.to, to);
    if (!first.empty() || !second.empty()) {
        throw bfpga::StreamError("words are left");
    }
}

struct Steps {
    Work* work;

    template <class Config>
    int apply() const {
        return caught(work->message, [this] { run<Config>(); });
    }

    template <class Config>
    void run() const {
        using Kernels = bfpga::KernelsBeat<bfpga::ClusterConfig<Config>>;
        using Beat = bfpga::StepBeat<bfpga::ClusterConfig<Config>>;
        constexpr int cells = bfpga::ClusterUnitTypes<bfpga::ClusterConfig<Config>>::cells;
        constexpr int weights = Config::rows * Config::lanes;
        BeatSender<Kernels> kernels("kernels", 1, static_cast<unsigned>(work->rarely));
        BeatSender<bfpga::WeightBeat<Config>> words("weight_words", 2, static_cast<unsigned>(work->rarely));
        for (int n = 0; n <= work->layers; ++n) {
            Kernels beat = {};
            beat.stop = n == work->layers;
            if (!beat.stop) {
                beat.words = static_cast<bfpga::line_t>(work->layer[3 * n]);
                beat.rows = static_cast<bfpga::line_t>(work->layer[3 * n + 1]);
                beat.columns = static_cast<bfpga::line_t>(work->layer[3 * n + 2]);
            }
            kernels.words.push_back(bfpga::to_wire(beat));
        }
        for (int n = 0; n < work->words; ++n) {
            bfpga::WeightBeat<Config> beat = {};
            for (int k = 0; k < weights; ++k) {
                beat.weight.row[k / Config::lanes][k % Config::lanes] =
                    static_cast<typename bfpga::Geometry<Config>::weight_t>(work->word[n * weights + k]);
            }
            words.words.push_back(bfpga::to_wire(beat));
        }
        bfpga::stream<bfpga::wire_t<Beat>> to("steps");
        const auto maker = std::make_unique<bfpga::StepMaker<Config>>();
        run_between(*maker, kernels, words, to);
        for (; !to.empty(); ++work->count) {
            const Beat step = bfpga::from_wire<Beat>(to.read());
            if (step.stop || work->count >= work->capacity) {
                break;
            }
            int32_t* made = work->made + work->count * (cells + 3);
            for (int n = 0; n < cells; ++n) {
                made[n] = static_cast<int32_t>(step.weight[n]);
            }
            made[cells] = static_cast<int32_t>(step.plane);
            made[cells + 1] = step.adds ? 1 : 0;
            made[cells + 2] = step.last ? 1 : 0;
        }
    }
};

struct Grids {
    Work* work;

    template <class Config>
    int apply() const {
        return caught(work->message, [this] { run<Config>(); });
    }

    template <class Config>
    void run() const {
        using Outputs = bfpga::OutputsBeat<bfpga::ClusterConfig<Config>>;
        using Beat = bfpga::BlockBeat<bfpga::ClusterConfig<Config>>;
        constexpr int cells = bfpga::ClusterUnitTypes<bfpga::ClusterConfig<Config>>::cells;
        BeatSender<Outputs> outputs("outputs", 1, static_cast<unsigned>(work->rarely));
        BeatSender<Beat> blocks("blocks", 2, static_cast<unsigned>(work->rarely));
        for (int n = 0; n <= work->layers; ++n) {
            Outputs beat = {};
            beat.stop = n == work->layers;
            if (!beat.stop) {
                const int32_t* number = work->layer + 9 * n;
                bfpga::line_t* const field[] = {&beat.block_rows, &beat.block_columns, &beat.width,
                                                &beat.group,      &beat.stride_row,    &beat.stride_column,
                                                &beat.first_row,  &beat.first_column};
                for (int k = 0; k < beat.fields; ++k) {
                    *field[k] = static_cast<bfpga::line_t>(number[k]);
                }
                beat.pixels = static_cast<typename Outputs::pixel_t>(number[8]);
            }
            outputs.words.push_back(bfpga::to_wire(beat));
        }
        for (int n = 0; n < work->words; ++n) {
            Beat beat = {};
            for (int k = 0; k < cells; ++k) {
                beat.sum[k] = static_cast<bfpga::int_t<Config::accumulator_bits>>(work->word[n * cells + k]);
            }
            blocks.words.push_back(bfpga::to_wire(beat));
        }
        bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>> to("sums");
        const auto grid = std::make_unique<bfpga::GridSums<Config>>();
        run_between(*grid, outputs, blocks, to);
        for (; !to.empty() && work->count < work->capacity; ++work->count) {
            const auto row = bfpga::from_wire<bfpga::SumBeat<Config>>(to.read());
            for (int i = 0; i < Config::columns; ++i) {
                work->made[work->count * Config::columns + i] = static_cast<int32_t>(row.sum[i]);
            }
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no kernel of that number, or 2 and a message if the process stops with an error.
int cluster_ends_numbers(int number, int32_t* numbers) {
    return with_build(number, ClusterKernelNumbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_ends_steps(int number, Work* work) {
    return with_build(number, Steps{work}, static_cast<const All*>(nullptr));
}

int cluster_ends_grids(int number, Work* work) {
    return with_build(number, Grids{work}, static_cast<const All*>(nullptr));
}

}  // extern "C"
