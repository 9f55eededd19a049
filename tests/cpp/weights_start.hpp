// What the benches of the weights processes of skip arrays have in common: numbers, a stream that hesitates, commands
// in, parameters out.
#ifndef BFPGA_TESTS_WEIGHTS_START_HPP
#define BFPGA_TESTS_WEIGHTS_START_HPP

#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>

#include "bfpga/kernel/status.hpp"

// Numbers that all differ.
template <bool OF_ACTIVATIONS>
struct WeightNumbers {
    static constexpr bool skip_activations = OF_ACTIVATIONS;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int count_registers = 0;
    static constexpr int skip_halves = 2;
    static constexpr int skip_chunk = 32;
    static constexpr int mantissa_bits = 4;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = 4;
    static constexpr int weight_container_bits = 8;
    static constexpr int accumulator_bits = 24;
    static constexpr int bias_bits = 18;
    static constexpr int columns = 4;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int banks = 5;
    static constexpr int lanes = 2;
    static constexpr bool tap_reuse = false;
    static constexpr int shift_columns = 0;
    static constexpr int activation_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 40;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
};

// Beats of a start; `rarely`: eighths of the clocks in which there is none.
class BeatSource {
   public:
    template <class Start>
    explicit BeatSource(const Start& start)
        : next_(start.beat), end_(start.beat + start.beats), random_(1), rarely_(static_cast<unsigned>(start.rarely)) {}

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

// The words of descriptors that the process receives.
template <class Start>
void write_commands(const Start& start, bfpga::stream<bfpga::command_t>& commands) {
    for (int n = 0; n < start.commands; ++n) {
        const int32_t* words = start.words + n * bfpga::Descriptor::words;
        for (int k = 0; k < bfpga::Descriptor::words; ++k) {
            if (bfpga::WeightsCommand::has(k)) {
                commands.write(static_cast<bfpga::command_t>(words[k]));
            }
        }
    }
}

// Rows (rows, 2): bias, exponent.
template <class Parameters, class Start>
void read_rows(bfpga::stream<bfpga::wire_t<Parameters>>& parameters, Start& start) {
    start.rows = 0;
    while (!parameters.empty()) {
        const Parameters row = bfpga::from_wire<Parameters>(parameters.read());
        start.row[2 * start.rows] = static_cast<int32_t>(row.row.bias);
        start.row[2 * start.rows++ + 1] = static_cast<int32_t>(row.row.exponent);
    }
}

// 0, or 1 with what stopped the start in its message.
template <class Start, class Run>
int reported(Start& start, Run run) {
    try {
        run(start);
        return 0;
    } catch (const std::exception& problem) {
        std::snprintf(start.message, 256, "%s", problem.what());
        return 1;
    }
}

#endif
