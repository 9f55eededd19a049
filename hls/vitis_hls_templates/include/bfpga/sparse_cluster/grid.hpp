// The full grid of a strip: where an input cell's products go, and which of them are outputs (SC E2-E4, R74).
//
// Cell (y, x) of the input and weight (a, b) make cell (y + kernel_height - 1 - a, x + kernel_width - 1 - b) of the
// full grid. Its bank is that cell's row and column modulo `kernel`; its address in the bank is row div kernel times
// `pitch` plus column div kernel, less the address of the unit's first cell. All of it is counted with the walk.
#pragma once
#include "bfpga/sparse_cluster/types.hpp"

namespace bfpga {

// Which weights of one axis make an output: tap a of input line y is output (y + pad - a) / stride, if that is one.
template <class Config>
class AxisTaps {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;
    using taps_t = typename T::taps_t;

   public:
    AxisTaps() {
#pragma HLS ARRAY_PARTITION variable=tap_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=line_ complete dim=0
    }

    // kernel, outputs: lines of the kernel and of the strip's outputs.
    void start(int32_t kernel, int32_t stride, int32_t outputs) {
#pragma HLS INLINE
        stride_ = stride;
        outputs_ = outputs;
        kernel_ = kernel;
        const Residue<Config> one = Residue<Config>::one(stride_, 1);
        Residue<Config> at = Residue<Config>::zero();
    Taps_Place:
        for (int a = 0; a < T::kernel; ++a) {
#pragma HLS UNROLL
            tap_[a] = at;
            at = at.plus(one, stride_, 1);
        }
        at = Residue<Config>::zero();
    Lines_Place:
        for (int p = 0; p <= T::pixels; ++p) {
#pragma HLS UNROLL
            line_[p] = at;
            at = at.plus(one, stride_, 1);
        }
    }

    // Line 0 behind `pad` lines of zeros; a pad is smaller than the kernel.
    Residue<Config> first(int32_t pad) const {
#pragma HLS INLINE
        return tap_[pad];
    }

    // `lines` lines further; up to those of a segment.
    Residue<Config> after(const Residue<Config>& at, int lines) const {
#pragma HLS INLINE
        return at.plus(line_[lines], stride_, 1);
    }

    // Bit a: tap a makes an output.
    taps_t taps(const Residue<Config>& at) const {
#pragma HLS INLINE
        taps_t found = 0;
    Taps_Match:
        for (int a = 0; a < T::kernel; ++a) {
#pragma HLS UNROLL
            const number_t output = static_cast<number_t>(at.quotient - tap_[a].quotient);
            const bool meets = a < kernel_ && at.remainder == tap_[a].remainder;
            if (meets && output >= 0 && output < outputs_) {
                found = static_cast<taps_t>(found | (1 << a));
            }
        }
        return found;
    }

   private:
    number_t stride_, outputs_, kernel_;
    Residue<Config> tap_[T::kernel];       // a
    Residue<Config> line_[T::pixels + 1];  // 0, 1, 2, ...
};

// One axis of an element's products, for each bank: the tap that meets it, if its product is an output, and the words
// by which it lies behind the element's.
template <class Config>
struct BankTaps {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;

    bool used[T::kernel];
    int32_t tap[T::kernel];
    number_t offset[T::kernel];

    // phase: bank of the element's line, which is that of the last tap. pitch: words from line to line of the grid.
    // Every tap has a bank of its own, because a kernel has no more taps than there are banks (SC R115).
    void select(number_t phase, int32_t taps_of_kernel, typename T::taps_t outputs, number_t pitch) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=used complete dim=0
#pragma HLS ARRAY_PARTITION variable=tap complete dim=0
#pragma HLS ARRAY_PARTITION variable=offset complete dim=0
    Banks_Select:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
            const bool wraps = i < phase;
            const int32_t a = taps_of_kernel - 1 - (i - static_cast<int32_t>(phase) + (wraps ? T::kernel : 0));
            used[i] = a >= 0 && ((outputs >> (a >= 0 ? a : 0)) & 1) != 0;
            tap[i] = a >= 0 ? a : 0;
            offset[i] = wraps ? pitch : static_cast<number_t>(0);
        }
    }
};

// Where a segment lies: its first cell in the banks, and as input of outputs.
template <class Config>
struct SegmentIndex {
    using T = ClusterTypes<Config>;

    typename T::address_t address;     // in the grid; in a unit's memory, from the unit's first word
    typename T::phase_t row_phase;     // bank of the row
    typename T::phase_t column_phase;  // bank of the first column
    typename T::taps_t row_taps;       // rows of the kernel that make outputs
    Residue<Config> column;            // of the outputs: the first column
};

// The numbers of a layer on the grid of a strip.
template <class Config>
struct StripGrid {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;

    int32_t kernel_height, kernel_width;
    number_t pitch;  // words of a row of a unit's grid
    int32_t pad_top, pad_left;
    AxisTaps<Config> rows, columns;

    void start(const Descriptor& d) {
#pragma HLS INLINE
        check(d);
        kernel_height = d.kernel_height;
        kernel_width = d.kernel_width;
        pad_top = d.pad_top;
        pad_left = d.pad_left;
        pitch = grid_words(d.piece_columns, d.kernel_width);
        rows.start(d.kernel_height, d.stride_y, d.group_rows);
        columns.start(d.kernel_width, d.stride_x, d.output_width);
    }

    // Words of a bank that the grid of `lines` input lines touches at most, wherever it begins.
    static number_t grid_words(int32_t lines, int32_t taps) {
#pragma HLS INLINE
        return static_cast<number_t>((lines + taps - 1 + T::kernel - 2) / T::kernel + 1);
    }

   private:
    static void check(const Descriptor& d) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        const char* strip = "a strip of the sparse cluster";
        const int largest = d.kernel_height > d.kernel_width ? d.kernel_height : d.kernel_width;
        simulation_check(largest <= T::kernel, strip, "has larger kernels than the units:", largest);
        simulation_check(d.pad_top >= 0 && d.pad_top < d.kernel_height, strip,
                         "has as many rows of zeros above it as its kernels have, or more:", d.pad_top);
        simulation_check(d.pad_left >= 0 && d.pad_left < d.kernel_width, strip,
                         "has as many columns of zeros beside it as its kernels have, or more:", d.pad_left);
        const int32_t stride = d.stride_y > d.stride_x ? d.stride_y : d.stride_x;
        simulation_check(stride < Residue<Config>::largest, strip, "has a stride that cannot be counted:", stride);
        const int32_t tall = static_cast<int32_t>(grid_words(d.piece_rows, d.kernel_height));
        const int32_t wide = static_cast<int32_t>(grid_words(d.piece_columns, d.kernel_width));
        simulation_check(tall * wide <= T::words, strip,
                         "has pieces whose sums need more words than a unit has:", tall * wide);
        const int32_t segments = (d.piece_columns + T::pixels - 2) / T::pixels + 1;
        simulation_check(d.piece_rows * segments <= Config::cluster_memory_words, strip,
                         "has pieces of more segments than a unit's memory holds:", d.piece_rows * segments);
        simulation_check(d.input_height <= Config::cluster_grid_rows * d.piece_rows, strip,
                         "has more rows than its pieces may have:", d.input_height);
        simulation_check(d.input_width <= Config::cluster_grid_columns * d.piece_columns, strip,
                         "has more columns than its pieces may have:", d.input_width);
#endif
    }
};

// The place of the segment on which a reader stands, from the first row of the strip on.
template <class Config>
class GridWalk {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;
    using R = Residue<Config>;

   public:
    void begin(const StripGrid<Config>& grid) {
#pragma HLS INLINE
        row_ = R::zero();
        output_row_ = grid.rows.first(grid.pad_top);
        first_segment(grid);
    }

    SegmentIndex<Config> index() const {
#pragma HLS INLINE
        SegmentIndex<Config> index;
        index.address = static_cast<typename T::address_t>(row_.quotient + column_.quotient);
        index.row_phase = static_cast<typename T::phase_t>(row_.remainder);
        index.column_phase = static_cast<typename T::phase_t>(column_.remainder);
        index.row_taps = row_taps_;
        index.column = output_column_;
        return index;
    }

    // To the next segment; `row_ends`: that of the next row.
    void next(const StripGrid<Config>& grid, bool row_ends) {
#pragma HLS INLINE
        if (row_ends) {
            row_ = row_.plus(R::one(T::kernel, grid.pitch), T::kernel, grid.pitch);
            output_row_ = grid.rows.after(output_row_, 1);
            first_segment(grid);
            return;
        }
        column_ = column_.plus(R::of(T::pixels / T::kernel, T::pixels % T::kernel), T::kernel, 1);
        output_column_ = grid.columns.after(output_column_, T::pixels);
    }

   private:
    void first_segment(const StripGrid<Config>& grid) {
#pragma HLS INLINE
        row_taps_ = grid.rows.taps(output_row_);
        column_ = R::zero();
        output_column_ = grid.columns.first(grid.pad_left);
    }

    R row_, column_;                // in the grid
    R output_row_, output_column_;  // of the outputs
    typename T::taps_t row_taps_;
};

}  // namespace bfpga
