// Output pieces in the formats of input pieces: COO32 and BITMAP (SC R127, R145).
//
// Cells are taken tile by tile, one a clock, from a map that answers at (row, column). `Sink` takes 32-bit words
// (write).
#pragma once
#include "bfpga/sparse_cluster/units/payload.hpp"

namespace bfpga {

// The cells of a piece in the order of its micro-tiles, also those of border tiles that lie outside.
template <class Config>
class TileOrder {
   public:
    TileOrder(int rows, int columns) : rows_(rows), columns_(columns) {}

    int row() const { return tile_row_ + down_; }
    int column() const { return tile_column_ + right_; }
    bool inside() const { return row() < rows_ && column() < columns_; }
    bool finished() const { return tile_row_ >= rows_; }
    bool ends_tile() const { return down_ == Config::tile_rows - 1 && right_ == Config::tile_columns - 1; }
    // Number of the cell in its tile.
    int cell() const { return cell_; }

    void next() {
#pragma HLS INLINE
        const bool tile = ends_tile();
        cell_ = tile ? 0 : cell_ + 1;
        if (right_ < Config::tile_columns - 1) {
            ++right_;
            return;
        }
        right_ = 0;
        down_ = tile ? 0 : down_ + 1;
        if (tile) {
            tile_column_ += Config::tile_columns;
            if (tile_column_ >= columns_) {
                tile_column_ = 0;
                tile_row_ += Config::tile_rows;
            }
        }
    }

   private:
    int32_t rows_, columns_;
    int32_t tile_row_ = 0, tile_column_ = 0, down_ = 0, right_ = 0, cell_ = 0;
};

// Puts fields of whole bytes (1 to 4) behind each other and gives words away when they are full.
class WordPacker {
   public:
    void clear() {
#pragma HLS INLINE
        buffer_ = 0;
        held_ = 0;
    }

    // True if `word` is full.
    bool put(uint32_t field, int bytes, uint32_t& word) {
#pragma HLS INLINE
        buffer_ |= static_cast<uint64_t>(field) << (8 * held_);
        held_ += bytes;
        word = static_cast<uint32_t>(buffer_);
        const bool full = held_ >= 4;
        if (full) {
            buffer_ >>= 32;
            held_ -= 4;
        }
        return full;
    }

    // The last word, padded with zeros; false if there is none.
    bool finish(uint32_t& word) {
#pragma HLS INLINE
        word = static_cast<uint32_t>(buffer_);
        const bool any = held_ > 0;
        clear();
        return any;
    }

   private:
    uint64_t buffer_ = 0;
    int32_t held_ = 0;
};

// What was written: the fields of the descriptor that nobody knows before.
struct Compressed {
    int32_t non_zeros;
    int32_t payload_words;
};

template <class Config>
class PieceWriter {
    using T = TileUnitTypes<Config>;
    static_assert(T::tile_cells <= 32, "the mask of a micro-tile fits a word");
    static constexpr int mask_bytes = divided_up(T::tile_cells, 8);
    static constexpr int value_words = divided_up(Config::piece_rows * Config::piece_columns, 2);

   public:
    PieceWriter() {
#pragma HLS BIND_STORAGE variable=value_ type=ram_s2p impl=lutram
    }

    template <class Map, class Sink>
    Compressed coo32(int rows, int columns, const Map& map, Sink& sink) {
        Compressed result = {0, 0};
        TileOrder<Config> order(rows, columns);
    Cells_Write:
        while (!order.finished()) {
// II=1: a cell a clock, a word at most.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::piece_rows* Config::piece_columns
            const int32_t value = cell(order, map);
            if (value != 0) {
                sink.write((static_cast<uint32_t>(value) & 0xFFFF) | static_cast<uint32_t>(order.column()) << 16 |
                           static_cast<uint32_t>(order.row()) << 24);
                ++result.non_zeros;
            }
            order.next();
        }
        result.payload_words = result.non_zeros;
        return result;
    }

    // Masks leave as they are complete; values wait in memory, because they stand behind all masks.
    template <class Map, class Sink>
    Compressed bitmap(int rows, int columns, int value_bytes, const Map& map, Sink& sink) {
        Compressed result = {0, 0};
        int stored = 0;
        masks(rows, columns, value_bytes, map, sink, result, stored);
    Values_Write:
        for (int n = 0; n < stored; ++n) {
// II=1: a word of the memory a clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::piece_rows* Config::piece_columns / 2
            sink.write(value_[n]);
        }
        result.payload_words += stored;
        return result;
    }

   private:
    template <class Map, class Sink>
    void masks(int rows, int columns, int value_bytes, const Map& map, Sink& sink, Compressed& result, int& stored) {
        TileOrder<Config> order(rows, columns);
        WordPacker packed_masks;
        WordPacker packed_values;
        uint32_t mask = 0;
        uint32_t word = 0;
    Cells_Mask:
        while (!order.finished()) {
// II=1: a cell a clock; a word of masks leaves and a word of values is stored at most.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::piece_rows* Config::piece_columns
            const int32_t value = cell(order, map);
            if (value != 0) {
                mask |= static_cast<uint32_t>(1) << order.cell();
                ++result.non_zeros;
                const uint32_t bytes = static_cast<uint32_t>(value) & (value_bytes == 1 ? 0xFFU : 0xFFFFU);
                if (packed_values.put(bytes, value_bytes, word)) {
                    value_[stored] = word;
                    ++stored;
                }
            }
            if (order.ends_tile()) {
                if (packed_masks.put(mask, mask_bytes, word)) {
                    sink.write(word);
                    ++result.payload_words;
                }
                mask = 0;
            }
            order.next();
        }
        if (packed_masks.finish(word)) {
            sink.write(word);
            ++result.payload_words;
        }
        if (packed_values.finish(word)) {
            value_[stored] = word;
            ++stored;
        }
    }

    template <class Map>
    static int32_t cell(const TileOrder<Config>& order, const Map& map) {
#pragma HLS INLINE
        return order.inside() ? static_cast<int32_t>(map.at(order.row(), order.column())) : 0;
    }

    uint32_t value_[value_words] = {};
};

}  // namespace bfpga
