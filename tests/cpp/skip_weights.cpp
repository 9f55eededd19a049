// processes/skip_array/entry_read.hpp: a start of the weights process of a skip array, fed by a stream that hesitates.
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bfpga/kernel/status.hpp"
#include "bfpga/processes/skip_array/entry_read.hpp"

namespace {

// Numbers that all differ; 4 + 5 bits of a value and a position stand in a field of 16.
template <int GROUPS>
struct Numbers {
    static constexpr int skip_groups = GROUPS;
    static constexpr bool skip_activations = false;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int count_registers = 0;
    static constexpr int skip_halves = 2;
    static constexpr int skip_chunk = 32;
    static constexpr int entry_field_bits = 16;
    static constexpr int mantissa_bits = 4;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = 4;
    static constexpr int weight_container_bits = 8;
    static constexpr int accumulator_bits = 24;
    static constexpr int bias_bits = 18;
    static constexpr int columns = 4;
    static constexpr int banks = 5;
    static constexpr int rows = 8;
    static constexpr int lanes = 2;
    static constexpr int words_per_block = 4;
    static constexpr int accumulator_rows = 8;
    static constexpr bool tap_reuse = false;
    static constexpr int shift_columns = 0;
    static constexpr int activation_words = 16;
    static constexpr int weight_words = 24;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 40;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = 1;
};
using Config = Numbers<3>;
using Entry = bfpga::Entry<Config>;
using Parameters = bfpga::ParameterBeat<Config>;

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
    int32_t rarely;    // eighths of the clocks in which there is no beat
    int32_t capacity;  // of each of the lists below
    int32_t* entry;    // (groups, capacity, 4): value, position, last, ends
    int32_t* entries;  // (groups)
    int32_t* row;      // (capacity, 2): bias, exponent
    int32_t rows;
    int32_t left;  // beats that nobody took
    uint32_t work;
    char* message;  // (256)
};

template <int... G>
void run(Start& start, std::integer_sequence<int, G...>) {
    bfpga::stream<bfpga::command_t> commands("commands");
    bfpga::stream<bfpga::wire_t<Parameters>> parameters("parameters");
    bfpga::stream<bfpga::int_t<32>> reports("reports");
    std::deque<bfpga::stream<bfpga::wire_t<Entry>>> entries;
    for (int g = 0; g < Config::skip_groups; ++g) {
        entries.emplace_back("entries");
    }
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
    using Process = bfpga::WeightsProcess<Config, bfpga::StoredEntryWords<Config>>;
    const std::unique_ptr<Process> process(new Process());
    process->run(commands, source, parameters, reports, trace, entries[G]...);
    start.left = source.left();
    start.work = static_cast<uint32_t>(static_cast<int32_t>(reports.read()));
    for (int g = 0; g < Config::skip_groups; ++g) {
        start.entries[g] = 0;
        auto& from = entries[static_cast<std::size_t>(g)];
        while (!from.empty()) {
            const Entry entry = bfpga::from_wire<Entry>(from.read());
            int32_t* to = start.entry + 4 * (g * start.capacity + start.entries[g]++);
            to[0] = static_cast<int32_t>(entry.value);
            to[1] = static_cast<int32_t>(entry.position);
            to[2] = entry.last ? 1 : 0;
            to[3] = entry.ends ? 1 : 0;
        }
    }
    start.rows = 0;
    while (!parameters.empty()) {
        const Parameters row = bfpga::from_wire<Parameters>(parameters.read());
        start.row[2 * start.rows] = static_cast<int32_t>(row.row.bias);
        start.row[2 * start.rows++ + 1] = static_cast<int32_t>(row.row.exponent);
    }
}

}  // namespace

extern "C" int unit_skip_weights(Start* start) {
    try {
        run(*start, std::make_integer_sequence<int, Config::skip_groups>());
        return 0;
    } catch (const std::exception& problem) {
        std::snprintf(start->message, 256, "%s", problem.what());
        return 1;
    }
}
