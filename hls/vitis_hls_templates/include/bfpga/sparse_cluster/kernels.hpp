// The kernels of a channel word: read from the weight stream into one of two sets of registers (SC R57, R59).
//
// Units compute with one set while the other one is filled. All units are given the same kernel in a clock (SC R60).
// Kernels without a weight in the word are not on the stream and cost nothing (SC R19).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/ports/weight_parts.hpp"
#include "bfpga/sparse_cluster/types.hpp"

namespace bfpga {

// What comes before the kernels of a channel word.
template <class Config>
struct KernelPart {
    PartHeader header;
    typename ClusterTypes<Config>::kernels_t mask;

    template <class Source>
    static KernelPart read(Source& source) {
#pragma HLS INLINE
        KernelPart part;
        part.header = PartHeader::decode<Config::weight_stream_bits>(source.read());
        const bits_t<Config::weight_stream_bits> beat = source.read();
        const uint64_t mask = (static_cast<uint64_t>(static_cast<uint32_t>(get_signed<32>(beat, 32))) << 32) |
                              static_cast<uint32_t>(get_signed<32>(beat, 0));
        part.mask = static_cast<typename ClusterTypes<Config>::kernels_t>(mask);
        simulation_check(mask >> (ClusterTypes<Config>::flight - 1) <= 1, "a channel word",
                         "has a kernel that is not in flight, by the mask of word", part.header.index);
        return part;
    }
};

// The weights of one kernel in a channel word.
template <class Config>
struct KernelWeights {
    using T = ClusterTypes<Config>;
    typename T::mantissa_t cell[Config::lanes][T::kernel][T::kernel];
};

template <class Config>
class KernelRegisters {
    using T = ClusterTypes<Config>;
    static constexpr int cells = Config::lanes * T::banks;
    static constexpr int per_beat = Config::weight_stream_bits / Config::container_bits;
    static constexpr int beats = (cells + per_beat - 1) / per_beat;  // of a kernel
    static_assert(Config::weight_stream_bits % Config::container_bits == 0, "a beat holds whole weights");

   public:
    // Every weight has a LUT memory of `flight` words for each set: all weights of a kernel are read in a clock. The
    // set that is written is never the one that is read, so no iteration waits for another one.
    KernelRegisters() {
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=1
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=3
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=4
#pragma HLS BIND_STORAGE variable=weight_ type=ram_s2p impl=lutram
#pragma HLS DEPENDENCE variable=weight_ inter false
        weight_waiver_.states("weight_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=number_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=active_ complete dim=0
    }

    // A set is filled anew.
    void open(int set, const KernelPart<Config>& part) {
#pragma HLS INLINE
        simulation_check(part.header.count <= T::flight, "a channel word",
                         "has too many active kernels:", part.header.count);
        set_ = set;
        mask_ = part.mask;
        active_[set] = part.header.count;
        next_ = 0;
        beat_ = 0;
    }

    bool busy() const { return next_ != active_[set_]; }

    // One clock: a beat of the kernel that comes next.
    template <class Source>
    void step(Source& source) {
#pragma HLS INLINE
        if (!busy()) {
            return;
        }
        if (beat_ == 0) {
            simulation_check(mask_ != 0, "a channel word", "has more kernels than its mask has bits:", next_);
            number_[set_][next_] = static_cast<typename T::kernel_t>(lowest_one<T::flight>(mask_));
            mask_ = without_lowest<T::flight>(mask_);
        }
        unpack(source.read());
        ++beat_;
        if (beat_ == beats) {
            beat_ = 0;
            ++next_;
            simulation_check(busy() || mask_ == 0, "a channel word",
                             "has fewer kernels than its mask has bits:", next_);
        }
    }

    int32_t active(int set) const { return active_[set]; }
    // Active kernel n of a set: its number in the group, and its weights.
    int32_t number(int set, int32_t n) const { return static_cast<int32_t>(number_[set][n]); }

    // One read of every memory serves all units.
    void read(int set, int32_t n, KernelWeights<Config>& weights) const {
#pragma HLS INLINE
    Lanes_Read:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        Cells_Read:
            for (int cell = 0; cell < T::banks; ++cell) {
#pragma HLS UNROLL
                weight_waiver_.reads(word(set, n, l, cell));
                weights.cell[l][cell / T::kernel][cell % T::kernel] = weight_[set][n][l][cell];
            }
        }
    }

   private:
    static int word(int set, int kernel, int lane, int cell) {
#pragma HLS INLINE
        return ((set * T::flight + kernel) * Config::lanes + lane) * T::banks + cell;
    }

    void unpack(const bits_t<Config::weight_stream_bits>& beat) {
#pragma HLS INLINE
    Cells_Unpack:
        for (int cell = 0; cell < cells; ++cell) {
#pragma HLS UNROLL
            if (beat_ == cell / per_beat) {
                weight_waiver_.writes(word(set_, next_, cell / T::banks, cell % T::banks));
                weight_[set_][next_][cell / T::banks][cell % T::banks] =
                    get_signed<Config::mantissa_bits>(beat, cell % per_beat * Config::container_bits);
            }
        }
    }

    typename T::mantissa_t weight_[2][T::flight][Config::lanes][T::banks];
    Waiver<InterFalse, 2 * T::flight * cells> weight_waiver_;
    typename T::kernel_t number_[2][T::flight];
    int32_t active_[2] = {};
    // The set that is filled
    int set_ = 0;
    typename T::kernels_t mask_ = 0;
    int32_t next_ = 0, beat_ = 0;
};

}  // namespace bfpga
