// The partition of a strip: bands of rows, every band cut into pieces of about equal work (SC R22, R36, R131).
//
// Non-zero elements of some channel words are counted by rows, then band by band by columns; after each scan the limits
// are found in one pass over the counts, a line a clock.
#pragma once
#include "bfpga/memory/segment_reader.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/sparse_cluster/grid.hpp"

namespace bfpga {

// Cells of a unit: rows and columns of the strip's rectangle, and the address of the first one in the full grid.
template <class Config>
struct Piece {
    using number_t = typename ClusterTypes<Config>::number_t;

    number_t first_row, end_row;
    number_t first_column, end_column;
    number_t origin;

    bool empty() const { return first_row >= end_row || first_column >= end_column; }
    bool has_row(number_t row) const { return row >= first_row && row < end_row; }
    bool has_column(number_t column) const { return column >= first_column && column < end_column; }
};

// Where the lines of an axis are cut: before the first line whose middle lies beyond a piece's share of the work if the
// lines left fit the pieces left, or which is one more than a piece may have, or one of as many as there are pieces
// left. A cut before a line needs its own count and the counts before it, none that is still to come.
template <class Config, int Pieces>
class LimitWalk {
    using number_t = typename ClusterTypes<Config>::number_t;
    using count_t = typename ClusterTypes<Config>::count_t;

   public:
    // total: of the counts; 0: lines count alike. most: lines of a piece.
    void start(int32_t lines, count_t total, int32_t most) {
#pragma HLS INLINE
        piece_ = 1;
        length_ = 0;
        left_ = lines;
        weighted_ = 0;
        alike_ = total == 0;
        total_ = static_cast<count_t>(2 * (alike_ ? static_cast<count_t>(lines) : total));
        share_ = total_;
        most_ = most;
        room_ = static_cast<number_t>((Pieces - 1) * most);
    }

    // The next line; true: a piece begins with it, which is `piece()` now.
    bool next(count_t count) {
#pragma HLS INLINE
        const count_t half = static_cast<count_t>((alike_ ? static_cast<count_t>(1) : count) * Pieces);
        const count_t middle = static_cast<count_t>(weighted_ + half);
        const bool enough = middle >= share_ && left_ <= room_;
        const bool scarce = left_ <= Pieces - piece_;
        const bool begins = piece_ < Pieces && length_ != 0 && (enough || length_ == most_ || scarce);
        if (begins) {
            ++piece_;
            share_ = static_cast<count_t>(share_ + total_);
            room_ = static_cast<number_t>(room_ - most_);
        }
        weighted_ = static_cast<count_t>(weighted_ + static_cast<count_t>(2 * half));
        length_ = begins ? static_cast<number_t>(1) : static_cast<number_t>(length_ + 1);
        --left_;
        return begins;
    }

    // The piece to which the last line belongs, from 0 on.
    int32_t piece() const { return static_cast<int32_t>(piece_) - 1; }

    // The piece that ends last is no larger than the others may be.
    void finish() const {
#pragma HLS INLINE
        simulation_check(length_ <= most_, "the last piece of a strip",
                         "has too many lines:", static_cast<int32_t>(length_));
    }

   private:
    bool alike_;
    number_t piece_, length_, left_, most_, room_;
    count_t weighted_, total_, share_;  // 2 * pieces * counts so far; 2 * total; 2 * piece * total
};

// Counts of lines in a LUT memory, one line a clock. The line that was counted last is forwarded from a register (SC
// 7.2, remedy 4): between two reads of a word of memory there are two clocks at least.
template <class Config, int Lines>
class LineCounts {
    using elements_t = typename ClusterTypes<Config>::elements_t;

   public:
    LineCounts() {
#pragma HLS BIND_STORAGE variable=count_ type=ram_s2p impl=lutram
#pragma HLS DEPENDENCE variable=count_ type=inter direction=raw distance=2 true
        count_waiver_.states("count_", __FILE__, __LINE__ - 1);
    }

    // first: the line has not been counted before.
    void add(int32_t line, elements_t found, bool first) {
#pragma HLS INLINE
        if (line != last_line_) {
            count_waiver_.reads(line);
        }
        count_waiver_.writes(line);
        const elements_t before = line == last_line_ ? last_count_ : count_[line];
        last_count_ = first ? found : static_cast<elements_t>(before + found);
        last_line_ = line;
        count_[line] = last_count_;
    }

    elements_t read(int32_t line) const {
#pragma HLS INLINE
        count_waiver_.reads(line);
        return count_[line];
    }

   private:
    elements_t count_[Lines] = {};
    Waiver<InterRawDistance<2>, Lines> count_waiver_;
    elements_t last_count_ = 0;
    int32_t last_line_ = -1;
};

template <class Config>
class Partition {
    using T = ClusterTypes<Config>;
    using R = Residue<Config>;
    using number_t = typename T::number_t;
    using elements_t = typename T::elements_t;
    using count_t = typename T::count_t;
    static constexpr int grid_rows = Config::cluster_grid_rows;
    static constexpr int grid_columns = Config::cluster_grid_columns;

   public:
    using Reader = SegmentReader<Config, T::pixels>;

    Partition() {
#pragma HLS ARRAY_PARTITION variable=column_count_ complete dim=1
#pragma HLS ARRAY_PARTITION variable=band_row_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=band_address_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=piece_ complete dim=0
    }

    // Cuts the strip of a descriptor; returns the clocks that takes.
    template <class Activations>
    uint32_t run(const Descriptor& d, const StripGrid<Config>& grid, Reader& reader, const Activations& activations) {
        simulation_check(d.input_height <= T::rows, "a strip", "has more rows than the units hold:", d.input_height);
        simulation_check(Reader::segments(d.input_width) <= T::segments, "a strip",
                         "has more columns than the units hold:", d.input_width);
        uint32_t clocks = count_rows(d, reader, activations);
        clocks += cut_rows(d, grid);
        reader.whole();
        reader.begin(0);
    Bands_Cut:
        for (int band = 0; band < grid_rows; ++band) {
// Not pipelined: the loops inside are.
#pragma HLS LOOP_TRIPCOUNT min=grid_rows max=grid_rows
            clocks += count_columns(d, band, reader, activations);
            clocks += cut_columns(d, band);
        }
        return clocks;
    }

    // In raster order of the grid.
    const Piece<Config>& piece(int unit) const { return piece_[unit]; }

   private:
    static int nonzeros(const Word<Config>& word) {
#pragma HLS INLINE
        int found = 0;
    Lanes_Count:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            found += word.lane[l] != 0 ? 1 : 0;
        }
        return found;
    }

    // Non-zero elements of every row, of the channel words that are counted.
    template <class Activations>
    uint32_t count_rows(const Descriptor& d, Reader& reader, const Activations& activations) {
        total_ = 0;
        if (d.count_step == 0) {
            return 0;
        }
        elements_t of_row = 0;
        int32_t word = 0;
        uint32_t clocks = 0;
        bool running = true;
        PipelinedLoop loop("Rows_Count");
        reader.whole();
        reader.begin(0);
    Rows_Count:
        while (running) {
// II=1: banks are read once a clock and not written; the count of a row is in a register until the row ends; a row
// whose count is still on its way to the memory is the one that is forwarded.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=16384
            loop.iteration();
            Word<Config> cell[T::pixels];
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
            reader.read(activations, cell);
            int found = 0;
        Pixels_Count:
            for (int p = 0; p < T::pixels; ++p) {
#pragma HLS UNROLL
                found += nonzeros(cell[p]);
            }
            of_row = static_cast<elements_t>(of_row + found);
            total_ = static_cast<count_t>(total_ + found);
            if (reader.row_ends()) {
                row_count_.add(static_cast<int32_t>(reader.row()), of_row, word == 0);
                of_row = 0;
            }
            running = next_segment(d, reader, word);
            ++clocks;
        }
        return clocks + Config::engine_depth;
    }

    // The same for the columns of a band. A band without a row has no counts.
    template <class Activations>
    uint32_t count_columns(const Descriptor& d, int band, Reader& reader, const Activations& activations) {
        const number_t rows = static_cast<number_t>(band_row_[band + 1] - band_row_[band]);
        total_ = 0;
        if (d.count_step == 0) {
            return 0;
        }
        int32_t word = 0;
        uint32_t clocks = 0;
        bool running = rows > 0;
        PipelinedLoop loop("Columns_Count");
        reader.next_band(static_cast<typename Geometry<Config>::coordinate_t>(rows));
        reader.begin(0);
    Columns_Count:
        while (running) {
// II=1: banks are read once a clock and not written; every pixel of a segment has counts of its own; a segment whose
// counts are still on their way to the memory is the one that is forwarded.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=16384
            loop.iteration();
            Word<Config> cell[T::pixels];
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
            reader.read(activations, cell);
            const int32_t segment = static_cast<int32_t>(reader.segment());
            const bool starts = word == 0 && reader.row() == band_row_[band];
        Pixels_Count:
            for (int p = 0; p < T::pixels; ++p) {
#pragma HLS UNROLL
                const elements_t found = static_cast<elements_t>(nonzeros(cell[p]));
                column_count_[p].add(segment, found, starts);
                total_ = static_cast<count_t>(total_ + found);
            }
            running = next_segment(d, reader, word);
            ++clocks;
        }
        return clocks + Config::engine_depth;
    }

    // To the next segment of the walk, or to the next channel word that is counted; false: there is none.
    static bool next_segment(const Descriptor& d, Reader& reader, int32_t& word) {
#pragma HLS INLINE
        reader.next();
        if (!reader.finished()) {
            return true;
        }
        word += d.count_step;
        if (word >= d.channel_words) {
            return false;
        }
        reader.begin(static_cast<typename Geometry<Config>::word_t>(word));
        return true;
    }

    uint32_t cut_rows(const Descriptor& d, const StripGrid<Config>& grid) {
    Bands_Clear:
        for (int band = 0; band <= grid_rows; ++band) {
#pragma HLS UNROLL
            band_row_[band] = band == 0 ? static_cast<number_t>(0) : static_cast<number_t>(d.input_height);
            band_address_[band] = 0;
        }
        LimitWalk<Config, grid_rows> walk;
        walk.start(d.input_height, total_, d.piece_rows);
        const R one = R::one(T::kernel, grid.pitch);
        R row = R::zero();
        PipelinedLoop loop("Rows_Cut");
    Rows_Cut:
        for (int32_t line = 0; line < d.input_height; ++line) {
// II=1: counts are read only, and the share of a line is known before it is compared; from line to line there is one
// comparison with a sum behind it. A line is cut off by its own count: none is read ahead.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=T::rows
            loop.iteration();
            if (walk.next(static_cast<count_t>(row_count_.read(line)))) {
                band_row_[walk.piece()] = static_cast<number_t>(line);
                band_address_[walk.piece()] = row.quotient;
            }
            row = row.plus(one, T::kernel, grid.pitch);
        }
        walk.finish();
        return static_cast<uint32_t>(d.input_height);
    }

    uint32_t cut_columns(const Descriptor& d, int band) {
    Pieces_Clear:
        for (int i = 0; i < grid_columns; ++i) {
#pragma HLS UNROLL
            Piece<Config>& piece = piece_[band * grid_columns + i];
            piece.first_row = band_row_[band];
            piece.end_row = band_row_[band + 1];
            piece.first_column = i == 0 ? static_cast<number_t>(0) : static_cast<number_t>(d.input_width);
            piece.end_column = d.input_width;
            piece.origin = band_address_[band];
        }
        LimitWalk<Config, grid_columns> walk;
        walk.start(d.input_width, total_, d.piece_columns);
        const R one = R::one(T::kernel, 1);
        R column = R::zero();
        int32_t segment = 0;
        int32_t pixel = 0;
        PipelinedLoop loop("Columns_Cut");
    Columns_Cut:
        for (int32_t line = 0; line < d.input_width; ++line) {
// II=1: as for rows; the count of a column is chosen among those of its segment.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=T::segments* T::pixels
            loop.iteration();
            if (walk.next(static_cast<count_t>(column_count_[pixel].read(segment)))) {
                const int32_t next = band * grid_columns + walk.piece();
                piece_[next - 1].end_column = static_cast<number_t>(line);
                piece_[next].first_column = static_cast<number_t>(line);
                piece_[next].origin = static_cast<number_t>(band_address_[band] + column.quotient);
            }
            column = column.plus(one, T::kernel, 1);
            ++pixel;
            if (pixel == T::pixels) {
                pixel = 0;
                ++segment;
            }
        }
        walk.finish();
        return static_cast<uint32_t>(d.input_width);
    }

    LineCounts<Config, T::rows> row_count_;
    LineCounts<Config, T::segments> column_count_[T::pixels];
    count_t total_;  // of the counts of an axis; 0: there are none
    number_t band_row_[grid_rows + 1];
    number_t band_address_[grid_rows + 1];
    Piece<Config> piece_[T::units];
};

}  // namespace bfpga
