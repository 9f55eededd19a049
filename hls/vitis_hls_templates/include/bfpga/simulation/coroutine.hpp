// A function that can be suspended and resumed, for simulations of a kernel with other hardware: a kernel that waits
// for a stream yields the processor to the model of the board.
//
// One coroutine at a time runs on the thread that resumed it; no threads, so every run is repeatable.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace bfpga {

#if defined(__x86_64__)

// A suspension point of a thread: its stack, with the callee-saved registers on it. `swapcontext` would query the
// system for its signal mask each time, which takes longer than a process of a kernel runs.
class StackContext {
   public:
    // The place where `function(argument)` begins on an own stack; it never returns.
    void prepare(void* stack, std::size_t size, void (*function)(void*), void* argument) {
        uintptr_t* top = reinterpret_cast<uintptr_t*>((reinterpret_cast<uintptr_t>(stack) + size) & ~uintptr_t(15));
        *--top = 0;  // where it would return to
        *--top = reinterpret_cast<uintptr_t>(&StackContext::begin);
        *--top = 0;                                      // rbp
        *--top = 0;                                      // rbx
        *--top = reinterpret_cast<uintptr_t>(function);  // r12
        *--top = reinterpret_cast<uintptr_t>(argument);  // r13
        *--top = 0;                                      // r14
        *--top = 0;                                      // r15
        pointer_ = top;
    }

    // Resumes `to`; returns when this context is resumed.
    void leave_for(StackContext& to) { change(&pointer_, to.pointer_); }

   private:
    __attribute__((naked, noinline)) static void change(void**, void*) {
        __asm__ volatile(
            "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
            "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
            "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
    }

    __attribute__((naked, noinline)) static void begin() { __asm__ volatile("movq %r13, %rdi\n\tjmpq *%r12"); }

    void* pointer_ = nullptr;
};

#else

class StackContext {
   public:
    void prepare(void* stack, std::size_t size, void (*function)(void*), void* argument) {
        function_ = function;
        argument_ = argument;
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack;
        context_.uc_stack.ss_size = size;
        context_.uc_link = nullptr;
        const uint64_t self = reinterpret_cast<uintptr_t>(this);
        makecontext(&context_, reinterpret_cast<void (*)()>(&StackContext::begin), 2, static_cast<unsigned>(self),
                    static_cast<unsigned>(self >> 32));
    }

    void leave_for(StackContext& to) { swapcontext(&context_, &to.context_); }

   private:
    // `makecontext` passes integers only: the pointer comes in two halves.
    static void begin(unsigned low, unsigned high) {
        const uint64_t address = static_cast<uint64_t>(high) << 32 | low;
        StackContext* self = reinterpret_cast<StackContext*>(static_cast<uintptr_t>(address));
        self->function_(self->argument_);
    }

    void (*function_)(void*) = nullptr;
    void* argument_ = nullptr;
    ucontext_t context_;
};

#endif

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
        inside_.prepare(stack_, size_, &Coroutine::enter, this);
        running_ = true;
    }

    // Runs until the body suspends itself or returns; no exception may leave the body.
    void resume() { outside_.leave_for(inside_); }

    // Called by the body: returns to the caller of `resume`.
    void suspend() { inside_.leave_for(outside_); }

    // Between `start` and the end of the body.
    bool running() const { return running_; }

   private:
    static constexpr std::size_t guard_bytes = 65536;

    static void enter(void* coroutine) {
        Coroutine* self = static_cast<Coroutine*>(coroutine);
        self->body_(self->argument_);
        self->running_ = false;
        self->suspend();  // for good: it runs no more
    }

    std::size_t size_;
    void* stack_;
    StackContext inside_;
    StackContext outside_;
    void (*body_)(void*) = nullptr;
    void* argument_ = nullptr;
    bool running_ = false;
};

}  // namespace bfpga
