// Pipelined loops in a simulation, which counts their iterations for two purposes.
//
// Stages: in a pipeline of `stages` stages a word that iteration i writes is in its stream when iteration i + `stages`
// begins, or when the loop has ended, and a stall of the loop stalls all of them: the default of the vendor's tool.
// Reads stay in their iteration. Without stages, the default, a word is there at once.
//
// Waivers of dependences (numeric/waivers.hpp), with BFPGA_WAIVER_CHECKS.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>

#ifdef BFPGA_WAIVER_CHECKS
#define BFPGA_WAIVERS_CHECKED
#include <atomic>
#endif

namespace bfpga {

// A word on its way through a pipeline.
class WordUnderWay {
   public:
    // Where it leaves the pipeline; waits until there is room.
    virtual void land() = 0;

   protected:
    ~WordUnderWay() {}
};

// Gives the number of stages of a process's loops.
class LoopStages {
   public:
    virtual int stages_of(const char* loop) = 0;

   protected:
    ~LoopStages() {}
};

// One execution of a loop, the innermost that runs. A moment is the number of the execution and of its iteration.
class PipelinedLoop {
   public:
    explicit PipelinedLoop(const char* name)
        : PipelinedLoop(name, running(), running() == nullptr ? nullptr : running()->process_, true) {}
    // Words in flight when a start is aborted are lost.
    ~PipelinedLoop() noexcept(false) {
        try {
            if (!std::uncaught_exception()) {
                ended();
            }
        } catch (...) {
            running() = outer_;
            throw;
        }
        running() = outer_;
    }
    PipelinedLoop(const PipelinedLoop&) = delete;
    PipelinedLoop& operator=(const PipelinedLoop&) = delete;

    void iteration() {
        if (waivers_checked || stages_ > 0) {
            ++now_;
            land(now_ - stages_);
        }
    }

    // All that was under way has landed; what follows is written at once.
    void ended() {
        if (stages_ > 0) {
            land(now_);
        }
        stages_ = 0;
    }

    // A word that this iteration writes.
    void keep(WordUnderWay& word) { under_way_.push_back({now_, &word}); }

    const char* name() const { return name_; }
    int stages() const { return stages_; }
    std::size_t under_way() const { return under_way_.size(); }
    int64_t now() const { return now_; }
    // Iterations since `moment`; negative if it is of another execution.
    int64_t since(int64_t moment) const { return moment >> bits == now_ >> bits ? now_ - moment : -1; }
    static int64_t number(int64_t moment) { return moment & ((static_cast<int64_t>(1) << bits) - 1); }

    // The loop of this thread; a kernel that is suspended takes its own with it.
    static PipelinedLoop*& running() {
        static thread_local PipelinedLoop* loop = nullptr;
        return loop;
    }

   private:
    friend class NoLoop;

    struct Kept {
        int64_t moment;
        WordUnderWay* word;
    };

    static constexpr int bits = 32;  // of the number of an iteration
#ifdef BFPGA_WAIVERS_CHECKED
    static constexpr bool waivers_checked = true;
#else
    static constexpr bool waivers_checked = false;
#endif

    PipelinedLoop(const char* name, PipelinedLoop* outer, LoopStages* process, bool pipelined)
        : name_(name), outer_(outer), process_(process), now_(begins()) {
        if (process_ != nullptr && pipelined) {
            stages_ = process_->stages_of(name);
        }
        if (outer_ != nullptr && outer_->stages_ > 0) {
            outer_->land(outer_->now_);  // a loop within a loop overlaps with nothing of it
        }
        running() = this;
    }

    void land(int64_t until) {
        while (!under_way_.empty() && under_way_.front().moment <= until) {
            WordUnderWay* const word = under_way_.front().word;
            word->land();
            under_way_.pop_front();
        }
    }

    // Executions are numbered over all kernels and threads, so no moment is of two of them.
    static int64_t begins() {
#ifdef BFPGA_WAIVERS_CHECKED
        static std::atomic<int64_t> executions(0);
        return (executions.fetch_add(1, std::memory_order_relaxed) + 1) << bits;
#else
        return 0;
#endif
    }

    const char* name_;
    PipelinedLoop* outer_;
    LoopStages* process_;
    int stages_ = 0;
    int64_t now_;
    std::list<Kept> under_way_;
};

// A place between two loops: nothing there overlaps. Where a process begins, the loop that another one is in is not
// this one's.
class NoLoop {
   public:
    NoLoop() : loop_("between loops", PipelinedLoop::running(), nullptr, false) {}
    explicit NoLoop(LoopStages& process) : loop_("between loops", nullptr, &process, false) {}

   private:
    PipelinedLoop loop_;
};

// The loop of a kernel that is suspended: others run meanwhile.
class LoopOfKernel {
   public:
    LoopOfKernel() : loop_(PipelinedLoop::running()) {}
    const PipelinedLoop* loop() const { return loop_; }
    void resume() const { PipelinedLoop::running() = loop_; }

   private:
    PipelinedLoop* loop_;
};

}  // namespace bfpga
