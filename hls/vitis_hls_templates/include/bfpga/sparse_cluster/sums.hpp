// What the drain of the sparse cluster takes: blocks of output pixels, added up over all units (SC R30, R128, R129).
//
// Output (r, c) is cell (r * stride_y + kernel_height - 1 - pad_top, c * stride_x + kernel_width - 1 - pad_left) of the
// full grid. The rows of a block lie in different banks because the stride has no factor in common with their number,
// and so do its columns: every bank of every unit is read once a clock. From block to block the banks stay the same and
// the words move by the stride.
#pragma once
#include "bfpga/sparse_cluster/unit.hpp"

namespace bfpga {

// One axis of a block, by banks: which line of the block lies there, at which cell and words of the grid.
template <class Config>
struct BlockAxis {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;

    int32_t line[T::kernel];
    number_t cell[T::kernel];
    number_t address[T::kernel];

    // first: cell of the block's first line, less than `kernel`. unit: words from line to line of a bank; step: of a
    // stride, in them.
    void place(number_t first, number_t stride, number_t unit) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=line complete dim=0
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
#pragma HLS ARRAY_PARTITION variable=address complete dim=0
        using R = Residue<Config>;
        const R strides = R::in_kernels(static_cast<int32_t>(stride));
        const R step = R::of(field_product(strides.quotient, unit), strides.remainder);
        R at = R::of(0, first);
        number_t place = first;
    Lines_Clear:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
            line[i] = -1;
        }
    Lines_Place:
        for (int q = 0; q < T::kernel; ++q) {
#pragma HLS UNROLL
            const int bank = static_cast<int>(at.remainder);
            simulation_check(line[bank] < 0, "a block of the sparse cluster",
                             "has two lines in one bank, its stride is", static_cast<int>(stride));
            line[bank] = q;
            cell[bank] = place;
            address[bank] = at.quotient;
            at = at.plus(step, T::kernel, unit);
            place = static_cast<number_t>(place + stride);
        }
    }

    // One block further: `kernel` strides, which are `stride` lines of a bank.
    void advance(number_t cells, number_t words) {
#pragma HLS INLINE
    Lines_Advance:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
            cell[i] = static_cast<number_t>(cell[i] + cells);
            address[i] = static_cast<number_t>(address[i] + words);
        }
    }
};

// The lines of a block that lie in a unit's part of the grid, by banks.
template <class Config>
struct LinesInside {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;

    bool any;
    bool line[T::kernel];

    void select(const BlockAxis<Config>& axis, number_t first, number_t end) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=line complete dim=0
        any = false;
    Lines_Select:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
            line[i] = axis.cell[i] >= first && axis.cell[i] < end;
            any = any || line[i];
        }
    }
};

template <class Config>
class ClusterSums {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;
    using accumulator_t = typename T::accumulator_t;

   public:
    explicit ClusterSums(SparseUnit<Config> (&unit)[T::units]) : unit_(unit) {
#pragma HLS ARRAY_PARTITION variable=rows_inside_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=columns_inside_ complete dim=0
    }

    void start(const Descriptor& d, const StripGrid<Config>& grid) {
#pragma HLS INLINE
        more_rows_ = static_cast<number_t>(d.kernel_height - 1);
        more_columns_ = static_cast<number_t>(d.kernel_width - 1);
        first_rows_.place(static_cast<number_t>(more_rows_ - d.pad_top), static_cast<number_t>(d.stride_y), grid.pitch);
        first_columns_.place(static_cast<number_t>(more_columns_ - d.pad_left), static_cast<number_t>(d.stride_x), 1);
        row_cells_ = static_cast<number_t>(d.stride_y * T::kernel);
        column_cells_ = static_cast<number_t>(d.stride_x * T::kernel);
        row_words_ = static_cast<number_t>(field_product(d.stride_y, static_cast<int32_t>(grid.pitch)));
        column_words_ = static_cast<number_t>(d.stride_x);
    }

    void first_block() {
#pragma HLS INLINE
        rows_ = first_rows_;
        select_rows();
        columns_ = first_columns_;
        select_columns();
    }

    void next_block() {
#pragma HLS INLINE
        columns_.advance(column_cells_, column_words_);
        select_columns();
    }

    void next_block_row() {
#pragma HLS INLINE
        rows_.advance(row_cells_, row_words_);
        select_rows();
        columns_ = first_columns_;
        select_columns();
    }

    // The sums of a kernel at all pixels of the block; they start anew.
    void take(int kernel, accumulator_t (&value)[T::banks]) {
#pragma HLS INLINE
        accumulator_t total[T::banks];
#pragma HLS ARRAY_PARTITION variable=total complete dim=0
    Banks_Clear:
        for (int bank = 0; bank < T::banks; ++bank) {
#pragma HLS UNROLL
            total[bank] = 0;
        }
    Units_Take:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            if (rows_inside_[u].any && columns_inside_[u].any) {
                add_unit(u, kernel, total);
            }
        }
        select(total, value);
    }

   private:
    static constexpr int wide_bits = Config::accumulator_bits + 1;

    // From banks to pixels of the block: rows first, then columns, so that every choice is a small multiplexer.
    void select(const accumulator_t (&total)[T::banks], accumulator_t (&value)[T::banks]) const {
#pragma HLS INLINE
        accumulator_t of_row[T::kernel][T::kernel];
#pragma HLS ARRAY_PARTITION variable=of_row complete dim=0
    Rows_Select:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
        Columns_Keep:
            for (int j = 0; j < T::kernel; ++j) {
#pragma HLS UNROLL
                of_row[rows_.line[i]][j] = total[i * T::kernel + j];
            }
        }
    Columns_Select:
        for (int j = 0; j < T::kernel; ++j) {
#pragma HLS UNROLL
        Rows_Keep:
            for (int q = 0; q < T::kernel; ++q) {
#pragma HLS UNROLL
                value[q * T::kernel + columns_.line[j]] = of_row[q][j];
            }
        }
    }

    void add_unit(int u, int kernel, accumulator_t (&total)[T::banks]) {
#pragma HLS INLINE
    Banks_Take:
        for (int bank = 0; bank < T::banks; ++bank) {
#pragma HLS UNROLL
            const int i = bank / T::kernel;
            const int j = bank % T::kernel;
            if (rows_inside_[u].line[i] && columns_inside_[u].line[j]) {
                const number_t address = static_cast<number_t>(rows_.address[i] + columns_.address[j]);
                const int_t<wide_bits> sum =
                    static_cast<int_t<wide_bits>>(total[bank]) + unit_[u].take(bank, kernel, address);
                total[bank] = low_bits<Config::accumulator_bits>(sum);
            }
        }
    }

    void select_rows() {
#pragma HLS INLINE
    Units_Rows:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            const Piece<Config>& piece = unit_[u].piece();
            const number_t end = piece.empty() ? piece.first_row : static_cast<number_t>(piece.end_row + more_rows_);
            rows_inside_[u].select(rows_, piece.first_row, end);
        }
    }

    void select_columns() {
#pragma HLS INLINE
    Units_Columns:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            const Piece<Config>& piece = unit_[u].piece();
            const number_t end = static_cast<number_t>(piece.end_column + more_columns_);
            columns_inside_[u].select(columns_, piece.first_column, end);
        }
    }

    SparseUnit<Config> (&unit_)[T::units];
    // Of the operation
    number_t more_rows_, more_columns_;  // cells by which the grid of a piece is larger than the piece
    BlockAxis<Config> first_rows_, first_columns_;
    number_t row_cells_, column_cells_, row_words_, column_words_;  // of a block
    // Of the block
    BlockAxis<Config> rows_, columns_;
    LinesInside<Config> rows_inside_[T::units];
    LinesInside<Config> columns_inside_[T::units];
};

}  // namespace bfpga
