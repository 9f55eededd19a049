// Kernels: from compressed segments to entries in the chosen order, one a clock (ZS R43-R48).
//
// The kernels of the next image are stored as they are compressed: a bit for each position, and the coefficients of the
// set bits one after the other. All three formats of segments end there (SC 2.5), and every order takes the entries of
// one kernel in raster order, so an order is no more than a key that says which kernel is next.
#pragma once
#include "bfpga/zero_skip_types.hpp"

namespace bfpga {

// Coefficients of the kernels of two images, each kernel's in raster order.
template <class Config>
class CoefficientMemory {
    using T = ZeroSkipTypes<Config>;

   public:
    // One set is written while the other one is read.
    CoefficientMemory() {
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ inter false
    }

    void write(int set, int kernel, int rank, typename T::coefficient_t coefficient) {
#pragma HLS INLINE
        cell_[set][kernel][rank] = coefficient;
    }

    typename T::coefficient_t read(int set, int kernel, int rank) const {
#pragma HLS INLINE
        return cell_[set][kernel][rank < T::positions ? rank : 0];
    }

   private:
    typename T::coefficient_t cell_[2][Config::kernels_in_flight][T::positions] = {};
};

// The set bits of all kernels of one image: row ky of kernel z, bit kx.
template <class Config>
struct KernelMasks {
    typename ZeroSkipTypes<Config>::row_mask_t row[Config::kernels_in_flight][Config::kernel_height];
};

// Reads the segments of one image, a word, a mask row or a coefficient a clock.
template <class Config>
class KernelDecoder {
    using T = ZeroSkipTypes<Config>;
    using row_mask_t = typename T::row_mask_t;
    enum class State { Idle, Header, Count, Size, Rows, Values, Entries };
    enum class Format { Entry32, Entry16, Bitmap };

   public:
    KernelDecoder() {
#pragma HLS ARRAY_PARTITION variable=rank_ complete dim=0
    }

    void start(int set, int segments, const ZeroSkipLayer& layer) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=masks_.row complete dim=0
        set_ = set;
        segments_ = segments;
        height_ = layer.kernel_height;
        width_ = layer.kernel_width;
        kernels_ = layer.kernels;
        state_ = segments > 0 ? State::Header : State::Idle;
    Kernels_Clear:
        for (int z = 0; z < Config::kernels_in_flight; ++z) {
#pragma HLS UNROLL
            rank_[z] = 0;
        Rows_Clear:
            for (int ky = 0; ky < Config::kernel_height; ++ky) {
#pragma HLS UNROLL
                masks_.row[z][ky] = 0;
            }
        }
    }

    bool busy() const { return state_ != State::Idle; }
    const KernelMasks<Config>& masks() const { return masks_; }

    // One clock. `source.read()` gives the next word of 32 bits.
    template <class Source>
    void step(CoefficientMemory<Config>& memory, Source& source) {
#pragma HLS INLINE
        const bool reads = wants_word();
        if (reads) {
            word_ = source.read();
        }
        switch (state_) {
            case State::Header:
                header();
                break;
            case State::Count:
                count();
                break;
            case State::Size:
                simulation_check(
                    static_cast<int>(word_ & 15) + 1 == height_ && static_cast<int>(word_ >> 4 & 15) + 1 == width_,
                    "a kernel segment", "has other kernels than the layer, by its word", word_);
                start_kernel();
                break;
            case State::Rows:
                mask_row(reads);
                break;
            case State::Values:
                value(memory);
                break;
            case State::Entries:
                entry(memory);
                break;
            default:
                break;
        }
    }

   private:
    bool wants_word() const {
#pragma HLS INLINE
        switch (state_) {
            case State::Idle:
                return false;
            case State::Rows:
                return held_ < width_;
            case State::Values:
                return byte_ == 0;
            case State::Entries:
                return format_ == Format::Entry32 || byte_ == 0;
            default:
                return true;
        }
    }

    void header() {
#pragma HLS INLINE
        simulation_check((word_ & 0xFFF) == 0x14B && (word_ >> 12 & 15) <= 2, "a kernel segment",
                         "begins with the word", word_);
        const int format = static_cast<int>(word_ >> 12 & 15);
        format_ = format == 0 ? Format::Entry32 : (format == 1 ? Format::Entry16 : Format::Bitmap);
        state_ = State::Count;
    }

    void count() {
#pragma HLS INLINE
        entries_ = static_cast<int>(word_ & 0xFFFF);
        base_ = static_cast<int>(word_ >> 16 & 255);
        kernel_ = base_;
        last_kernel_ = base_ + static_cast<int>(word_ >> 24);
        byte_ = 0;
        simulation_check(last_kernel_ < kernels_, "a kernel segment", "reaches kernel", last_kernel_);
        if (format_ == Format::Bitmap) {
            state_ = State::Size;
        } else if (entries_ != 0) {
            state_ = State::Entries;
        } else {
            finish_segment();
        }
    }

    void start_kernel() {
#pragma HLS INLINE
        state_ = State::Rows;
        row_ = 0;
        held_ = 0;
        pool_ = 0;
        waiting_ = 0;
        byte_ = 0;
    }

    // A row of the mask; the bits of a word that follow belong to the next rows of this kernel.
    void mask_row(bool reads) {
#pragma HLS INLINE
        using pool_t = uint_t<48>;
        if (reads) {
            pool_ = static_cast<pool_t>(pool_ | static_cast<pool_t>(word_) << held_);
            held_ = static_cast<uint_t<6>>(held_ + 32);
        }
        const row_mask_t mask = static_cast<row_mask_t>(pool_ & ((1U << width_) - 1));
        pool_ = static_cast<pool_t>(pool_ >> width_);
        held_ = static_cast<uint_t<6>>(held_ - width_);
        masks_.row[kernel_][row_] = mask;
    Columns_Count:
        for (int kx = 0; kx < Config::kernel_width; ++kx) {
#pragma HLS UNROLL
            waiting_ += static_cast<int>(mask >> kx & 1);
        }
        ++row_;
        if (row_ == height_) {
            if (waiting_ != 0) {
                state_ = State::Values;
            } else {
                finish_kernel();
            }
        }
    }

    void value(CoefficientMemory<Config>& memory) {
#pragma HLS INLINE
        append(memory, kernel_, low_bits<8>(word_ >> (8 * byte_)));
        byte_ = (byte_ + 1) & 3;
        --waiting_;
        if (waiting_ == 0) {
            finish_kernel();
        }
    }

    void entry(CoefficientMemory<Config>& memory) {
#pragma HLS INLINE
        if (format_ == Format::Entry32) {
            place(memory, base_ + static_cast<int>(word_ >> 24), static_cast<int>(word_ >> 20 & 15),
                  static_cast<int>(word_ >> 16 & 15), low_bits<16>(word_));
        } else {
            const uint32_t half = byte_ == 0 ? (word_ & 0xFFFF) : (word_ >> 16);
            place(memory, base_, static_cast<int>(half >> 12), static_cast<int>(half >> 8 & 15), low_bits<8>(half));
            byte_ = 2 - byte_;
        }
        --entries_;
        if (entries_ == 0) {
            finish_segment();
        }
    }

    // Entries of one kernel come in raster order; those of different kernels in any.
    void place(CoefficientMemory<Config>& memory, int kernel, int ky, int kx, int_t<16> coefficient) {
#pragma HLS INLINE
        simulation_check(kernel <= last_kernel_ && ky < height_ && kx < width_, "a kernel segment",
                         "has an entry outside its kernels, for kernel", kernel);
        check_raster(kernel, ky, kx);
        const row_mask_t bit = static_cast<row_mask_t>(1U << kx);
        masks_.row[kernel][ky] = static_cast<row_mask_t>(masks_.row[kernel][ky] | bit);
        append(memory, kernel, coefficient);
    }

    void append(CoefficientMemory<Config>& memory, int kernel, int_t<16> coefficient) {
#pragma HLS INLINE
        simulation_check(static_cast<int>(rank_[kernel]) < T::positions, "a kernel", "has too many entries, kernel",
                         kernel);
        memory.write(set_, kernel, static_cast<int>(rank_[kernel]),
                     static_cast<typename T::coefficient_t>(coefficient));
        ++rank_[kernel];
    }

    void check_raster(int kernel, int ky, int kx) const {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        bool later = (static_cast<uint32_t>(masks_.row[kernel][ky]) >> kx) != 0;
    Rows_Check:
        for (int row = ky + 1; row < Config::kernel_height; ++row) {
            later = later || masks_.row[kernel][row] != 0;
        }
        simulation_check(!later, "a kernel segment", "has entries that are not in raster order, in kernel", kernel);
#else
        (void)kernel;
        (void)ky;
        (void)kx;
#endif
    }

    void finish_kernel() {
#pragma HLS INLINE
        if (kernel_ == last_kernel_) {
            finish_segment();
        } else {
            ++kernel_;
            start_kernel();
        }
    }

    void finish_segment() {
#pragma HLS INLINE
        --segments_;
        state_ = segments_ > 0 ? State::Header : State::Idle;
    }

    KernelMasks<Config> masks_ = {};
    uint_t<9> rank_[Config::kernels_in_flight] = {};  // coefficients of each kernel that are there
    State state_ = State::Idle;
    Format format_ = Format::Entry32;
    uint32_t word_ = 0;
    uint_t<48> pool_ = 0;  // mask bits that are read and not yet used
    uint_t<6> held_ = 0;   // their number
    int32_t set_ = 0, segments_ = 0, kernels_ = 0, height_ = 1, width_ = 1;
    int32_t entries_ = 0, base_ = 0, kernel_ = 0, last_kernel_ = 0, row_ = 0, waiting_ = 0, byte_ = 0;
};

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
        if (order_ == KernelOrder::PositionMajor) {
            leading = position;
        } else if (order_ == KernelOrder::Interleaved) {
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
    KernelOrder order_ = KernelOrder::ZMajor;
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
