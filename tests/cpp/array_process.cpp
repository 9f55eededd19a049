// processes/systolic/array.hpp: arrays of a list, by their number, fed with operands that come when they like.
#include <cstdint>
#include <vector>

#include "bfpga/array/mixed_columns.hpp"
#include "bfpga/array/multiplier.hpp"
#include "bfpga/array/quad_multiplier.hpp"
#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/systolic/array.hpp"
#include "process_ends.hpp"

namespace {

using bfpga::ZeroCode;

// An array of `Rows` x `Columns` in blocks of `Hop` columns.
template <class Mult, int MW, int ACC, int COLUMNS, int ROWS, int LANES, int HOP, int SHIFT, int SHIFT_COLUMNS = 0,
          int SHIFT_ROWS = ROWS>
struct Array {
    using Multiplier = Mult;
    static constexpr int mantissa_bits = MW;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 16;
    static constexpr int shift_exp_width = 3;
    static constexpr int shift_d = 0;
    static constexpr int shift_base_log2 = 1;
    static constexpr ZeroCode shift_zero_code = ZeroCode::NegMin;
    static constexpr bfpga::ZeroScope shift_zero_scope = bfpga::ZeroScope::Auto;
    static constexpr bfpga::SignMode shift_sign_mode = bfpga::SignMode::Relative;
    static constexpr int shift_columns = SHIFT_COLUMNS;
    static constexpr int weight_bits = std::is_same<Mult, bfpga::DspQuad>::value ? 4 : MW;
    static constexpr int weight_container_bits = 16;
    static constexpr int packing_shift = SHIFT;
    static constexpr int accumulator_bits = ACC;
    static constexpr int columns = COLUMNS;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int hop_columns = HOP;
    static constexpr int banks = COLUMNS + 1;
    static constexpr int rows = ROWS;
    static constexpr int lanes = LANES;
    static constexpr int words_per_block = ROWS / LANES;
    static constexpr int accumulator_rows = SHIFT_ROWS;
    static constexpr bool tap_reuse = SHIFT_COLUMNS == 0 && SHIFT_ROWS == ROWS && LANES >= 3 && ROWS >= 2 * LANES;
    static constexpr int skip_groups = 0;
    static constexpr bool skip_activations = false;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr bool wide_memory = false;
    static constexpr int activation_words = 16;
    static constexpr int weight_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 16;
    static constexpr int bias_bits = 18;
    static constexpr int stream_bits = 64 * LANES;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = ROWS * LANES;
};

template <class... Arrays>
struct List {};

using All = List<Array<bfpga::DspPacked, 8, 24, 12, 8, 4, 4, 17>, Array<bfpga::DspPacked, 8, 32, 5, 4, 2, 2, 17>,
                 Array<bfpga::DspPacked, 6, 32, 3, 8, 8, 1, 18>, Array<bfpga::Dsp, 16, 48, 4, 4, 2, 4, 17>,
                 Array<bfpga::Dsp, 8, 24, 7, 3, 3, 3, 17>, Array<bfpga::ShiftUnits, 8, 40, 3, 2, 2, 2, 17, 0, 4>,
                 Array<bfpga::DspPacked, 8, 32, 5, 4, 2, 3, 17, 2>, Array<bfpga::Dsp, 8, 32, 3, 4, 4, 1, 17, 1>,
                 Array<bfpga::ShiftUnits, 8, 40, 3, 1, 1, 2, 17, 0, 2>, Array<bfpga::DspQuad, 4, 20, 12, 8, 4, 4, 17>,
                 Array<bfpga::DspQuad, 4, 18, 6, 2, 1, 2, 17>, Array<bfpga::DspQuad, 5, 24, 2, 4, 4, 2, 18>>;

// Calls `action` for the array of a number; counts the number down along the list.
template <class Action, class... Arrays>
int with_array(int number, const Action& action, const List<Arrays...>*) {
    int left = number;
    const int expand[] = {(left-- == 0 ? (action.template apply<Arrays>(), 0) : 0)...};
    static_cast<void>(expand);
    return number >= 0 && left < 0 ? 0 : 1;
}

struct Numbers {
    int32_t* value;

    template <class Config>
    void apply() const {
        const int32_t numbers[] = {Config::mantissa_bits, Config::columns,          Config::rows,       Config::lanes,
                                   Config::shift_columns, Config::accumulator_rows, Config::weight_bits};
        int32_t* out = value;
        for (const int32_t number : numbers) {
            *out++ = number;
        }
    }
};

struct Pass {
    int32_t beats;
    const int32_t* operand;  // (beats, columns, lanes)
    const uint8_t* mine;     // (beats, columns)
    const uint8_t* control;  // (beats, 3): fires, first, last
    const int32_t* weight;   // (beats that fire, rows, lanes)
    uint8_t two_hot, power_of_two;
    const uint8_t* begins_row;  // (columns) of an array that takes taps from neighbours; null: it does not
    uint8_t late;               // the weights of a pass come behind the sums of the one before
    int32_t rarely;
    int32_t seed;
    int32_t capacity;  // of `sum`, in rows
    int64_t* sum;      // (rows, columns)
    int32_t rows;      // that came

    template <class Config>
    void operands(BeatSender<bfpga::OperandBeat<Config>>& sender) const {
        for (int n = 0; n <= beats; ++n) {
            bfpga::OperandBeat<Config> beat = {};
            beat.stop = n == beats;
            beat.neighbours = begins_row != nullptr;
            for (int i = 0; i < Config::columns && n < beats; ++i) {
                beat.mine[i] = mine[n * Config::columns + i] != 0;
                beat.begins_row[i] = begins_row != nullptr && begins_row[i] != 0;
                for (int l = 0; l < Config::lanes; ++l) {
                    beat.word[i].lane[l] = static_cast<typename bfpga::Geometry<Config>::mantissa_t>(
                        operand[(n * Config::columns + i) * Config::lanes + l]);
                }
            }
            beat.fires = n < beats && control[3 * n] != 0;
            beat.first = n < beats && control[3 * n + 1] != 0;
            beat.last = n < beats && control[3 * n + 2] != 0;
            sender.words.push_back(bfpga::to_wire(beat));
        }
    }

    // Of each weight word how many passes end before its own.
    std::vector<std::size_t> passes_before() const {
        std::vector<std::size_t> before;
        std::size_t passes = 0;
        for (int n = 0; n < beats; ++n) {
            if (control[3 * n] != 0) {
                before.push_back(passes);
                passes += control[3 * n + 2] != 0 ? 1 : 0;
            }
        }
        return before;
    }

    template <class Config>
    void weights(BeatSender<bfpga::WeightBeat<Config>>& sender) const {
        const int32_t* next = weight;
        for (int n = 0; n < beats; ++n) {
            if (control[3 * n] == 0) {
                continue;
            }
            bfpga::WeightBeat<Config> beat;
            beat.two_hot = two_hot != 0;
            beat.power_of_two = power_of_two != 0;
            for (int r = 0; r < Config::rows; ++r) {
                for (int l = 0; l < Config::lanes; ++l) {
                    beat.weight.row[r][l] = static_cast<typename bfpga::Geometry<Config>::weight_t>(
                        bfpga::low_bits<Config::weight_bits>(*next++));
                }
            }
            sender.words.push_back(bfpga::to_wire(beat));
        }
    }
};

struct Run {
    Pass* pass;

    template <class Config>
    void apply() const {
        BeatSender<bfpga::OperandBeat<Config>> operands("operands", static_cast<uint32_t>(pass->seed),
                                                        static_cast<unsigned>(pass->rarely));
        BeatSender<bfpga::WeightBeat<Config>> weights("weight_words", 0, 0);
        bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>> sums("sums");
        pass->operands<Config>(operands);
        pass->weights<Config>(weights);
        if (pass->late != 0) {
            const std::vector<std::size_t> behind = pass->passes_before();
            weights.may = [&sums, behind](std::size_t word) {
                return sums.peak_occupancy() >= behind[word] * static_cast<std::size_t>(Config::rows);
            };
        }
        static bfpga::ArrayProcess<Config, bfpga::SimulationStorage> process;
        process.run(operands.to, weights.to, sums);
        pass->rows = 0;
        while (!sums.empty() && pass->rows < pass->capacity) {
            const bfpga::wire_t<bfpga::SumBeat<Config>> word = sums.read();
            const bfpga::SumBeat<Config> beat = bfpga::from_wire<bfpga::SumBeat<Config>>(word);
            for (int i = 0; i < Config::columns; ++i) {
                pass->sum[pass->rows * Config::columns + i] = static_cast<int64_t>(beat.sum[i]);
            }
            ++pass->rows;
        }
    }
};

}  // namespace

extern "C" {

// All return 0, or 1 if there is no array of that number.
int unit_array_numbers(int number, int32_t* numbers) {
    return with_array(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int unit_array_run(int number, Pass* pass) { return with_array(number, Run{pass}, static_cast<const All*>(nullptr)); }

}  // extern "C"
