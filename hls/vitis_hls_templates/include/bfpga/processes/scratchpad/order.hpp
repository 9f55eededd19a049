// When an operation may begin: its dependences have ended and passed the pipeline.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/processes/scratchpad/places.hpp"

namespace bfpga {

// Operations of a start that have ended, modulo 2**16.
struct FinishedOperations {
    using count_t = uint_t<16>;

    count_t loads, results, stores;

    void clear() {
#pragma HLS INLINE
        loads = 0;
        results = 0;
        stores = 0;
    }

    // Whether a count has reached what an operation needs.
    static bool reached(count_t count, count_t needed) {
#pragma HLS INLINE
        return static_cast<count_t>(count - needed) < 32768;
    }

    static void add(count_t& count, bool one) {
#pragma HLS INLINE
        if (one) {
            count = static_cast<count_t>(count + 1);
        }
    }
};

// `Begins`: cycles from the begin of an operation to its first read.
template <class Config, int Begins = 0>
class StartOrder {
   public:
    void clear() {
#pragma HLS INLINE
        pending_ = false;
        ready_ = false;
        met_ = false;
        loads_ = false;
        results_ = false;
        stores_ = false;
        guard_ = whole_guard;
    }

    bool pending() const { return pending_; }
    // Whether all that the operation waits for has ended.
    bool met(const FinishedOperations& now) const {
#pragma HLS INLINE
        return FinishedOperations::reached(now.loads, needed_.loads) &&
               FinishedOperations::reached(now.results, needed_.results) &&
               FinishedOperations::reached(now.stores, needed_.stores);
    }

    // An operation waits from now on. The comparison in this cycle was for the one before it.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        loads_ = false;
        results_ = false;
        stores_ = false;
        needed_.loads = static_cast<count_t>(d.after_loads);
        needed_.results = static_cast<count_t>(d.after_results);
        needed_.stores = static_cast<count_t>(d.after_stores);
        pending_ = true;
    }

    // Whether the operation begins in this cycle.
    bool begins() const { return ready_; }

    // One cycle; `may`: the executing part has all that it needs of the operation. Each comparison is a register: the
    // flags lag, which is a part of the guard. A guard that has passed stays so.
    void step(const FinishedOperations& now, bool may) {
#pragma HLS INLINE
        const bool begins = ready_;
        const bool passed = guard_ == 1;
        const uint_t<5> left = passed ? guard_ : static_cast<uint_t<5>>(guard_ - 1);
        ready_ = !begins && met_ && passed && may;
        guard_ = !begins && met_ ? left : static_cast<uint_t<5>>(whole_guard);
        met_ = !begins && pending_ && loads_ && results_ && stores_;
        loads_ = FinishedOperations::reached(now.loads, needed_.loads);
        results_ = FinishedOperations::reached(now.results, needed_.results);
        stores_ = FinishedOperations::reached(now.stores, needed_.stores);
        if (begins) {
            pending_ = false;
        }
    }

   private:
    using count_t = FinishedOperations::count_t;
    // Cycles from the last access of an operation to the count of it being compared: the engine's end, the count, the
    // comparison, all of them.
    static constexpr int lag = 4 + Begins;
    static constexpr int whole_guard = ScratchpadTypes<Config>::start_guard - lag;

    FinishedOperations needed_;
    bool pending_, ready_, met_, loads_, results_, stores_;
    uint_t<5> guard_;
};

}  // namespace bfpga
