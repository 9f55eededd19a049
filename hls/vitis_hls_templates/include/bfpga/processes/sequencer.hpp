// The sequencer: reads descriptors and tensors from the input stream and hands each process what it needs of them.
//
// One 32-bit word of a descriptor a clock, or one group of a tensor. It runs ahead of the others as far as the streams
// between them hold what it sends; what must be finished before an operation begins is in the operation's descriptor.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/kernel/status.hpp"
#include "bfpga/kernel/transfers.hpp"
#include "bfpga/ports/checksum.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// A word of what a process counted in a start.
using report_t = int_t<32>;

template <class Config>
class SequencerProcess {
    using Words = BeatWords<Config>;
    using beat_t = bits_t<Config::stream_bits>;
    static constexpr int words_per_beat = Config::stream_bits / 32;
    static_assert(Descriptor::words % words_per_beat == 0, "a descriptor is a whole number of beats");

   public:
    // One start. `trace` hears of every word of every descriptor, hardware has nobody who does.
    template <class Source, class Trace>
    KernelStatus run(int32_t descriptors, bool clear, Source& source, stream<command_t>& scratchpad_command,
                     stream<command_t>& weights_command, stream<command_t>& post_command,
                     stream<command_t>& store_command, stream<wire_t<GroupBeat<Config>>>& loads,
                     stream<report_t>& scratchpad_report, stream<report_t>& weights_report,
                     stream<report_t>& post_report, stream<report_t>& store_report, Trace& trace) {
#pragma HLS INLINE
        CheckedSource<Config::stream_bits, Source> input(source);
        post_command.write(static_cast<command_t>(clear ? 1 : 0));
        start(descriptors);
        PipelinedLoop loop("Sequencer");
    Sequencer:
        while (running_) {
// II=1: one beat is read at most and one word or one group written to each stream. Carried: the phase, counters with
// registered ends, and the beat whose words or groups leave one by one.
#pragma HLS PIPELINE II=1
            loop.iteration();
            if (reads_beat()) {
                expect(input);
                beat_ = input.read();
            }
            send_words(scratchpad_command, weights_command, post_command, store_command, trace);
            if (phase_ == Phase::Tensor) {
                GroupBeat<Config> group;
                Words::get(beat_, static_cast<int>(part_), group.word);
                loads.write(to_wire(group));
            }
            next();
        }
        return status(input.checksum(), scratchpad_report, weights_report, post_report, store_report);
    }

   private:
    // What happens in a clock: a word of a descriptor, the word that ends a command of `post`, a group of a tensor.
    enum class Phase { Word, Exponent, Tensor };

    void start(int32_t descriptors) {
#pragma HLS INLINE
        descriptors_ = descriptors;
        number_ = 0;
        ending_ = descriptors <= 0;
        running_ = true;
        phase_ = Phase::Word;
        index_ = 0;
        part_ = 0;
        own_index_ = 0;
        loads_ = false;
    }

    // The commands that end a start are words 0, of no descriptor.
    bool reads_beat() const {
#pragma HLS INLINE
        switch (phase_) {
            case Phase::Word:
                return part_ == 0 && !ending_;
            case Phase::Exponent:
                return loads_;
            default:
                return part_ == 0;
        }
    }

    template <class Input>
    void expect(Input& input) const {
#pragma HLS INLINE
        if (phase_ == Phase::Word && index_ == 0) {
            input.expect(Descriptor::words / words_per_beat, "descriptor", number_);
        } else if (phase_ == Phase::Exponent) {
            input.expect(1, "tensor in slot", tensor_.output_slot);
        } else if (phase_ == Phase::Tensor && first_) {
            input.expect(beats_of<Config>(tensor_, tensor_.output_pixel_words), "tensor in slot", tensor_.output_slot);
        }
    }

    template <class Trace>
    void send_words(stream<command_t>& scratchpad, stream<command_t>& weights, stream<command_t>& post,
                    stream<command_t>& store, Trace& trace) {
#pragma HLS INLINE
        const int index = static_cast<int>(index_);
        const bool words = phase_ == Phase::Word;
        command_t word = 0;
        if (phase_ == Phase::Exponent && loads_) {
            word = static_cast<command_t>(
                get_signed<TensorHeaderFields::exponent_bits>(beat_, TensorHeaderFields::exponent));
        } else if (words && !ending_) {
            word = word_of_beat();
            trace.word(static_cast<int>(number_), index, static_cast<int32_t>(word));
        }
        if (words && index == 0) {
            begin(static_cast<int32_t>(word));
        }
        if (words && hears_scratchpad_ && ScratchpadCommand::has(index)) {
            scratchpad.write(word);
        }
        if (words && hears_weights_ && WeightsCommand::has(index)) {
            weights.write(word);
        }
        if (words ? hears_post_ && PostCommand::has(index) : phase_ == Phase::Exponent) {
            post.write(word);
        }
        if (words && hears_store_ && StoreCommand::has(index)) {
            store.write(word);
        }
        if (words && TensorCommand::has(index)) {
            TensorCommand::set(tensor_, static_cast<int>(own_index_), static_cast<int32_t>(word));
            own_index_ = static_cast<uint_t<7>>(own_index_ + 1);
        }
    }

    // The first word of a descriptor says who hears of it; all hear that the start ends.
    void begin(int32_t operation) {
#pragma HLS INLINE
        simulation_check(operation >= 0 && operation <= static_cast<int32_t>(Operation::Sparse), "a descriptor",
                         "has no such operation:", operation);
        simulation_check(operation <= static_cast<int32_t>(Operation::Sum), "a descriptor",
                         "needs an engine that this kernel lacks, for operation", operation);
        loads_ = TensorCommand::hears(operation);
        hears_scratchpad_ = ending_ || ScratchpadCommand::hears(operation);
        hears_weights_ = ending_ || WeightsCommand::hears(operation);
        hears_post_ = ending_ || PostCommand::hears(operation);
        hears_store_ = ending_ || StoreCommand::hears(operation);
        own_index_ = 0;
    }

    command_t word_of_beat() const {
#pragma HLS INLINE
        command_t word = 0;
    Words_Select:
        for (int n = 0; n < words_per_beat; ++n) {
#pragma HLS UNROLL
            if (part_ == n) {
                word = static_cast<command_t>(get_signed<32>(beat_, 32 * n));
            }
        }
        return word;
    }

    void next() {
#pragma HLS INLINE
        switch (phase_) {
            case Phase::Word:
                next_word();
                break;
            case Phase::Exponent:
                part_ = 0;
                first_ = true;
                groups_.start(tensor_.output_pixels, tensor_.output_width, tensor_.output_pixel_words);
                if (loads_ && groups_.any()) {
                    phase_ = Phase::Tensor;
                } else {
                    next_descriptor();
                }
                break;
            default:
                first_ = false;
                part_ = part_ == Words::groups - 1 ? static_cast<part_t>(0) : static_cast<part_t>(part_ + 1);
                if (groups_.last()) {
                    next_descriptor();
                } else {
                    groups_.next();
                }
        }
    }

    void next_word() {
#pragma HLS INLINE
        part_ = part_ == words_per_beat - 1 ? static_cast<part_t>(0) : static_cast<part_t>(part_ + 1);
        if (index_ != Descriptor::words - 1) {
            index_ = static_cast<uint_t<7>>(index_ + 1);
        } else if (hears_post_) {
            phase_ = Phase::Exponent;
        } else {
            next_descriptor();
        }
    }

    void next_descriptor() {
#pragma HLS INLINE
        running_ = !ending_;
        number_ = static_cast<int_t<32>>(number_ + 1);
        ending_ = number_ == descriptors_;
        phase_ = Phase::Word;
        index_ = 0;
        part_ = 0;
    }

    // What the processes have counted, once all of them have nothing left to do.
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

    static constexpr int parts = Words::groups > words_per_beat ? Words::groups : words_per_beat;
    using part_t = uint_t<bit_length(parts) + 1>;

    Phase phase_;
    bool running_, ending_, loads_, first_;
    bool hears_scratchpad_, hears_weights_, hears_post_, hears_store_;
    int_t<32> descriptors_, number_;
    uint_t<7> index_, own_index_;  // of the word of the descriptor; of the word of the own command
    part_t part_;                  // word or group of the beat
    beat_t beat_;
    Descriptor tensor_;
    GroupCount<Config> groups_;
};

}  // namespace bfpga
