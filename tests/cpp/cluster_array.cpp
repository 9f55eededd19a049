// processes/sparse_cluster/multiplying.hpp: whole clusters of a list of kernels, from commands, operands and weight words to
// the sums of output pixels.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bfpga/processes/sparse_cluster/multiplying.hpp"
#include "bfpga/simulation/process_scheduler.hpp"
#include "build_list.hpp"
#include "cluster_kernel_config.hpp"

namespace {

// 2 x 2 units with 4 kernels in flight; one whose numbers all differ; that of a ZCU104; one of variant B,
// of C, of D.
using All =
    List<ClusterKernel<4, 4, 4, 2, 2, 3, 64, 64, 32, 8, 8, 32>, ClusterKernel<3, 2, 8, 2, 3, 2, 128, 128, 16, 6, 5, 24>,
         ClusterKernel<12, 4, 16, 4, 4, 3, 64, 64, 64, 8, 8, 32, bfpga::LaneDspPacked>,
         ClusterKernel<4, 2, 8, 2, 3, 3, 64, 64, 32, 8, 8, 32, bfpga::LaneDspPacked, 5>,
         ClusterKernel<4, 2, 8, 2, 3, 3, 64, 64, 32, 8, 8, 32, bfpga::LaneDspPacked, 6, 2>,
         ClusterKernel<4, 4, 16, 2, 2, 2, 64, 64, 32, 8, 8, 32, bfpga::LaneDspPacked, 4, 2, true>,
         ClusterKernel<4, 2, 8, 2, 3, 3, 64, 64, 32, 8, 8, 32, bfpga::LaneDspPacked, 0, 1, false, true>>;

struct Start {
    const int32_t* descriptor;  // (operations, words)
    int32_t operations;
    const int32_t* cell;  // of all operations: (words of channels, cells, lanes)
    const int32_t* word;  // (words, rows, lanes)
    int32_t words;
    int32_t slots;     // beats of a half
    uint64_t seed;     // of the order of the processes
    int32_t capacity;  // of `sum`, in rows
    int32_t* sum;      // (rows, columns)
    int32_t rows;      // that came
    int32_t credits;   // that came
    char* message;     // (256)
};

// The operands of a map that goes by so many times.
template <class Config>
int32_t feed(bfpga::stream<bfpga::wire_t<bfpga::OperandBeat<Config>>>& operands, const bfpga::Descriptor& d,
             const int32_t* cell, int slots) {
    int32_t segments = 0;
    const int32_t turns = d.blocks + (d.most_moves != 0 ? 1 : 0);
    for (int32_t n = 0; n < turns * d.channel_words; ++n) {
        const int32_t* raster = cell + n % d.channel_words * d.map_cells * Config::lanes;
        for (int32_t group = 0; group < d.map_groups; ++group) {
            for (int s = 0; s < slots; ++s) {
                bfpga::OperandBeat<Config> beat = {};
                for (int i = 0; i < Config::columns; ++i) {
                    const int32_t place = group * d.group_columns + i;
                    beat.mine[i] = i % slots == s;
                    for (int l = 0; l < Config::lanes && place < d.map_cells; ++l) {
                        beat.word[i].lane[l] = static_cast<typename bfpga::Geometry<Config>::mantissa_t>(
                            raster[place * Config::lanes + l]);
                    }
                }
                beat.fires = s == slots - 1;
                beat.single = group % 2 == 0 && group == d.map_groups - 1;
                operands.write(bfpga::to_wire(beat));
            }
        }
        segments += (d.map_groups + 1) / 2;
    }
    return segments;
}

struct Run {
    Start* start;

    template <class Config>
    int apply() const {
        return caught(start->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using Weights = bfpga::WeightBeat<Config>;
        bfpga::ProcessScheduler scheduler(1 << 16);
        std::vector<std::string> names;
        bfpga::ClusterArray<Config>::name(names);
        for (const std::string& name : names) {
            scheduler.add(name);
        }
        bfpga::stream<bfpga::command_t> commands("array_commands");
        bfpga::stream<bfpga::wire_t<bfpga::OperandBeat<Config>>> operands("operands");
        bfpga::stream<bool> windows("windows");
        bfpga::stream<bfpga::wire_t<Weights>> words("weight_words");
        bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>> sums("sums");
        const int32_t* cell = start->cell;
        int32_t segments = 0;
        bfpga::ArrayCommands sender(commands);
        for (int n = 0; n < start->operations; ++n) {
            int32_t numbers[bfpga::Descriptor::words];
            std::memcpy(numbers, start->descriptor + n * bfpga::Descriptor::words, sizeof numbers);
            for (int index = 0; index < bfpga::Descriptor::words; ++index) {
                sender.send(numbers[index], index, index == 0, false, false);
            }
            const bfpga::Descriptor d = bfpga::decode_descriptor(numbers);
            segments += feed<Config>(operands, d, cell, start->slots);
            cell += d.channel_words * d.map_cells * Config::lanes;
        }
        sender.send(0, 0, true, true, false);
        bfpga::OperandBeat<Config> stop = {};
        stop.stop = true;
        operands.write(bfpga::to_wire(stop));
        for (int n = 0; n < start->words; ++n) {
            Weights beat = {};
            for (int k = 0; k < Weights::weights; ++k) {
                beat.weight.row[k / Config::lanes][k % Config::lanes] =
                    static_cast<typename bfpga::Geometry<Config>::weight_t>(start->word[n * Weights::weights + k]);
            }
            words.write(bfpga::to_wire(beat));
        }
        const auto array = std::make_unique<bfpga::ClusterArray<Config>>();
        scheduler.disturb(start->seed);
        commands.join(scheduler);
        operands.join(scheduler);
        windows.join(scheduler);
        words.join(scheduler);
        sums.join(scheduler);
        array->join([&](auto& wire, int depth) {
            wire.join(scheduler);
            wire.clear(static_cast<std::size_t>(depth));
        });
        std::vector<bfpga::ProcessScheduler::Body> bodies;
        array->add(bodies, commands, operands, windows, words, sums);
        scheduler.run(bodies);
        sums.part();
        windows.part();
        for (; !sums.empty() && start->rows < start->capacity; ++start->rows) {
            const auto row = bfpga::from_wire<bfpga::SumBeat<Config>>(sums.read());
            for (int i = 0; i < Config::columns; ++i) {
                start->sum[start->rows * Config::columns + i] = static_cast<int32_t>(row.sum[i]);
            }
        }
        for (; !windows.empty(); ++start->credits) {
            windows.read();
        }
        if (!words.empty() || !operands.empty() || !commands.empty() || start->credits != segments) {
            throw bfpga::StreamError("the cluster has left words in its streams, or credits are missing");
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no kernel of that number, or 2 and a message if the cluster stops with an error.
int cluster_array_numbers(int number, int32_t* numbers) {
    return with_build(number, ClusterKernelNumbers{numbers}, static_cast<const All*>(nullptr));
}

int cluster_array_run(int number, Start* start) {
    return with_build(number, Run{start}, static_cast<const All*>(nullptr));
}

}  // extern "C"
