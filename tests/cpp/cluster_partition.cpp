// processes/sparse_cluster/partition.hpp: partitions of a list of builds, of a map each.
#include <cstdint>
#include <memory>

#include "bfpga/processes/sparse_cluster/partition.hpp"
#include "build_list.hpp"
#include "cluster_build.hpp"

namespace {

template <int LANES, int ROWS, int COLUMNS, int WORDS>
using Build = ClusterBuild<LANES, ROWS, COLUMNS, 8, 8, 32, 8, WORDS, 16>;
// Those of tests/cpp/cluster_processes.cpp, bands alone, and grids of the vectors.
using All = List<GridBuild<Build<2, 3, 3, 64>, 2, 2, 32, 22>, GridBuild<Build<3, 2, 3, 128>, 2, 3, 32, 22>,
                 GridBuild<Build<4, 3, 3, 64>, 4, 4, 64, 22>, GridBuild<Build<1, 1, 1, 256>, 3, 1, 16, 20>,
                 GridBuild<Build<1, 3, 3, 1024>, 2, 4, 64, 22>, GridBuild<Build<1, 3, 3, 1024>, 1, 2, 64, 22>,
                 GridBuild<Build<1, 3, 3, 1024>, 2, 2, 64, 22>,
                 // Pieces that own outputs.
                 GridBuild<Build<2, 3, 3, 64>, 2, 2, 32, 22, true>, GridBuild<Build<3, 2, 3, 128>, 2, 3, 32, 22, true>,
                 GridBuild<Build<4, 3, 3, 64>, 4, 4, 64, 22, true>, GridBuild<Build<1, 1, 1, 256>, 3, 1, 16, 20, true>,
                 GridBuild<Build<1, 5, 5, 64>, 2, 4, 64, 22, true>>;

struct Map {
    const int32_t* number;  // what stands before the limits, and the limits
    int32_t numbers;
    const int32_t* cell;  // (rows * columns * words, lanes)
    int32_t cells;
    int32_t* limit;   // (units, 16)
    int32_t* report;  // (4)
    char* message;    // (256)
};

// The limits that have come.
template <class Config>
void keep_limits(Map* map, bfpga::stream<bfpga::wire_t<bfpga::LimitsBeat<Config>>>& limits,
                 bfpga::stream<bfpga::wire_t<bfpga::LimitsBeat<Config>>>& grid_limits) {
    using Limits = bfpga::LimitsBeat<Config>;
    for (int u = 0; u < Config::units; ++u) {
        const Limits beat = bfpga::from_wire<Limits>(limits.read());
        const Limits other = bfpga::from_wire<Limits>(grid_limits.read());
        const bfpga::line_t field[] = {beat.row,       beat.column,       beat.end_row,       beat.end_column,
                                       beat.block_row, beat.block_column, beat.end_block_row, beat.end_block_column,
                                       beat.taken_row, beat.taken_column, beat.taken_end_row, beat.taken_end_column,
                                       beat.last_place};
        int32_t* limit = map->limit + u * 16;
        for (int n = 0; n < Limits::fields; ++n) {
            limit[n] = static_cast<int32_t>(field[n]);
        }
        limit[13] = static_cast<int32_t>(beat.turn);
        limit[14] = static_cast<int32_t>(beat.last_turn);
        limit[15] = beat.used && other.end_row == beat.end_row && other.turn == beat.turn ? 1 : 0;
    }
}

template <class Config>
void send_cells(const Map* map, bfpga::stream<bfpga::wire_t<bfpga::MapCellBeat<Config>>>& cells) {
    for (int n = 0; n < map->cells; ++n) {
        bfpga::MapCellBeat<Config> beat;
        for (int l = 0; l < Config::lanes; ++l) {
            beat.value[l] =
                static_cast<typename bfpga::ClusterUnitTypes<Config>::value_t>(map->cell[n * Config::lanes + l]);
        }
        cells.write(bfpga::to_wire(beat));
    }
}

struct Run {
    Map* map;

    template <class Config>
    int apply() const {
        return caught(map->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using Limits = bfpga::LimitsBeat<Config>;
        bfpga::stream<bfpga::int_t<32>> numbers("numbers"), reports("reports");
        bfpga::stream<bfpga::wire_t<bfpga::MapCellBeat<Config>>> cells("cells");
        bfpga::stream<bfpga::wire_t<Limits>> limits("limits"), grid_limits("grid_limits");
        for (int n = 0; n < map->numbers; ++n) {
            numbers.write(map->number[n]);
        }
        send_cells<Config>(map, cells);
        const auto process = std::make_unique<bfpga::PartitionProcess<Config>>();
        process->run(numbers, cells, limits, grid_limits, reports);
        keep_limits<Config>(map, limits, grid_limits);
        for (int n = 0; n < 4; ++n) {
            map->report[n] = static_cast<int32_t>(reports.read());
        }
        if (!cells.empty() || !numbers.empty()) {
            throw bfpga::StreamError("the partition has left words in its streams");
        }
    }
};

// As a kernel has it: the same map twice, whose cells come word of channels by word, from equal pieces.
struct RunInKernel {
    Map* map;

    template <class Config>
    int apply() const {
        using Limits = bfpga::LimitsBeat<Config>;
        using Beat = bfpga::PartitionBeat<Config>;
        bfpga::stream<bfpga::wire_t<Beat>> maps("partitions");
        bfpga::stream<bfpga::wire_t<bfpga::MapCellBeat<Config>>> cells("counted");
        bfpga::stream<bfpga::wire_t<Limits>> limits("limits"), grid_limits("grid_limits");
        bfpga::stream<bfpga::int_t<32>> cuts("cuts");
        Beat beat = {};
        beat.rows = static_cast<bfpga::line_t>(map->number[0]);
        beat.columns = static_cast<bfpga::line_t>(map->number[1]);
        beat.words = static_cast<bfpga::line_t>(map->number[2]);
        beat.work_difference = map->number[3];
        beat.moves = static_cast<bfpga::line_t>(map->number[4]);
        beat.joined_rows = static_cast<bfpga::line_t>(map->number[5]);
        beat.joined_columns = static_cast<bfpga::line_t>(map->number[6]);
        beat.halo_rows = static_cast<bfpga::line_t>(map->number[7] - 1);
        beat.halo_columns = static_cast<bfpga::line_t>(map->number[8] - 1);
        const int turns = 2;
        for (int turn = 0; turn < turns; ++turn) {
            maps.write(bfpga::to_wire(beat));
            if (beat.moves != 0) {
                send_cells<Config>(map, cells);
            }
        }
        beat.stop = true;
        maps.write(bfpga::to_wire(beat));
        const auto process = std::make_unique<bfpga::PartitionProcess<Config>>();
        const int error = caught(map->message, [&] { process->run(maps, cells, limits, grid_limits, cuts); });
        if (error != 0) {
            return error;
        }
        for (int turn = 0; turn < turns; ++turn) {
            keep_limits<Config>(map, limits, grid_limits);
        }
        return cells.empty() ? 0 : 3;
    }
};

struct Bits {
    int32_t* bits;

    template <class Config>
    int apply() const {
        bits[0] = bfpga::PartitionBeat<Config>::bits;
        bits[1] = bfpga::LimitsBeat<Config>::bits;
        return 0;
    }
};

}  // namespace

extern "C" {

// Bits of the words that go to the partition and leave it.
int cluster_partition_bits(int number, int32_t* bits) {
    return with_build(number, Bits{bits}, static_cast<const All*>(nullptr));
}

// As below, of the process in a kernel: cells come word by word, and nothing is reported.
int cluster_partition_in_kernel(int number, Map* map) {
    return with_build(number, RunInKernel{map}, static_cast<const All*>(nullptr));
}

// 0, or 1 if there is no build of that number, or 2 and a message if the partition stops with an error.
int cluster_partition_run(int number, Map* map) {
    return with_build(number, Run{map}, static_cast<const All*>(nullptr));
}

}  // extern "C"
