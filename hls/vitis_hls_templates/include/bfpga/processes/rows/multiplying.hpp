// The array and the process of rows beside it in a simulation of a kernel.
#pragma once
#include <string>
#include <vector>

#include "bfpga/processes/operand_words.hpp"
#include "bfpga/processes/rows/factor_process.hpp"
#include "bfpga/processes/rows/gains.hpp"
#include "bfpga/processes/rows/ports.hpp"
#include "bfpga/processes/rows/row_process.hpp"
#include "bfpga/processes/scratchpad/chunks.hpp"
#include "bfpga/processes/systolic/array.hpp"

namespace bfpga {

// A systolic array with the process of rows; the interface of `SystolicMultiplying`.
template <class Config, class Storage>
class RowsBesideArray {
   public:
    template <class Join>
    void join(const Join& join) {
        join(weight_words_, Config::weight_words_depth);
        operand_words_.join(join);
        join(row_commands_, Config::rows_commands_depth);
        join(factor_commands_, Config::row_factors_commands_depth);
        join(operands_, Config::row_operands_depth);
        join(gains_, Config::row_gains_depth);
        join(totals_, Config::row_totals_depth);
        join(factors_, Config::row_factors_depth);
        join(row_sums_, Config::row_sums_depth);
        join(exponents_, Config::row_exponents_depth);
    }

    RowCommands& commands() { return commands_; }

    template <class Scratchpad, class Trace, class Commands, class Loads, class Operands, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Commands& commands,
                        Loads& loads, Operands& operands, Streams&... streams) {
        RowOperands<Config> rows(operands_);
        decltype(operand_words_.beside(rows)) beside = operand_words_.beside(rows);
        NoWindows windows;
        scratchpad.run(commands, loads, operands, beside, streams..., windows, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        weights_.run_beside(operand_words_.words(), commands, source, parameters, reports, trace, weight_words_,
                            gains_);
    }

    static void name_arrays(std::vector<std::string>& names) {
        names.insert(names.end(), {"array", "rows", "row_factors"});
    }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &operands, &sums] { array_.run(operands, weight_words_, sums); });
        bodies.push_back([this] {
            RowResults<Config> results(row_sums_);
            rows_.run(row_commands_, operands_, gains_, totals_, factors_, results);
        });
        bodies.push_back([this] { reciprocals_.run(factor_commands_, exponents_, totals_, factors_); });
    }

    template <class Post, class Commands, class Sums, class... Streams>
    void run_post(Post& post, Commands& commands, Sums& sums, Streams&... streams) {
        SumsOfRows<Config> row_sums(row_sums_, exponents_);
        post.run(commands, sums, row_sums, streams...);
    }

    template <class Store, class... Streams>
    void run_store(Store& store, Streams&... streams) {
        store.run(streams...);
    }

    // As after the reset that a board needs when a start has failed: nothing is left in the pipelines.
    void reset() {
        array_ = ArrayProcess<Config, Storage>();
        rows_ = RowProcess<Config>();
        reciprocals_ = FactorProcess<Config>();
    }

   private:
    WeightsProcess<Config, StoredWithGains<Config>> weights_;
    ArrayProcess<Config, Storage> array_;
    RowProcess<Config> rows_;
    FactorProcess<Config> reciprocals_;
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"};
    stream<command_t> row_commands_{"rows_commands"}, factor_commands_{"row_factors_commands"};
    stream<wire_t<RowWords<Config>>> operands_{"row_operands"};
    stream<wire_t<RowGainBeat>> gains_{"row_gains"};
    stream<wire_t<RowTotalBeat>> totals_{"row_totals"};
    OperandLink<Config> operand_words_;
    stream<wire_t<RowFactorBeat>> factors_{"row_factors"};
    stream<wire_t<SumBeat<Config>>> row_sums_{"row_sums"};
    stream<command_t> exponents_{"row_exponents"};
    RowCommands commands_{row_commands_, factor_commands_};
};

}  // namespace bfpga
