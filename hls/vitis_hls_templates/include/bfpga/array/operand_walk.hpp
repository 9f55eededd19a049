// The address generator: which activation word every column needs in a clock, and which weight word all of them share.
//
// Order of the clocks: group of `columns` output pixels, row block, kernel row, kernel column, channel word, slot.
// Everything is counted; nothing is divided or multiplied (docs/systolic-array.md, section 4).
#pragma once
#include "bfpga/memory/activation_memory.hpp"

namespace bfpga {

template <class Config>
class OperandWalk {
    using G = Geometry<Config>;
    using word_t = typename G::word_t;
    using coordinate_t = typename G::coordinate_t;
    using weight_address_t = typename G::weight_address_t;

   public:
    OperandWalk() {
#pragma HLS ARRAY_PARTITION variable=pixel_ complete dim=0
    }

    // Puts column i on output pixel i; returns the clocks that takes.
    int start(const Descriptor& d, int slots) {
        walk_ = input_walk<Config>(d);
        limits(d, slots);
        int clocks = 0;
        Pixel<Config> pixel = Pixel<Config>::first(walk_);
    Columns_Place:
        for (int i = 0; i < Config::columns; ++i) {
// II=1: the walk from pixel to pixel is two additions and a comparison, one clock.
#pragma HLS PIPELINE II=1
            pixel_[i] = pixel;
            pixel = pixel.after(walk_.step, walk_);
            ++clocks;
        }
        remaining_ = d.output_pixels;
        group_ = static_cast<coordinate_t>(active_columns<Config>(d));
        block_ = 0;
        block_word_ = 0;
        block_weight_ = d.weight_base;
        first_tap();
        return clocks;
    }

    bool stepping() const { return stepping_; }                   // the pass has kernel steps left
    bool finished() const { return remaining_ <= 0; }             // all groups are done
    int slot() const { return static_cast<int>(slot_); }          // clock of this step
    bool last_slot() const { return slot_ == slots_ - 1; }        // the operands are complete
    bool first_step() const { return first_step_; }               // the accumulators start
    int channel_word() const { return static_cast<int>(word_); }  // j
    bool second_operand() const { return kx_ != 0; }              // SUM
    bool covers(int column) const { return column < remaining_ && column < group_; }
    weight_address_t weight_address() const { return weight_; }

    // Whether the word of this clock counts, for the check of a simulation: the last row block of a depthwise operation
    // may have more words than its pixels, and what it reads behind them reaches no result.
    bool counts() const {
#pragma HLS INLINE
#ifdef BFPGA_WAIVERS_CHECKED
        return static_cast<int>(block_word_) + static_cast<int>(word_) < counted_words_;
#else
        return true;
#endif
    }

    // Which columns read in this clock and where; `mine`: the columns whose operand of this step is decided now.
    void requests(bool test_image, Request<Config> (&request)[Config::columns], bool (&mine)[Config::columns]) const {
#pragma HLS INLINE
        const word_t offset = block_word_ + word_;
    Columns_Request:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            const coordinate_t y = pixel_[i].y + tap_y_;
            const coordinate_t x = pixel_[i].x + tap_x_;
            const bool in_image = y >= 0 && y < height_ && x >= 0 && x < width_;
            const coordinate_t run =
                runs_ ? static_cast<coordinate_t>(pixel_[i].row - pixel_[0].row) : static_cast<coordinate_t>(0);
            mine[i] = run == slot_;
            request[i].active = mine[i] && covers(i) && (in_image || !test_image);
            request[i].address = pixel_[i].address.plus(tap_, walk_.pixel_words);
            request[i].address.word += offset;
        }
    }

    // One clock further inside the pass.
    void next() {
#pragma HLS INLINE
        if (slot_ != slots_ - 1) {
            ++slot_;
            return;
        }
        slot_ = 0;
        first_step_ = false;
        next_word();
    }

    // To the next row block, or to the next group of pixels.
    void next_pass() {
#pragma HLS INLINE
        simulation_check(!stepping_, "a pass", "is shorter than its kernel; group that begins with", 0);
        ++block_;
        block_word_ += block_step_;
        block_weight_ += weight_block_step_;
        if (block_ == blocks_) {
            block_ = 0;
            block_word_ = 0;
            block_weight_ = weight_base_;
            next_group();
        }
        first_tap();
    }

   private:
    void limits(const Descriptor& d, int slots) {
#pragma HLS INLINE
        slots_ = slots;
        blocks_ = d.blocks;
        words_ = d.channel_words;
        kernel_width_ = d.kernel_width;
        kernel_height_ = d.kernel_height;
        dilation_x_ = d.dilation_x;
        dilation_y_ = d.dilation_y;
        height_ = d.input_height;
        width_ = d.input_width;
        runs_ = d.read_runs != 0;
        tap_x_step_ = Address<Config>::of(d.tap_x_word, d.tap_x_bank);
        tap_y_step_ = Address<Config>::of(d.tap_y_word, d.tap_y_bank);
        block_step_ = d.block_step;
        weight_base_ = d.weight_base;
        weight_tap_step_ = d.weight_tap_step;
        weight_block_step_ = d.weight_block_step;
#ifdef BFPGA_WAIVERS_CHECKED
        const bool gemm = static_cast<Operation>(d.operation) == Operation::Gemm;
        counted_words_ = gemm ? d.input_pixel_words : (d.output_rows + Config::lanes - 1) / Config::lanes;
#endif
    }

    void first_tap() {
#pragma HLS INLINE
        slot_ = 0;
        word_ = 0;
        kx_ = 0;
        ky_ = 0;
        tap_x_ = 0;
        tap_y_ = 0;
        tap_ = Address<Config>::of(0, 0);
        tap_row_ = Address<Config>::of(0, 0);
        weight_ = block_weight_;
        weight_tap_ = block_weight_;
        stepping_ = !finished();
        first_step_ = true;
    }

    void next_word() {
#pragma HLS INLINE
        ++word_;
        ++weight_;
        if (word_ == words_) {
            word_ = 0;
            weight_tap_ += weight_tap_step_;
            weight_ = weight_tap_;
            next_tap();
        }
    }

    void next_tap() {
#pragma HLS INLINE
        ++kx_;
        tap_x_ += dilation_x_;
        tap_ = tap_.plus(tap_x_step_, walk_.pixel_words);
        if (kx_ == kernel_width_) {
            kx_ = 0;
            tap_x_ = 0;
            ++ky_;
            tap_y_ += dilation_y_;
            tap_row_ = tap_row_.plus(tap_y_step_, walk_.pixel_words);
            tap_ = tap_row_;
            stepping_ = ky_ != kernel_height_;
        }
    }

    void next_group() {
#pragma HLS INLINE
        remaining_ -= group_;
    Columns_Group:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            pixel_[i] = pixel_[i].after(walk_.group, walk_);
        }
    }

    PixelWalk<Config> walk_;
    Pixel<Config> pixel_[Config::columns];
    coordinate_t remaining_;  // output pixels from this group on
    coordinate_t group_;      // columns that work
    // Limits of the counters
    coordinate_t slots_, blocks_, words_, kernel_width_, kernel_height_, dilation_x_, dilation_y_, height_, width_;
    bool runs_;
    Address<Config> tap_x_step_, tap_y_step_;
    word_t block_step_;
    weight_address_t weight_base_, weight_tap_step_, weight_block_step_;
    // Counters
    coordinate_t slot_, word_, kx_, ky_, block_, tap_x_, tap_y_;
    Address<Config> tap_, tap_row_;
    word_t block_word_;
    weight_address_t block_weight_, weight_tap_, weight_;
    bool stepping_, first_step_;
#ifdef BFPGA_WAIVERS_CHECKED
    int counted_words_ = 0;
#endif
};

}  // namespace bfpga
