// The process of the output stage: sums and parameters in, words of mantissas out.
//
// It owns the exponents of all tensors, the state of the policies, and the keep buffer. Operations run one after the
// other: their exponents and policies are set once, between operations; then one loop takes the rows of all columns
// from any source: sums of the array, words combined from operands, or accumulators of the keep buffer or of the
// activation memory. A row that is computed slice by slice takes so many turns of the loop, and its source stays for
// all of them.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/output/accumulator_word.hpp"
#include "bfpga/output/column_slices.hpp"
#include "bfpga/output/keep_buffer.hpp"
#include "bfpga/output/layer_registers.hpp"
#include "bfpga/output/output_stage.hpp"
#include "bfpga/processes/added_rows.hpp"
#include "bfpga/processes/choices.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/output_rows.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/position_words.hpp"
#include "bfpga/processes/vector_words.hpp"

namespace bfpga {

// Replaces the stream of sums of a skip array where there is one array.
struct NoSums {};

// What comes of the process of rows where there is one (processes/rows/ports.hpp).
template <class Config>
class SumsOfRows;

template <class Config, class Storage>
class PostProcess {
    using accumulator_t = int_t<Config::accumulator_bits>;
    using mantissa_t = typename Geometry<Config>::mantissa_t;
    using Sums = SumBeat<Config>;
    using Vectors = VectorBeat<Config>;
    using RowParameters = ParameterBeat<Config>;
    using Results = ResultBeat<Config>;
    using Slices = ColumnSlices<Config>;
    // Columns that are computed at once, of all
    static constexpr int columns = StageColumns<Config>::count;
    static constexpr int turns = StageColumns<Config>::turns;

   public:
    PostProcess() : word_() {
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
    }

    // Executes the commands of a start: the first word resets the policies or keeps them, then come the commands, each
    // one word longer than `PostCommand`: the exponent of a LOAD.
    void run(stream<command_t>& commands, stream<wire_t<Sums>>& sums, stream<wire_t<Vectors>>& vectors,
             stream<wire_t<RowParameters>>& parameters, stream<wire_t<Results>>& results, stream<command_t>& exponents,
             stream<command_t>& reports) {
#pragma HLS INLINE
        NoCounts counts;
        run(commands, sums, vectors, parameters, results, exponents, counts, reports);
    }

    // `counts`: a word of each operation that counts what it stores; or `WithPositions`.
    template <class Counts>
    void run(stream<command_t>& commands, stream<wire_t<Sums>>& sums, stream<wire_t<Vectors>>& vectors,
             stream<wire_t<RowParameters>>& parameters, stream<wire_t<Results>>& results, stream<command_t>& exponents,
             Counts& counts, stream<command_t>& reports) {
#pragma HLS INLINE
        NoSums skip_sums;
        run(commands, sums, skip_sums, vectors, parameters, results, exponents, counts, reports);
    }

    // `skip_sums`: from the skip array, in a kernel with both arrays.
    template <class SkipSums, class Counts>
    void run(stream<command_t>& commands, stream<wire_t<Sums>>& sums, SkipSums& skip_sums,
             stream<wire_t<Vectors>>& vectors, stream<wire_t<RowParameters>>& parameters,
             stream<wire_t<Results>>& results, stream<command_t>& exponents, Counts& counts,
             stream<command_t>& reports) {
#pragma HLS INLINE
        if (commands.read() != 0) {
            layers_.clear_policies();
        }
        counters_.overflows = 0;
        counters_.underflows = 0;
        counters_.bits = 0;
        bool running = true;
    Commands:
        while (running) {
// Not pipelined: an operation begins when the one before has updated its statistics.
#pragma HLS LOOP_TRIPCOUNT min=2 max=257
            Descriptor d = {};
            const int32_t extra = fetch(commands, d);
            const Operation operation = static_cast<Operation>(d.operation);
            if (operation == Operation::Load) {
                layers_.set_exponent(d.output_slot, extra);
            } else if (operation == Operation::Store) {
                exponents.write(static_cast<command_t>(told(d)));
            } else if (operation == Operation::None) {
                running = false;
            } else if (!brings_table(operation)) {
                compute(d, sums, skip_sums, vectors, parameters, results, counts);
                values_.finish(d, counts_of(counts));
            }
        }
        reports.write(static_cast<command_t>(counters_.overflows));
        reports.write(static_cast<command_t>(counters_.underflows));
        reports.write(static_cast<command_t>(counters_.bits));
    }

   private:
    // What a start reports.
    struct Counters {
        uint32_t overflows;
        uint32_t underflows;
        int32_t bits;
    };

    // The next command; returns the word after it.
    int32_t fetch(stream<command_t>& commands, Descriptor& d) {
#pragma HLS INLINE
        static_assert(PostCommand::words >= 1 && PostCommand::words < 256, "the place of a word has eight bits");
        int32_t word = 0;
        uint_t<8> index = 0;
        bool last = false, running = true;
        PipelinedLoop loop("Words_Fetch");
    Words_Fetch:
        do {
// II=1: a word is read a cycle; the fields are registers. Carried: the count, and the flag of the last word, on which
// all that follows the loop waits.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=32
            loop.iteration();
            running = !last;
            word = static_cast<int32_t>(commands.read());
            PostCommand::set(d, static_cast<int>(index), word);
            stage_.take(static_cast<int>(index), word);
            last = index == PostCommand::words - 1;
            index = static_cast<uint_t<8>>(index + 1);
        } while (running);
        loop.ended();
        return word;
    }

    // What the header of a stored tensor tells: its exponent, or a word of what the collector holds.
    int32_t told(const Descriptor& d) const {
#pragma HLS INLINE
        return tells_statistics<Config>(d) ? stage_.statistics(d.input_slot) : layers_.exponent(d.input_slot);
    }

    // Whether an operation has brought words of a table: no more is to be done for it.
    static bool brings_table(Operation operation) {
#pragma HLS INLINE
        return Config::function_tables > 0 && operation == Operation::Table;
    }

    // A GEMM, MAX or SUM.
    template <class SkipSums, class Counts>
    void compute(const Descriptor& d, stream<wire_t<Sums>>& sums, SkipSums& skip_sums, stream<wire_t<Vectors>>& vectors,
                 stream<wire_t<RowParameters>>& parameters, stream<wire_t<Results>>& results, Counts& counts) {
#pragma HLS INLINE
        PolicySlot<Config> policy = layers_.policy(d.policy_slot);
        LayerExponents exponents = layers_.begin(d, policy, counters_.bits);
        exchange(layers_, d, policy, exponents, counts);
        start(d, exponents);
        if (works_on_rows<Config>(d)) {
            tell_rows(layers_.exponent(d.input_slot), skip_sums);
        }
        bool running = true;
        PipelinedLoop loop("Rows");
    Rows:
        while (running) {
// II=1: a row of all columns, or a slice of it, passes the stage; counters, sums of words and the statistics take one
// addition each. The keep buffer is written or read, never both in one operation.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            // A row needs its sums, and parameters if it exists; each is read when available.
            const bool sum_came = sum_.there(), row_sum_came = row_sum_.there(), parameter_came = parameter_.there();
            const bool absent = !rows_.exists(), ends_word = rows_.ends_word(), is_last = rows_.last();
            const bool wide = takes_wide();
            const bool sum_there = (from_sums_ & sum_came) | (from_rows_ & row_sum_came);
            const bool parameters_there = absent | (combined_ | parameter_came);
            const bool meets = added_.meets(), word_came = words_.there();
            const bool added_there = !meets | word_came;
            const bool source_there = (from_vectors_ & draining_) | (sum_there & added_there);
            const bool last_tables = stage_.last_turn(), last_slice = slices_.last();
            const bool last_turn = last_tables & last_slice;
            const bool ready = source_there & parameters_there;
            const bool leaves = ready & last_turn;
            // What drains is the source itself, and leaves as soon as it may.
            const bool drained = parameters_there & last_turn & (wide | ends_word);
            const bool takes_parameters = source_there && rows_.exists() && last_turn;
            // The last tap of a word waits until the word before leaves with its last row.
            const bool last_row = last_turn && (takes_wide() ? parameters_there : rows_.ends_word());
            const bool waits = words_.completes() && !last_row && draining_;
            const bool takes_vector = words_.combines() && !waits;
            // Words of a later operation may come as well, where none of them has another way.
            const bool fills = (takes_vectors() || Config::residual_adds) && !words_.there();
            const bool added_leaves = (meets & ends_word) & (sum_there & parameters_there & last_turn);
            const bool ends = source_there & (parameters_there & (last_turn & is_last));  // leaves, and is the last
            running = !ends;
            if (ready) {
                row(leaves, policy, results);
                stage_.end_turn();
                if (last_tables) {
                    slices_.next();
                }
            }
            draining_ = draining_ & !drained;
            if (takes_vector && words_.there()) {
                draining_ = words_.take() || draining_;
            }
            if (takes_vector || fills || added_leaves) {
                words_.next(vectors);
            }
            if (reads_sums_ && (!sum_there || (parameters_there && last_turn && added_there))) {
                next_sum(ends, sums, skip_sums);
            }
            if (!combined_ && (!parameter_.there() || takes_parameters)) {
                parameter_.next(parameters);
            }
        }
        loop.ended();
        finish(d, policy);
    }

    // The next row of sums.
    void next_sum(bool, stream<wire_t<Sums>>& sums, NoSums&) {
#pragma HLS INLINE
        sum_.next(sums);
    }

    // The same for two arrays; none after the last row: the next operation's may come from the other array.
    void next_sum(bool ends, stream<wire_t<Sums>>& sums, stream<wire_t<Sums>>& skip_sums) {
#pragma HLS INLINE
        if (ends) {
            sum_.drop();
        } else if (skips_) {
            sum_.next(skip_sums);
        } else {
            sum_.next(sums);
        }
    }

    // The same for an array and the process of rows: each has a register of its own, as a beat of a later operation may
    // come to either.
    void next_sum(bool, stream<wire_t<Sums>>& sums, SumsOfRows<Config>& row_sums) {
#pragma HLS INLINE
        if (skips_) {
            row_sum_.next(row_sums.words());
        } else {
            sum_.next(sums);
        }
    }

    // The exponent of an operand, which the process of rows needs.
    template <class Others>
    static void tell_rows(int32_t, Others&) {}
    static void tell_rows(int32_t exponent, SumsOfRows<Config>& row_sums) { row_sums.tell(exponent); }

    void start(const Descriptor& d, const LayerExponents& exponents) {
#pragma HLS INLINE
        const bool rows = works_on_rows<Config>(d);
        skips_ = on_skip_array<Config>(d) || rows;
        combined_ = static_cast<Operation>(d.operation) != Operation::Gemm && !rows;
        simulation_check(Config::wide_memory || !d.has(Flag::Wide), "a kernel without accumulators in memory",
                         "is to move some, policy slot", d.policy_slot);
        wide_out_ = sends_accumulators<Config>(d);
        wide_in_ = takes_accumulators<Config>(d);
        kept_ = d.has(Flag::Kept) && !takes_wide();
        keeps_ = d.has(Flag::Keep) && !sends_wide();
        simulation_check(!(keeps_ && kept_), "an operation", "keeps what it takes, policy slot", d.policy_slot);
        simulation_check(!(combined_ && (d.has(Flag::Kept) || d.has(Flag::Bias) || d.has(Flag::RowExponents))),
                         "an operation", "without weights has parameters or kept sums, policy slot", d.policy_slot);
        added_.start(d);
        simulation_check(!added_.meets() || !(d.has(Flag::Measure) || d.has(Flag::Keep) || d.has(Flag::Kept)),
                         "an operation that adds a tensor", "is measured, policy slot", d.policy_slot);
        sends_ = !d.has(Flag::Measure);
        output_exponent_ = exponents.output;
        const int32_t words = (d.output_rows + Config::lanes - 1) / Config::lanes;
        rows_.start(d, combined_ ? words : sum_blocks<Config>(d), sum_rows<Config>(d));
        words_.start(d, exponents, takes_wide() ? sum_blocks<Config>(d) * sum_rows<Config>(d) : words);
        draining_ = false;
        reads_sums_ = !takes_vectors() && !kept_;
        from_vectors_ = takes_vectors();
        from_rows_ = takes_rows();
        from_sums_ = !from_vectors_ && !from_rows_;
        // A beat of a later operation may be there already.
        stands_in_ = kept_ && !sum_.there();
        if (stands_in_) {
            sum_.stand_in();
        }
        stage_.start(d, exponents);
        slices_.start();
        values_.start();
        wide_.start(d.wide_word, keeps_ || kept_);
    }

    // Whether accumulators go to the activation memory, whether they come from there, and whether operands are vectors.
    bool sends_wide() const { return Config::wide_memory && wide_out_; }
    bool takes_wide() const { return Config::wide_memory && wide_in_; }
    bool takes_vectors() const { return combined_ || takes_wide(); }
    // Whether its sums are results of the process of rows.
    bool takes_rows() const { return Config::row_columns > 0 && skips_; }

    // The operation's statistics go to the policy and to the counters of the start.
    void finish(const Descriptor& d, PolicySlot<Config>& policy) {
#pragma HLS INLINE
        if (stands_in_) {
            sum_.drop();
        }
        stage_.finish(policy, counters_);
        if (d.has(Flag::Last)) {
            policy.learn(d, output_exponent_, counters_.bits);
        }
        layers_.set_policy(d.policy_slot, policy);
    }

    // One row through the stage, or its slice; a complete word of results leaves. Unless the row `leaves`, columns take
    // a turn, at the stage or at tables that are loaded, and it comes again.
    void row(bool leaves, PolicySlot<Config>& policy, stream<wire_t<Results>>& results) {
#pragma HLS INLINE
        const bool exists = rows_.exists();
        const bool computed = stage_.last_turn();
        if (exists) {
            // Of an operation without parameters the stage uses neither.
            const Parameters<Config>& parameters = parameter_.beat().row;
            stage_.row(parameters.bias, static_cast<int32_t>(parameters.exponent));
        }
        mantissa_t mantissa[columns];
#pragma HLS ARRAY_PARTITION variable=mantissa complete dim=0
        Word<Config> accumulators[columns];
#pragma HLS ARRAY_PARTITION variable=accumulators complete dim=0
    Columns_Clear:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            mantissa[i] = 0;
            accumulators[i] = Word<Config>::zero();
        }
        if (exists) {
            accumulator_t sum[columns];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
            mantissa_t added[columns];
#pragma HLS ARRAY_PARTITION variable=added complete dim=0
            bool covered[columns];
#pragma HLS ARRAY_PARTITION variable=covered complete dim=0
        Columns_Row:
            for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
                covered[i] = covers(i);
                sum[i] = source(i);
                added[i] = words_.waiting(rows_.lane(), slices_, i);
                accumulators[i] = AccumulatorWord<Config>::word(sum[i]);
                if (keeps_ && covered[i] && computed) {
                    wide_.write(i, sum[i]);
                }
            }
            stage_.values(sum, added, covered, policy, mantissa, slices_.first());
            if (computed) {
                values_.add(mantissa, covered);
                wide_.next();
            }
        }
        if (leaves && (sends_wide() ? exists : sends_ && rows_.ends_word() && rows_.word_exists())) {
            send(mantissa, accumulators, results);
        }
        assemble(mantissa, accumulators);
        if (leaves) {
            added_.next(rows_.ends_word());
            rows_.next();
        }
    }

    // Whether column i of the slice has a pixel.
    bool covers(int i) const {
#pragma HLS INLINE
        bool covered[turns];
#pragma HLS ARRAY_PARTITION variable=covered complete dim=0
    Slices_Cover:
        for (int s = 0; s < turns; ++s) {
#pragma HLS UNROLL
            covered[s] = rows_.covers(Slices::column(s, i));
        }
        return slices_.of(covered);
    }

    // The accumulator of column i of the slice in the row.
    accumulator_t source(int i) const {
#pragma HLS INLINE
        accumulator_t sum[turns];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
    Slices_Source:
        for (int s = 0; s < turns; ++s) {
#pragma HLS UNROLL
            sum[s] = brought(Slices::column(s, i));
        }
        return combined_ ? words_.result(rows_.lane(), slices_, i) : kept_ ? wide_.read(i) : slices_.of(sum);
    }

    // The accumulator that a beat has brought for a column.
    accumulator_t brought(int column) const {
#pragma HLS INLINE
        if (takes_wide()) {
            return AccumulatorWord<Config>::accumulator(words_.whole(column));
        }
        return takes_rows() ? row_sum_.beat().sum[column] : sum_.beat().sum[column];
    }

    // Mantissas of a row, or its accumulators, wait in the word until the others of it are there.
    void assemble(const mantissa_t (&mantissa)[columns], const Word<Config> (&accumulators)[columns]) {
#pragma HLS INLINE
    Columns_Assemble:
        for (int column = 0; column < Config::columns; ++column) {
#pragma HLS UNROLL
        Lanes_Assemble:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                if (slices_.is(column / columns) && (sends_wide() || l == rows_.lane())) {
                    word_[column].lane[l] = fresh(mantissa, accumulators, column % columns, l);
                }
            }
        }
    }

    // What the row's slice puts into a lane.
    mantissa_t fresh(const mantissa_t (&mantissa)[columns], const Word<Config> (&accumulators)[columns], int i,
                     int l) const {
#pragma HLS INLINE
        return sends_wide() ? accumulators[i].lane[l] : mantissa[i];
    }

    // The word that is complete with this row, or the row's accumulators, a word each: of the last slice the last lane,
    // or all of an accumulator, are not in the word yet.
    void send(const mantissa_t (&mantissa)[columns], const Word<Config> (&accumulators)[columns],
              stream<wire_t<Results>>& results) {
#pragma HLS INLINE
        Results beat;
    Columns_Send:
        for (int column = 0; column < Config::columns; ++column) {
#pragma HLS UNROLL
        Lanes_Send:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const bool comes = column >= Config::columns - columns && (sends_wide() || l == Config::lanes - 1);
                beat.word[column].lane[l] =
                    comes ? fresh(mantissa, accumulators, column % columns, l) : word_[column].lane[l];
            }
        }
        results.write(to_wire(beat));
    }

    LayerRegisters<Config> layers_;
    OutputStage<Config> stage_;
    KeepBuffer<Config> wide_;
    Counters counters_;
    CountRegisters<Config> values_;
    // Of the operation
    bool combined_, kept_, keeps_, sends_, reads_sums_, stands_in_;
    bool from_vectors_, from_sums_,
        from_rows_;            // where its rows come from: flags of their own, the loop waits for them
    bool skips_;               // its sums come from a skip array, or from the process of rows
    bool wide_out_, wide_in_;  // accumulators go to the activation memory, or come from there
    int32_t output_exponent_;
    OutputRows<Config> rows_;
    Slices slices_;
    VectorWords<Config, Storage> words_;
    bool draining_;  // a combined word leaves
    AddedRows<Config> added_;
    // Beats that wait
    HeldBeat<Sums> sum_;
    typename std::conditional<(Config::row_columns > 0), HeldBeat<Sums>, NoBeat<Sums>>::type row_sum_;
    HeldBeat<RowParameters> parameter_;
    // The word of results that is assembled
    Word<Config> word_[Config::columns];
};

}  // namespace bfpga
