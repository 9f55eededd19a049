// Pieces as they come: a descriptor of eight words, then a COO32 or BITMAP payload, one non-zero a clock (SC 2.3, 2.4).
//
// A reader gives what a unit's source must have: has, front, pop. `Words` gives 32-bit words (read).
#pragma once
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

// How a piece is written.
enum class PiecePayload { Dense, Coo32, Bitmap, Tree };

// The words before a payload.
struct PieceHeader {
    static constexpr int words = 8;
    PiecePayload payload;
    bool last_piece;
    bool last_channel;
    bool clear_accumulators;
    bool halo;
    int32_t value_bytes;
    int32_t block_exponent;
    int32_t channel;
    int32_t unit;
    int32_t fold;
    int32_t row, column, rows, columns;                              // input cells that are stored
    int32_t output_row, output_column, output_rows, output_columns;  // outputs that the unit owns
    int32_t non_zeros;
    int32_t tile_rows;
    int32_t tile_columns;
    int32_t payload_words;

    static PieceHeader decode(const uint32_t (&word)[words]) {
#pragma HLS INLINE
        simulation_check((word[0] & 0xCFFF) == 0x151, "a piece", "begins with the word", word[0]);
        PieceHeader header;
        header.payload = static_cast<PiecePayload>(word[0] >> 12 & 3);
        header.last_piece = (word[0] >> 16 & 1) != 0;
        header.last_channel = (word[0] >> 17 & 1) != 0;
        header.clear_accumulators = (word[0] >> 18 & 1) != 0;
        header.halo = (word[0] >> 19 & 1) != 0;
        header.value_bytes = static_cast<int32_t>(word[0] >> 20 & 1) + 1;
        header.block_exponent = static_cast<int8_t>(word[0] >> 24);
        header.channel = static_cast<int32_t>(word[1] & 0xFFFF);
        header.unit = static_cast<int32_t>(word[1] >> 16 & 0xFF);
        header.fold = static_cast<int32_t>(word[1] >> 24);
        halves(word[2], header.row, header.column);
        halves(word[3], header.rows, header.columns);
        halves(word[4], header.output_row, header.output_column);
        halves(word[5], header.output_rows, header.output_columns);
        header.non_zeros = static_cast<int32_t>(word[6] & 0xFFFFFF);
        header.tile_rows = static_cast<int32_t>(word[6] >> 24 & 15) + 1;
        header.tile_columns = static_cast<int32_t>(word[6] >> 28) + 1;
        header.payload_words = static_cast<int32_t>(word[7]);
        return header;
    }

    void encode(uint32_t (&word)[words]) const {
#pragma HLS INLINE
        word[0] = 0x151U | static_cast<uint32_t>(payload) << 12 | bit(last_piece, 16) | bit(last_channel, 17) |
                  bit(clear_accumulators, 18) | bit(halo, 19) | bit(value_bytes == 2, 20) |
                  static_cast<uint32_t>(block_exponent) << 24;
        word[1] = static_cast<uint32_t>(channel | unit << 16) | static_cast<uint32_t>(fold) << 24;
        word[2] = static_cast<uint32_t>(row) | static_cast<uint32_t>(column) << 16;
        word[3] = static_cast<uint32_t>(rows) | static_cast<uint32_t>(columns) << 16;
        word[4] = static_cast<uint32_t>(output_row) | static_cast<uint32_t>(output_column) << 16;
        word[5] = static_cast<uint32_t>(output_rows) | static_cast<uint32_t>(output_columns) << 16;
        word[6] = static_cast<uint32_t>(non_zeros) | static_cast<uint32_t>(tile_rows - 1) << 24 |
                  static_cast<uint32_t>(tile_columns - 1) << 28;
        word[7] = static_cast<uint32_t>(payload_words);
    }

   private:
    static uint32_t bit(bool set, int position) { return static_cast<uint32_t>(set ? 1 : 0) << position; }
    static void halves(uint32_t word, int32_t& low, int32_t& high) {
#pragma HLS INLINE
        low = static_cast<int32_t>(word & 0xFFFF);
        high = static_cast<int32_t>(word >> 16);
    }
};

// COO32: a word is a value with its place.
template <class Config, class Words>
class Coo32Reader {
   public:
    explicit Coo32Reader(Words& words) : words_(words) {}

    void start(const PieceHeader& header) {
        left_ = header.non_zeros;
        next();
    }

    bool has() const { return left_ > 0; }
    const PieceValue<Config>& front() const { return front_; }
    void pop() {
#pragma HLS INLINE
        --left_;
        next();
    }

   private:
    void next() {
#pragma HLS INLINE
        if (left_ > 0) {
            const uint32_t word = words_.read();
            front_.value = static_cast<int16_t>(word & 0xFFFF);
            front_.column = static_cast<int>(word >> 16 & 0xFF);
            front_.row = static_cast<int>(word >> 24);
        }
    }

    Words& words_;
    PieceValue<Config> front_ = {};
    int32_t left_ = 0;
};

// Takes fields of a whole number of bytes (1 to 4) out of words: one field a clock, a word is read when it is needed.
template <class Words>
class ByteFields {
   public:
    explicit ByteFields(Words& words) : words_(words) {}

    uint32_t take(int bytes) {
#pragma HLS INLINE
        if (held_ < bytes) {
            buffer_ |= static_cast<uint64_t>(words_.read()) << (8 * held_);
            held_ += 4;
        }
        const uint32_t field = static_cast<uint32_t>(buffer_ & ((static_cast<uint64_t>(1) << (8 * bytes)) - 1));
        buffer_ >>= 8 * bytes;
        held_ -= bytes;
        return field;
    }

    void clear() {
#pragma HLS INLINE
        buffer_ = 0;
        held_ = 0;
    }

   private:
    Words& words_;
    uint64_t buffer_ = 0;
    int32_t held_ = 0;
};

// BITMAP: the masks of all tiles come first. Those that are not empty are kept with their places, so a value leaves in
// every clock afterwards, whatever tiles are empty.
template <class Config, class Words>
class BitmapReader {
    using T = TileUnitTypes<Config>;
    static_assert(T::tile_cells <= 32, "the mask of a micro-tile fits a word");
    static constexpr int mask_bytes = divided_up(T::tile_cells, 8);
    static constexpr int tiles =
        divided_up(Config::piece_rows, Config::tile_rows) * divided_up(Config::piece_columns, Config::tile_columns);

   public:
    explicit BitmapReader(Words& words) : fields_(words) {
#pragma HLS BIND_STORAGE variable=mask_ type=ram_s2p impl=lutram
#pragma HLS BIND_STORAGE variable=row_ type=ram_s2p impl=lutram
#pragma HLS BIND_STORAGE variable=column_ type=ram_s2p impl=lutram
    }

    void start(const PieceHeader& header) {
        simulation_check(header.tile_rows == Config::tile_rows && header.tile_columns == Config::tile_columns,
                         "a BITMAP piece", "has tiles of another size than the build, rows:", header.tile_rows);
        simulation_check(header.rows <= Config::piece_rows && header.columns <= Config::piece_columns, "a BITMAP piece",
                         "has more rows or columns than the build:", header.rows);
        fields_.clear();
        int kept = 0;
        int row = 0;
        int column = 0;
    Masks_Read:
        while (row < header.rows) {
// II=1: a mask a clock out of the words, one write.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=4096
            const uint32_t mask = fields_.take(mask_bytes);
            if (mask != 0) {
                mask_[kept] = mask;
                row_[kept] = row;
                column_[kept] = column;
                ++kept;
            }
            column += Config::tile_columns;
            if (column >= header.columns) {
                column = 0;
                row += Config::tile_rows;
            }
        }
        fields_.clear();
        value_bytes_ = header.value_bytes;
        left_ = header.non_zeros;
        number_ = 0;
        rest_ = mask_[0];
        next();
    }

    bool has() const { return left_ > 0; }
    const PieceValue<Config>& front() const { return front_; }
    void pop() {
#pragma HLS INLINE
        --left_;
        next();
    }

   private:
    // The first cell that is left in the mask, and the next value.
    void next() {
#pragma HLS INLINE
        if (left_ == 0) {
            return;
        }
        int cell = 0;
    Cells_Find:
        for (int n = T::tile_cells - 1; n >= 0; --n) {
#pragma HLS UNROLL
            if ((rest_ >> n & 1) != 0) {
                cell = n;
            }
        }
        front_.row = row_[number_] + cell / Config::tile_columns;
        front_.column = column_[number_] + cell % Config::tile_columns;
        const uint32_t field = fields_.take(value_bytes_);
        const int32_t value = value_bytes_ == 1 ? static_cast<int8_t>(field) : static_cast<int16_t>(field);
        front_.value = value;
        rest_ &= rest_ - 1;
        if (rest_ == 0 && left_ > 1) {
            ++number_;
            rest_ = mask_[number_];
        }
    }

    ByteFields<Words> fields_;
    uint32_t mask_[tiles] = {};
    uint_t<9> row_[tiles] = {};
    uint_t<9> column_[tiles] = {};
    PieceValue<Config> front_ = {};
    uint32_t rest_ = 0;
    int32_t number_ = 0, left_ = 0, value_bytes_ = 1;
};

}  // namespace bfpga
