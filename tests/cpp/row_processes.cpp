// processes/rows: both loops with the streams between them, several operations one after the other.
#include <cstdint>
#include <memory>

#include "bfpga/processes/rows/factor_process.hpp"
#include "bfpga/processes/rows/row_process.hpp"
#include "bfpga/simulation/process_scheduler.hpp"
#include "build_list.hpp"
#include "row_build.hpp"

namespace {

// As many columns as pynq_z2_dense has; one column of one lane; others.
using All = List<RowBuild<12, 4>, RowBuild<1, 1>, RowBuild<5, 2>, RowBuild<2, 1>, RowBuild<3, 4>>;

struct Numbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        value[0] = Config::row_columns;
        value[1] = Config::lanes;
        return 0;
    }
};

struct Operation {
    int32_t row[bfpga::kRowCommandWords];
    int32_t factor[bfpga::kFactorCommandWords];
    int32_t exponent;
    const int32_t* x;       // (groups * columns, channels)
    const int32_t* second;  // the same of a product's second tensor, or null
    const int32_t* gain;    // (channels), or null
    int32_t passes;
    int32_t beyond;   // what lanes behind the channels hold
    int64_t* result;  // (groups, words * lanes, columns)
};

struct Start {
    const Operation* operation;
    int32_t operations;
    int32_t depth;   // of the streams between the loops
    uint64_t seed;   // of the order of the processes, and of pauses of streams
    int32_t stages;  // of the loops; negative: drawn by the seed
    int64_t clocks;  // that it took; of native integers
    int32_t left;    // words that nobody took, or that came without being asked for
    char* message;   // (256)
};

template <class Config>
struct Bench {
    using Words = bfpga::RowWords<Config>;
    using Sums = bfpga::RowSumBeat<Config>;

    bfpga::stream<bfpga::command_t> row_commands{"row_commands"}, factor_commands{"factor_commands"};
    bfpga::stream<bfpga::command_t> exponents{"exponents"};
    bfpga::stream<bfpga::wire_t<Words>> operands{"operands"};
    bfpga::stream<bfpga::wire_t<bfpga::RowGainBeat>> gains{"gains"};
    bfpga::stream<bfpga::wire_t<bfpga::RowTotalBeat>> totals{"totals"};
    bfpga::stream<bfpga::wire_t<bfpga::RowFactorBeat>> factors{"factors"};
    bfpga::stream<bfpga::wire_t<Sums>> sums{"sums"};
    bfpga::ProcessScheduler scheduler;
    bfpga::RowProcess<Config> rows;
    bfpga::FactorProcess<Config> reciprocals;

    Bench() {
        scheduler.add("rows");
        scheduler.add("factors");
    }

    template <class Action>
    void each(const Action& action) {
        action(row_commands);
        action(factor_commands);
        action(exponents);
        action(operands);
        action(gains);
        action(totals);
        action(factors);
        action(sums);
    }

    struct Join {
        bfpga::ProcessScheduler& scheduler;

        template <class Stream>
        void operator()(Stream& stream) const {
            stream.join(scheduler);
        }
    };

    struct Part {
        template <class Stream>
        void operator()(Stream& stream) const {
            stream.part();
        }
    };

    void send(const Operation& operation) {
        for (const int32_t word : operation.row) {
            row_commands.write(bfpga::command_t(word));
        }
        for (const int32_t word : operation.factor) {
            factor_commands.write(bfpga::command_t(word));
        }
        exponents.write(bfpga::command_t(operation.exponent));
        const int channels = operation.row[1], words = words_of(operation), groups = operation.row[3];
        for (int group = 0; group < groups; ++group) {
            for (int n = 0; n < operation.passes * words; ++n) {
                operands.write(word_of(operation, operation.x, group, n % words));
                if (operation.second != nullptr) {
                    operands.write(word_of(operation, operation.second, group, n % words));
                }
            }
            for (int n = 0; n < words * Config::lanes; ++n) {
                bfpga::RowGainBeat beat;
                beat.gain = static_cast<bfpga::RowTypes::gain_t>(
                    operation.gain != nullptr && n < channels ? operation.gain[n] : operation.beyond);
                gains.write(bfpga::to_wire(beat));
            }
        }
    }

    static int words_of(const Operation& operation) { return (operation.row[1] + Config::lanes - 1) / Config::lanes; }

    static bfpga::wire_t<Words> word_of(const Operation& operation, const int32_t* from, int group, int word) {
        Words beat;
        const int channels = operation.row[1];
        for (int i = 0; i < Config::row_columns; ++i) {
            for (int l = 0; l < Config::lanes; ++l) {
                const int c = word * Config::lanes + l;
                const int32_t value =
                    c < channels ? from[(group * Config::row_columns + i) * channels + c] : operation.beyond;
                beat.word[i].lane[l] = static_cast<bfpga::RowTypes::mantissa_t>(value);
            }
        }
        return bfpga::to_wire(beat);
    }

    // Results of an operation; false if there are too few.
    bool take(const Operation& operation) {
        const int rows = words_of(operation) * Config::lanes * operation.row[3];
        for (int n = 0; n < rows; ++n) {
            if (sums.empty()) {
                return false;
            }
            const Sums beat = bfpga::from_wire<Sums>(sums.read());
            for (int i = 0; i < Config::row_columns; ++i) {
                operation.result[n * Config::row_columns + i] = static_cast<int64_t>(beat.sum[i]);
            }
        }
        return true;
    }

    void run(Start& start) {
        scheduler.disturb(start.seed);
        scheduler.pauses().draw(start.seed);
        scheduler.stages().draw(start.stages < 0 ? start.seed : 0);
        if (start.stages >= 0) {
            scheduler.stages().set("", start.stages);
        }
        totals.clear(static_cast<std::size_t>(start.depth));
        factors.clear(static_cast<std::size_t>(start.depth));
        for (int n = 0; n < start.operations; ++n) {
            send(start.operation[n]);
        }
        for (int n = 0; n < bfpga::kRowCommandWords; ++n) {
            row_commands.write(bfpga::command_t(0));
        }
        for (int n = 0; n < bfpga::kFactorCommandWords; ++n) {
            factor_commands.write(bfpga::command_t(0));
        }
        each(Join{scheduler});
        const std::vector<bfpga::ProcessScheduler::Body> bodies = {
            [this] { rows.run(row_commands, operands, gains, totals, factors, sums); },
            [this] { reciprocals.run(factor_commands, exponents, totals, factors); },
        };
        scheduler.count_clocks(bfpga::native_integers && start.seed == 0);
        scheduler.run(bodies);
        start.clocks = scheduler.clock();
        each(Part());
        for (int n = 0; n < start.operations; ++n) {
            start.left += !take(start.operation[n]);
        }
        start.left += !row_commands.empty() + !factor_commands.empty() + !exponents.empty() + !operands.empty() +
                      !gains.empty() + !totals.empty() + !factors.empty() + !sums.empty();
    }
};

// Starts one after the other, of processes that keep their state.
struct Run {
    Start* start;
    int starts;

    template <class Config>
    int apply() const {
        const auto bench = std::make_unique<Bench<Config>>();
        for (int n = 0; n < starts; ++n) {
            const int error = caught(start[n].message, [&] { bench->run(start[n]); });
            if (error != 0) {
                return error;
            }
        }
        return 0;
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no build of that number, or 2 and a message if the processes stop with an error.
int row_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int row_run(int number, Start* start, int starts) {
    return with_build(number, Run{start, starts}, static_cast<const All*>(nullptr));
}

}  // extern "C"
