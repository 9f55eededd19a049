// The sequencer: reads descriptors and tensors from the input stream and sends each process the fields that it needs.
//
// One 32-bit word of a descriptor a cycle, or one group of a tensor. It runs ahead of the others as far as the streams
// between them hold what it sends; each descriptor names what must be finished before its operation begins. It stalls
// for no beat: while none comes, earlier words drain. In a kernel with count registers words leave when the flags of
// their descriptor are known, and those of a skipped operation do not: the process that counts it receives `skipped`
// instead (choices.hpp).
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/kernel/status.hpp"
#include "bfpga/ports/beat_words.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/choices.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// A word of what a process counted in a start.
using report_t = int_t<32>;

// Commands of an array that receives none.
struct NoArrayCommands {
    void send(command_t, int, bool, bool, bool) {}
};

template <class Config>
class SequencerProcess {
    using Words = BeatWords<Config>;
    using beat_t = bits_t<Config::stream_bits>;
    static constexpr int words_per_beat = Config::stream_bits / 32;
    static_assert(Descriptor::words % words_per_beat == 0, "a descriptor is a whole number of beats");

   public:
    // One start. `trace` receives every word of every descriptor; in hardware it is empty.
    template <class Source, class Trace>
    KernelStatus run(int32_t descriptors, bool clear, Source& source, stream<command_t>& scratchpad_command,
                     stream<command_t>& weights_command, stream<command_t>& post_command,
                     stream<command_t>& store_command, stream<wire_t<GroupBeat<Config>>>& loads,
                     stream<report_t>& scratchpad_report, stream<report_t>& weights_report,
                     stream<report_t>& post_report, stream<report_t>& store_report, Trace& trace) {
#pragma HLS INLINE
        NoCounts counts;
        return run(descriptors, clear, source, scratchpad_command, weights_command, post_command, store_command, loads,
                   scratchpad_report, weights_report, post_report, store_report, counts, trace);
    }

    // `counts`: from `post`, for operations that count.
    template <class Source, class Counts, class Trace>
    KernelStatus run(int32_t descriptors, bool clear, Source& source, stream<command_t>& scratchpad_command,
                     stream<command_t>& weights_command, stream<command_t>& post_command,
                     stream<command_t>& store_command, stream<wire_t<GroupBeat<Config>>>& loads,
                     stream<report_t>& scratchpad_report, stream<report_t>& weights_report,
                     stream<report_t>& post_report, stream<report_t>& store_report, Counts& counts, Trace& trace) {
#pragma HLS INLINE
        NoArrayCommands array;
        return run(descriptors, clear, source, scratchpad_command, weights_command, post_command, store_command, loads,
                   scratchpad_report, weights_report, post_report, store_report, counts, array, trace);
    }

    // `array`: the commands of an array that receives some.
    template <class Source, class Counts, class Array, class Trace>
    KernelStatus run(int32_t descriptors, bool clear, Source& source, stream<command_t>& scratchpad_command,
                     stream<command_t>& weights_command, stream<command_t>& post_command,
                     stream<command_t>& store_command, stream<wire_t<GroupBeat<Config>>>& loads,
                     stream<report_t>& scratchpad_report, stream<report_t>& weights_report,
                     stream<report_t>& post_report, stream<report_t>& store_report, Counts& counts, Array& array,
                     Trace& trace) {
#pragma HLS INLINE
        CheckedSource<Config::stream_bits, Source> input(source);
        post_command.write(static_cast<command_t>(clear ? 1 : 0));
        start(descriptors, clear);
        PipelinedLoop loop("Sequencer");
    Sequencer:
        do {
// II=1: one beat is read at most and one word or one group written to each stream. Carried: the next cycle's action,
// decided by flags and counters with registered ends, and the beat whose words or groups leave one by one.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const Clock now = clock_;
            const Sent sent = due(now);
            const index_t skip_left = skip_left_;
            const bool goes = !now.reads || next_beat(input, now);
            // The last words have left by then, and all counts have come.
            running_ = Choices<Config>::exist ? !(sent_all_ && choices_.settled()) : !stops_;
            sent_all_ = stops_;
            if (goes) {
                next(now);
            }
            send_words(sent, scratchpad_command, weights_command, post_command, store_command, array);
            choices_.step(counts, counts_now_);
            if (!goes) {
                let_go(now);
            } else if (!waits(now)) {
                before_ = sent_;
                take_word(now, trace);
            }
            if (goes && passes(now)) {
                pass_words(skip_left, trace);
            }
            if (goes && now.tensor) {
                GroupBeat<Config> group;
                Words::get(beat_, static_cast<int>(now.part), group.word);
                loads.write(to_wire(group));
            }
        } while (running_);
        loop.ended();
        const uint32_t sent_sum = sent_checksum(source, input.checksum(), descriptors > 0);
        return status(sent_sum, scratchpad_report, weights_report, post_report, store_report);
    }

   private:
    using index_t = uint_t<7>;
    static constexpr int parts = Words::groups > words_per_beat ? Words::groups : words_per_beat;
    using part_t = uint_t<bit_length(parts)>;

    // The action of a cycle: it sends a word of a descriptor, the word that ends a command of `post`, or a group of a
    // tensor; or it waits until it is known whether the descriptor is skipped, or skips a beat of it.
    struct Clock {
        bool word, exponent, begin, tensor, decides, skips;
        bool ends;                // the word belongs to the commands that end the start: zero, of no descriptor
        bool reads;               // a beat first
        bool first, flags, last;  // word of the descriptor
        index_t index;            // of the word
        part_t part;              // word or group of the beat
    };

    // The processes that receive an operation; `loads`: whether the sequencer does.
    struct Listeners {
        bool loads, scratchpad, weights, post, store;
    };

    // A word in flight to the processes: it leaves one or two cycles after it was read.
    struct Sent {
        bool word, exponent, first, flags;  // as in `Clock`
        bool ends;
        bool own;  // one of the own command
        index_t index;
        command_t value;
        Listeners listeners;  // of a descriptor whose first word it is
    };

    // Whether a cycle waits for a decision, or passes over a skipped beat: never without count registers, which no tool
    // finds by itself.
    static bool waits(const Clock& now) { return Choices<Config>::exist && now.decides; }
    static bool passes(const Clock& now) { return Choices<Config>::exist && now.skips; }

    void start(int32_t descriptors, bool clear) {
#pragma HLS INLINE
        choices_.start(clear);
        left_ = descriptors;
        last_descriptor_ = descriptors == 1;
        number_ = 0;
        running_ = true;
        stops_ = false;
        sent_all_ = false;
        loads_ = false;
        own_index_ = 0;
        sent_.word = false;
        sent_.exponent = false;
        before_.word = false;
        before_.exponent = false;
        skips_ = false;
        counts_now_ = false;
        const bool ends = descriptors <= 0;
        clock_.word = true;
        clock_.exponent = false;
        clock_.begin = false;
        clock_.tensor = false;
        clock_.decides = false;
        clock_.skips = false;
        clock_.ends = ends;
        clock_.reads = !ends;
        clock_.first = true;
        clock_.flags = false;
        clock_.last = false;
        clock_.index = 0;
        clock_.part = 0;
    }

    // The word that leaves in this cycle: none while its skip decision is open.
    Sent due(const Clock& now) const {
#pragma HLS INLINE
        Sent sent = Choices<Config>::exist ? before_ : sent_;
        sent.word = sent.word && !waits(now);
        sent.exponent = sent.exponent && !waits(now);
        return sent;
    }

    template <class Input>
    void expect(Input& input, const Clock& now) const {
#pragma HLS INLINE
        if (now.word && now.first) {
            input.expect(Descriptor::words / words_per_beat, "descriptor", static_cast<int>(number_));
        } else if (now.exponent) {
            input.expect(1, "tensor in slot", tensor_.output_slot);
        } else if (now.tensor && now.first) {
            input.expect(beats_of<Config>(tensor_, tensor_.output_pixel_words), "tensor in slot", tensor_.output_slot);
        }
    }

    // Whether the beat that a cycle needs has come.
    template <class Input>
    bool next_beat(Input& input, const Clock& now) {
#pragma HLS INLINE
        expect(input, now);
        return input.read_nb(beat_);
    }

    // No beat has come: earlier words drain all the same, except the first one of a descriptor whose flags have not
    // come.
    void let_go(const Clock& now) {
#pragma HLS INLINE
        const bool keeps = Choices<Config>::exist && now.flags;
        before_ = sent_;
        before_.word = sent_.word && !keeps;
        sent_.word = sent_.word && keeps;
        sent_.exponent = false;
    }

    // The next cycle's action. Each flag depends on those of this cycle, in parallel.
    void next(const Clock& now) {
#pragma HLS INLINE
        const bool last_group = groups_.last();
        const bool skipped = passes(now) && skip_last_;
        const bool command_done = now.word ? now.last && !reaches_post_ : skipped || (now.exponent && !brings_tensor_);
        const bool tensor_done = now.begin ? !groups_.any() : now.tensor && last_group;
        const bool done = command_done || tensor_done;
        const bool to_exponent = now.word && now.last && reaches_post_;
        const bool to_begin = now.exponent && brings_tensor_;
        const bool to_tensor = now.begin && groups_.any();
        // After the flags it is decided whether the words go on.
        const bool decides = Choices<Config>::exist && now.word && now.flags && !now.ends;
        const bool decided = waits(now) && choices_.decided();
        const bool skips = decided && choices_.skips();
        const bool words = now.word && !now.last && !decides;
        const bool goes_on = decided && !skips;
        const bool ends_beat = now.part == (now.word ? words_per_beat : Words::groups) - 1;
        const bool next_beat = words ? ends_beat && !now.ends : now.tensor && !last_group && ends_beat;
        const bool stays = words || (now.tensor && !last_group);
        const bool none_left = now.ends || last_descriptor_;
        groups_.step(now.tensor, now.begin);
        if (now.exponent) {
            groups_.set(tensor_.output_pixels, tensor_.output_width, tensor_.output_pixel_words);
        }
        clock_.word = (done && !(Choices<Config>::exist && now.ends)) || words || goes_on;
        clock_.decides = decides || (waits(now) && !decided);
        clock_.skips = skips || (passes(now) && !skip_last_);
        clock_.exponent = to_exponent;
        clock_.begin = to_begin;
        clock_.tensor = to_tensor || (now.tensor && !last_group);
        clock_.reads = done ? !none_left
                            : to_tensor || next_beat || (to_exponent && brings_tensor_) || (goes_on && beat_follows) ||
                                  skips || (passes(now) && !skip_last_);
        clock_.first = done || to_tensor;
        clock_.flags = now.word && now.first;
        clock_.last = now.word && now.index == Descriptor::words - 2;
        clock_.index = waits(now)         ? static_cast<index_t>(2)
                       : words || decides ? static_cast<index_t>(now.index + 1)
                                          : static_cast<index_t>(0);
        clock_.part = waits(now)                         ? static_cast<part_t>(part_behind_flags)
                      : (stays || decides) && !ends_beat ? static_cast<part_t>(now.part + 1)
                                                         : static_cast<part_t>(0);
        skip_last_ = decides ? Choices<Config>::beats_behind_flags == 1 : passes(now) ? skip_left_ == 2 : skip_last_;
        skip_left_ = decides       ? static_cast<index_t>(Choices<Config>::beats_behind_flags)
                     : passes(now) ? static_cast<index_t>(skip_left_ - 1)
                                   : skip_left_;
        skips_ = decided ? skips : skips_;
        if (done) {
            stops_ = now.ends;
            clock_.ends = none_left;
            last_descriptor_ = left_ == 2;
            left_ = static_cast<int_t<32>>(left_ - 1);
            number_ = static_cast<int_t<32>>(number_ + 1);
        }
        // Set by the first word of a descriptor, used after its last one.
        reaches_post_ = will_reach_post_;
        brings_tensor_ = will_bring_tensor_;
        will_reach_post_ = hears_post_;
        will_bring_tensor_ = loads_;
    }

    // Whether a word belongs to the own command: comparisons, as a table in memory would take one more cycle.
    static bool is_own(index_t index) {
#pragma HLS INLINE
        bool own = false;
    Words_Compare:
        for (int n = 0; n < Descriptor::words; ++n) {
#pragma HLS UNROLL
            own = own || (index == n && TensorCommand::has(n));
        }
        return own;
    }

    // The word of this cycle; it is sent in the next one.
    template <class Trace>
    void take_word(const Clock& now, Trace& trace) {
#pragma HLS INLINE
        sent_.word = now.word;
        sent_.exponent = now.exponent;
        sent_.first = now.first;
        sent_.flags = now.flags;
        sent_.ends = now.ends;
        sent_.own = is_own(now.index);
        sent_.index = now.index;
        sent_.value = 0;
        if (now.exponent && loads_) {
            sent_.value = static_cast<command_t>(
                get_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent));
        } else if (now.word && !now.ends) {
            sent_.value = word_of_beat(now.part);
            trace.word(static_cast<int>(number_), static_cast<int>(now.index), static_cast<int32_t>(sent_.value));
        }
        // The first word is the lowest one of its beat, so who hears it is known a cycle before it leaves.
        sent_.listeners = listeners(static_cast<int32_t>(get_signed<32>(beat_, 0)));
        if (Choices<Config>::exist && now.word && now.flags) {
            choices_.take(now.ends ? 0 : static_cast<int32_t>(sent_.value));
        }
    }

    // The words of a skipped beat, `skip_left` beats before the end of the descriptor, for a simulation only.
    template <class Trace>
    void pass_words(index_t skip_left, Trace& trace) const {
#pragma HLS INLINE
    Words_Pass:
        for (int n = 0; n < words_per_beat; ++n) {
#pragma HLS UNROLL
            const int index = Descriptor::words - words_per_beat * static_cast<int>(skip_left) + n;
            trace.word(static_cast<int>(number_), index, static_cast<int32_t>(get_signed<32>(beat_, 32 * n)));
        }
    }

    template <class Array>
    void send_words(const Sent& sent, stream<command_t>& scratchpad, stream<command_t>& weights,
                    stream<command_t>& post, stream<command_t>& store, Array& array) {
#pragma HLS INLINE
        const int index = static_cast<int>(sent.index);
        const command_t word = sent.value;
        if (sent.word && sent.first) {
            begin(sent);
        }
        const bool skipped = Choices<Config>::exist && sent.word && sent.first && skips_ && !sent.ends;
        const bool skips_weights = skipped && static_cast<int32_t>(word) == static_cast<int32_t>(Operation::Gemm);
        if (skipped || (sent.word && hears_scratchpad_ && ScratchpadCommand::has(index))) {
            scratchpad.write(skipped ? static_cast<command_t>(ProcessLimits::skipped) : word);
        }
        if (skips_weights || (sent.word && hears_weights_ && WeightsCommand::has(index))) {
            weights.write(skips_weights ? static_cast<command_t>(ProcessLimits::skipped) : word);
        }
        if (sent.word ? hears_post_ && PostCommand::has(index) : sent.exponent) {
            post.write(word);
        }
        if (sent.word && hears_store_ && StoreCommand::has(index)) {
            store.write(sent.first && !sent.ends ? with_choices(word) : word);
        }
        if (sent.word) {
            const bool skips = Choices<Config>::exist && skips_ && !sent.ends;
            array.send(word, index, sent.first, sent.ends, skips);
        }
        counts_now_ = Choices<Config>::exist && sent.word && sent.flags && !sent.ends && hears_post_ &&
                      counted_in(static_cast<int32_t>(word)) != 0;
        if (sent.word && sent.own) {
            TensorCommand::set(tensor_, static_cast<int>(own_index_), static_cast<int32_t>(word));
            own_index_ = static_cast<index_t>(own_index_ + 1);
        }
    }

    // The first word of the command of a STORE, with the values of the count registers.
    command_t with_choices(command_t word) const {
#pragma HLS INLINE
        const int32_t choices = static_cast<int32_t>(static_cast<uint32_t>(choices_.truths()) << operation_bits);
        return Choices<Config>::exist ? static_cast<command_t>(word | choices) : word;
    }

    static Listeners listeners(int32_t operation) {
#pragma HLS INLINE
        const Listeners who = {TensorCommand::hears(operation), ScratchpadCommand::hears(operation),
                               WeightsCommand::hears(operation), PostCommand::hears(operation),
                               StoreCommand::hears(operation)};
        return who;
    }

    // The first word of a descriptor selects the processes that receive it; all receive the end of the start.
    void begin(const Sent& sent) {
#pragma HLS INLINE
        const int32_t operation = static_cast<int32_t>(sent.value);
        const bool rows = Config::row_columns > 0 && operation == static_cast<int32_t>(Operation::Rows);
        const bool weighs = Config::operand_weights && operation == static_cast<int32_t>(Operation::Weigh);
        const bool table = Config::function_tables > 0 && operation == static_cast<int32_t>(Operation::Table);
        const bool usual = operation >= 0 && operation <= static_cast<int32_t>(Operation::Sum);
        simulation_check(usual || rows || weighs || table, "a descriptor", "has no such operation:", operation);
        const bool skips = Choices<Config>::exist && skips_ && !sent.ends;
        simulation_check(!skips || (operation >= static_cast<int32_t>(Operation::Gemm) &&
                                    operation <= static_cast<int32_t>(Operation::Sum)),
                         "a descriptor", "is skipped that computes nothing, of operation", operation);
        const Listeners& who = sent.listeners;
        loads_ = who.loads && !sent.ends;
        hears_scratchpad_ = sent.ends || (who.scratchpad && !skips);
        hears_weights_ = sent.ends || (who.weights && !skips);
        hears_post_ = sent.ends || (who.post && !skips);
        hears_store_ = sent.ends || who.store;
        own_index_ = 0;
    }

    command_t word_of_beat(part_t part) const {
#pragma HLS INLINE
        command_t word = 0;
    Words_Select:
        for (int n = 0; n < words_per_beat; ++n) {
#pragma HLS UNROLL
            if (part == n) {
                word = static_cast<command_t>(get_signed<32>(beat_, 32 * n));
            }
        }
        return word;
    }

    // The processes' counts, once all of them are idle.
    static KernelStatus status(uint32_t input_checksum, stream<report_t>& scratchpad, stream<report_t>& weights,
                               stream<report_t>& post, stream<report_t>& store) {
#pragma HLS INLINE
        KernelStatus status;
        status.cycles = report(scratchpad);
        status.cycles += report(weights);
        status.weight_checksum = report(weights);
        status.overflows = report(post);
        status.underflows = report(post);
        status.bits = static_cast<int32_t>(report(post));
        status.output_checksum = report(store);
        status.input_checksum = input_checksum;
        return status;
    }

    static uint32_t report(stream<report_t>& from) {
#pragma HLS INLINE
        return static_cast<uint32_t>(static_cast<int32_t>(from.read()));
    }

    // Whether the word after the flags, the third one, is in another beat than these, and where in its beat.
    static constexpr bool beat_follows = 2 % words_per_beat == 0;
    static constexpr int part_behind_flags = 2 % words_per_beat;

    Clock clock_;
    Sent sent_, before_;  // read in the cycle before, and before that
    Choices<Config> choices_;
    bool skips_;         // the descriptor
    bool counts_now_;    // the operation whose flags have left counts
    index_t skip_left_;  // beats
    bool skip_last_;     // this one is the last
    bool running_, stops_, sent_all_, loads_, last_descriptor_;
    bool hears_scratchpad_, hears_weights_, hears_post_, hears_store_;
    bool will_reach_post_, will_bring_tensor_;  // `hears_post_` and `loads_`, a cycle later,
    bool reaches_post_, brings_tensor_;         // and two
    int_t<32> left_, number_;                   // descriptors from this one on, before it
    index_t own_index_;                         // of the word of the own command
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
};

}  // namespace bfpga
