// The weights process: owns the weight and the parameter memory, fills them from the weight stream and sends the array
// and the output stage what their passes need.
//
// Two engines share the loop. One fills, for WEIGHTS. The other walks the steps of a GEMM in the order of the operands
// (group, row block, kernel row, kernel column, channel word) and sends a weight word for each; of each pass it sends
// the parameters of its rows in parallel with the words, and ends them before the words of the next pass: `post` never
// waits for parameters queued after words that nothing takes. Counts in the descriptors keep the engines apart.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/memory/weight_memory.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/operand_words.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Finished operations of a start, and the comparison with the required number: both wrap around.
class Finished {
   public:
    void clear() { count_ = 0; }

    // One cycle; `one`: one more has.
    void step(bool one) {
#pragma HLS INLINE
        count_ = static_cast<uint_t<16>>(count_ + (one ? 1 : 0));
    }

    bool reached(uint_t<16> needed) const {
#pragma HLS INLINE
        return static_cast<uint_t<16>>(count_ - needed) < 32768;
    }
    // The same with `one` more, which is known late.
    bool reached(uint_t<16> needed, bool one) const {
#pragma HLS INLINE
        const uint_t<16> lacking = static_cast<uint_t<16>>(needed - count_);
        const bool before = reached(needed);
        return before | (one & (lacking == 1));
    }

   private:
    uint_t<16> count_ = 0;
};

// Holds an operation back until its counts are met, and then for as long as a write may take to reach memory.
class Gate {
   public:
    static constexpr int guard = fill_guard;
    // Cycles that are counted: the flag that opens is one more.
    static constexpr int wait = guard - 1;

    void clear() {
#pragma HLS INLINE
        active_ = false;
        begins_ = false;
        met_ = false;
        opens_ = false;
        opened_ = false;
        none_ = false;
        left_ = wait;
    }

    // Whether there is an operation, and whether it has come with the cycle before.
    bool active() const { return active_; }
    bool begins() const { return begins_; }

    // What the next operation needs; shut since the one before it has ended.
    void close(uint_t<16> needed) {
#pragma HLS INLINE
        needed_ = needed;
    }

    // Whether the operation may work from the next cycle on.
    bool opens() const { return opens_; }
    // Whether it waits for operations that are not finished.
    bool waits(const Finished& finished) const {
#pragma HLS INLINE
        return active_ && !opens_ && !opened_ && !finished.reached(needed_);
    }

    // One cycle; the comparisons are registers, so the flag lags. `one`: one more is finished; `starts`: an operation
    // does, `ended`: the one before it has.
    void step(const Finished& finished, bool one, bool starts, bool ended) {
#pragma HLS INLINE
        const bool counts = met_ && left_ != 0;
        const bool opened = opened_ || opens_;
        opens_ = met_ && none_ && !opened;
        opened_ = active_ && opened;
        none_ = active_ && left_ == 0;
        left_ = !active_ ? static_cast<uint_t<5>>(wait) : counts ? static_cast<uint_t<5>>(left_ - 1) : left_;
        const bool met = finished.reached(needed_, one) | met_;
        met_ = active_ & met;
        active_ = starts || (active_ && !ended);
        begins_ = starts;
    }

   private:
    uint_t<16> needed_;
    bool active_, begins_;
    bool met_, opens_, opened_, none_;
    uint_t<5> left_;
};

// The beats of a WEIGHTS one after the other: a beat for each row of parameters, then those of the weight words.
template <class Config>
class FillBeats {
    using G = Geometry<Config>;
    static constexpr bool single_beat = Config::beats_per_weight_word == 1;

   public:
    static constexpr int total_bits =
        bit_length(Config::weight_words * Config::beats_per_weight_word + Config::parameter_rows) + 1;
    using total_t = int_t<total_bits>;

    // Counts when it has been restarted.
    void set(const Descriptor& d) {
#pragma HLS INLINE
        rows_left_.set(static_cast<typename G::parameter_address_t>(d.parameter_rows));
        words_left_.set(static_cast<typename G::weight_address_t>(d.weight_words));
        any_rows_ = d.parameter_rows != 0;
        any_words_ = d.weight_words != 0;
        row_beats_ = static_cast<total_t>(static_cast<typename G::parameter_address_t>(d.parameter_rows));
        const total_t words = static_cast<total_t>(static_cast<typename G::weight_address_t>(d.weight_words));
        // A product takes a cycle alone; their sum the next one.
        word_beats_ = static_cast<total_t>(words * Config::beats_per_weight_word);
    }

    bool row() const { return rows_; }
    // The place of the beat in its weight word, and whether it is the last one there.
    uint_t<8> beat() const { return beat_; }
    bool last_beat() const { return last_beat_; }
    // Beats of all of them.
    total_t total() const {
#pragma HLS INLINE
        return static_cast<total_t>(row_beats_ + word_beats_);
    }
    // Whether it is the last of all.
    bool last() const {
#pragma HLS INLINE
        return rows_ ? rows_left_.last() && !any_words_ : words_left_.last() && last_beat_;
    }

    // One cycle: to the next beat or, `again`, to the first one.
    void step(bool next, bool again) {
#pragma HLS INLINE
        const bool row = next && rows_;
        const bool beat = next && !rows_;
        const bool ends_word = last_beat_;
        const bool before_last = beat_ == Config::beats_per_weight_word - 2;
        const uint_t<8> next_beat = ends_word ? static_cast<uint_t<8>>(0) : static_cast<uint_t<8>>(beat_ + 1);
        const bool next_last = ends_word ? single_beat : before_last;
        beat_ = again ? static_cast<uint_t<8>>(0) : beat ? next_beat : beat_;
        last_beat_ = again ? single_beat : beat ? next_last : last_beat_;
        rows_ = again ? any_rows_ : rows_ && !(next && rows_left_.last());
        rows_left_.step_late(row, again);
        words_left_.step_late(beat && ends_word, again);
    }

   private:
    Turns<G::parameter_address_bits> rows_left_;
    Turns<G::weight_address_bits> words_left_;
    bool any_rows_, any_words_, rows_;
    total_t row_beats_, word_beats_;  // beats of all rows, of all words
    uint_t<8> beat_;
    bool last_beat_;
};

// Bias, exponents and weights on their way from the stream to memory.
template <class Config>
class WeightFill {
    using G = Geometry<Config>;
    using weight_address_t = typename G::weight_address_t;
    using parameter_address_t = typename G::parameter_address_t;
    using beat_t = bits_t<Config::weight_stream_bits>;

   public:
    void clear() {
#pragma HLS INLINE
        left_ = false;
        wants_ = false;
        fetches_ = false;
        gate_.clear();
    }

    bool active() const { return gate_.active(); }
    bool waits(const Finished& reads) const { return gate_.waits(reads); }
    // Whether a tensor comes in the place of the stream; whether it may from now on, and whether it has begun.
    bool weighs() const { return Config::operand_weights && weighs_; }
    bool opens() const { return gate_.opens() && weighs(); }
    bool begins() const { return gate_.begins(); }
    // Whether a beat is taken as soon as it is there, and whether one is still to come from the stream.
    bool wants() const { return wants_; }
    bool fetches() const { return fetches_; }
    // Whether nothing is left to fill.
    bool ends() const { return gate_.active() && !left_; }
    uint32_t work() const { return static_cast<uint32_t>(work_); }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        gate_.close(static_cast<uint_t<16>>(static_cast<uint32_t>(d.after_reads) & 65535U));
        place_.set(d);
        row_ = static_cast<parameter_address_t>(d.parameter_base);
        word_ = static_cast<weight_address_t>(d.weight_base);
        any_ = d.parameter_rows != 0 || d.weight_words != 0;
        weighs_ = bfpga::weighs<Config>(d);
        left_ = any_;
        work_ = 0;
        command_ = d;
        fetched_ = 0;
    }

    template <class Source>
    void expect(Source& source) const {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        if (fetched_ == 0 && command_.parameter_rows != 0) {
            source.expect(command_.parameter_rows, "parameters from row", command_.parameter_base);
        } else if (fetched_ == command_.parameter_rows) {
            source.expect(static_cast<long long>(command_.weight_words) * Config::beats_per_weight_word,
                          "weights from word", command_.weight_base);
        }
#else
        (void)source;
#endif
    }

    // A beat has come; only a simulation counts them.
    void fetched() {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        ++fetched_;
#endif
    }

    // Handling of a beat; writes follow the reads of the cycle.
    template <class Beats, class Operands, class Memory>
    void write(const beat_t& beat, const Beats& beats, const Operands& operands, Memory& weights,
               ParameterMemory<Config>& parameters) const {
#pragma HLS INLINE
        const bool mine = weighs();
        if (!mine && place_.row()) {
            Parameters<Config> parameter;
            parameter.bias =
                static_cast<int_t<Config::bias_bits>>(get_signed<Config::bias_bits>(beat, ParameterRowFields::bias));
            parameter.exponent = static_cast<int_t<16>>(
                get_signed<ParameterRowFields::exponent_bits>(beat, ParameterRowFields::exponent));
            parameters.write(row_, parameter);
        } else if (mine ? operands.completes() : place_.last_beat()) {
            const weight_address_t address = mine ? static_cast<weight_address_t>(operands.address()) : word_;
            weights.write(address, operands.chosen(mine, beats.word(beat)));
        }
    }

    // The place of the beat in its weight word.
    int place() const { return static_cast<int>(place_.beat()); }

    // One cycle; `taken`: a beat was; `came`: one from the stream; `weighed`: the last word of a tensor was written;
    // `starts`: an operation does, `ended`: the one before it has.
    void step(const Finished& reads, bool taken, bool came, bool weighed, bool starts, bool ended) {
#pragma HLS INLINE
        const bool opens = gate_.opens();
        const bool row = taken && place_.row();
        const bool word = taken && !place_.row() && place_.last_beat();
        const bool last = place_.last();
        if (taken) {
            left_ = !last;
            work_ = static_cast<uint_t<32>>(work_ + 1);
        }
        if (weighed) {
            left_ = false;
        }
        if (row) {
            row_ = static_cast<parameter_address_t>(row_ + 1);
        }
        if (word) {
            word_ = static_cast<weight_address_t>(word_ + 1);
        }
        if (gate_.begins()) {
            fetch_.set(place_.total());
        }
        place_.step(taken, gate_.begins());
        const bool last_came = fetch_.last();
        // Before it opens, beats that come are of streamed weights.
        fetch_.step_late(came, opens);
        const bool streams = any_ && !weighs();
        wants_ = opens ? streams : wants_ && !(taken && last);
        fetches_ = opens ? streams : fetches_ && !(came && last_came);
        gate_.step(reads, false, starts, ended);
    }

   private:
    bool any_, left_;  // there are beats; some are left
    bool weighs_;
    bool wants_, fetches_;
    Gate gate_;
    FillBeats<Config> place_;                     // of the beat that is held
    Turns<FillBeats<Config>::total_bits> fetch_;  // beats that are to come
    parameter_address_t row_;
    weight_address_t word_;
    uint_t<32> work_;
    // For the messages of a simulation
    Descriptor command_;
    int32_t fetched_;
};

// The rows whose parameters are sent with the words of a pass: those of its row block, one block after the other.
template <class Config>
class PassRows {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using parameter_address_t = typename G::parameter_address_t;

   public:
    // Whether rows wait for the words of their pass.
    static constexpr bool behind_words = false;

    // Number of walks through all blocks: one per group of output pixels.
    static int32_t turns(const Descriptor& d) {
#pragma HLS INLINE
        return d.groups;
    }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        block_rows_.set(static_cast<coordinate_t>(pass_rows<Config>(d)));
        if (works_on_rows<Config>(d)) {
            block_rows_.set(static_cast<coordinate_t>(Config::lanes * row_words<Config>(d)));
        }
        output_rows_.set(static_cast<coordinate_t>(d.output_rows));
        base_ = static_cast<parameter_address_t>(d.parameter_base);
    }

    // Of the row that is due: whether the output has it, whether it is the last one of the pass.
    bool exists() const { return exists_; }
    bool last() const { return block_rows_.last(); }
    parameter_address_t address() const { return address_; }

    // One cycle; `row`: one has gone, of the turn's last block or not; `turn`: the pass of that block has; `begins`:
    // the operation.
    void step(bool row, bool turn, bool, bool begins) {
#pragma HLS INLINE
        const bool exists = exists_ && !output_rows_.last();
        const bool again = turn || begins;
        output_rows_.step(row && exists_, again);
        if (again) {
            address_ = base_;
            exists_ = true;
        } else if (row) {
            address_ = static_cast<parameter_address_t>(address_ + 1);
            exists_ = exists;
        }
        block_rows_.step(row, begins);
    }

   private:
    Turns<G::coordinate_bits> block_rows_, output_rows_;
    bool exists_;
    parameter_address_t base_, address_;
};

// Words of an operation that come in no chunks.
struct NoChunks {
    void start(const Descriptor&) {}
    void step(bool, bool, bool) {}
};

// The walk of a GEMM over its weight words and its rows' parameters: all blocks, repeated as `Rows` gives.
template <class Config, class Rows = PassRows<Config>, class Chunks = NoChunks>
class WeightRead {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using weight_address_t = typename G::weight_address_t;
    using parameter_address_t = typename G::parameter_address_t;
    using Counter = Turns<G::coordinate_bits>;

   public:
    void clear() {
#pragma HLS INLINE
        over_ = false;
        works_ = false;
        words_ = false;
        streamed_ = false;
        rows_ = false;
        gate_.clear();
    }
    bool active() const { return gate_.active(); }
    bool waits(const Finished& fills) const { return gate_.waits(fills); }
    // Whether a weight word is due, and where it comes from; whether a row is.
    bool word() const { return words_; }
    bool streams() const { return streams_; }
    // Whether a word is due that comes from the stream.
    bool streamed() const { return streamed_; }
    bool last_word() const { return ends_pass_ & last_pass_; }
    bool row() const { return rows_go() && pass_rows_.exists(); }
    // Whether the gain of a lane is due, be it one that a row of the process of rows has not.
    bool gain() const { return rows_go() && of_rows_; }
    const Chunks& chunks() const { return chunks_; }
    bool two_hot() const { return two_hot_; }
    bool power_of_two() const { return power_of_two_; }
    weight_address_t word_address() const { return address_; }
    parameter_address_t row_address() const { return pass_rows_.address(); }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        simulation_check(d.groups > 0, "a descriptor", "has no groups of output pixels; groups is", d.groups);
        gate_.close(static_cast<uint_t<16>>(static_cast<uint32_t>(d.after_fills) & 65535U));
        streams_ = d.has(Flag::StreamWeights);
        of_rows_ = works_on_rows<Config>(d);
        kept_ = d.has(Flag::Kept) || of_rows_;
        two_hot_ = d.has(Flag::TwoHot);
        power_of_two_ = d.has(Flag::PowerOfTwo);
        turns_.set(static_cast<coordinate_t>(Rows::turns(d)));
        blocks_.set(of_rows_ ? static_cast<coordinate_t>(1) : static_cast<coordinate_t>(d.blocks));
        kernel_rows_.set(static_cast<coordinate_t>(d.kernel_height));
        kernel_columns_.set(static_cast<coordinate_t>(d.kernel_width));
        channel_words_.set(static_cast<coordinate_t>(d.channel_words));
        pass_rows_.start(d);
        chunks_.start(d);
        tap_step_ = static_cast<weight_address_t>(d.weight_tap_step);
        block_step_ = static_cast<weight_address_t>(d.weight_block_step);
        base_ = static_cast<weight_address_t>(d.weight_base);
        base_tap_ = static_cast<weight_address_t>(d.weight_base + d.weight_tap_step);
        base_block_ = static_cast<weight_address_t>(d.weight_base + d.weight_block_step);
    }

    // One cycle; `filled`: one more fill has ended; `may`: a weight word that is due is sent; `starts`: an operation
    // does. Returns whether the operation has ended with the cycle before. Rows of a block that do not exist take their
    // cycles too: the passes of the array are no shorter.
    bool step(const Finished& fills, bool filled, bool may, bool starts) {
#pragma HLS INLINE
        // In parallel, not chained: each of these is few levels of logic.
        const bool opens = gate_.opens();
        const bool sends = words_ & may;
        const bool goes = rows_go();
        const bool last_row = pass_rows_.last() && (!Rows::behind_words || goes);
        const bool rows_end = !rows_ || last_row;
        const bool last_word = may & ends_pass_;
        // With the cycle in which it opens, as one pass ends.
        const bool pass = works_ & rows_end & (!words_ | last_word);
        const bool turn = pass & last_block_;
        const bool ended = over_;
        walk_words(sends, sends & ends_tap_, pass, turn);
        pass_rows_.step(goes, turn, last_block_, gate_.begins());
        walk_taps(sends | opens);
        words_ = pass ? more_words_ : words_ & !last_word;
        streamed_ = pass ? more_streamed_ : streamed_ & !last_word;
        rows_ = pass ? more_rows_ : rows_ & !last_row;
        over_ = pass & last_pass_;
        const bool goes_on = works_ & !(pass & last_pass_);
        walk_passes(pass);
        gate_.step(fills, filled, starts, ended);
        works_ = gate_.opens() | goes_on;
        return ended;
    }

   private:
    // Whether a row is due, be it one that the output has not.
    bool rows_go() const { return rows_ && !(Rows::behind_words && words_); }

    // The passes are one ahead: the end and successor flags of the current pass are registers.
    void walk_passes(bool on) {
#pragma HLS INLINE
        const bool last_block = blocks_.last();
        const bool last = last_block && turns_.last();
        if (on) {
            last_block_ = last_block;
            last_pass_ = last;
            more_words_ = !kept_ & !last;
            more_streamed_ = streams_ & !kept_ & !last;
            more_rows_ = !last;
        } else if (gate_.begins()) {
            last_block_ = false;
            last_pass_ = false;
            more_words_ = !kept_;
            more_streamed_ = streams_ & !kept_;
            more_rows_ = true;
        }
        turns_.step_late(on & last_block, gate_.begins());
        blocks_.step_late(on, gate_.begins());
    }

    // The taps are a word ahead: whether the next word ends a tap, or all of them, is a register.
    void walk_taps(bool on) {
#pragma HLS INLINE
        const bool ends_tap = channel_words_.last(), last_column = kernel_columns_.last(),
                   last_row = kernel_rows_.last();
        const bool ends_row = ends_tap & last_column;
        const bool tap = on & ends_tap;
        const bool row = on & ends_row;
        const bool last = ends_row & last_row;
        if (on) {
            ends_tap_ = ends_tap;
            ends_pass_ = last;
        }
        chunks_.step(on, last, gate_.begins());
        channel_words_.step_late(on, gate_.begins());
        kernel_columns_.step_late(tap, gate_.begins());
        kernel_rows_.step_late(row, gate_.begins());
    }

    // Steps of taps and of blocks are added ahead: any address is one addition.
    void walk_words(bool sent, bool tap, bool pass, bool again) {
#pragma HLS INLINE
        const weight_address_t one_more = static_cast<weight_address_t>(address_ + 1);
        const weight_address_t tap_ahead = static_cast<weight_address_t>(next_tap_ + tap_step_);
        const weight_address_t tap_of_block = static_cast<weight_address_t>(next_block_ + tap_step_);
        const weight_address_t block_ahead = static_cast<weight_address_t>(next_block_ + block_step_);
        if (again) {
            address_ = base_;
            next_tap_ = base_tap_;
            next_block_ = base_block_;
        } else if (gate_.begins()) {
            next_block_ = base_;
        } else if (pass) {
            address_ = next_block_;
            next_tap_ = tap_of_block;
            next_block_ = block_ahead;
        } else if (tap) {
            address_ = next_tap_;
            next_tap_ = tap_ahead;
        } else if (sent) {
            address_ = one_more;
        }
    }

    bool streams_, kept_, of_rows_, two_hot_, power_of_two_;
    bool works_, over_;  // it opens, or passes are left; the last one was the cycle before
    Gate gate_;
    Counter turns_, blocks_, kernel_rows_, kernel_columns_, channel_words_;
    Rows pass_rows_;
    Chunks chunks_;
    bool ends_tap_, ends_pass_;    // the word that is due
    bool last_block_, last_pass_;  // the pass that goes on
    // The next pass, and what is left of the one that goes on: words, of them from the stream; rows
    bool more_words_, more_streamed_, more_rows_;
    bool words_, streamed_, rows_;
    weight_address_t base_, base_tap_, base_block_, tap_step_, block_step_, address_, next_tap_, next_block_;
};

// The stored form of an array's weights, a GEMM's walk over it, and the transfer of a word.
template <class Config>
struct StoredWeights {
    using Beats = WeightBeats<Config>;
    using Memory = WeightMemory<Config>;
    using Read = WeightRead<Config>;

    static void send(const WeightWord<Config>& word, const Read& read,
                     stream<wire_t<WeightBeat<Config>>>& weight_words) {
#pragma HLS INLINE
        WeightBeat<Config> weight;
        weight.weight = word;
        weight.two_hot = read.two_hot();
        weight.power_of_two = read.power_of_two();
        weight_words.write(to_wire(weight));
    }
};

// What a stored form sends of the parameters of rows: nothing, but for that of kernels with their process
// (rows/gains.hpp).
template <class Stored>
struct GainsOf {
    template <class... Words>
    static void send(const typename Stored::Read&, int_t<16>, Words&...) {}
};

// `Stored`: what `StoredWeights` has.
template <class Config, class Stored = StoredWeights<Config>>
class WeightsProcess {
    using beat_t = bits_t<Config::weight_stream_bits>;
    static constexpr bool single_beat = Config::beats_per_weight_word == 1;

   public:
    // Until the start ends. `words`: the streams of the stored words. `trace.filled(work)` receives every WEIGHTS in
    // order.
    template <class Source, class Trace, class... Words>
    void run(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
             stream<int_t<32>>& reports, Trace& trace, Words&... words) {
#pragma HLS INLINE
        NoOperandWords none;
        run_beside(none, commands, source, parameters, reports, trace, words...);
    }

    // `operands`: of tensors that become weights.
    template <class Operands, class Source, class Trace, class... Words>
    void run_beside(Operands& operands, stream<command_t>& commands, Source& source,
                    stream<wire_t<ParameterBeat<Config>>>& parameters, stream<int_t<32>>& reports, Trace& trace,
                    Words&... words) {
#pragma HLS INLINE
        CheckedSource<Config::weight_stream_bits, Source> input(source);
        start();
        bool running = true;
        PipelinedLoop loop("Weights");
    Weights:
        do {
// II=1: a beat is read at most; each memory is read once and written once. Carried: flags, counters with registered
// ends and addresses that one addition updates. What is written is read when 24 cycles have passed, by the counts.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !ended_;
            const bool streams = read_.streamed();
            const bool filled = fill_.wants() && held_;
            const bool streamed = streams && held_;
            const bool last_beat = streamed_last_;
            const bool may = !read_.streams() | completes_;
            const bool word = read_.word() & may;
            simulation_check(!(fill_.wants() && streams), "a weight transfer",
                             "takes beats of streamed weights; GEMMs so far:", gemms_);
            send(word, parameters, words...);
            const bool weighed = operands_.there();
            if (filled || weighed) {
                fill_.write(beat_, beats_, operands_, weights_, parameters_);
            }
            // After the word: a beat that completes one has entered it, and nothing waits for its register.
            if (filled || streamed) {
                beats_.set(filled ? fill_.place() : static_cast<int>(streamed_beat_), beat_);
            }
            const bool before_last = streamed_beat_ == Config::beats_per_weight_word - 2;
            const uint_t<8> one_more = static_cast<uint_t<8>>(streamed_beat_ + 1);
            const bool next_last = single_beat || (streamed ? before_last : last_beat);
            streamed_last_ = next_last;
            streamed_beat_ = !streamed ? streamed_beat_ : last_beat ? static_cast<uint_t<8>>(0) : one_more;
            const bool last_word = read_.last_word() & completes_;
            const bool more_streams = streams & !last_word;
            const bool uses = fill_.wants() | streams;
            const bool stays = held_ & !uses;
            const bool came = refill(input, stays, fill_.fetches() | more_streams);
            // What stays is no beat of this cycle's word.
            completes_ = (came & next_last) | (stays & last_beat);
            const bool free = !complete_;
            step(may, filled, came, operands, trace);
            take_command(commands, free);
        } while (running);
        loop.ended();
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(work_)));
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(input.checksum())));
    }

   private:
    void start() {
#pragma HLS INLINE
        complete_ = false;
        held_ = false;
        completes_ = false;
        index_ = 0;
        last_index_ = false;
        streamed_beat_ = 0;
        streamed_last_ = single_beat;
        gemms_ = 0;
        work_ = 0;
        last_ = false;
        idle_ = false;
        ended_ = false;
        fills_.clear();
        reads_.clear();
        fill_.clear();
        operands_.clear();
        read_.clear();
    }

    // The next beat, if one is `wanted`; `stays`: no operation uses the one that is held. Returns whether one has come.
    template <class Input>
    bool refill(Input& input, bool stays, bool wanted) {
#pragma HLS INLINE
        const bool fills = fill_.fetches();
        bool there = false;
        if (wanted) {
            if (fills) {
                fill_.expect(input);
            } else if (!held_ || streamed_beat_ == 0) {
                input.expect(Config::beats_per_weight_word, "streamed weights of GEMM", static_cast<int>(gemms_));
            }
            there = input.read_nb(beat_);
            if (fills && there) {
                fill_.fetched();
            }
        }
        held_ = there | stays;
        return there;
    }

    template <class... Words>
    void send(bool word, stream<wire_t<ParameterBeat<Config>>>& parameters, Words&... words) const {
#pragma HLS INLINE
        if (word) {
            Stored::send(read_.streams() ? beats_.word(beat_) : weights_.read(read_.word_address()), read_, words...);
        }
        int_t<16> gain = 0;
        if (read_.row()) {
            ParameterBeat<Config> parameter;
            parameter.row = parameters_.read(read_.row_address());
            parameters.write(to_wire(parameter));
            gain = parameter.row.exponent;
        }
        GainsOf<Stored>::send(read_, gain, words...);
    }

    // Both engines go on, and operations begin and end.
    template <class Operands, class Trace>
    void step(bool may, bool filled, bool came, Operands& operands, Trace& trace) {
#pragma HLS INLINE
        // An operation waits only for earlier ones: no other could complete it.
        simulation_check(!(fill_.waits(reads_) && !read_.active()), "a weight transfer",
                         "waits for operations behind it; GEMMs so far:", gemms_);
        simulation_check(!(read_.waits(fills_) && !fill_.active()), "a GEMM",
                         "waits for weight transfers behind it; GEMMs so far:", gemms_);
        const bool fill_ends = fill_.ends();
        const bool fill_free = !fill_.active();
        const bool read_free = !read_.active();
        const bool fill_starts = complete_ && fills_next_ && fill_free;
        const bool read_starts = complete_ && reads_next_ && read_free;
        const bool skips = complete_ && skips_next_ && read_free;
        if (fill_ends) {
            work_ = static_cast<uint_t<32>>(work_ + fill_.work());
            if (!fill_.weighs()) {  // the scratchpad tells of the others
                trace.filled(fill_.work());
            }
        }
        const bool weighs_last = operands_.there() && operands_.last();
        operands_.step(operands, fill_.opens(), fill_.begins());
        fill_.step(reads_, filled, came, weighs_last, fill_starts, fill_ends);
        const bool read_ends = read_.step(fills_, fill_ends, may, read_starts);
        fills_.step(fill_ends);
        reads_.step(read_ends | skips);
        // No command follows the last one, so the flags may lag.
        ended_ = last_ && idle_;
        idle_ = fill_free && read_free;
        last_ = complete_ && !fills_next_ && !reads_next_ && !skips_next_;
        if (skips) {
            ++gemms_;
            complete_ = false;
        }
        if (fill_starts) {
            fill_.start(command_);
            operands_.start(command_);
            complete_ = false;
        }
        if (read_starts) {
            read_.start(command_);
            ++gemms_;
            complete_ = false;
        }
    }

    // A word of the next command, if there is none that waits; a complete one goes to its engine as soon as that is
    // free, in order.
    void take_command(stream<command_t>& commands, bool free) {
#pragma HLS INLINE
        command_t word = 0;
        if (!free || !commands.read_nb(word)) {
            return;
        }
        if (index_ == 0) {
            const uint_t<operation_bits> code = static_cast<uint_t<operation_bits>>(word);
            const Operation operation = static_cast<Operation>(static_cast<int>(code));
            const bool weighs = Config::operand_weights && operation == Operation::Weigh;
            const bool rows = Config::row_columns > 0 && operation == Operation::Rows;
            fills_next_ = operation == Operation::Weights || weighs;
            reads_next_ = operation == Operation::Gemm || rows;
            skips_next_ = Config::count_registers > 0 && word == ProcessLimits::skipped;
        }
        WeightsCommand::set(command_, static_cast<int>(index_), static_cast<int32_t>(word));
        complete_ = last_index_ | skips_next_;
        last_index_ = index_ == WeightsCommand::words - 2;
        index_ = complete_ ? static_cast<uint_t<7>>(0) : static_cast<uint_t<7>>(index_ + 1);
    }

    typename Stored::Memory weights_;
    ParameterMemory<Config> parameters_;
    WeightFill<Config> fill_;
    OperandFill<Config> operands_;
    typename Stored::Read read_;
    // The beat that came last, until it is used; beats of a word
    beat_t beat_;
    bool held_, completes_;  // there is one; it is the last one of its streamed word
    typename Stored::Beats beats_;
    Finished fills_, reads_;
    // The command that comes in: of a fill, of a read, of a read that is skipped, else of the end
    Descriptor command_;
    bool complete_, fills_next_, reads_next_, skips_next_;
    bool last_, idle_, ended_;
    uint_t<7> index_;          // of the word of the command
    bool last_index_;          // it is the last one
    uint_t<8> streamed_beat_;  // of the word that is streamed
    bool streamed_last_;       // it is the word's last
    uint_t<32> work_;
    uint32_t gemms_;
};

}  // namespace bfpga
