// A kernel in a simulation: the hardware's separate blocks with streams between them, as one object that starts.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "bfpga/kernel/status.hpp"
#include "bfpga/processes/maps/paths.hpp"
#include "bfpga/processes/post.hpp"
#include "bfpga/processes/scratchpad.hpp"
#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/store.hpp"
#include "bfpga/simulation/process_scheduler.hpp"

namespace bfpga {

// A source of the kernel as one of its processes reads it: while it is empty, the others run.
template <int Bits, class Source>
class OutsideSource : public OutsideEnd {
   public:
    OutsideSource(const char* name, Source& source, ProcessScheduler& scheduler)
        : name_(name), source_(source), scheduler_(scheduler), pauses_(scheduler.pauses(name_, true)) {}

    bool starves() const override { return starves_ && !source_.ready(); }
    void await() override { source_.await(); }

    void expect(long long count, const char* what, int number) { source_.expect(count, what, number); }

    bits_t<Bits> read() {
        scheduler_.uses(name_);
        while (!source_.ready() || pauses_.pauses()) {
            starves_ = true;
            scheduler_.wait(name_, true);
        }
        return take();
    }

    bool read_nb(bits_t<Bits>& beat) {
        scheduler_.uses(name_);
        if (!source_.ready()) {
            starves_ = true;
            scheduler_.polled(name_);
        }
        if (!source_.ready()) {
            return false;
        }
        if (pauses_.pauses()) {
            scheduler_.polled(name_);
            return false;
        }
        beat = take();
        return true;
    }

   private:
    bits_t<Bits> take() {
        starves_ = false;
        pauses_.moved();
        scheduler_.moved();
        return source_.read();
    }

    std::string name_;
    Source& source_;
    ProcessScheduler& scheduler_;
    SidePauses pauses_;
    bool starves_ = false;
};

// The sink of the kernel as its process writes it.
template <int Bits, class Sink>
class OutsideSink : public OutsideEnd, private WordUnderWay {
   public:
    OutsideSink(const char* name, Sink& sink, ProcessScheduler& scheduler)
        : name_(name), sink_(sink), scheduler_(scheduler), pauses_(scheduler.pauses(name_, false)) {}

    bool starves() const override { return starves_ && !sink_.ready(); }
    void await() override { sink_.await(); }

    void write(const bits_t<Bits>& data, bool last) {
        PipelinedLoop* const loop = scheduler_.keeper();
        if (loop == nullptr) {
            send(data, last);
        } else {
            under_way_.push_back({data, last});
            loop->keep(*this);
        }
    }

   private:
    struct Beat {
        bits_t<Bits> data;
        bool last;
    };

    void land() override {
        const Beat beat = under_way_.front();
        under_way_.pop_front();
        send(beat.data, beat.last);
    }

    void send(const bits_t<Bits>& data, bool last) {
        scheduler_.uses(name_);
        while (!sink_.ready() || pauses_.pauses()) {
            starves_ = true;
            scheduler_.wait(name_, false);
        }
        starves_ = false;
        pauses_.moved();
        scheduler_.moved();
        sink_.write(data, last);
    }

    std::string name_;
    Sink& sink_;
    ProcessScheduler& scheduler_;
    SidePauses pauses_;
    std::deque<Beat> under_way_;
    bool starves_ = false;
};

// A kernel without words of exponents has nothing beside its counts.
struct NoPositions {
    template <class Counts>
    class Ends {
       public:
        Ends(Counts& counts, NoPositions&, ProcessScheduler&) : counts_(counts) {}

        Counts& of_post() { return counts_; }
        void join(std::vector<OutsideEnd*>&) {}

       private:
        Counts& counts_;
    };
};

// Words of exponents to the next core and from the one before, in a simulation of one of them.
template <class Told, class Awaited>
struct PositionStreams {
    Told& told;
    Awaited& awaited;

    struct Writer {
        OutsideSink<32, Told>& sink;

        void write(command_t word) {
            bits_t<32> beat = 0;
            set_signed<32>(beat, 0, static_cast<int64_t>(word));
            sink.write(beat, false);
        }
    };

    struct Reader {
        OutsideSource<32, Awaited>& source;

        command_t read() { return static_cast<command_t>(get_signed<32>(source.read(), 0)); }
    };

    template <class Counts>
    class Ends {
       public:
        Ends(Counts& counts, PositionStreams& streams, ProcessScheduler& scheduler)
            : sink_("told_exponents", streams.told, scheduler),
              source_("awaited_exponents", streams.awaited, scheduler),
              writer_{sink_},
              reader_{source_},
              ends_{counts, writer_, reader_} {
            source_.expect(1, "exponent of a layer, from the core before;", 0);
        }
        Ends(const Ends&) = delete;
        Ends& operator=(const Ends&) = delete;

        WithPositions<Counts, Writer, Reader>& of_post() { return ends_; }

        // The host's streams are the more urgent ones: nothing that they wait for waits for words.
        void join(std::vector<OutsideEnd*>& ends) {
            ends.push_back(&sink_);
            ends.push_back(&source_);
        }

       private:
        OutsideSink<32, Told> sink_;
        OutsideSource<32, Awaited> source_;
        Writer writer_;
        Reader reader_;
        WithPositions<Counts, Writer, Reader> ends_;
    };
};

// Sorts the processes' reports of their operations into the order of the descriptors.
template <class Trace>
class DescriptorTrace {
   public:
    DescriptorTrace(Trace& trace, const ProcessScheduler& scheduler) : trace_(trace), scheduler_(scheduler) {}

    // When each operation has ended, in clocks of the start if they are counted.
    const std::vector<int64_t>& ended() const { return ended_; }

    // The sequencer has read a word of a descriptor. Its operation may end before the last one.
    void word(int, int index, int32_t word) {
        words_[index] = word;
        if (index == 0) {
            begin(word);
        }
        if (index == Descriptor::words - 1) {
            operations_.back().descriptor = decode_descriptor(words_);
            operations_.back().complete = true;
            tell();
        }
    }

    // The scratchpad has finished an operation; `index` counts those sent to it.
    void finished(int index, uint32_t work) { finish(scratchpad_[static_cast<std::size_t>(index)], work); }

    // The weights process has finished its next WEIGHTS.
    void filled(uint32_t work) { finish(weights_[filled_++], work); }

   private:
    struct Entry {
        Descriptor descriptor;
        bool complete, finished;
        uint32_t work;
    };

    void begin(int32_t operation) {
        const std::size_t number = first_ + operations_.size();
        ended_.push_back(0);
        const bool computes = ScratchpadCommand::hears(operation);
        const bool fills = static_cast<Operation>(operation) == Operation::Weights;
        operations_.push_back({Descriptor(), false, !computes && !fills, 0});
        if (computes) {
            scratchpad_.push_back(number);
        } else if (fills) {
            weights_.push_back(number);
        }
    }

    void finish(std::size_t number, uint32_t work) {
        Entry& entry = operations_[number - first_];
        entry.finished = true;
        entry.work = work;
        ended_[number] = scheduler_.clock();
        tell();
    }

    void tell() {
        while (!operations_.empty() && operations_.front().finished && operations_.front().complete) {
            trace_.finished(static_cast<int>(first_), operations_.front().descriptor, operations_.front().work);
            operations_.pop_front();
            ++first_;
        }
    }

    Trace& trace_;
    const ProcessScheduler& scheduler_;
    std::vector<int64_t> ended_;
    int32_t words_[Descriptor::words];
    std::deque<Entry> operations_;  // from the first unreported one on
    std::size_t first_ = 0;
    std::vector<std::size_t> scratchpad_, weights_;  // numbers of the operations that each finishes
    std::size_t filled_ = 0;
};

// `Multiplying`: the array with its weights, of the interface of `SystolicMultiplying`. `Paths`: where the streams of
// the host end.
template <class Config, class Storage, class Multiplying, class Paths = MapPaths<Config, Config::compressed_maps>>
class ProcessKernel {
   public:
    ProcessKernel() {
        std::vector<std::string> names = {"sequencer", "scratchpad", "weights"};
        Multiplying::name_arrays(names);
        names.insert(names.end(), {"post", "store"});
        paths_.name_processes(names);
        for (const std::string& name : names) {
            scheduler_.add(name);
        }
        join_streams();
    }

    // Executes `descriptors` descriptors, as `Kernel::run` does.
    template <class Source, class WeightSource, class Sink, class Trace>
    KernelStatus run(int descriptors, bool clear, Source& source, WeightSource& weight_source, Sink& sink,
                     Trace& trace) {
        NoPositions none;
        return run(descriptors, clear, source, weight_source, sink, trace, none);
    }

    // The same with words of exponents from and to other cores.
    template <class Source, class WeightSource, class Sink, class Trace, class Positions>
    KernelStatus run(int descriptors, bool clear, Source& source, WeightSource& weight_source, Sink& sink, Trace& trace,
                     Positions& positions) {
        using Input = OutsideSource<Config::stream_bits, Source>;
        using Output = OutsideSink<Config::stream_bits, Sink>;
        Input input("input", source, scheduler_);
        OutsideSource<Config::weight_stream_bits, WeightSource> weights("weights", weight_source, scheduler_);
        Output output("output", sink, scheduler_);
        DescriptorTrace<Trace> descriptor_trace(trace, scheduler_);
        KernelStatus status = {0, 0, 0, 0, 0, 0, 0};
        join_streams();
        typename Positions::template Ends<stream<command_t>> words(counts_, positions, scheduler_);
        std::vector<OutsideEnd*> ends = {&output, &weights, &input};
        words.join(ends);
        scheduler_.outside(ends);
        std::vector<ProcessScheduler::Body> bodies = {
            [&] {
                typename Paths::template Read<Input> beats = paths_.read(input);
                status =
                    sequencer_.run(descriptors, clear, beats, scratchpad_commands_, weights_commands_, post_commands_,
                                   store_commands_, loads_, scratchpad_reports_, weights_reports_, post_reports_,
                                   store_reports_, counts_, multiplying_.commands(), descriptor_trace);
            },
            [&] {
                multiplying_.run_scratchpad(scratchpad_, scratchpad_reports_, descriptor_trace, scratchpad_commands_,
                                            loads_, operands_, vectors_, results_, stored_, credits_);
            },
            [&] {
                multiplying_.run_weights(weights_commands_, weights, parameters_, weights_reports_, descriptor_trace);
            },
        };
        multiplying_.add_arrays(bodies, operands_, sums_);
        bodies.push_back([&] {
            multiplying_.run_post(post_, post_commands_, sums_, vectors_, parameters_, results_, exponents_,
                                  words.of_post(), post_reports_);
        });
        bodies.push_back([&] {
            typename Paths::template Written<Output> beats = paths_.written(output);
            multiplying_.run_store(store_, store_commands_, exponents_, stored_, credits_, beats, store_reports_);
        });
        paths_.add_processes(bodies, input, output, descriptors);
        try {
            scheduler_.run(bodies);
        } catch (...) {
            // As after the reset that a board needs then: no sum and no beat of this start is left in a pipeline.
            multiplying_.reset();
            paths_.reset();
            post_ = PostProcess<Config, Storage>();
            throw;
        }
        ended_ = descriptor_trace.ended();
        visit_streams(Left());
        return status;
    }

    // From the next start on its clocks are counted, without the stages of pipelines; false if this build cannot.
    bool count_clocks(bool counts) { return scheduler_.count_clocks(counts); }

    // Clocks of the start before, and when each of its operations had ended.
    int64_t clocks() const { return scheduler_.clock(); }
    const std::vector<int64_t>& ended() const { return ended_; }

    // From now on the processes run in random order, streams hold any sufficient number of words, and pause by chance.
    // 0: no longer.
    void disturb(uint64_t seed) {
        scheduler_.disturb(seed);
        pause(seed);
    }

    // From the next start on every stream, between processes or to the outside, pauses by chance on both sides. 0:
    // none.
    void pause(uint64_t seed) { scheduler_.pauses().draw(seed); }

    // From the next start on pipelined loops have stages; see `StagesOfLoops`.
    StagesOfLoops& stages() { return scheduler_.stages(); }

    // From the next start on a stream holds `words` words, to test what depth suffices. 0: as designed.
    void hold(const std::string& stream, int words) { held_words_[stream] = words; }

   private:
    // Joins the streams that others have.
    struct Join {
        ProcessKernel& kernel;

        template <class T>
        void operator()(stream<T>& wire, int depth) const {
            kernel.join(wire, depth);
        }
    };

    // No word is left in a stream when a start has ended: hardware would take it for the first one of the next start.
    struct Left {
        template <class T>
        void operator()(const stream<T>& wire, int) const {
            if (wire.words() != 0) {
                throw StreamError("stream `" + wire.name() + "` holds " + std::to_string(wire.words()) +
                                  " words after the end of the start");
            }
        }
    };

    void join_streams() { visit_streams(Join{*this}); }

    // `visit` is called with each stream between processes and its depth.
    template <class Visit>
    void visit_streams(const Visit& visit) {
        visit(scratchpad_commands_, Config::scratchpad_commands_depth);
        visit(weights_commands_, Config::weights_commands_depth);
        visit(post_commands_, Config::post_commands_depth);
        visit(store_commands_, Config::store_commands_depth);
        visit(loads_, Config::loads_depth);
        visit(operands_, Config::operands_depth);
        visit(vectors_, Config::vectors_depth);
        multiplying_.join(visit);
        paths_.join(visit);
        visit(parameters_, Config::parameters_depth);
        visit(sums_, Config::sums_depth);
        visit(results_, Config::results_depth);
        visit(exponents_, Config::exponents_depth);
        visit(stored_, Config::stored_depth);
        visit(credits_, Config::credits_depth);
        visit(counts_, ProcessLimits::waiting_counts);
        visit(scratchpad_reports_, Config::scratchpad_reports_depth);
        visit(weights_reports_, Config::weights_reports_depth);
        visit(post_reports_, Config::post_reports_depth);
        visit(store_reports_, Config::store_reports_depth);
    }

    template <class T>
    void join(stream<T>& wire, int depth) {
        const std::map<std::string, int>::const_iterator chosen = held_words_.find(wire.name());
        const int more = scheduler_.disturbs() ? static_cast<int>(scheduler_.random(8)) : 0;
        const int words = chosen != held_words_.end() && chosen->second > 0 ? chosen->second : depth + more;
        wire.join(scheduler_);
        wire.clear(static_cast<std::size_t>(words));
    }

    // Cycles in which no word may move: the guard of an operation, and the pause of a pass shorter than the drain of
    // its results.
    static constexpr int words_of_pass = Config::accumulator_rows / Config::lanes;
    static constexpr int clocks_of_word = Config::columns > Config::lanes ? Config::columns : Config::lanes;
    static constexpr int idle_clocks = 128 + 2 * words_of_pass * clocks_of_word;

    ProcessScheduler scheduler_{idle_clocks};
    std::map<std::string, int> held_words_;
    std::vector<int64_t> ended_;
    SequencerProcess<Config> sequencer_;
    ScratchpadProcess<Config, Storage> scratchpad_;
    Multiplying multiplying_;
    PostProcess<Config, Storage> post_;
    StoreProcess<Config> store_;
    Paths paths_;
    stream<command_t> scratchpad_commands_{"scratchpad_commands"}, weights_commands_{"weights_commands"};
    stream<command_t> post_commands_{"post_commands"}, store_commands_{"store_commands"};
    stream<wire_t<GroupBeat<Config>>> loads_{"loads"}, stored_{"stored"};
    stream<wire_t<OperandBeat<Config>>> operands_{"operands"};
    stream<wire_t<VectorBeat<Config>>> vectors_{"vectors"};
    stream<wire_t<ParameterBeat<Config>>> parameters_{"parameters"};
    stream<wire_t<SumBeat<Config>>> sums_{"sums"};
    stream<wire_t<ResultBeat<Config>>> results_{"results"};
    stream<int_t<32>> exponents_{"exponents"};
    stream<bool> credits_{"credits"};
    stream<command_t> counts_{"counts"};
    stream<report_t> scratchpad_reports_{"scratchpad_reports"}, weights_reports_{"weights_reports"};
    stream<report_t> post_reports_{"post_reports"}, store_reports_{"store_reports"};
};

}  // namespace bfpga
