// Kernels: from compressed segments to masks and coefficients (ZS R43-R46).
//
// The kernels of the next image are stored as they are compressed: a bit for each position, and the coefficients of the
// set bits one after the other. All three formats of segments end there (SC 2.5).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/zero_skip/types.hpp"

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
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    void write(int set, int kernel, int rank, typename T::coefficient_t coefficient) {
#pragma HLS INLINE
        cell_waiver_.writes(word(set, kernel, rank));
        cell_[set][kernel][rank] = coefficient;
    }

    typename T::coefficient_t read(int set, int kernel, int rank) const {
#pragma HLS INLINE
        const int inside = rank < T::positions ? rank : 0;
        cell_waiver_.reads(word(set, kernel, inside));
        return cell_[set][kernel][inside];
    }

   private:
    static int word(int set, int kernel, int rank) {
#pragma HLS INLINE
        return (set * Config::kernels_in_flight + kernel) * T::positions + rank;
    }

    typename T::coefficient_t cell_[2][Config::kernels_in_flight][T::positions] = {};
    Waiver<InterFalse, 2 * Config::kernels_in_flight * T::positions> cell_waiver_;
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

    void stop() { state_ = State::Idle; }
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

}  // namespace bfpga
