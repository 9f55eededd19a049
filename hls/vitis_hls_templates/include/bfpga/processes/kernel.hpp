// A kernel of processes in a simulation: what hardware has as separate blocks with streams between them, behind the
// interface of a kernel that is one loop.
#pragma once
#include <deque>
#include <vector>

#include "bfpga/kernel/status.hpp"
#include "bfpga/processes/array.hpp"
#include "bfpga/processes/post.hpp"
#include "bfpga/processes/scratchpad.hpp"
#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/store.hpp"
#include "bfpga/processes/weights.hpp"
#include "bfpga/simulation/process_scheduler.hpp"

namespace bfpga {

// A source of the kernel as one of its processes has it: while it is empty, the others run.
template <int Bits, class Source>
class OutsideSource : public OutsideEnd {
   public:
    OutsideSource(const char* name, Source& source, ProcessScheduler& scheduler)
        : name_(name), source_(source), scheduler_(scheduler) {}

    bool starves() const override { return starves_; }
    void await() override { source_.await(); }

    void expect(long long count, const char* what, int number) { source_.expect(count, what, number); }

    bits_t<Bits> read() {
        while (!source_.ready()) {
            starves_ = true;
            scheduler_.wait(name_, true);
        }
        return take();
    }

    bool read_nb(bits_t<Bits>& beat) {
        if (!source_.ready() || scheduler_.refuses()) {
            starves_ = true;
            scheduler_.polled(name_);
        }
        if (!source_.ready()) {
            return false;
        }
        beat = take();
        return true;
    }

   private:
    bits_t<Bits> take() {
        starves_ = false;
        scheduler_.moved();
        return source_.read();
    }

    std::string name_;
    Source& source_;
    ProcessScheduler& scheduler_;
    bool starves_ = false;
};

// The sink of the kernel as its process has it.
template <int Bits, class Sink>
class OutsideSink : public OutsideEnd {
   public:
    OutsideSink(const char* name, Sink& sink, ProcessScheduler& scheduler)
        : name_(name), sink_(sink), scheduler_(scheduler) {}

    bool starves() const override { return starves_; }
    void await() override { sink_.await(); }

    void write(const bits_t<Bits>& data, bool last) {
        while (!sink_.ready()) {
            starves_ = true;
            scheduler_.wait(name_, false);
        }
        starves_ = false;
        scheduler_.moved();
        sink_.write(data, last);
    }

   private:
    std::string name_;
    Sink& sink_;
    ProcessScheduler& scheduler_;
    bool starves_ = false;
};

// Puts what the processes tell of their operations into the order of the descriptors.
template <class Trace>
class DescriptorTrace {
   public:
    explicit DescriptorTrace(Trace& trace) : trace_(trace) {}

    // The sequencer has read a word of a descriptor.
    void word(int, int index, int32_t word) {
        words_[index] = word;
        if (index == Descriptor::words - 1) {
            const Descriptor descriptor = decode_descriptor(words_);
            operations_.push_back({descriptor, false, 0});
            const std::size_t number = first_ + operations_.size() - 1;
            if (ScratchpadCommand::hears(descriptor.operation)) {
                scratchpad_.push_back(number);
            } else if (WeightsCommand::hears(descriptor.operation)) {
                weights_.push_back(number);
            } else {
                finished_operation(number, 0);
            }
        }
    }

    // The scratchpad has finished an operation; those of different kinds may overtake each other.
    void finished(int index, uint32_t work) { finished_operation(scratchpad_[static_cast<std::size_t>(index)], work); }

    // The weights process has finished its next WEIGHTS.
    void filled(uint32_t work) { finish_first(weights_, work); }

   private:
    struct Entry {
        Descriptor descriptor;
        bool finished;
        uint32_t work;
    };

    void finish_first(std::deque<std::size_t>& numbers, uint32_t work) {
        const std::size_t number = numbers.front();
        numbers.pop_front();
        finished_operation(number, work);
    }

    void finished_operation(std::size_t number, uint32_t work) {
        Entry& entry = operations_[number - first_];
        entry.finished = true;
        entry.work = work;
        while (!operations_.empty() && operations_.front().finished) {
            trace_.finished(static_cast<int>(first_), operations_.front().descriptor, operations_.front().work);
            operations_.pop_front();
            ++first_;
        }
    }

    Trace& trace_;
    int32_t words_[Descriptor::words];
    std::deque<Entry> operations_;  // from the first unfinished one on
    std::size_t first_ = 0;
    std::vector<std::size_t> scratchpad_;  // numbers of the operations that it hears of
    std::deque<std::size_t> weights_;      // of those that are left to it
};

template <class Config, class Storage>
class ProcessKernel {
   public:
    ProcessKernel() {
        for (const char* name : {"sequencer", "scratchpad", "weights", "array", "post", "store"}) {
            scheduler_.add(name);
        }
        join_streams();
    }

    // Executes `descriptors` descriptors, as `Kernel::run` does.
    template <class Source, class WeightSource, class Sink, class Trace>
    KernelStatus run(int descriptors, bool clear, Source& source, WeightSource& weight_source, Sink& sink,
                     Trace& trace) {
        OutsideSource<Config::stream_bits, Source> input("input", source, scheduler_);
        OutsideSource<Config::weight_stream_bits, WeightSource> weights("weights", weight_source, scheduler_);
        OutsideSink<Config::stream_bits, Sink> output("output", sink, scheduler_);
        DescriptorTrace<Trace> descriptor_trace(trace);
        KernelStatus status = {0, 0, 0, 0, 0, 0, 0};
        join_streams();
        scheduler_.outside({&output, &weights, &input});
        scheduler_.run({
            [&] {
                status = sequencer_.run(descriptors, clear, input, scratchpad_command_, weights_command_, post_command_,
                                        store_command_, loads_, scratchpad_report_, weights_report_, post_report_,
                                        store_report_, descriptor_trace);
            },
            [&] {
                scratchpad_.run(scratchpad_command_, loads_, operands_, vectors_, results_, stored_, credits_,
                                scratchpad_report_, descriptor_trace);
            },
            [&] {
                weights_.run(weights_command_, weights, weight_words_, parameters_, weights_report_, descriptor_trace);
            },
            [&] { array_.run(operands_, weight_words_, sums_); },
            [&] { post_.run(post_command_, sums_, vectors_, parameters_, results_, exponents_, post_report_); },
            [&] { store_.run(store_command_, exponents_, stored_, credits_, output, store_report_); },
        });
        return status;
    }

    // From now on the processes run in an order drawn by chance, streams hold any number of words that suffices, and
    // pretend to be empty or full at times. 0: no longer.
    void disturb(uint64_t seed) { scheduler_.disturb(seed); }

   private:
    void join_streams() {
        join(scratchpad_command_, Config::scratchpad_command_depth, Config::scratchpad_command_minimum);
        join(weights_command_, Config::weights_command_depth, Config::weights_command_minimum);
        join(post_command_, Config::post_command_depth, Config::post_command_minimum);
        join(store_command_, Config::store_command_depth, Config::store_command_minimum);
        join(loads_, Config::loads_depth, Config::loads_minimum);
        join(operands_, Config::operands_depth, Config::operands_minimum);
        join(vectors_, Config::vectors_depth, Config::vectors_minimum);
        join(weight_words_, Config::weight_words_depth, Config::weight_words_minimum);
        join(parameters_, Config::parameters_depth, Config::parameters_minimum);
        join(sums_, Config::sums_depth, Config::sums_minimum);
        join(results_, Config::results_depth, Config::results_minimum);
        join(exponents_, Config::exponents_depth, Config::exponents_minimum);
        join(stored_, Config::stored_depth, Config::stored_minimum);
        join(credits_, Config::credits_depth, Config::credits_minimum);
        join(scratchpad_report_, Config::scratchpad_report_depth, Config::scratchpad_report_minimum);
        join(weights_report_, Config::weights_report_depth, Config::weights_report_minimum);
        join(post_report_, Config::post_report_depth, Config::post_report_minimum);
        join(store_report_, Config::store_report_depth, Config::store_report_minimum);
    }

    template <class T>
    void join(stream<T>& wire, int depth, int minimum) {
        const int chosen = scheduler_.disturbs() ? minimum + static_cast<int>(scheduler_.random(8)) : depth;
        wire.join(scheduler_, static_cast<std::size_t>(chosen));
    }

    ProcessScheduler scheduler_;
    SequencerProcess<Config> sequencer_;
    ScratchpadProcess<Config, Storage> scratchpad_;
    WeightsProcess<Config> weights_;
    ArrayProcess<Config, Storage> array_;
    PostProcess<Config, Storage> post_;
    StoreProcess<Config> store_;
    stream<command_t> scratchpad_command_{"scratchpad_command"}, weights_command_{"weights_command"};
    stream<command_t> post_command_{"post_command"}, store_command_{"store_command"};
    stream<wire_t<GroupBeat<Config>>> loads_{"loads"}, stored_{"stored"};
    stream<wire_t<OperandBeat<Config>>> operands_{"operands"};
    stream<wire_t<VectorBeat<Config>>> vectors_{"vectors"};
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"};
    stream<wire_t<ParameterBeat<Config>>> parameters_{"parameters"};
    stream<wire_t<SumBeat<Config>>> sums_{"sums"};
    stream<wire_t<ResultBeat<Config>>> results_{"results"};
    stream<int_t<32>> exponents_{"exponents"};
    stream<bool> credits_{"credits"};
    stream<report_t> scratchpad_report_{"scratchpad_report"}, weights_report_{"weights_report"};
    stream<report_t> post_report_{"post_report"}, store_report_{"store_report"};
};

}  // namespace bfpga
