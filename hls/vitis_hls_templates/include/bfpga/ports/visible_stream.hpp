// Streams for tools that read a kernel as LLVM IR, without any vendor's header: every transfer is one volatile access.
//
// clang keeps each volatile access, in order and at full width, and it changes no other memory. So in the IR a read of
// a stream of N bits is `load volatile iN`, a write `store volatile iN`; the pointer identifies the stream, the debug
// information (`read`, `write`, `empty`, `full`) the operation. Nothing blocks: a scheduling tool adds the handshake.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// A beat of an AXI stream; `last` is TLAST.
template <int N>
struct axis_word {
    bits_t<N> data;
    bool last;
};

// One direction of a stream: a place where a word appears or is put.
template <class T>
class VisiblePort {
    using word_t = bits_t<8 * static_cast<int>(sizeof(T))>;

   public:
    T read() const {
#pragma HLS INLINE
        const word_t word = word_;
        return __builtin_bit_cast(T, word);
    }

    void write(const T& value) {
#pragma HLS INLINE
        word_ = __builtin_bit_cast(word_t, value);
    }

   private:
    volatile word_t word_;
};

template <int N>
class VisiblePort<axis_word<N>> {
   public:
    axis_word<N> read() const {
#pragma HLS INLINE
        const axis_word<N> word = {data_.read(), last_.read()};
        return word;
    }

    void write(const axis_word<N>& word) {
#pragma HLS INLINE
        data_.write(word.data);
        last_.write(word.last);
    }

   private:
    VisiblePort<bits_t<N>> data_;
    VisiblePort<bool> last_;
};

// What kernels use of `hls::stream`.
template <class T>
class VisibleStream {
   public:
    VisibleStream() {}
    explicit VisibleStream(const char*) {}
    // A stream is a piece of hardware: it is neither copied nor moved.
    VisibleStream(const VisibleStream&) = delete;
    VisibleStream& operator=(const VisibleStream&) = delete;

    T read() {
#pragma HLS INLINE
        return incoming_.read();
    }

    void write(const T& value) {
#pragma HLS INLINE
        outgoing_.write(value);
    }

    bool empty() const {
#pragma HLS INLINE
        return empty_;
    }

    bool full() const {
#pragma HLS INLINE
        return full_;
    }

    bool read_nb(T& value) {
#pragma HLS INLINE
        if (empty()) {
            return false;
        }
        value = read();
        return true;
    }

    bool write_nb(const T& value) {
#pragma HLS INLINE
        if (full()) {
            return false;
        }
        write(value);
        return true;
    }

   private:
    VisiblePort<T> incoming_;
    VisiblePort<T> outgoing_;
    volatile bool empty_;
    volatile bool full_;
};

}  // namespace bfpga
