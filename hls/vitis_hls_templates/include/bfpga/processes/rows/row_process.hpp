// The process of rows: Softmax, normalizations and products of two tensors, a lane of every column a clock.
//
// A column is a row of a tensor: the channels of a pixel, word by word. Each is read in several passes; what the first
// ones find is a sum, and its reciprocal is needed by the last one. It is made by another loop, of `FactorProcess`,
// with streams both ways: so no value is carried through the long way from a sum to its reciprocal.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/rows/column.hpp"
#include "bfpga/processes/rows/column_turn.hpp"
#include "bfpga/processes/rows/passes.hpp"

namespace bfpga {

// Words of a command, in the order of a descriptor: its operation, channels of a row, what is done with rows, groups of
// rows.
constexpr int kRowCommandWords = 4;

template <class Config>
class RowProcess {
    static_assert(Config::mantissa_bits == RowNumbers::mantissa_bits, "the numbers of rows are those of 8 bits");
    static_assert(Config::row_columns >= 1 && Config::row_columns <= Config::columns, "rows are pixels of columns");
    static_assert((Config::lanes & (Config::lanes - 1)) == 0, "the lane of a channel is the lower bits of its number");
    static constexpr int columns = Config::row_columns;
    static constexpr int lanes = Config::lanes;
    using T = RowTypes;
    using Words = RowWords<Config>;
    using Sums = RowSumBeat<Config>;

   public:
    RowProcess() {
#pragma HLS ARRAY_PARTITION variable=reference_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=sum_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=total_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=scale_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=offset_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=factor_ complete dim=0
    }

    // Until a command of operation 0 has come. `operands`: words of all columns, pass after pass over each group; of a
    // product one of the first tensor, then one of the second. `gains`: in every group one for each lane, which
    // normalizations use. `sums`: a stream, or what writes like one, gets a beat for each lane.
    template <class Results>
    void run(stream<command_t>& commands, stream<wire_t<Words>>& operands, stream<wire_t<RowGainBeat>>& gains,
             stream<wire_t<RowTotalBeat>>& totals, stream<wire_t<RowFactorBeat>>& factors, Results& sums) {
#pragma HLS INLINE
        bool running = true;
    Commands:
        while (running) {
// Not pipelined: an operation begins when the one before has ended.
#pragma HLS LOOP_TRIPCOUNT min=2 max=257
            int32_t word[kRowCommandWords];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
            fetch(commands, word);
            running = word[0] != 0;
            if (running) {
                const int32_t words = (word[1] + lanes - 1) >> (bit_length(lanes) - 1);
                passes_.start(static_cast<RowOperation>(word[2]), word[1], words, word[3]);
                to_.start();
                from_.start();
                compute(operands, gains, totals, factors, sums);
            }
        }
    }

   private:
    static void fetch(stream<command_t>& commands, int32_t (&word)[kRowCommandWords]) {
#pragma HLS INLINE
        PipelinedLoop loop("Rows_Fetch");
    Rows_Fetch:
        for (int index = 0; index < kRowCommandWords; ++index) {
// II=1: a word is read a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
            word[index] = static_cast<int32_t>(commands.read());
        }
        loop.ended();
    }

    template <class Results>
    void compute(stream<wire_t<Words>>& operands, stream<wire_t<RowGainBeat>>& gains,
                 stream<wire_t<RowTotalBeat>>& totals, stream<wire_t<RowFactorBeat>>& factors, Results& sums) {
#pragma HLS INLINE
        bool running = true;
        PipelinedLoop loop("RowLanes");
    RowLanes:
        while (running) {
// II=1: a lane of every column a clock; carried are an addition and a comparison of each.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool there = operand_.there(), gain_there = gain_.there(), open = passes_.open();
            const bool first_word = passes_.first_word(), gives = passes_.gives();
            const bool last_lane = passes_.last_lane(), last = passes_.last();
            const bool took = there & first_word;
            const bool step = there & open & !first_word & (gain_there | !gives);
            const bool word_ends = step & last_lane, uses_gain = step & gives;
            running = !(step & last);
            compute_lane(step, sums);
            if (took) {
                first_ = operand_.beat();
            }
            const bool sent = send_totals(totals);
            const bool all = receive_factors(factors);
            passes_.next(took, step, sent, all);
            if (took | word_ends | !there) {
                operand_.next(operands);
            }
            if (uses_gain | !gain_there) {
                gain_.next(gains);
            }
        }
        loop.ended();
    }

    // A lane of every column, if `step`.
    template <class Results>
    void compute_lane(bool step, Results& sums) {
#pragma HLS INLINE
        const Words words = operand_.beat();
        const T::gain_t gain = passes_.product() ? RowColumn::minus_one() : gain_.beat().gain;
        const bool exists = step && passes_.exists();
        Sums results;
    Columns_Lane:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            const T::mantissa_t y = lane_of(words.word[i]);
            const T::mantissa_t x = passes_.product() ? lane_of(first_.word[i]) : y;
            const T::mantissa_t reference = passes_.softmax() ? reference_[i] : static_cast<T::mantissa_t>(0);
            const bool own = passes_.product() || passes_.squares();
            const T::scale_t scale = own ? RowColumn::lifted(y) : scale_[i];
            const T::first_t first = RowColumn::first(reference, x, scale, offset_[i]);
            const RowColumn::power_t power = RowColumn::power(first);
            const T::second_t normal = RowColumn::normal(first);
            const bool softmax = passes_.softmax();
            results.sum[i] = RowColumn::second(softmax ? factor_[i] : normal, softmax ? RowColumn::kept(power) : gain);
            keep(i, exists, y, softmax ? static_cast<T::total_t>(power) : static_cast<T::total_t>(normal));
        }
        if (step && passes_.gives()) {
            sums.write(to_wire(results));
        }
    }

    // What a pass keeps of an element.
    void keep(int i, bool exists, T::mantissa_t x, T::total_t term) {
#pragma HLS INLINE
        if (exists && passes_.sums()) {
            sum_[i] = RowColumn::sum<T::sum_bits>(sum_[i], x);
            total_[i] = RowColumn::sum<T::total_bits>(total_[i], term);
        }
        if (exists && passes_.seeks() && (passes_.first_lane() || x > reference_[i])) {
            reference_[i] = x;
        }
    }

    T::mantissa_t lane_of(const Word<Config>& word) const {
#pragma HLS INLINE
        T::mantissa_t found = word.lane[0];
    Lanes_Select:
        for (int l = 1; l < lanes; ++l) {
#pragma HLS UNROLL
            if (passes_.lane() == l) {
                found = word.lane[l];
            }
        }
        return found;
    }

    // The totals of a column, one after the other; whether those of the last one leave.
    bool send_totals(stream<wire_t<RowTotalBeat>>& totals) {
#pragma HLS INLINE
        const bool sent = passes_.sends() && to_.last();
        if (passes_.sends()) {
            RowTotalBeat beat = {sum_[0], total_[0]};
        Columns_Select:
            for (int i = 1; i < columns; ++i) {
#pragma HLS UNROLL
                if (to_.of(i)) {
                    beat.sum = sum_[i];
                    beat.total = total_[i];
                }
            }
            totals.write(to_wire(beat));
            to_.next();
        }
        return sent;
    }

    // The factors of a column in the same order, where the columns have none; whether the last ones have come.
    bool receive_factors(stream<wire_t<RowFactorBeat>>& factors) {
#pragma HLS INLINE
        const bool there = factors_.there();
        const bool receives = there && !passes_.open();
        const bool all = receives && from_.last();
        if (receives) {
        Columns_Receive:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                if (from_.of(i)) {
                    scale_[i] = factors_.beat().scale;
                    offset_[i] = factors_.beat().offset;
                    factor_[i] = factors_.beat().factor;
                }
            }
            from_.next();
        }
        if (receives || !there) {
            factors_.next(factors);
        }
        return all;
    }

    RowPasses<Config> passes_;
    ColumnTurn<columns> to_, from_;  // whose totals leave, and whose factors come
    Words first_;                    // of a product's first tensor
    HeldBeat<Words> operand_;
    HeldBeat<RowGainBeat> gain_;
    HeldBeat<RowFactorBeat> factors_;
    // Of a column
    T::mantissa_t reference_[columns];
    T::sum_t sum_[columns];
    T::total_t total_[columns];
    T::scale_t scale_[columns];
    T::first_t offset_[columns];
    T::second_t factor_[columns];
};

}  // namespace bfpga
