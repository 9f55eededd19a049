// The segment reader: the rectangle of the input that an engine sees, a segment a clock (docs/engines.md, section 2).
//
// A segment is `Pixels` pixels of a row, each with the channels of one word. The pixels lie in different banks, so they
// arrive together. Cells behind the last column of the rectangle are zero. Addresses come from additions alone: the
// distance of every port from the first one is placed once, before the walk.
//
// An engine uses it so:
//
//     reader.start(d);                        // whole rectangle
//     port i of an operation's first clocks:  reader.place(i);
//     reader.begin(word);                     // a channel word; again for each one
//     while (!reader.finished()) {            // a clock
//         reader.read(activations, cell);     // cell[i]: pixel column() + i of row(), all lanes
//         reader.next();
//     }
//
// `next_band(rows)` restricts the walks that follow to the rows behind those of the last walk, `whole()` ends that.
#pragma once
#include "bfpga/memory/activation_memory.hpp"

namespace bfpga {

template <class Config, int Pixels>
class SegmentReader {
    using G = Geometry<Config>;
    using A = Address<Config>;
    using word_t = typename G::word_t;
    using coordinate_t = typename G::coordinate_t;
    static_assert(Pixels >= 1 && (Pixels & (Pixels - 1)) == 0, "the pixels of a segment are a power of two");
    static_assert(Pixels <= Config::banks, "the pixels of a segment lie in different banks");

   public:
    SegmentReader() {
#pragma HLS ARRAY_PARTITION variable=offset_ complete dim=0
    }

    // The rectangle of a descriptor; its ports are to be placed.
    void start(const Descriptor& d) {
#pragma HLS INLINE
        pixel_words_ = d.input_pixel_words;
        step_ = A::of(d.input_step_word, d.input_step_bank);
        segment_step_ = A::of(d.input_group_word, d.input_group_bank);
        row_step_ = A::of(d.input_wrap_word, d.input_wrap_bank);
        top_ = A::of(d.input_word, d.input_bank);
        height_ = d.input_height;
        width_ = d.input_width;
        placed_ = A::of(0, 0);
        whole();
    }

    // Clock `port` of the placement; clocks beyond the last port place nothing.
    void place(int port) {
#pragma HLS INLINE
        if (port < Pixels) {
            offset_[port] = placed_;
            placed_ = placed_.plus(step_, pixel_words_);
        }
    }

    // Walks cover all rows.
    void whole() {
#pragma HLS INLINE
        band_at_ = top_;
        band_row_ = 0;
        band_rows_ = height_;
    }

    // Walks cover the `rows` rows behind those of the walk that has just finished; after `whole` and `begin`, the
    // first.
    void next_band(coordinate_t rows) {
#pragma HLS INLINE
        band_at_ = row_at_;
        band_row_ = row_;
        band_rows_ = rows;
    }

    // The walk over a channel word begins.
    void begin(word_t channel_word) {
#pragma HLS INLINE
        word_ = channel_word;
        row_at_ = band_at_;
        row_ = band_row_;
        rows_left_ = band_rows_;
        first_segment();
    }

    bool finished() const { return rows_left_ <= 0; }
    coordinate_t row() const { return row_; }                  // of the rectangle
    coordinate_t segment() const { return segment_; }          // of the row
    coordinate_t column() const { return column_; }            // of the rectangle: the first one of the segment
    bool row_ends() const { return columns_left_ <= Pixels; }  // the last segment of the row
    static coordinate_t segments(int32_t columns) {            // of a row
#pragma HLS INLINE
        return static_cast<coordinate_t>((columns + Pixels - 1) / Pixels);
    }

    // The segment on which the walk stands.
    template <class Activations>
    void read(const Activations& activations, Word<Config> (&cell)[Pixels]) const {
#pragma HLS INLINE
        Request<Config> request[Pixels];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
    Pixels_Request:
        for (int i = 0; i < Pixels; ++i) {
#pragma HLS UNROLL
            cell[i] = Word<Config>::zero();
            request[i].active = i < columns_left_;
            request[i].address = at_.plus(offset_[i], pixel_words_);
            request[i].address.word += word_;
        }
        activations.read(request, cell);
    }

    // To the next segment: of the row, or the first one of the row below.
    void next() {
#pragma HLS INLINE
        if (!row_ends()) {
            at_ = at_.plus(segment_step_, pixel_words_);
            columns_left_ -= Pixels;
            column_ += Pixels;
            ++segment_;
            return;
        }
        row_at_ = row_at_.plus(row_step_, pixel_words_);
        ++row_;
        --rows_left_;
        first_segment();
    }

   private:
    void first_segment() {
#pragma HLS INLINE
        at_ = row_at_;
        columns_left_ = width_;
        column_ = 0;
        segment_ = 0;
    }

    // Of the rectangle
    word_t pixel_words_;
    A step_, segment_step_, row_step_, top_;
    coordinate_t height_, width_;
    A offset_[Pixels];  // from the first pixel of a segment
    A placed_;
    // The rows of a walk
    A band_at_;
    coordinate_t band_row_, band_rows_;
    // The walk
    word_t word_;
    A row_at_, at_;
    coordinate_t row_, rows_left_, columns_left_, column_, segment_;
};

}  // namespace bfpga
