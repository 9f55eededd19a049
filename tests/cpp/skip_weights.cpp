// processes/skip_array/entry_read.hpp: a start of the weights process of a skip array, fed by a stream that hesitates.
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "bfpga/processes/skip_array/entry_read.hpp"
#include "weights_start.hpp"

namespace {

// 4 + 5 bits of a value and a position stand in a field of 16.
struct Config : WeightNumbers<false> {
    static constexpr int skip_groups = 3;
    static constexpr int entry_field_bits = 16;
    static constexpr int rows = 8;
    static constexpr int words_per_block = 4;
    static constexpr int accumulator_rows = 8;
    static constexpr int weight_words = 24;
    static constexpr int beats_per_weight_word = 1;
};
using Entry = bfpga::Entry<Config>;
using Parameters = bfpga::ParameterBeat<Config>;

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
    write_commands(start, commands);
    BeatSource source(start);
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
    read_rows<Parameters>(parameters, start);
}

}  // namespace

extern "C" int unit_skip_weights(Start* start) {
    return reported(*start, [](Start& one) { run(one, std::make_integer_sequence<int, Config::skip_groups>()); });
}
