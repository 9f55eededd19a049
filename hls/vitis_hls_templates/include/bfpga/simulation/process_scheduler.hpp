// Runs the processes of a kernel in a simulation: each is a coroutine that runs until it has to wait for a stream.
//
// Values do not depend on the order of processes, so it is free: round robin, or random to test that claim.
//
// Where waivers are checked, rounds can be clocks: a process uses a stream in the clock of the iteration that it is in,
// and a process that waits for a stream goes on a clock later. Pipeline stages do not count unless they are given: a
// word is in its stream in the clock of its iteration.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/pipelined_loop.hpp"
#include "bfpga/ports/stream.hpp"
#include "bfpga/simulation/chance.hpp"
#include "bfpga/simulation/coroutine.hpp"
#include "bfpga/simulation/pauses_of_streams.hpp"
#include "bfpga/simulation/stages_of_loops.hpp"

namespace bfpga {

// Thrown through the processes of a start that is given up.
struct ProcessAborted {};

// A kernel port that is served from outside: polled once no process can make progress.
class OutsideEnd {
   public:
    virtual ~OutsideEnd() {}
    // Whether a process has found the end not ready since it moved a beat last.
    virtual bool starves() const = 0;
    // Returns when the end is ready; throws if it never will be.
    virtual void await() = 0;
};

class ProcessScheduler : public StreamWaits {
   public:
    using Body = std::function<void()>;

    // `patience`: rounds in which a process may count clocks without a word that moves.
    explicit ProcessScheduler(int patience = 8192) : patience_(patience) {}

    // A process more; processes run in this order.
    void add(const std::string& name) { processes_.emplace_back(new Process(*this, name)); }

    // The ports that are served from outside, the most urgent first.
    void outside(std::vector<OutsideEnd*> ends) { ends_ = std::move(ends); }

    // From now on the order is random. 0: no longer.
    void disturb(uint64_t seed) {
        disturbs_ = seed != 0;
        chance_ = Chance(seed);
    }

    // From the next start on streams that are joined pause by chance.
    PausesOfStreams& pauses() { return pauses_; }
    SidePauses pauses(const std::string& stream, bool reads) const override { return pauses_.of(stream, reads); }

    // How many stages pipelined loops have from the next start on.
    StagesOfLoops& stages() { return stages_; }

    // From the next start on rounds are clocks; false if the loops of the processes are not counted.
    bool count_clocks(bool counts) {
#ifdef BFPGA_WAIVERS_CHECKED
        counts_clocks_ = counts;
        return true;
#else
        return !counts;
#endif
    }

    // Clocks since the begin of the start, if they are counted.
    int64_t clock() const { return clock_; }

    // The next number of the generator that `disturb` has set.
    uint64_t random(uint64_t limit) { return chance_.below(limit); }

    // Runs a body for each process until all have returned. An error of one of them is thrown on; the others are given
    // up then.
    void run(const std::vector<Body>& bodies) {
        failure_ = nullptr;
        idle_rounds_ = 0;
        clock_ = 0;
        const int most_stages = stages_.most();
        has_stages_ = most_stages > 0;
        idle_limit_ = patience_ + turns_a_stage * most_stages + (pauses_.any() ? 2 * SidePauses::most_turns : 0);
        pauses_.next_start();
        for (std::size_t k = 0; k < processes_.size(); ++k) {
            processes_[k]->start(bodies[k]);
        }
        LoopOfKernel loop;
        while (failure_ == nullptr && round()) {
        }
        if (failure_ != nullptr) {
            abort();
        }
        running_ = nullptr;
        loop.resume();
        if (failure_ != nullptr) {
            std::rethrow_exception(failure_);
        }
    }

    void wait(const std::string& stream, bool reads) override {
        running_->waits_for(stream, reads ? Waits::Word : Waits::Room);
        suspend();
        running_->due = clock_;
    }

    // A process that moves no word is suspended once per loop iteration: at the stream that it polled first.
    void polled(const std::string& stream) override {
        if (counts_clocks_) {
            return;
        }
        Process& process = *running_;
        const bool moved = process.transfers != transfers_;
        if (!moved && process.asked != &stream && ++process.others < most_others) {
            return;
        }
        if (!moved) {
            process.waits_for(stream, Waits::Perhaps);
            suspend();
        }
        process.transfers = transfers_;
        process.asked = &stream;
        process.others = 0;
    }

   protected:
    // Outside of counted loops a clock has one use of each stream.
    void await_clock(const std::string& stream) override {
#ifdef BFPGA_WAIVERS_CHECKED
        Process& process = *running_;
        const PipelinedLoop& loop = *PipelinedLoop::running();
        const int64_t since = loop.since(process.moment);
        const bool again = process.used.count(&stream) != 0;
        const int64_t clocks = since < 0 ? 1 : since > 0 ? since : again ? 1 : 0;
        process.moment = loop.now();
        process.due += clocks;
        if (clocks > 0) {
            process.used.clear();
        }
        process.used.insert(&stream);
        while (process.due > clock_) {
            process.waits_for(stream, Waits::Clock);
            suspend();
        }
#else
        static_cast<void>(stream);
#endif
    }

   private:
    enum class Waits { Nothing, Word, Room, Perhaps, Clock };

    struct Process final : LoopStages {
        Process(ProcessScheduler& own, const std::string& text) : scheduler(own), name(text), coroutine(stack_bytes) {}

        void start(const Body& work) {
            body = &work;
            waits = Waits::Nothing;
            transfers = ~static_cast<uint64_t>(0);
            asked = nullptr;
            others = 0;
            moment = 0;
            due = 0;
            used.clear();
            coroutine.start(&Process::enter, this);
        }

        void waits_for(const std::string& name_of_stream, Waits what) {
            stream = &name_of_stream;
            waits = what;
        }

        int stages_of(const char* label) override {
            return scheduler.has_stages_ ? scheduler.stages_.of(name, label) : 0;
        }

        static void enter(void* self) { static_cast<Process*>(self)->execute(); }

        void execute() {
            NoLoop own(*this);
            if (scheduler.failure_ != nullptr) {
                return;
            }
            try {
                (*body)();
            } catch (const ProcessAborted&) {
            } catch (...) {
                scheduler.failure_ = std::current_exception();
            }
        }

        ProcessScheduler& scheduler;
        const std::string name;
        Coroutine coroutine;
        const Body* body = nullptr;
        const PipelinedLoop* loop = nullptr;  // in which it was suspended
        const std::string* stream = nullptr;
        Waits waits = Waits::Nothing;
        // Transfers when the process was suspended or last polled a stream; that stream; those it has polled since.
        uint64_t transfers = 0;
        const std::string* asked = nullptr;
        int others = 0;
        // Where clocks are counted: the iteration in which it used a stream last, its clock, the streams used in it.
        int64_t moment = 0;
        int64_t due = 0;
        std::set<const std::string*> used;
    };

    // Every process once; whether one is left.
    bool round() {
        const uint64_t before = transfers_;
        bool left = false;
        bool asks = false;  // one of them may do something without a word of a stream
        ++clock_;
        for (std::size_t k = 0; k < processes_.size(); ++k) {
            Process& process = *processes_[disturbs_ ? random(processes_.size()) : k];
            if (process.coroutine.running() && failure_ == nullptr && may_go_on(process)) {
                resume(process);
            }
        }
        for (const std::unique_ptr<Process>& process : processes_) {
            left = left || process->coroutine.running();
            asks = asks || (process->coroutine.running() &&
                            (process->waits == Waits::Perhaps || process->waits == Waits::Clock));
        }
        idle_rounds_ = transfers_ == before ? idle_rounds_ + 1 : 0;
        if (failure_ == nullptr && left && idle_rounds_ > (asks || any_order() ? idle_limit_ : 0)) {
            nothing_moves();
        }
        return left;
    }

    // Whether a process may have to wait although a word or room is there.
    bool any_order() const { return disturbs_ || pauses_.any(); }

    // A process that waits for a stream cannot before something has moved.
    bool may_go_on(const Process& process) const {
        if (process.waits == Waits::Clock) {
            return process.due <= clock_ || failure_ != nullptr;
        }
        const bool waits = process.waits == Waits::Word || process.waits == Waits::Room;
        return !waits || any_order() || process.transfers != transfers_;
    }

    void resume(Process& process) {
        running_ = &process;
        process.coroutine.resume();
    }

    void suspend() {
        Process* self = running_;
        LoopOfKernel loop;
        self->transfers = transfers_;
        self->loop = loop.loop();
        self->coroutine.suspend();
        self->waits = Waits::Nothing;
        loop.resume();
        if (failure_ != nullptr) {
            throw ProcessAborted();
        }
    }

    // All wait: for an outside port, or for each other.
    void nothing_moves() {
        idle_rounds_ = 0;
        try {
            for (OutsideEnd* end : ends_) {
                if (end->starves()) {
                    end->await();
                    moved();
                    return;
                }
            }
            throw StreamError("the processes of the kernel wait for each other: " + waiting());
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    std::string waiting() const {
        std::string text;
        for (const std::unique_ptr<Process>& process : processes_) {
            if (process->coroutine.running()) {
                text += (text.empty() ? "`" : ", `") + process->name + "` " + loop_of(*process) + reason(*process);
            }
        }
        return text;
    }

    // In which loop it waits, if a pipeline may be why.
    static std::string loop_of(const Process& process) {
        const PipelinedLoop* const loop = process.loop;
        if (loop == nullptr || loop->stages() == 0) {
            return "";
        }
        return "in loop `" + std::string(loop->name()) + "` of " + std::to_string(loop->stages()) + " stages, with " +
               std::to_string(loop->under_way()) + " words under way, ";
    }

    static std::string reason(const Process& process) {
        if (process.stream == nullptr) {
            return "has not begun";
        }
        const std::string stream = "`" + *process.stream + "`";
        switch (process.waits) {
            case Waits::Word:
                return "reads " + stream + ", which is empty";
            case Waits::Room:
                return "writes " + stream + ", which is full";
            default:
                return "looks for a word of " + stream;
        }
    }

    // Every process that has not returned unwinds.
    void abort() {
        const std::exception_ptr first = failure_;
        for (const std::unique_ptr<Process>& process : processes_) {
            while (process->coroutine.running()) {
                resume(*process);
            }
        }
        failure_ = first;
    }

    // Stack of a process: pages that are never touched cost nothing.
    static constexpr std::size_t stack_bytes = std::size_t(1) << 20;
    // A process polls fewer streams in one iteration of its loop.
    static constexpr int most_others = 16;
    // Rounds in which a process that waits for nothing has moved its pipeline on by a stage, in any order.
    static constexpr int turns_a_stage = 16;

    const int patience_;
    std::vector<std::unique_ptr<Process>> processes_;
    std::vector<OutsideEnd*> ends_;
    Process* running_ = nullptr;
    std::exception_ptr failure_;
    StagesOfLoops stages_;
    PausesOfStreams pauses_;
    Chance chance_{0};
    int idle_rounds_ = 0;
    int idle_limit_ = 0;
    int64_t clock_ = 0;
};

}  // namespace bfpga
