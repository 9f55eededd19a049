// A function that can be left in its middle and gone on with later, for simulations of a kernel beside other hardware:
// a kernel that waits for a stream gives the processor back to the model of the board.
//
// One coroutine at a time runs on the thread that resumed it; no threads, so every run is repeatable.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace bfpga {

class Coroutine {
   public:
    explicit Coroutine(std::size_t stack_bytes) : size_(stack_bytes) {
        // Pages are given by the system when they are touched; the lowest one stays closed and stops an overflow.
        stack_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack_ == MAP_FAILED || mprotect(stack_, guard_bytes, PROT_NONE) != 0) {
            throw std::bad_alloc();
        }
    }
    ~Coroutine() { munmap(stack_, size_); }
    Coroutine(const Coroutine&) = delete;
    Coroutine& operator=(const Coroutine&) = delete;

    // Prepares a call of `body(argument)`; it runs at the next `resume`. The one before must have finished.
    void start(void (*body)(void*), void* argument) {
        body_ = body;
        argument_ = argument;
        getcontext(&inside_);
        inside_.uc_stack.ss_sp = stack_;
        inside_.uc_stack.ss_size = size_;
        inside_.uc_link = &outside_;
        const uintptr_t self = reinterpret_cast<uintptr_t>(this);
        makecontext(&inside_, reinterpret_cast<void (*)()>(&Coroutine::enter), 2, static_cast<unsigned>(self),
                    static_cast<unsigned>(static_cast<uint64_t>(self) >> 32));
        running_ = true;
    }

    // Runs until the body suspends itself or returns; no exception may leave the body.
    void resume() { swapcontext(&outside_, &inside_); }

    // Called by the body: back to who resumed.
    void suspend() { swapcontext(&inside_, &outside_); }

    // Between `start` and the end of the body.
    bool running() const { return running_; }

   private:
    static constexpr std::size_t guard_bytes = 65536;

    // `makecontext` passes integers only: the pointer comes in two halves.
    static void enter(unsigned low, unsigned high) {
        const uint64_t address = static_cast<uint64_t>(high) << 32 | low;
        Coroutine* self = reinterpret_cast<Coroutine*>(static_cast<uintptr_t>(address));
        self->body_(self->argument_);
        self->running_ = false;
    }

    std::size_t size_;
    void* stack_;
    ucontext_t inside_;
    ucontext_t outside_;
    void (*body_)(void*) = nullptr;
    void* argument_ = nullptr;
    bool running_ = false;
};

}  // namespace bfpga
