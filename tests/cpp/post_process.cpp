// processes/post.hpp: starts of several commands, beside the output stage of all columns driven row by row.
#include <cstdint>
#include <vector>

#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/post.hpp"
#include "process_ends.hpp"

namespace {

using bfpga::Descriptor;
using bfpga::Flag;
using bfpga::LogMode;
using bfpga::Operation;
using bfpga::Rounding;
using bfpga::Saturation;

template <int MW, int ACC, int COLUMNS, int ROWS, int LANES, int ACCUMULATOR_ROWS, int BINS, int SHIFT_COLUMNS,
          int SLICE = 0>
struct Build {
    static constexpr int mantissa_bits = MW;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 16;
    static constexpr int exponent_min = -128;
    static constexpr int exponent_max = 127;
    static constexpr Rounding rounding = Rounding::Rne;
    static constexpr Saturation saturation = Saturation::Sym;
    static constexpr LogMode log = LogMode::Floor;
    static constexpr int accumulator_bits = ACC;
    static constexpr int bias_bits = 18;
    static constexpr int columns = COLUMNS;
    static constexpr int post_columns = SLICE;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int banks = COLUMNS + 1;
    static constexpr int rows = ROWS;
    static constexpr int lanes = LANES;
    static constexpr int words_per_block = ROWS / LANES;
    static constexpr int accumulator_rows = ACCUMULATOR_ROWS;
    static constexpr bool tap_reuse = false;
    static constexpr int skip_groups = 0;
    static constexpr bool skip_activations = false;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int count_registers = 0;
    static constexpr bool wide_memory = false;
    static constexpr int shift_columns = SHIFT_COLUMNS;
    static constexpr int activation_words = 64;
    static constexpr int weight_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int weight_bits = MW;
    static constexpr int weight_container_bits = 16;
    static constexpr int parameter_rows = 64;
    static constexpr int stream_bits = 64 * LANES;
    static constexpr int words_per_beat = 4;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = ROWS * LANES;
    static constexpr int position_bins = BINS;
    static constexpr int wide_words = 256;
    static constexpr int functions = 0x7fffffff;  // all
    static constexpr int tensor_slots = 4;
    static constexpr int policy_slots = 3;
};

// The same with an output stage of all columns.
template <class Config>
struct Whole : Config {
    static constexpr int post_columns = 0;
};

// A command and what comes with it. Of a GEMM `sum` has all rows of the array's passes, of MAX and SUM the rows that
// their operands should make.
struct Command {
    const int32_t* words;
    int32_t exponent;             // of a LOAD
    int32_t rows;                 // of a group in `sum`
    const int64_t* sum;           // (groups, rows, columns)
    const int32_t* bias;          // (output rows)
    const int32_t* row_exponent;  // (output rows)
    int32_t beats;
    const int32_t* operand;  // (beats, columns, lanes)
    const uint8_t* mine;     // (beats, columns)
    const uint8_t* present;  // (beats, columns)
    const uint8_t* fires;    // (beats)
    int32_t* mantissa;       // (groups, output words, columns, lanes): by the process
    int32_t* expected;       // by the output stage alone
    int32_t exponent_sent;   // of a STORE
    int32_t exponent_expected;
};

struct Report {
    uint32_t overflows;
    uint32_t underflows;
    int32_t bits;
};

struct Bench {
    virtual ~Bench() {}
    // `left`: beats that nobody took, or that came without being asked for.
    virtual void run(int count, Command* commands, bool clear, unsigned rarely, Report* reports, int32_t* left) = 0;
};

Descriptor decoded(const Command& command) {
    int32_t words[Descriptor::words];
    for (int k = 0; k < Descriptor::words; ++k) {
        words[k] = command.words[k];
    }
    return bfpga::decode_descriptor(words);
}

template <class Config>
class ConfiguredBench : public Bench {
    static constexpr int columns = Config::columns;
    static constexpr int lanes = Config::lanes;
    using accumulator_t = bfpga::int_t<Config::accumulator_bits>;
    using mantissa_t = bfpga::int_t<Config::mantissa_bits>;
    using Parameters = bfpga::ParameterBeat<Config>;
    using Sums = bfpga::SumBeat<Config>;
    using Vectors = bfpga::VectorBeat<Config>;
    using Results = bfpga::ResultBeat<Config>;

    struct Ends {
        explicit Ends(unsigned rarely)
            : commands("commands", 1, 0),
              sums("sums", 2, rarely),
              vectors("vectors", 3, rarely),
              parameters("parameters", 4, rarely),
              results("results"),
              exponents("exponents"),
              reports("reports") {}

        Sender<bfpga::command_t> commands;
        BeatSender<Sums> sums;
        BeatSender<Vectors> vectors;
        BeatSender<Parameters> parameters;
        bfpga::stream<bfpga::wire_t<Results>> results;
        bfpga::stream<bfpga::command_t> exponents, reports;
    };

   public:
    void run(int count, Command* commands, bool clear, unsigned rarely, Report* reports, int32_t* left) override {
        Ends ends(rarely);
        ends.commands.words.push_back(bfpga::command_t(clear ? 1 : 0));
        for (int n = 0; n < count; ++n) {
            send(commands[n], ends);
        }
        for (int n = 0; n <= bfpga::PostCommand::words; ++n) {
            ends.commands.words.push_back(bfpga::command_t(0));
        }
        process_.run(ends.commands.to, ends.sums.to, ends.vectors.to, ends.parameters.to, ends.results, ends.exponents,
                     ends.reports);
        *left = !ends.commands.empty() + !ends.sums.empty() + !ends.vectors.empty() + !ends.parameters.empty();
        for (int n = 0; n < count; ++n) {
            take(commands[n], ends);
        }
        reports[0].overflows = static_cast<uint32_t>(static_cast<int32_t>(ends.reports.read()));
        reports[0].underflows = static_cast<uint32_t>(static_cast<int32_t>(ends.reports.read()));
        reports[0].bits = static_cast<int32_t>(ends.reports.read());
        *left += !ends.results.empty() + !ends.exponents.empty() + !ends.reports.empty();
        reports[1] = Report();
        if (clear) {
            layers_.clear_policies();
        }
        for (int n = 0; n < count; ++n) {
            execute(commands[n], reports[1]);
        }
    }

   private:
    static void send(const Command& command, Ends& ends) {
        for (int k = 0; k < Descriptor::words; ++k) {
            if (bfpga::PostCommand::has(k)) {
                ends.commands.words.push_back(bfpga::command_t(command.words[k]));
            }
        }
        ends.commands.words.push_back(bfpga::command_t(command.exponent));
        const Descriptor d = decoded(command);
        for (int n = 0; n < command.beats; ++n) {
            ends.vectors.words.push_back(bfpga::to_wire(vector(command, n)));
        }
        if (static_cast<Operation>(d.operation) != Operation::Gemm) {
            return;
        }
        for (int n = 0; n < d.groups * command.rows; ++n) {
            if (!d.has(Flag::Kept)) {
                ends.sums.words.push_back(bfpga::to_wire(sums(command, n)));
            }
            const int row = n % command.rows;
            if (row < d.output_rows) {
                Parameters beat;
                beat.row.bias = static_cast<bfpga::int_t<Config::bias_bits>>(command.bias[row]);
                beat.row.exponent = static_cast<bfpga::int_t<16>>(command.row_exponent[row]);
                ends.parameters.words.push_back(bfpga::to_wire(beat));
            }
        }
    }

    static Sums sums(const Command& command, int n) {
        Sums beat;
        for (int i = 0; i < columns; ++i) {
            beat.sum[i] = static_cast<accumulator_t>(command.sum[n * columns + i]);
        }
        return beat;
    }

    static Vectors vector(const Command& command, int n) {
        Vectors beat;
        beat.fires = command.fires[n] != 0;
        for (int i = 0; i < columns; ++i) {
            const int k = n * columns + i;
            beat.mine[i] = command.mine[k] != 0;
            beat.present[i] = command.present[k] != 0;
            for (int l = 0; l < lanes; ++l) {
                beat.word[i].lane[l] = static_cast<mantissa_t>(command.operand[k * lanes + l]);
            }
        }
        return beat;
    }

    static int output_words(const Descriptor& d) { return (d.output_rows + lanes - 1) / lanes; }
    static bool computes(const Descriptor& d) {
        const Operation operation = static_cast<Operation>(d.operation);
        return operation == Operation::Gemm || operation == Operation::Max || operation == Operation::Sum;
    }

    static void take(Command& command, Ends& ends) {
        const Descriptor d = decoded(command);
        if (static_cast<Operation>(d.operation) == Operation::Store) {
            command.exponent_sent = static_cast<int32_t>(ends.exponents.read());
        }
        if (!computes(d) || d.has(Flag::Measure)) {
            return;
        }
        int32_t* out = command.mantissa;
        for (int n = 0; n < d.groups * output_words(d); ++n) {
            const bfpga::wire_t<Results> word = ends.results.read();
            const Results beat = bfpga::from_wire<Results>(word);
            for (int i = 0; i < columns; ++i) {
                for (int l = 0; l < lanes; ++l) {
                    *out++ = static_cast<int32_t>(beat.word[i].lane[l]);
                }
            }
        }
    }

    void execute(Command& command, Report& report) {
        const Descriptor d = decoded(command);
        if (static_cast<Operation>(d.operation) == Operation::Load) {
            layers_.set_exponent(d.output_slot, command.exponent);
        } else if (static_cast<Operation>(d.operation) == Operation::Store) {
            command.exponent_expected =
                bfpga::tells_statistics<Config>(d) ? stage_.statistics(d.input_slot) : layers_.exponent(d.input_slot);
        } else {
            compute(d, command, report);
        }
    }

    void compute(const Descriptor& d, Command& command, Report& report) {
        bfpga::PolicySlot<Whole<Config>> policy = layers_.policy(d.policy_slot);
        const bfpga::LayerExponents exponents = layers_.begin(d, policy, report.bits);
        stage_.start(d, exponents);
        const int group = bfpga::active_columns<Config>(d);
        std::size_t kept = static_cast<std::size_t>(d.wide_word) * columns;
        kept_.resize(Config::wide_words * columns);
        for (int g = 0; g < d.groups; ++g) {
            for (int row = 0; row < d.output_rows; ++row) {
                stage_.row(static_cast<bfpga::int_t<Config::bias_bits>>(command.bias[row]), command.row_exponent[row]);
                accumulator_t sum[columns];
                bool shown[columns];
                mantissa_t mantissa[columns];
                for (int i = 0; i < columns; ++i) {
                    int64_t value = command.sum[(g * command.rows + row) * columns + i];
                    int64_t& keeps = kept_[kept + static_cast<std::size_t>(i)];
                    shown[i] = i < group && g * group + i < d.output_pixels;
                    value = d.has(Flag::Kept) ? keeps : value;
                    keeps = d.has(Flag::Keep) ? value : keeps;
                    sum[i] = static_cast<accumulator_t>(value);
                }
                const mantissa_t none[columns] = {};
                stage_.values(sum, none, shown, policy, mantissa);
                for (int i = 0; i < columns; ++i) {
                    const int word = g * output_words(d) + row / lanes;
                    if (shown[i]) {
                        command.expected[(word * columns + i) * lanes + row % lanes] =
                            static_cast<int32_t>(mantissa[i]);
                    }
                }
                kept += columns;
            }
        }
        stage_.finish(policy, report);
        if (d.has(Flag::Last)) {
            policy.learn(d, exponents.output, report.bits);
        }
        layers_.set_policy(d.policy_slot, policy);
    }

    bfpga::PostProcess<Config, bfpga::SimulationStorage> process_;
    // Beside it
    bfpga::LayerRegisters<Whole<Config>> layers_;
    bfpga::OutputStage<Whole<Config>> stage_;
    std::vector<int64_t> kept_;
};

}  // namespace

extern "C" {

void* unit_bench(int build) {
    switch (build) {
        case 0:
            return new ConfiguredBench<Build<8, 24, 5, 8, 4, 8, 0, 2>>();
        case 1:
            return new ConfiguredBench<Build<16, 48, 3, 4, 2, 8, 32, 0>>();
        case 2:
            return new ConfiguredBench<Build<8, 24, 6, 8, 4, 8, 32, 2, 2>>();
        case 3:
            return new ConfiguredBench<Build<16, 48, 5, 4, 2, 8, 0, 0, 1>>();
        default:
            return nullptr;
    }
}

void unit_run(void* bench, int count, Command* commands, int clear, int rarely, Report* reports, int32_t* left) {
    static_cast<Bench*>(bench)->run(count, commands, clear != 0, static_cast<unsigned>(rarely), reports, left);
}

void unit_free(void* bench) { delete static_cast<Bench*>(bench); }

}  // extern "C"
