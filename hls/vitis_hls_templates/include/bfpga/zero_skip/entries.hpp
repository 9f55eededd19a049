// Entries in the chosen order, one a clock (ZS R45-R48).
//
// Every order takes the entries of one kernel in raster order, so an order is no more than a key that says which kernel
// is next.
#pragma once
#include "bfpga/zero_skip/kernels.hpp"

namespace bfpga {

// Takes the entries of one image out of the store, in the order of the layer: a key for each kernel, the lowest is
// next.
template <class Config>
class EntryWalk {
    using T = ZeroSkipTypes<Config>;
    using row_mask_t = typename T::row_mask_t;
    using position_t = typename T::position_t;
    static constexpr int kernels = Config::kernels_in_flight;
    // A tree of two inputs a node has a power of two of leaves.
    static constexpr int leaves(int number) { return number <= 1 ? 1 : 2 * leaves((number + 1) / 2); }
    static constexpr int width = leaves(kernels);

   public:
    EntryWalk() {
#pragma HLS ARRAY_PARTITION variable=present_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=ky_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=kx_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=rank_ complete dim=0
    }

    // The kernels of an image: the masks are copied, so the decoder may go on with those of the next one.
    void start(int set, const KernelMasks<Config>& masks, const ZeroSkipLayer& layer) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=stored_.row complete dim=0
#pragma HLS ARRAY_PARTITION variable=left_.row complete dim=0
        set_ = set;
        order_ = layer.order;
        last_ = -1;
        stored_ = masks;
        const row_mask_t full = static_cast<row_mask_t>((1U << layer.kernel_width) - 1);
    Kernels_Start:
        for (int z = 0; z < kernels; ++z) {
#pragma HLS UNROLL
            rank_[z] = 0;
        Rows_Start:
            for (int ky = 0; ky < Config::kernel_height; ++ky) {
#pragma HLS UNROLL
                const bool whole = !layer.skip_zero && z < layer.kernels && ky < layer.kernel_height;
                left_.row[z][ky] = whole ? full : masks.row[z][ky];
            }
            find(z);
        }
    }

    // No entries are left.
    void clear() {
#pragma HLS INLINE
    Kernels_Drop:
        for (int z = 0; z < kernels; ++z) {
#pragma HLS UNROLL
            present_[z] = false;
        }
    }

    bool finished() const {
#pragma HLS INLINE
        bool any = false;
    Kernels_Any:
        for (int z = 0; z < kernels; ++z) {
#pragma HLS UNROLL
            any = any || present_[z];
        }
        return !any;
    }

    // The next entry, which is gone then.
    KernelEntry<Config> next(const CoefficientMemory<Config>& memory) {
#pragma HLS INLINE
        const int z = lowest();
        const int ky = static_cast<int>(ky_[z]);
        const int kx = static_cast<int>(kx_[z]);
        const bool stored = (stored_.row[z][ky] >> kx & 1) != 0;
        KernelEntry<Config> entry;
        entry.kernel = z;
        entry.ky = ky;
        entry.kx = kx;
        entry.coefficient =
            stored ? memory.read(set_, z, static_cast<int>(rank_[z])) : static_cast<typename T::coefficient_t>(0);
        if (stored) {
            ++rank_[z];
        }
        left_.row[z][ky] = static_cast<row_mask_t>(left_.row[z][ky] & ~(1U << kx));
        last_ = z;
        find(z);
        return entry;
    }

   private:
    using key_t = uint_t<18>;  // position (8 bits) and kernel (8), or round (1) and kernel; the top bit: no entry

    key_t key(int z) const {
#pragma HLS INLINE
        const int position = static_cast<int>(ky_[z]) * 16 + static_cast<int>(kx_[z]);
        int leading = 0;
        if (order_ == ZeroSkipOrder::PosMajor) {
            leading = position;
        } else if (order_ == ZeroSkipOrder::Interleaved) {
            leading = z > last_ ? 0 : 1;
        }
        return static_cast<key_t>((present_[z] ? 0 : 1 << 17) | leading << 8 | z);
    }

    // The kernel with the lowest key: a tree of comparators.
    int lowest() const {
#pragma HLS INLINE
        key_t best[width];
#pragma HLS ARRAY_PARTITION variable=best complete dim=0
    Leaves_Key:
        for (int z = 0; z < width; ++z) {
#pragma HLS UNROLL
            best[z] = z < kernels ? key(z < kernels ? z : 0) : static_cast<key_t>(1 << 17);
        }
    Levels_Compare:
        for (int nodes = width / 2; nodes > 0; nodes /= 2) {
#pragma HLS UNROLL
        Nodes_Compare:
            for (int n = 0; n < nodes; ++n) {
#pragma HLS UNROLL
                best[n] = best[n] < best[n + nodes] ? best[n] : best[n + nodes];
            }
        }
        return static_cast<int>(best[0]) & 255;
    }

    // The first position of kernel z that is left: the first row with a bit, its first bit.
    void find(int z) {
#pragma HLS INLINE
        row_mask_t row = 0;
        int ky = 0;
    Rows_Find:
        for (int i = Config::kernel_height - 1; i >= 0; --i) {
#pragma HLS UNROLL
            if (left_.row[z][i] != 0) {
                row = left_.row[z][i];
                ky = i;
            }
        }
        int kx = 0;
    Columns_Find:
        for (int i = Config::kernel_width - 1; i >= 0; --i) {
#pragma HLS UNROLL
            if ((row >> i & 1) != 0) {
                kx = i;
            }
        }
        present_[z] = row != 0;
        ky_[z] = ky;
        kx_[z] = kx;
    }

    KernelMasks<Config> stored_ = {};  // positions that have a coefficient
    KernelMasks<Config> left_ = {};    // positions that are entries and were not taken yet
    bool present_[kernels] = {};
    position_t ky_[kernels] = {};
    position_t kx_[kernels] = {};
    uint_t<9> rank_[kernels] = {};  // coefficients of each kernel that are used
    ZeroSkipOrder order_ = ZeroSkipOrder::ZMajor;
    int32_t set_ = 0, last_ = -1;
};

// Entries between decompressor and lanes (ZS R47): registers that move up.
template <class Config>
class EntryQueue {
    static constexpr int depth = Config::entry_depth;

   public:
    EntryQueue() {
#pragma HLS ARRAY_PARTITION variable=slot_ complete dim=0
    }

    bool empty() const { return held_ == 0; }
    bool full() const { return held_ == depth; }
    const KernelEntry<Config>& front() const { return slot_[0]; }

    void clear() { held_ = 0; }

    void push(const KernelEntry<Config>& entry) {
#pragma HLS INLINE
        slot_[held_] = entry;
        ++held_;
    }

    void pop() {
#pragma HLS INLINE
    Slots_Move:
        for (int i = 0; i + 1 < depth; ++i) {
#pragma HLS UNROLL
            slot_[i] = slot_[i + 1];
        }
        --held_;
    }

   private:
    KernelEntry<Config> slot_[depth] = {};
    int32_t held_ = 0;
};

}  // namespace bfpga
