// Streams of a kernel that is simulated with other hardware: beats arrive and leave piece by piece, and a kernel that
// can neither read nor write is suspended.
#pragma once
#include <string>

#include "bfpga/numeric/waivers.hpp"
#include "bfpga/ports/packets.hpp"
#include "bfpga/simulation/coroutine.hpp"

namespace bfpga {

// Why a start is not running.
enum class StartState : int32_t {
    Finished = 0,
    NeedsInput = 1,
    NeedsWeights = 2,
    NeedsSpace = 3,
    Failed = 4,
    NeedsExponent = 5,
    NeedsReader = 6
};

// Thrown through a kernel whose start is given up.
struct StartAborted {};

// What the streams of a kernel and its board share.
struct Suspension {
    explicit Suspension(std::size_t stack_bytes) : coroutine(stack_bytes) {}

    void wait(StartState state) {
        reason = state;
        LoopOfKernel loop;
        coroutine.suspend();
        loop.resume();
        if (aborted) {
            throw StartAborted();
        }
    }

    Coroutine coroutine;
    StartState reason = StartState::Finished;
    bool aborted = false;
};

template <int Bits>
class FedSource {
   public:
    FedSource(Suspension& suspension, StartState reason) : suspension_(suspension), reason_(reason) {}

    // Gives the beats that may be read until the next suspension.
    void feed(const uint8_t* bytes, uint64_t size) {
        begin_ = next_ = bytes;
        end_ = bytes + size / (Bits / 8) * (Bits / 8);
    }

    void expect(long long count, const char* what, int number) {
        expected_ = count;
        what_ = what;
        number_ = number;
    }

    // Whether a beat is there.
    bool ready() const { return next_ != end_; }

    // Suspends the kernel until a beat is there.
    void await() {
        while (!ready()) {
            suspension_.wait(reason_);
        }
    }

    bits_t<Bits> read() {
        await();
        const bits_t<Bits> beat = BeatBytes<Bits>::get(next_);
        next_ += Bits / 8;
        ++beats_;
        expected_ -= expected_ > 1 ? 1 : 0;
        return beat;
    }

    // Beats read so far, in all pieces.
    uint32_t beats() const { return beats_; }
    uint64_t used() const { return static_cast<uint64_t>(next_ - begin_); }

    std::string wanted() const {
        return std::to_string(expected_) + " more beats of " + what_ + " " + std::to_string(number_);
    }

   private:
    Suspension& suspension_;
    StartState reason_;
    const uint8_t* begin_ = nullptr;
    const uint8_t* next_ = nullptr;
    const uint8_t* end_ = nullptr;
    long long expected_ = 1;
    const char* what_ = "descriptor";
    int number_ = 0;
    uint32_t beats_ = 0;
};

template <int Bits>
class FedSink {
   public:
    explicit FedSink(Suspension& suspension, StartState reason = StartState::NeedsSpace)
        : suspension_(suspension), reason_(reason) {}

    // Gives the space that may be written until the next suspension.
    void provide(uint8_t* bytes, uint64_t capacity) {
        begin_ = next_ = bytes;
        end_ = bytes + capacity / (Bits / 8) * (Bits / 8);
        ended_ = false;
    }

    // Whether there is room for a beat. A beat with TLAST closes the space, so that one piece never holds parts of two
    // packets.
    bool ready() const { return next_ != end_ && !ended_; }

    // Suspends the kernel until there is room.
    void await() {
        while (!ready()) {
            suspension_.wait(reason_);
        }
    }

    void write(const bits_t<Bits>& beat, bool last) {
        await();
        BeatBytes<Bits>::set(next_, beat);
        next_ += Bits / 8;
        ++beats_;
        ended_ = last;
    }

    // Beats written so far, in all pieces.
    uint32_t beats() const { return beats_; }
    uint64_t written() const { return static_cast<uint64_t>(next_ - begin_); }
    bool ended() const { return ended_; }

   private:
    Suspension& suspension_;
    StartState reason_;
    uint8_t* begin_ = nullptr;
    uint8_t* next_ = nullptr;
    uint8_t* end_ = nullptr;
    bool ended_ = false;
    uint32_t beats_ = 0;
};

}  // namespace bfpga
