// The queued activation words of the groups of an array that skips zeros of activations.
//
// A word has the channels of one step for one pixel, with the mask of the nonzero ones. Words of zeros are dropped,
// unless something ends with them. A queued word counts from the cycle in which it can be read.
#pragma once
#include "bfpga/memory/word.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/skip_array/window.hpp"

namespace bfpga {

template <class Config>
struct SparseTypes {
    static constexpr int lanes = Config::lanes;
    static constexpr int chunk_steps = Config::skip_chunk / lanes;
    // A segment, the unit of credits, is `segment_steps` steps of a pass; the queues have room for `segments`.
    static constexpr int segments = 4;
    static constexpr int segment_steps = Config::skip_queue / segments;
    static_assert(is_power_of_two(Config::skip_chunk) && is_power_of_two(lanes) && is_power_of_two(Config::skip_queue),
                  "places in chunks, words and queues are put together of bits");
    static_assert(chunk_steps >= 1 && segment_steps >= 1, "a chunk and a segment have a step at least");
    static_assert(Config::rows % 2 == 0, "two rows share a DSP block");
    static_assert(Config::mantissa_bits <= PixelPairs::pixel_bits && Config::weight_bits <= PixelPairs::pixel_bits,
                  "two products share a DSP block only if their factors have 8 bits at most");

    static constexpr int pairs = Config::rows / 2;
    static constexpr int groups = Config::skip_halves * Config::columns;
    // Whether each lane of the only pixel of an operation can have a group: one of a column.
    static constexpr bool may_be_apart = lanes > 1 && lanes <= Config::columns;
    static constexpr int step_bits = chunk_steps > 1 ? bit_length(chunk_steps - 1) : 1;
    static constexpr int lane_bits = bit_length(lanes - 1);
    using mantissa_t = typename Geometry<Config>::mantissa_t;
    using step_t = uint_t<step_bits>;
    using segment_t = uint_t<2>;

    static step_t next(step_t step) {
#pragma HLS INLINE
        return static_cast<step_t>(static_cast<step_t>(step + 1) & static_cast<step_t>(chunk_steps - 1));
    }

    // Whether a segment begins, or ends, with a step of a chunk.
    static bool begins_segment(step_t step) {
#pragma HLS INLINE
        return static_cast<step_t>(step & static_cast<step_t>(segment_mask)) == 0;
    }

    static bool ends_segment(step_t step) {
#pragma HLS INLINE
        return static_cast<step_t>(step & static_cast<step_t>(segment_mask)) == static_cast<step_t>(segment_mask);
    }

    static segment_t next_segment(segment_t segment) {
#pragma HLS INLINE
        return static_cast<segment_t>(static_cast<segment_t>(segment + 1) & static_cast<segment_t>(segments - 1));
    }

   private:
    static constexpr int segment_mask = (segment_steps < chunk_steps ? segment_steps : chunk_steps) - 1;
};

// A word of a queue.
template <class Config>
struct ActivationWord {
    using T = SparseTypes<Config>;
    static constexpr int lanes = Config::lanes;
    static constexpr int mask_from = lanes * Config::mantissa_bits;
    static constexpr int step_from = mask_from + lanes;
    static constexpr int marks_from = step_from + T::step_bits;
    static constexpr int bits = marks_from + 5;
    static_assert(bits <= 64, "a word is one integer");
    using code_t = uint_t<bits>;

    typename T::mantissa_t lane[lanes];
    bool mask[lanes];         // not zero
    typename T::step_t step;  // of the chunk
    bool one, three;          // not more than one lane is not zero; more than two are
    bool ends_segment;
    bool last;    // of what the pass reads of its chunk
    bool leaves;  // with `last`: of the chunk

    code_t pack() const {
#pragma HLS INLINE
        code_t code = static_cast<code_t>(static_cast<code_t>(step) << static_cast<unsigned>(step_from));
    Lanes_Pack:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const code_t value = static_cast<code_t>(static_cast<code_t>(lane[l]) & lane_mask());
            code = static_cast<code_t>(code | bit(mask[l], mask_from + l));
            code = static_cast<code_t>(code |
                                       static_cast<code_t>(value << static_cast<unsigned>(l * Config::mantissa_bits)));
        }
        code = static_cast<code_t>(code | bit(one, marks_from));
        code = static_cast<code_t>(code | bit(ends_segment, marks_from + 1));
        code = static_cast<code_t>(code | bit(last, marks_from + 2));
        code = static_cast<code_t>(code | bit(three, marks_from + 4));
        return static_cast<code_t>(code | bit(leaves, marks_from + 3));
    }

    static ActivationWord unpack(code_t code) {
#pragma HLS INLINE
        ActivationWord word;
    Lanes_Unpack:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = low_bits<Config::mantissa_bits>(
                static_cast<code_t>(code >> static_cast<unsigned>(l * Config::mantissa_bits)));
            word.mask[l] = is_set(code, mask_from + l);
        }
        word.step = static_cast<typename T::step_t>(static_cast<code_t>(code >> static_cast<unsigned>(step_from)) &
                                                    static_cast<code_t>((static_cast<code_t>(1) << T::step_bits) - 1));
        word.one = is_set(code, marks_from);
        word.ends_segment = is_set(code, marks_from + 1);
        word.last = is_set(code, marks_from + 2);
        word.leaves = is_set(code, marks_from + 3);
        word.three = is_set(code, marks_from + 4);
        return word;
    }

   private:
    static constexpr code_t lane_mask() {
        return static_cast<code_t>((static_cast<code_t>(1) << Config::mantissa_bits) - 1);
    }

    static code_t bit(bool value, int place) {
#pragma HLS INLINE
        return static_cast<code_t>(static_cast<code_t>(value ? 1 : 0) << static_cast<unsigned>(place));
    }

    static bool is_set(code_t code, int place) {
#pragma HLS INLINE
        return (static_cast<code_t>(code >> static_cast<unsigned>(place)) & 1) != 0;
    }
};

// The queues of all groups, a memory each.
template <class Config>
class ActivationQueues {
    using T = SparseTypes<Config>;
    using code_t = typename ActivationWord<Config>::code_t;
    static constexpr int depth = Config::skip_queue;

   public:
    using place_t = uint_t<bit_length(depth - 1)>;

    ActivationQueues() {
        static_assert(skip_guard >= 8, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
// A word is counted when `skip_guard` cycles have passed.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    static place_t behind(place_t place) {
#pragma HLS INLINE
        return static_cast<place_t>(static_cast<place_t>(place + 1) & static_cast<place_t>(depth - 1));
    }

    // `used`: the word is there.
    code_t read(int group, place_t place, bool used) const {
#pragma HLS INLINE
        if (used) {
            cell_waiver_.reads(group * depth + static_cast<int>(place));
        }
        return cell_[group][static_cast<int>(place)];
    }

    void write(int group, place_t place, code_t word) {
#pragma HLS INLINE
        cell_waiver_.writes(group * depth + static_cast<int>(place));
        cell_[group][static_cast<int>(place)] = word;
    }

   private:
    code_t cell_[T::groups][depth];
    Waiver<InterRawDistance<8>, T::groups * depth> cell_waiver_;
};

}  // namespace bfpga
