// Streams between processes: a bounded, named FIFO in simulation, `hls::stream` in synthesis, and with exact integers,
// which no vendor's tool reads, streams whose transfers can be seen in LLVM IR.
//
// A simulated stream never waits for ever: reading an empty one or writing a full one throws a sentence that says which
// stream it was and what its user waits for. It remembers its peak occupancy, which is the depth hardware needs.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"

#if !defined(BFPGA_SIMULATION) && defined(BFPGA_EXACT_INTEGERS)
#include "bfpga/ports/visible_stream.hpp"
#elif !defined(BFPGA_SIMULATION)
#include <hls_stream.h>
#else
#include <stdexcept>
#include <string>
#include <vector>
#endif

namespace bfpga {

#ifdef BFPGA_SIMULATION

// A stream that will never have what its user waits for.
struct StreamError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class T>
class stream {
   public:
    explicit stream(const char* name, std::size_t depth = 2)
        : name_(name), depth_(depth), ring_(first_capacity(depth)) {}
    // A stream is a piece of hardware: it is neither copied nor moved.
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    // What the next reads are for: "<count> more <what>".
    void expect(long long count, const std::string& what) {
        expected_ = count;
        what_ = what;
    }

    T read() {
        if (empty()) {
            throw StreamError("stream `" + name_ + "` is empty: the kernel waits for " + std::to_string(expected_) +
                              " more " + what_);
        }
        const T value = ring_[first_];
        first_ = first_ + 1 == ring_.size() ? 0 : first_ + 1;
        --held_;
        expected_ -= expected_ > 1 ? 1 : 0;
        return value;
    }

    void write(const T& value) {
        if (full()) {
            throw StreamError("stream `" + name_ + "` is full: nobody reads its " + std::to_string(depth_) + " words");
        }
        if (held_ == ring_.size()) {
            grow();
        }
        const std::size_t end = first_ + held_;
        ring_[end < ring_.size() ? end : end - ring_.size()] = value;
        ++held_;
        peak_ = held_ > peak_ ? held_ : peak_;
    }

    bool empty() const { return held_ == 0; }
    bool full() const { return held_ >= depth_; }
    std::size_t peak_occupancy() const { return peak_; }

   private:
    // Deep streams take memory when they need it.
    static std::size_t first_capacity(std::size_t depth) { return depth < 64 ? depth : 64; }

    void grow() {
        std::vector<T> larger(2 * ring_.size() < depth_ ? 2 * ring_.size() : depth_);
        for (std::size_t k = 0; k < held_; ++k) {
            larger[k] = ring_[(first_ + k) % ring_.size()];
        }
        ring_.swap(larger);
        first_ = 0;
    }

    std::string name_;
    std::size_t depth_;
    std::vector<T> ring_;
    std::size_t first_ = 0;
    std::size_t held_ = 0;
    std::size_t peak_ = 0;
    long long expected_ = 1;
    std::string what_ = "words";
};

#elif defined(BFPGA_EXACT_INTEGERS)

template <class T>
using stream = VisibleStream<T>;

#else

template <class T>
using stream = hls::stream<T>;

#endif

// A beat of an AXI stream; `last` is TLAST.
template <int N>
struct axis_word {
    bits_t<N> data;
    bool last;
};

}  // namespace bfpga
