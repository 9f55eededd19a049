// Checksums of the streams: the host's of what it sent, the kernel's of what it read.
//
// A beat is folded to 32 bits by exclusive-or of its words; the sum is rotated by one and the fold added by
// exclusive-or. `bfpga.contract.checksum` is the same in numpy.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

template <int Bits>
class StreamChecksum {
    static_assert(Bits % 32 == 0, "a beat is a whole number of 32-bit words");

   public:
    void add(const bits_t<Bits>& beat) {
#pragma HLS INLINE
        uint32_t fold = 0;
    Words_Fold:
        for (int word = 0; word < Bits / 32; ++word) {
#pragma HLS UNROLL
            fold ^= static_cast<uint32_t>(get_signed<32>(beat, 32 * word));
        }
        // The only value carried from beat to beat: a rotation (wires) and one exclusive-or.
        sum_ = (sum_ << 1 | sum_ >> 31) ^ fold;
    }

    uint32_t value() const { return sum_; }

   private:
    uint32_t sum_ = 0;
};

// A source whose beats are summed as they are read.
template <int Bits, class Source>
class CheckedSource {
   public:
    explicit CheckedSource(Source& source) : source_(source) {}

    bits_t<Bits> read() {
#pragma HLS INLINE
        const bits_t<Bits> beat = source_.read();
        checksum_.add(beat);
        return beat;
    }

    // Whether there was a beat, which `beat` has then.
    bool read_nb(bits_t<Bits>& beat) {
#pragma HLS INLINE
        if (!source_.read_nb(beat)) {
            return false;
        }
        checksum_.add(beat);
        return true;
    }

    void expect(long long count, const char* what, int number) {
#pragma HLS INLINE
        source_.expect(count, what, number);
    }

    uint32_t checksum() const { return checksum_.value(); }

   private:
    Source& source_;
    StreamChecksum<Bits> checksum_;
};

// The checksum of what the host has sent: `own`, of the beats that were read, unless others read them before.
// `any`: whether the start has any.
template <class Source>
uint32_t sent_checksum(Source&, uint32_t own, bool) {
#pragma HLS INLINE
    return own;
}

// A sink whose beats are summed as they are written.
template <int Bits, class Sink>
class CheckedSink {
   public:
    explicit CheckedSink(Sink& sink) : sink_(sink) {}

    void write(const bits_t<Bits>& data, bool last) {
#pragma HLS INLINE
        checksum_.add(data);
        sink_.write(data, last);
    }

    uint32_t checksum() const { return checksum_.value(); }

   private:
    Sink& sink_;
    StreamChecksum<Bits> checksum_;
};

}  // namespace bfpga
