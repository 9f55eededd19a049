// `hls::stream` outside the vendor's tool, under the vendor's name: a FIFO that never blocks for ever.
//
// Reading an empty stream or writing a full one throws a sentence that names the stream and what its user waits for; a
// stream that joins two processes lets the others run instead. A stream without a depth takes every word, as the
// vendor's does in C simulation; it records its peak occupancy, which is the depth that hardware needs. The vendor's
// tool has a header of this name and never includes this one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/pipelined_loop.hpp"
#include "bfpga/simulation/pauses_of_streams.hpp"

// What only this stream has: `expect`, `peak_occupancy`, `join`, `part`, `clear`, `name`.
#define BFPGA_STREAM_SHIM

namespace bfpga {

// The scheduler of processes that are joined by streams. A stream without one stops its user with an error where it
// would have to wait.
class StreamWaits {
   public:
    virtual ~StreamWaits() {}

    // The current process can go on only when `stream` has a word (`reads`) or room for one: runs the others.
    virtual void wait(const std::string& stream, bool reads) = 0;
    // The process found `stream` empty, or full, and goes on without moving a word: runs the others if it does nothing
    // else.
    virtual void polled(const std::string& stream) = 0;
    // A word entered or left a stream.
    void moved() { ++transfers_; }
    // The process that runs uses `stream` now; where clocks are counted it waits until its clock has come.
    void uses(const std::string& stream) {
        if (counts_clocks_) {
            await_clock(stream);
        }
    }
    // The loop that keeps what the process writes now in its pipeline; null if words are there at once.
    PipelinedLoop* keeper() const { return has_stages_ ? deep_loop() : nullptr; }
    // How one side of `stream` pauses, its reader's or its writer's.
    virtual SidePauses pauses(const std::string&, bool) const { return SidePauses(); }

    uint64_t transfers() const { return transfers_; }
    bool disturbs() const { return disturbs_; }

   protected:
    virtual void await_clock(const std::string&) {}

    uint64_t transfers_ = 0;
    bool disturbs_ = false;
    bool counts_clocks_ = false;
    bool has_stages_ = false;

   private:
    static PipelinedLoop* deep_loop() {
        PipelinedLoop* const loop = PipelinedLoop::running();
        return loop != nullptr && loop->stages() > 0 ? loop : nullptr;
    }
};

}  // namespace bfpga

namespace hls {

template <class T>
class stream : private bfpga::WordUnderWay {
   public:
    explicit stream(const char* name, std::size_t depth = unlimited)
        : name_(name), depth_(depth), ring_(first_capacity(depth)) {}
    virtual ~stream() {}
    // A stream is a piece of hardware: it is neither copied nor moved.
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    // What the next reads are for: "<count> more <what>".
    void expect(long long count, const std::string& what) {
        expected_ = count;
        what_ = what;
    }

    // Its ends are processes that `waits` runs.
    void join(bfpga::StreamWaits& waits) {
        waits_ = &waits;
        reader_ = waits.pauses(name_, true);
        writer_ = waits.pauses(name_, false);
    }
    // Its ends are such processes no longer.
    void part() {
        waits_ = nullptr;
        reader_ = writer_ = bfpga::SidePauses();
    }

    // Clears its words; from now on it holds as many as `depth`.
    void clear(std::size_t depth) {
        depth_ = depth;
        first_ = 0;
        held_ = 0;
        under_way_ = 0;
        ring_.resize(first_capacity(depth_));
    }

    // Words that it holds.
    std::size_t words() const { return held_; }

    T read() {
        if (waits_ != nullptr) {
            begin_use();
            await(true);
        } else if (held_ == 0) {
            throw bfpga::StreamError("stream `" + name_ + "` is empty: the kernel waits for " +
                                     std::to_string(expected_) + " more " + what_);
        }
        return take();
    }

    // Whether there was a word, which `value` has then.
    bool read_nb(T& value) {
        begin_use();
        if ((held_ == 0 || reader_.pauses()) && !offered_when_polled(true)) {
            return false;
        }
        value = take();
        return true;
    }

    void write(const T& value) {
        if (keep(value)) {
            return;
        }
        if (waits_ != nullptr) {
            begin_use();
            await(false);
        } else if (!has_room()) {
            throw bfpga::StreamError("stream `" + name_ + "` is full: nobody reads its " + std::to_string(depth_) +
                                     " words");
        }
        put(value);
    }

    // Whether there was room for the word, which the stream has then.
    bool write_nb(const T& value) {
        begin_use();
        if ((!has_room() || writer_.pauses()) && !offered_when_polled(false)) {
            return false;
        }
        if (keep(value)) {
            writer_.moved();
        } else {
            put(value);
        }
        return true;
    }

    const std::string& name() const { return name_; }
    bool empty() const { return held_ == 0 || reader_.pauses(); }
    bool full() const { return !has_room() || writer_.pauses(); }
    std::size_t peak_occupancy() const { return peak_; }

   private:
    static constexpr std::size_t unlimited = static_cast<std::size_t>(-1);

    // Deep streams take memory when they need it.
    static std::size_t first_capacity(std::size_t depth) { return depth < 64 ? depth : 64; }

    void begin_use() const {
        if (waits_ != nullptr) {
            waits_->uses(name_);
        }
    }

    // Words in flight in its writer's pipeline have their room: it may send no more than that.
    bool has_room() const { return held_ + under_way_ < depth_; }

    // Other processes run where this one found no word, or no room; whether there is one behind them. A pause goes on.
    __attribute__((noinline)) bool offered_when_polled(bool reads) {
        const bool pauses = reads ? held_ != 0 : has_room();
        if (waits_ != nullptr) {
            waits_->polled(name_);
        }
        return !pauses && (reads ? held_ != 0 && !reader_.pauses() : has_room() && !writer_.pauses());
    }

    void await(bool reads) {
        while (reads ? held_ == 0 || reader_.pauses() : held_ >= depth_ || writer_.pauses()) {
            waits_->wait(name_, reads);
        }
    }

    T take() {
        const T value = ring_[first_];
        first_ = first_ + 1 == ring_.size() ? 0 : first_ + 1;
        --held_;
        reader_.moved();
        expected_ -= expected_ > 1 ? 1 : 0;
        count_transfer();
        return value;
    }

    void put(const T& value) {
        place(value);
        count_put();
    }

    // Whether the word enters the pipeline of its writer: after those already held.
    bool keep(const T& value) {
        bfpga::PipelinedLoop* const loop = waits_ == nullptr ? nullptr : waits_->keeper();
        if (loop == nullptr) {
            return false;
        }
        place(value);
        ++under_way_;
        loop->keep(*this);
        return true;
    }

    void land() override {
        begin_use();
        await(false);
        --under_way_;
        count_put();
    }

    void place(const T& value) {
        const std::size_t words = held_ + under_way_;
        if (words == ring_.size()) {
            grow();
        }
        const std::size_t end = first_ + words;
        ring_[end < ring_.size() ? end : end - ring_.size()] = value;
    }

    void count_put() {
        ++held_;
        writer_.moved();
        peak_ = held_ > peak_ ? held_ : peak_;
        count_transfer();
    }

    void count_transfer() {
        if (waits_ != nullptr) {
            waits_->moved();
        }
    }

    void grow() {
        std::vector<T> larger(2 * ring_.size());
        for (std::size_t k = 0; k < ring_.size(); ++k) {
            larger[k] = ring_[(first_ + k) % ring_.size()];
        }
        ring_.swap(larger);
        first_ = 0;
    }

    std::string name_;
    std::size_t depth_;
    bfpga::StreamWaits* waits_ = nullptr;
    mutable bfpga::SidePauses reader_, writer_;
    std::vector<T> ring_;
    std::size_t first_ = 0;
    std::size_t held_ = 0;
    std::size_t under_way_ = 0;
    std::size_t peak_ = 0;
    long long expected_ = 1;
    std::string what_ = "words";
};

}  // namespace hls
