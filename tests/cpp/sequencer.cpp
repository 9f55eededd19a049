// The sequencer alone: descriptors and counts go in, words of commands come out with the clocks in which beats were
// read.
#include <cstdint>
#include <cstring>
#include <vector>

#include "bfpga/processes/scratchpad/order.hpp"
#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/weights.hpp"

namespace {

template <int BITS>
struct UnitConfig {
    static constexpr int count_registers = 15;
    static constexpr int columns = 3;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int rows = 4;
    static constexpr int lanes = 2;
    static constexpr int words_per_block = 2;
    static constexpr int banks = 5;
    static constexpr int mantissa_bits = 8;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = 8;
    static constexpr int weight_container_bits = 8;
    static constexpr int bias_bits = 18;
    static constexpr int exponent_min = -128;
    static constexpr int exponent_max = 127;
    static constexpr int accumulator_bits = 24;
    static constexpr int accumulator_rows = 4;
    static constexpr int activation_words = 64;
    static constexpr int weight_words = 64;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 64;
    static constexpr int shift_columns = 0;
    static constexpr int skip_groups = 0;
    static constexpr bool skip_activations = false;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr bool tap_reuse = false;
    static constexpr bool wide_memory = false;
    static constexpr int stream_bits = BITS;
    static constexpr int weight_stream_bits = 64;
    static constexpr int words_per_beat = BITS / 16;
    static constexpr int transfer_pixels = words_per_beat < 4 ? words_per_beat : 4;
};

// The beats of all descriptors; the clock in which each was read.
template <int BITS>
struct Beats {
    const int32_t* words;
    int next;
    std::vector<int32_t> clocks;

    void expect(long long, const char*, int) {}

    bfpga::bits_t<BITS> read() {
        bfpga::bits_t<BITS> beat = 0;
        for (int n = 0; n < BITS / 32; ++n) {
            bfpga::set_signed<32>(beat, 32 * n, words[next++]);
        }
        clocks.push_back(static_cast<int32_t>(bfpga::PipelinedLoop::number(bfpga::PipelinedLoop::running()->now())));
        return beat;
    }

    bool read_nb(bfpga::bits_t<BITS>& beat) {
        beat = read();
        return true;
    }
};

// Counts that come when they have been asked for so many times.
struct Counts {
    const int32_t* words;
    int left, after, asked;

    bool read_nb(bfpga::command_t& word) {
        if (left == 0 || ++asked < after) {
            return false;
        }
        asked = 0;
        --left;
        word = static_cast<bfpga::command_t>(*words++);
        return true;
    }
};

struct Run {
    const int32_t* words;
    int32_t descriptors;
    const int32_t* counts;
    int32_t counted, after;
    int32_t* clocks;    // of every beat
    int32_t* commands;  // scratchpad, weights, post, store, one behind the other
    int32_t lengths[4];
};

template <class Config>
void run(Run& given) {
    Beats<Config::stream_bits> source = {given.words, 0, {}};
    Counts counts = {given.counts, given.counted, given.after, 0};
    // One stream of each process: scratchpad, weights, post, store.
    struct Word : bfpga::stream<bfpga::command_t> {
        Word() : bfpga::stream<bfpga::command_t>("words") {}
    } commands[4], reports[4];
    bfpga::stream<bfpga::wire_t<bfpga::GroupBeat<Config>>> loads("loads");
    const int told[4] = {1, 2, 3, 1};
    for (int process = 0; process < 4; ++process) {
        for (int n = 0; n < told[process]; ++n) {
            reports[process].write(0);
        }
    }
    bfpga::NoTrace trace;
    bfpga::SequencerProcess<Config> sequencer;
    sequencer.run(given.descriptors, true, source, commands[0], commands[1], commands[2], commands[3], loads,
                  reports[0], reports[1], reports[2], reports[3], counts, trace);
    std::memcpy(given.clocks, source.clocks.data(), source.clocks.size() * sizeof(int32_t));
    for (int process = 0; process < 4; ++process) {
        given.lengths[process] = 0;
        while (!commands[process].empty()) {
            *given.commands++ = static_cast<int32_t>(commands[process].read());
            ++given.lengths[process];
        }
    }
}

}  // namespace

extern "C" void run_sequencer(Run* given, int32_t bits) {
    bits == 64 ? run<UnitConfig<64>>(*given) : run<UnitConfig<128>>(*given);
}

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
