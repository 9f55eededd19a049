// The weights process: owns the weight and the parameter memory, fills them from the weight stream and sends the array
// and the output stage what their passes need.
//
// Two engines share the loop. One fills, for WEIGHTS. The other walks the steps of a GEMM in the order of the operands
// (group, row block, kernel row, kernel column, channel word) and sends a weight word for each; of each pass it sends
// the parameters of its rows beside the words, and ends them before the words of the next pass: `post` never waits for
// parameters behind words that nobody takes. Counts in the descriptors keep the engines apart.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/memory/weight_memory.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Finished operations of a start, and the comparison with how many there must be: both wrap around.
class Finished {
   public:
    void clear() { count_ = 0; }

    void one_more() {
#pragma HLS INLINE
        count_ = static_cast<uint_t<16>>(count_ + 1);
    }

    bool reached(uint_t<16> needed) const {
#pragma HLS INLINE
        return static_cast<uint_t<16>>(count_ - needed) < 32768;
    }

   private:
    uint_t<16> count_ = 0;
};

// Holds an operation back until its counts are met, and then for as long as a write may take to reach memory.
class Gate {
   public:
    static constexpr int guard = 24;

    void close() {
#pragma HLS INLINE
        open_ = false;
        left_ = guard;
    }

    // One clock; whether the operation may work in it.
    bool open(bool reached) {
#pragma HLS INLINE
        if (open_) {
            return true;
        }
        if (reached) {
            open_ = left_ == 0;
            left_ = static_cast<int_t<8>>(left_ - 1);
        }
        return false;
    }

   private:
    bool open_ = false;
    int_t<8> left_ = 0;
};

// Bias, exponents and weights on their way from the stream to memory.
template <class Config>
class WeightFill {
    using G = Geometry<Config>;
    using weight_address_t = typename G::weight_address_t;
    using parameter_address_t = typename G::parameter_address_t;
    using beat_t = bits_t<Config::weight_stream_bits>;

   public:
    void clear() { active_ = false; }
    bool active() const { return active_; }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        active_ = true;
        needed_ = static_cast<uint_t<16>>(static_cast<uint32_t>(d.after_reads) & 65535U);
        gate_.close();
        row_ = static_cast<parameter_address_t>(d.parameter_base);
        rows_left_ = static_cast<parameter_address_t>(d.parameter_rows);
        word_ = static_cast<weight_address_t>(d.weight_base);
        words_left_ = static_cast<weight_address_t>(d.weight_words);
        beat_ = 0;
        work_ = 0;
        expected_ = false;
        base_ = d.parameter_base;
        first_word_ = d.weight_base;
    }

    // Whether it waits for operations that are not finished.
    bool waits(const Finished& reads) const { return active_ && !reads.reached(needed_); }

    // One clock until it may work; whether it wants a beat then.
    bool wants(const Finished& reads) {
#pragma HLS INLINE
        return active_ && gate_.open(reads.reached(needed_));
    }

    template <class Source>
    void expect(Source& source) {
#pragma HLS INLINE
        if (rows_left_ > 0 && work_ == 0) {
            source.expect(static_cast<int>(rows_left_), "parameters from row", base_);
        } else if (rows_left_ == 0 && words_left_ > 0 && !expected_) {
            expected_ = true;
            source.expect(static_cast<long long>(words_left_) * Config::beats_per_weight_word, "weights from word",
                          first_word_);
        }
    }

    // Nothing is left to fill.
    bool finished() const { return rows_left_ == 0 && words_left_ == 0; }

    void end() {
#pragma HLS INLINE
        active_ = false;
    }

    uint32_t work() const { return work_; }

    void take(const beat_t& beat, WeightBeats<Config>& beats, WeightMemory<Config>& weights,
              ParameterMemory<Config>& parameters) {
#pragma HLS INLINE
        ++work_;
        if (rows_left_ != 0) {
            Parameters<Config> parameter;
            parameter.bias =
                static_cast<int_t<Config::bias_bits>>(get_signed<Config::bias_bits>(beat, ParameterRowFields::bias));
            parameter.exponent = static_cast<int_t<16>>(
                get_signed<ParameterRowFields::exponent_bits>(beat, ParameterRowFields::exponent));
            parameters.write(row_, parameter);
            row_ = static_cast<parameter_address_t>(row_ + 1);
            rows_left_ = static_cast<parameter_address_t>(rows_left_ - 1);
            return;
        }
        beats.set(static_cast<int>(beat_), beat);
        if (beat_ != Config::beats_per_weight_word - 1) {
            beat_ = static_cast<uint_t<8>>(beat_ + 1);
            return;
        }
        beat_ = 0;
        weights.write(word_, beats.word());
        word_ = static_cast<weight_address_t>(word_ + 1);
        words_left_ = static_cast<weight_address_t>(words_left_ - 1);
    }

   private:
    bool active_, expected_;
    Gate gate_;
    uint_t<16> needed_;
    parameter_address_t row_, rows_left_;
    weight_address_t word_, words_left_;
    uint_t<8> beat_;  // of the word
    uint32_t work_;
    int32_t base_, first_word_;
};

// The walk of a GEMM over its weight words and the parameters of its rows.
template <class Config>
class WeightRead {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using weight_address_t = typename G::weight_address_t;
    using parameter_address_t = typename G::parameter_address_t;
    using Counter = Turns<G::coordinate_bits>;

   public:
    void clear() { active_ = false; }
    bool active() const { return active_; }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        simulation_check(d.groups > 0, "a descriptor", "has no groups of output pixels; groups is", d.groups);
        active_ = true;
        needed_ = static_cast<uint_t<16>>(static_cast<uint32_t>(d.after_fills) & 65535U);
        gate_.close();
        streams_ = d.has(Flag::StreamWeights);
        kept_ = d.has(Flag::Kept);
        two_hot_ = d.has(Flag::TwoHot);
        power_of_two_ = d.has(Flag::PowerOfTwo);
        group_.start(static_cast<coordinate_t>(d.groups));
        block_.start(static_cast<coordinate_t>(d.blocks));
        row_.start(static_cast<coordinate_t>(d.kernel_height));
        column_.start(static_cast<coordinate_t>(d.kernel_width));
        word_.start(static_cast<coordinate_t>(d.channel_words));
        base_ = static_cast<weight_address_t>(d.weight_base);
        tap_step_ = static_cast<weight_address_t>(d.weight_tap_step);
        block_step_ = static_cast<weight_address_t>(d.weight_block_step);
        parameter_base_ = static_cast<parameter_address_t>(d.parameter_base);
        output_rows_ = static_cast<coordinate_t>(d.output_rows);
        block_rows_ = static_cast<coordinate_t>(block_rows<Config>(d));
        first_group();
        begin_pass();
    }

    // Whether it waits for operations that are not finished.
    bool waits(const Finished& fills) const { return active_ && !fills.reached(needed_); }

    // One clock until it may work; whether it works in this one.
    bool works(const Finished& fills) {
#pragma HLS INLINE
        return active_ && gate_.open(fills.reached(needed_));
    }

    bool wants_beat() const { return streams_ && !words_done_; }
    bool sends_word(bool streamed) const { return !words_done_ && (streamed || !streams_); }
    bool sends_row() const { return !rows_done_; }
    bool streams() const { return streams_; }
    bool two_hot() const { return two_hot_; }
    bool power_of_two() const { return power_of_two_; }
    weight_address_t word() const { return address_; }
    parameter_address_t row() const { return parameter_; }

    // After a clock in which a word, a row or both were sent; whether that was the operation's last.
    bool next(bool word, bool row) {
#pragma HLS INLINE
        const bool words_end = words_done_ || (word && word_.last() && column_.last() && row_.last());
        const bool rows_end = rows_done_ || (row && rows_last_);
        if (word) {
            next_word();
        }
        if (row) {
            next_row();
        }
        words_done_ = words_end;
        rows_done_ = rows_end;
        if (!words_end || !rows_end) {
            return false;
        }
        const bool last = block_.last() && group_.last();
        next_pass();
        active_ = !last;
        return last;
    }

   private:
    void first_group() {
#pragma HLS INLINE
        address_ = base_;
        next_tap_ = static_cast<weight_address_t>(base_ + tap_step_);
        next_block_ = static_cast<weight_address_t>(base_ + block_step_);
        parameter_ = parameter_base_;
        left_ = output_rows_;
    }

    // The rows of a pass that exist; those behind them are not asked for.
    void begin_pass() {
#pragma HLS INLINE
        rows_left_ = left_ < block_rows_ ? left_ : block_rows_;
        rows_last_ = rows_left_ == 1;
        rows_done_ = rows_left_ <= 0;
        words_done_ = kept_;
    }

    void next_word() {
#pragma HLS INLINE
        if (!word_.last()) {
            address_ = static_cast<weight_address_t>(address_ + 1);
        } else {
            address_ = next_tap_;
            next_tap_ = static_cast<weight_address_t>(next_tap_ + tap_step_);
            if (column_.last()) {
                row_.next();
            }
            column_.next();
        }
        word_.next();
    }

    void next_row() {
#pragma HLS INLINE
        parameter_ = static_cast<parameter_address_t>(parameter_ + 1);
        rows_last_ = rows_left_ == 2;
        rows_left_ = static_cast<coordinate_t>(rows_left_ - 1);
    }

    void next_pass() {
#pragma HLS INLINE
        if (block_.last()) {
            group_.next();
            first_group();
        } else {
            address_ = next_block_;
            next_tap_ = static_cast<weight_address_t>(next_block_ + tap_step_);
            next_block_ = static_cast<weight_address_t>(next_block_ + block_step_);
            left_ = static_cast<coordinate_t>(left_ - block_rows_);
        }
        block_.next();
        begin_pass();
    }

    bool active_, streams_, kept_, two_hot_, power_of_two_;
    Gate gate_;
    uint_t<16> needed_;
    Counter group_, block_, row_, column_, word_;
    weight_address_t base_, tap_step_, block_step_, address_, next_tap_, next_block_;
    parameter_address_t parameter_base_, parameter_;
    coordinate_t output_rows_, block_rows_, left_, rows_left_;  // rows of the group, of the pass
    bool words_done_, rows_done_, rows_last_;
};

template <class Config>
class WeightsProcess {
    using beat_t = bits_t<Config::weight_stream_bits>;

   public:
    // Until the start ends. `trace.filled(work)`: hears of every WEIGHTS in order.
    template <class Source, class Trace>
    void run(stream<command_t>& commands, Source& source, stream<wire_t<WeightBeat<Config>>>& weight_words,
             stream<wire_t<ParameterBeat<Config>>>& parameters, stream<int_t<32>>& reports, Trace& trace) {
#pragma HLS INLINE
        CheckedSource<Config::weight_stream_bits, Source> input(source);
        start();
        PipelinedLoop loop("Weights");
    Weights:
        while (running_) {
// II=1: a beat is read at most; each memory is read once and written once. Carried: counters with registered ends and
// addresses that one addition updates. What is written is read when 24 clocks have passed, by the counts.
#pragma HLS PIPELINE II=1
            loop.iteration();
            const bool fills = fill_.wants(reads_) && !fill_.finished();
            const bool works = read_.works(fills_);
            beat_t beat = 0;
            const bool streams = works && read_.wants_beat();
            simulation_check(!(fills && streams), "a weight transfer",
                             "takes beats of streamed weights; GEMMs so far:", gemms_);
            const bool there = (fills || streams) && take_beat(input, fills, beat);
            const bool streamed = works && there && collect(beat);
            send(works, streamed, weight_words, parameters);
            if (fills && there) {
                fill_.take(beat, beats_, weights_, parameters_);
            }
            finish_fill(trace);
            take_command(commands);
        }
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(work_)));
        reports.write(static_cast<int_t<32>>(static_cast<int32_t>(input.checksum())));
    }

   private:
    void start() {
#pragma HLS INLINE
        running_ = true;
        complete_ = false;
        index_ = 0;
        streamed_beat_ = 0;
        gemms_ = 0;
        work_ = 0;
        fills_.clear();
        reads_.clear();
        fill_.clear();
        read_.clear();
    }

    template <class Input>
    bool take_beat(Input& input, bool fills, beat_t& beat) {
#pragma HLS INLINE
        if (fills) {
            fill_.expect(input);
        } else if (streamed_beat_ == 0) {
            input.expect(Config::beats_per_weight_word, "streamed weights of operation", static_cast<int>(gemms_));
        }
        return input.read_nb(beat);
    }

    // A beat of a streamed word; whether the word is complete.
    bool collect(const beat_t& beat) {
#pragma HLS INLINE
        if (!read_.wants_beat()) {
            return false;
        }
        beats_.set(static_cast<int>(streamed_beat_), beat);
        const bool complete = streamed_beat_ == Config::beats_per_weight_word - 1;
        streamed_beat_ = complete ? static_cast<uint_t<8>>(0) : static_cast<uint_t<8>>(streamed_beat_ + 1);
        return complete;
    }

    void send(bool works, bool streamed, stream<wire_t<WeightBeat<Config>>>& weight_words,
              stream<wire_t<ParameterBeat<Config>>>& parameters) {
#pragma HLS INLINE
        const bool word = works && read_.sends_word(streamed);
        const bool row = works && read_.sends_row();
        if (word) {
            WeightBeat<Config> weight;
            weight.weight = read_.streams() ? beats_.word() : weights_.read(read_.word());
            weight.two_hot = read_.two_hot();
            weight.power_of_two = read_.power_of_two();
            weight_words.write(to_wire(weight));
        }
        if (row) {
            ParameterBeat<Config> parameter;
            parameter.row = parameters_.read(read_.row());
            parameters.write(to_wire(parameter));
        }
        if (works && read_.next(word, row)) {
            reads_.one_more();
        }
    }

    template <class Trace>
    void finish_fill(Trace& trace) {
#pragma HLS INLINE
        if (fill_.active() && fill_.finished()) {
            fill_.end();
            fills_.one_more();
            work_ += fill_.work();
            trace.filled(fill_.work());
        }
    }

    // A word of the next command; a complete one goes to its engine as soon as that is free, in order.
    void take_command(stream<command_t>& commands) {
#pragma HLS INLINE
        // What an operation waits for stands before it: nobody else could finish it.
        simulation_check(!(fill_.waits(reads_) && !read_.active()), "a weight transfer",
                         "waits for operations behind it; GEMMs so far:", gemms_);
        simulation_check(!(read_.waits(fills_) && !fill_.active()), "a GEMM",
                         "waits for weight transfers behind it; GEMMs so far:", gemms_);
        if (!complete_) {
            command_t word = 0;
            if (commands.read_nb(word)) {
                WeightsCommand::set(command_, static_cast<int>(index_), static_cast<int32_t>(word));
                complete_ = index_ == WeightsCommand::words - 1;
                index_ = complete_ ? static_cast<uint_t<7>>(0) : static_cast<uint_t<7>>(index_ + 1);
            }
        } else if (command_.operation == static_cast<int32_t>(Operation::Weights)) {
            if (!fill_.active()) {
                fill_.start(command_);
                complete_ = false;
            }
        } else if (command_.operation == static_cast<int32_t>(Operation::Gemm)) {
            if (!read_.active()) {
                read_.start(command_);
                ++gemms_;
                complete_ = false;
            }
        } else {
            running_ = fill_.active() || read_.active();
        }
    }

    WeightMemory<Config> weights_;
    ParameterMemory<Config> parameters_;
    WeightFill<Config> fill_;
    WeightRead<Config> read_;
    WeightBeats<Config> beats_;
    Finished fills_, reads_;
    Descriptor command_;
    bool running_, complete_;
    uint_t<7> index_;          // of the word of the command
    uint_t<8> streamed_beat_;  // of the word that is streamed
    uint32_t work_;
    uint32_t gemms_;
};

}  // namespace bfpga
