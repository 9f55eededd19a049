// processes/skip_array/slice_read.hpp: a start of the weights process of an array that skips zeros of activations, fed
// by a stream that hesitates.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>

#include "bfpga/kernel/status.hpp"
#include "bfpga/processes/scratchpad/order.hpp"
#include "bfpga/processes/skip_array/slice_read.hpp"

namespace {

// Numbers that all differ: runs of 4 groups, blocks of 6 rows.
template <int GROUPS>
struct Numbers {
    static constexpr int skip_groups = GROUPS;
    static constexpr bool skip_activations = true;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int count_registers = 0;
    static constexpr int skip_halves = 2;
    static constexpr int skip_passes = 2;
    static constexpr int skip_chunk = 32;
    static constexpr int mantissa_bits = 4;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = 4;
    static constexpr int weight_container_bits = 8;
    static constexpr int accumulator_bits = 24;
    static constexpr int bias_bits = 18;
    static constexpr int columns = 4;
    static constexpr int banks = 5;
    static constexpr int rows = 6;
    static constexpr int lanes = 2;
    static constexpr int words_per_block = 3;
    static constexpr int accumulator_rows = 6;
    static constexpr bool tap_reuse = false;
    static constexpr int shift_columns = 0;
    static constexpr int activation_words = 16;
    static constexpr int weight_words = 48;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 40;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = 2;
};
using Config = Numbers<8>;
using Weights = bfpga::WeightBeat<Config>;
using Parameters = bfpga::ParameterBeat<Config>;
constexpr int weights_of_word = Config::rows * Config::lanes;

class Source {
   public:
    Source(const int64_t* beats, int count, unsigned rarely)
        : next_(beats), end_(beats + count), random_(1), rarely_(rarely) {}

    void expect(long long, const char*, int) {}

    bool read_nb(bfpga::bits_t<64>& beat) {
        if (next_ == end_ || random_() % 8 < rarely_) {
            return false;
        }
        beat = bfpga::bits_t<64>(static_cast<uint64_t>(*next_++));
        return true;
    }

    int left() const { return static_cast<int>(end_ - next_); }

   private:
    const int64_t *next_, *end_;
    std::mt19937 random_;
    unsigned rarely_;
};

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
    for (int n = 0; n < start.commands; ++n) {
        const int32_t* words = start.words + n * bfpga::Descriptor::words;
        for (int k = 0; k < bfpga::Descriptor::words; ++k) {
            if (bfpga::WeightsCommand::has(k)) {
                commands.write(static_cast<bfpga::command_t>(words[k]));
            }
        }
    }
    Source source(start.beat, start.beats, static_cast<unsigned>(start.rarely));
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
    start.rows = 0;
    while (!parameters.empty()) {
        const Parameters row = bfpga::from_wire<Parameters>(parameters.read());
        start.row[2 * start.rows] = static_cast<int32_t>(row.row.bias);
        start.row[2 * start.rows++ + 1] = static_cast<int32_t>(row.row.exponent);
    }
}

}  // namespace

extern "C" int unit_slice_weights(Start* start) {
    try {
        run(*start);
        return 0;
    } catch (const std::exception& problem) {
        std::snprintf(start->message, 256, "%s", problem.what());
        return 1;
    }
}

// Whether so many operations are reached when `count` have ended, as the weights process (bit 0) and the scratchpad
// (bit 1) say it.
extern "C" int unit_reached(int count, int needed) {
    using Scratchpad = bfpga::FinishedOperations;
    bfpga::Finished finished;
    Scratchpad::count_t ended = 0;
    for (int n = 0; n < count; ++n) {
        finished.one_more();
        Scratchpad::add(ended, true);
    }
    const bool reached = finished.reached(static_cast<bfpga::uint_t<16>>(needed & 65535));
    return (reached ? 1 : 0) | (Scratchpad::reached(ended, static_cast<Scratchpad::count_t>(needed & 65535)) ? 2 : 0);
}
