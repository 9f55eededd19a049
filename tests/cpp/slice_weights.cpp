// processes/skip_array/slice_read.hpp: a start of the weights process of an array that skips zeros of activations, fed
// by a stream that hesitates.
#include <cstdint>
#include <memory>

#include "bfpga/processes/scratchpad/order.hpp"
#include "bfpga/processes/skip_array/slice_read.hpp"
#include "weights_start.hpp"

namespace {

// Runs of 4 groups, blocks of 6 rows.
struct Config : WeightNumbers<true> {
    static constexpr int skip_groups = 8;
    static constexpr int skip_passes = 2;
    static constexpr int rows = 6;
    static constexpr int words_per_block = 3;
    static constexpr int accumulator_rows = 6;
    static constexpr int weight_words = 48;
    static constexpr int beats_per_weight_word = 2;
};
using Weights = bfpga::WeightBeat<Config>;
using Parameters = bfpga::ParameterBeat<Config>;
constexpr int weights_of_word = Config::rows * Config::lanes;

struct Start {
    int32_t commands;
    const int32_t* words;  // (commands, words of a descriptor)
    int32_t beats;
    const int64_t* beat;
    int32_t rarely;   // eighths of the clocks in which there is no beat
    int32_t* weight;  // (sent, weights of a word and whether it ends a chunk)
    int32_t sent;
    int32_t* row;  // (rows, 2): bias, exponent
    int32_t rows;
    int32_t left;  // beats that nobody took
    uint32_t work;
    char* message;  // (256)
};

void run(Start& start) {
    bfpga::stream<bfpga::command_t> commands("commands");
    bfpga::stream<bfpga::wire_t<Parameters>> parameters("parameters");
    bfpga::stream<bfpga::wire_t<Weights>> weights("weights");
    bfpga::stream<bfpga::int_t<32>> reports("reports");
    write_commands(start, commands);
    BeatSource source(start);
    bfpga::NoTrace trace;
    using Process = bfpga::WeightsProcess<Config, bfpga::StoredSlices<Config>>;
    const std::unique_ptr<Process> process(new Process());
    process->run(commands, source, parameters, reports, trace, weights);
    start.left = source.left();
    start.work = static_cast<uint32_t>(static_cast<int32_t>(reports.read()));
    start.sent = 0;
    while (!weights.empty()) {
        const Weights beat = bfpga::from_wire<Weights>(weights.read());
        int32_t* to = start.weight + (weights_of_word + 1) * start.sent++;
        for (int n = 0; n < weights_of_word; ++n) {
            to[n] = static_cast<int32_t>(beat.weight.row[n / Config::lanes][n % Config::lanes]);
        }
        to[weights_of_word] = beat.two_hot ? 1 : 0;
    }
    read_rows<Parameters>(parameters, start);
}

}  // namespace

extern "C" int unit_slice_weights(Start* start) { return reported(*start, run); }

// Whether so many operations are reached when `count` have ended, as the weights process (bit 0) and the scratchpad
// (bit 1) say it; whether they are with one that ends in this cycle (bit 2).
extern "C" int unit_reached(int count, int needed) {
    using Scratchpad = bfpga::FinishedOperations;
    bfpga::Finished finished;
    Scratchpad::count_t ended = 0;
    for (int n = 0; n < count; ++n) {
        finished.step(true);
        Scratchpad::add(ended, true);
    }
    const bfpga::uint_t<16> least = static_cast<bfpga::uint_t<16>>(needed & 65535);
    return (finished.reached(least) ? 1 : 0) | (finished.reached(least, true) ? 4 : 0) |
           (Scratchpad::reached(ended, static_cast<Scratchpad::count_t>(needed & 65535)) ? 2 : 0);
}
