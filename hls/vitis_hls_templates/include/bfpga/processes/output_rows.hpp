// The rows of an operation in the order in which they leave the output stage.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"

namespace bfpga {

// The rows of an operation in the order in which they leave: group of output pixels, block of output rows, row.
template <class Config, bool Slices = Config::skip_activations>
class OutputRows {
    using coordinate_t = typename Geometry<Config>::coordinate_t;
    using lane_t = uint_t<bit_length(Config::lanes)>;

   public:
    void start(const Descriptor& d, int32_t blocks, int32_t rows_of_block) {
#pragma HLS INLINE
        group_ = static_cast<coordinate_t>(group_pixels<Config>(d));
        output_rows_ = d.output_rows;
        pixels_left_ = d.output_pixels;
        rows_left_ = d.output_rows;
        row_.start(rows_of_block);
        block_.start(blocks);
        groups_.start(d.groups);
        exists_ = true;
        lane_ = 0;
        ends_word_ = Config::lanes == 1;
        word_exists_ = false;
    }

    // Blocks may have more rows than the output.
    bool exists() const { return exists_; }
    bool covers(int column) const { return column < pixels_left_ && column < group_; }
    // The row's lane in its word; whether it is the last of the word; whether the word has a row that exists.
    int lane() const { return static_cast<int>(lane_); }
    bool ends_word() const { return ends_word_; }
    bool word_exists() const { return lane_ == 0 ? exists() : word_exists_; }
    bool last() const { return row_.last() && block_.last() && groups_.last(); }

    void next() {
#pragma HLS INLINE
        const bool last_row = row_.last();
        const bool restarts = last_row && block_.last();
        word_exists_ = word_exists();
        next_lane();
        row_.next();
        exists_ = restarts || rows_left_ > 1;
        rows_left_ = restarts ? output_rows_ : static_cast<coordinate_t>(rows_left_ - 1);
        if (last_row) {
            block_.next();
        }
        if (restarts) {
            groups_.next();
            pixels_left_ -= group_;
        }
    }

   private:
    void next_lane() {
#pragma HLS INLINE
        const lane_t lane = ends_word_ ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_ + 1);
        ends_word_ = Config::lanes == 1 || (!ends_word_ && lane_ == Config::lanes - 2);
        lane_ = lane;
    }

    // Of the operation: columns that work, output channels
    coordinate_t group_, output_rows_;
    Turns<Geometry<Config>::coordinate_bits> row_, block_, groups_;
    // What is left, with the row and the group under way
    coordinate_t pixels_left_, rows_left_;
    bool exists_;
    lane_t lane_;
    bool ends_word_, word_exists_;
};

// The same of an array that skips zeros of activations, whose blocks stay for all groups of a run: run, block of output
// rows, group of output pixels, row. Of other operations a run is a group.
template <class Config>
class OutputRows<Config, true> {
    using coordinate_t = typename Geometry<Config>::coordinate_t;
    using lane_t = uint_t<bit_length(Config::lanes)>;
    using Counter = Turns<Geometry<Config>::coordinate_bits>;
    static constexpr int groups_of_run = Config::skip_halves * Config::skip_passes;
    static_assert((groups_of_run & (groups_of_run - 1)) == 0, "groups of a run are the lower bits of their number");
    static constexpr int shift = bit_length(groups_of_run) - 1;

   public:
    void start(const Descriptor& d, int32_t blocks, int32_t rows_of_block) {
#pragma HLS INLINE
        const bool slices = on_skip_array<Config>(d);
        const int32_t others = d.groups - 1;
        group_ = static_cast<coordinate_t>(group_pixels<Config>(d));
        output_rows_ = d.output_rows;
        rows_of_block_ = static_cast<coordinate_t>(rows_of_block);
        of_run_ = d.output_pixels;
        pixels_left_ = d.output_pixels;
        of_block_ = d.output_rows;
        rows_left_ = d.output_rows;
        row_.start(rows_of_block);
        block_.start(blocks);
        runs_.start(slices ? (others >> shift) + 1 : d.groups);
        whole_.start(slices ? groups_of_run : 1);
        rest_.start(slices ? (others & (groups_of_run - 1)) + 1 : 1);
        exists_ = true;
        lane_ = 0;
        ends_word_ = Config::lanes == 1;
        word_exists_ = false;
    }

    bool exists() const { return exists_; }
    bool covers(int column) const { return column < pixels_left_ && column < group_; }
    int lane() const { return static_cast<int>(lane_); }
    bool ends_word() const { return ends_word_; }
    bool word_exists() const { return lane_ == 0 ? exists() : word_exists_; }
    bool last() const { return row_.last() && last_group() && block_.last() && runs_.last(); }

    void next() {
#pragma HLS INLINE
        const bool group = row_.last();
        const bool slice = group && last_group();
        const bool run = slice && block_.last();
        word_exists_ = word_exists();
        next_lane();
        walk_rows(group, slice, run);
        walk_pixels(group, slice, run);
        row_.next();
        whole_.step(group, slice);
        rest_.step(group, slice);
        block_.step(slice, false);
        runs_.step(run, false);
    }

   private:
    // Of the run that goes on.
    bool last_group() const { return runs_.last() ? rest_.last() : whole_.last(); }

    void next_lane() {
#pragma HLS INLINE
        const lane_t lane = ends_word_ ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_ + 1);
        ends_word_ = Config::lanes == 1 || (!ends_word_ && lane_ == Config::lanes - 2);
        lane_ = lane;
    }

    // After the last row of a group, of a block for the whole run, of a run. Every block has a row that exists.
    void walk_rows(bool group, bool slice, bool run) {
#pragma HLS INLINE
        const coordinate_t below = static_cast<coordinate_t>(of_block_ - rows_of_block_);
        const coordinate_t of_block = run ? output_rows_ : slice ? below : of_block_;
        exists_ = group || rows_left_ > 1;
        rows_left_ = group ? of_block : static_cast<coordinate_t>(rows_left_ - 1);
        of_block_ = of_block;
    }

    void walk_pixels(bool group, bool slice, bool run) {
#pragma HLS INLINE
        const coordinate_t behind = static_cast<coordinate_t>(pixels_left_ - group_);
        of_run_ = run ? behind : of_run_;
        pixels_left_ = slice && !run ? of_run_ : group ? behind : pixels_left_;
    }

    // Of the operation: columns that work, output channels, those of a block
    coordinate_t group_, output_rows_, rows_of_block_;
    Counter row_, block_, runs_;
    Counter whole_, rest_;  // groups of a run, of the last one
    // What is left: from the run on, from the group on; from the block on, from the row on
    coordinate_t of_run_, pixels_left_;
    coordinate_t of_block_, rows_left_;
    bool exists_;
    lane_t lane_;
    bool ends_word_, word_exists_;
};

}  // namespace bfpga
