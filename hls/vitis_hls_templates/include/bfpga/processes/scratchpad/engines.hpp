// The parts that execute operations: when each begins and ends.
//
// A computing operation has two sides, and the reading side goes on to the next operation while results of the one
// before are in flight. So its command is taken in pieces: the order as soon as that of the operation before has been
// met, the walk when the last group of pixels has been handed over, the passes when the last read is done, and the
// writing side when all results have been written. Results come back in the order of the operations, so one that has
// ended is always the first of those that have begun.
#pragma once
#include "bfpga/processes/scratchpad/order.hpp"

namespace bfpga {

// The loads or the stores: what the current one waits for, and its work so far.
template <class Config>
class TransferEngine {
   public:
    void clear() {
#pragma HLS INLINE
        order_.clear();
        running_ = false;
    }

    bool free() const { return !order_.pending() && !running_; }
    bool running() const { return running_; }

    void take(const Descriptor& d, int32_t index) {
#pragma HLS INLINE
        order_.take(d);
        index_ = index;
    }

    // Whether an operation waits for others; whether one is running or has all that it waits for.
    bool waits(const FinishedOperations& finished) const { return order_.pending() && !order_.met(finished); }
    bool works(const FinishedOperations& finished) const {
        return running_ || (order_.pending() && order_.met(finished));
    }

    // Whether the waiting operation begins in this cycle, and whether the running one ends; `busy`: its part has steps
    // left. Both are registers, and a part that begins is busy one cycle later.
    bool begins() const { return order_.begins(); }
    bool ends(bool busy) const { return running_ && !busy; }

    // One cycle; `begins` and `ends` as above; `works`: its part makes a step.
    template <class Trace>
    void step(const FinishedOperations& finished, bool begins, bool ends, bool works, Trace& trace) {
#pragma HLS INLINE
        if (ends) {
            trace.finished(static_cast<int>(index_), static_cast<uint32_t>(work_));
        }
        running_ = begins || (running_ && !ends);
        work_ = begins ? static_cast<uint_t<32>>(0) : static_cast<uint_t<32>>(work_ + (works ? 1 : 0));
        order_.step(finished, true);
    }

   private:
    StartOrder<Config> order_;
    bool running_;
    int32_t index_;
    uint_t<32> work_;
};

// The computing operations, one of which may be read while the results of the one before are written.
template <class Config>
class ComputingEngine {
   public:
    // The parts that take the command that has come in.
    struct Takes {
        bool order, walk, reader, writer;
    };

    void clear() {
#pragma HLS INLINE
        order_.clear();
        forget();
        walk_starts_ = false;
        loaded_ = false;
        reading_ = false;
        ahead_ = false;
        ahead_read_ = false;
        read_ = false;
        writer_starts_ = false;
        writing_ = false;
    }

    // Whether all operations that were taken have ended.
    bool idle() const { return !(writer_starts_ | writing_); }

    // Handling of a command in this cycle. `here`: there is one of a computing operation; `walked`: the walk is done.
    // The writing side takes it last: an operation has ended when nothing of it is left.
    Takes takes(bool here, bool walked) const {
#pragma HLS INLINE
        const Takes takes = {here && !order_taken_ && !order_.pending(), here && !walk_taken_ && walked,
                             here && !reader_taken_ && !loaded_ && !reading_, here && idle()};
        simulation_check(!takes.writer || ((takes.order || order_taken_) && (takes.walk || walk_taken_) &&
                                           (takes.reader || reader_taken_)),
                         "an operation", "is written before it is read; order taken:", order_taken_ ? 1 : 0);
        return takes;
    }

    void order(const Descriptor& d) {
#pragma HLS INLINE
        order_.take(d);
    }

    // Whether an operation waits for others; whether one is running or has all that it waits for.
    bool waits(const FinishedOperations& finished) const { return order_.pending() && !order_.met(finished); }
    bool works(const FinishedOperations& finished) const {
        return reading_ || ahead_read_ || read_ || (order_.pending() && order_.met(finished));
    }

    // Whether in this cycle the walk of an operation begins, its reading, and its writing.
    bool walk_starts() const { return walk_starts_; }
    bool begins() const { return order_.begins(); }
    bool writer_starts() const { return writer_starts_; }
    // Whether the reading of an operation ends, and whether the first one of those under way does; `busy`: that side
    // has steps left.
    bool read_ends(bool busy) const { return reading_ & !busy; }
    bool ends(bool busy) const { return writing_ & read_ & !busy; }

    // One cycle; `takes`, `read` and `ends` as above; `works`: the reading side makes a step; `index`: of the command.
    template <class Trace>
    void step(const FinishedOperations& finished, const Takes& takes, bool read, bool ends, bool works, int32_t index,
              Trace& trace) {
#pragma HLS INLINE
        const bool begins = order_.begins();
        if (ends) {
            trace.finished(static_cast<int>(index_), static_cast<uint32_t>(work_));
        }
        if (takes.writer) {
            index_ = index;
        }
        // What was read ahead is the writing side's from now on.
        const bool ahead_read = ahead_ & (ahead_read_ | read);
        if (takes.writer ? ahead_read : read & !ahead_) {
            work_ = read_work_;
        }
        read_work_ = begins ? static_cast<uint_t<32>>(0) : static_cast<uint_t<32>>(read_work_ + (works ? 1 : 0));
        read_ = takes.writer ? ahead_read : (read_ | (read & !ahead_)) & !ends;
        ahead_read_ = ahead_read & !takes.writer;
        ahead_ = (ahead_ | takes.reader) & !takes.writer;
        order_.step(finished, loaded_);
        loaded_ = takes.reader | (loaded_ & !begins);
        reading_ = begins | (reading_ & !read);
        writing_ = writer_starts_ | (writing_ & !ends);
        walk_starts_ = takes.walk;
        writer_starts_ = takes.writer;
        order_taken_ |= takes.order;
        walk_taken_ |= takes.walk;
        reader_taken_ |= takes.reader;
        if (takes.writer) {
            forget();
        }
    }

   private:
    void forget() {
#pragma HLS INLINE
        order_taken_ = false;
        walk_taken_ = false;
        reader_taken_ = false;
    }

    // The nest advances and begins a pass, and its read is a register.
    static constexpr int first_read = 4;

    StartOrder<Config, first_read> order_;
    bool order_taken_, walk_taken_, reader_taken_;  // of the command that has come in
    bool walk_starts_, writer_starts_;
    bool loaded_, reading_;        // the reading side has an operation that has not begun; one that has
    bool ahead_, ahead_read_;      // the writing side has not taken it; all of it has been read
    bool writing_, read_;          // the writing side has an operation; all of it has been read
    int32_t index_;                // that the writing side has
    uint_t<32> work_, read_work_;  // of it; of the one that is read
};

}  // namespace bfpga
