// Parts of the weight stream that an engine reads while it works: a header beat, then words of 32 bits, padded to whole
// beats (docs/engines.md, section 4).
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// The header of a part: what it belongs to, how much follows, and whether the group of kernels ends with it.
struct PartHeader {
    int32_t index;  // image or channel word
    int32_t count;  // segments or active kernels
    bool last;      // of the group
    bool empty;     // the group has no weight at all, and this part nothing else

    template <int Bits>
    static PartHeader decode(const bits_t<Bits>& beat) {
#pragma HLS INLINE
        const uint32_t word = static_cast<uint32_t>(get_signed<32>(beat, 0));
        PartHeader header;
        header.index = static_cast<int32_t>(part(word, PartHeaderFields::index, PartHeaderFields::index_bits));
        header.count = static_cast<int32_t>(part(word, PartHeaderFields::count, PartHeaderFields::count_bits));
        header.last = part(word, PartHeaderFields::last, PartHeaderFields::last_bits) != 0;
        header.empty = part(word, PartHeaderFields::empty, PartHeaderFields::empty_bits) != 0;
        return header;
    }

   private:
    static uint32_t part(uint32_t word, int first, int bits) {
#pragma HLS INLINE
        return word >> first & ((1U << bits) - 1);
    }
};

// The words of a part: a beat is read when its first word is wanted.
template <int Bits, class Source>
class PartWords {
    static constexpr int per_beat = Bits / 32;
    static_assert(Bits % 32 == 0, "a beat of the weight stream holds whole words of 32 bits");

   public:
    explicit PartWords(Source& source) : source_(source) {}

    uint32_t read() {
#pragma HLS INLINE
        if (next_ == 0) {
            beat_ = source_.read();
        }
        uint32_t word = 0;
    Words_Select:
        for (int n = 0; n < per_beat; ++n) {
#pragma HLS UNROLL
            if (next_ == n) {
                word = static_cast<uint32_t>(get_signed<32>(beat_, 32 * n));
            }
        }
        next_ = next_ == per_beat - 1 ? 0 : next_ + 1;
        return word;
    }

    // The part ends: what is left of its last beat is padding.
    void finish() {
#pragma HLS INLINE
        next_ = 0;
    }

   private:
    Source& source_;
    bits_t<Bits> beat_ = 0;
    int32_t next_ = 0;
};

}  // namespace bfpga
