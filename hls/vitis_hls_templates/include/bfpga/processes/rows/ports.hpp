// What other processes send to the process of rows and get from it.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/processes/rows/beats.hpp"

namespace bfpga {

// From the sequencer: the commands of both loops.
class RowCommands {
   public:
    RowCommands(stream<command_t>& rows, stream<command_t>& factors) : rows_(rows), factors_(factors), hears_(false) {}

    // Word `index` of a descriptor; `ends`: of the commands that end the start; `skips`: the descriptor is skipped.
    void send(command_t word, int index, bool first, bool ends, bool skips) {
#pragma HLS INLINE
        if (first) {
            hears_ = ends || (RowsCommand::hears(static_cast<int32_t>(word)) && !skips);
        }
        if (hears_ && RowsCommand::has(index)) {
            rows_.write(word);
        }
        if (hears_ && RowFactorsCommand::has(index)) {
            factors_.write(word);
        }
    }

   private:
    stream<command_t>& rows_;
    stream<command_t>& factors_;
    bool hears_;
};

// From the scratchpad: a word of each column.
template <class Config>
class RowOperands {
   public:
    explicit RowOperands(stream<wire_t<RowWords<Config>>>& to) : to_(to) {}

    template <int Ports>
    void send(const Word<Config> (&word)[Ports]) {
#pragma HLS INLINE
        to_.write(to_wire(RowWords<Config>::of(word)));
    }

   private:
    stream<wire_t<RowWords<Config>>>& to_;
};

// To the output stage: results of a lane, as an array's sums are; back from it the exponent of an operand.
template <class Config>
class SumsOfRows {
    using Words = stream<wire_t<SumBeat<Config>>>;

   public:
    SumsOfRows(Words& words, stream<command_t>& exponents) : words_(words), exponents_(exponents) {}

    Words& words() { return words_; }
    void tell(int32_t exponent) { exponents_.write(static_cast<command_t>(exponent)); }

   private:
    Words& words_;
    stream<command_t>& exponents_;
};

// The end of that stream in the process of rows, which has fewer columns and narrower numbers.
template <class Config>
class RowResults {
    static_assert(Config::accumulator_bits >= RowNumbers::result_bits, "an accumulator holds a result of rows");

   public:
    explicit RowResults(stream<wire_t<SumBeat<Config>>>& to) : to_(to) {}

    void write(const wire_t<RowSumBeat<Config>>& word) {
#pragma HLS INLINE
        const RowSumBeat<Config> given = from_wire<RowSumBeat<Config>>(word);
        SumBeat<Config> beat;
    Columns_Widen:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            const bool has = i < Config::row_columns;
            beat.sum[i] = has ? static_cast<int_t<Config::accumulator_bits>>(given.sum[has ? i : 0])
                              : static_cast<int_t<Config::accumulator_bits>>(0);
        }
        to_.write(to_wire(beat));
    }

   private:
    stream<wire_t<SumBeat<Config>>>& to_;
};

}  // namespace bfpga
