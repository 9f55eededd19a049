// The way of finished passes back to memory: forwarder, word assembly, write slots.
//
// While a pass multiplies, the rows of the pass before leave the forwarder one a clock, from row 0 on, the same row of
// all columns at once (BFP R64). `lanes` rows make a word; a complete word waits in the outgoing registers and is
// written during the clocks of the next word.
#pragma once
#include "bfpga/memory/outgoing_words.hpp"

namespace bfpga {

template <class Config>
class WriteBack {
    using G = Geometry<Config>;
    using word_t = typename G::word_t;
    using coordinate_t = typename G::coordinate_t;
    using parameter_address_t = typename G::parameter_address_t;

   public:
    WriteBack() {
#pragma HLS ARRAY_PARTITION variable=pixel_ complete dim=0
    }

    // Puts column i on output pixel i. In the same clocks as the operand walk.
    void start(const Descriptor& d, bool writes) {
        walk_ = output_walk<Config>(d);
        Pixel<Config> pixel = Pixel<Config>::first(walk_);
    Columns_Place:
        for (int i = 0; i < Config::columns; ++i) {
// II=1: the walk from pixel to pixel is two additions and a comparison, one clock.
#pragma HLS PIPELINE II=1
            pixel_[i] = pixel;
            pixel = pixel.after(walk_.step, walk_);
        }
        remaining_ = d.output_pixels;
        group_ = static_cast<coordinate_t>(active_columns<Config>(d));
        blocks_ = d.blocks;
        output_rows_ = d.output_rows;
        rows_ = d.output_rows;
        block_rows_ = static_cast<coordinate_t>(block_rows<Config>(d));
        block_words_ = static_cast<coordinate_t>(block_rows<Config>(d) / Config::lanes);
        parameter_base_ = d.parameter_base;
        parameter_ = d.parameter_base;
        words_.start(d.write_slots);
        window_ = d.write_slots > Config::lanes ? static_cast<coordinate_t>(d.write_slots)
                                                : static_cast<coordinate_t>(Config::lanes);
        runs_ = d.write_runs != 0;
        writes_ = writes;
        block_ = 0;
        block_word_ = 0;
        started_ = false;
        draining_ = false;
    }

    bool draining() const { return draining_; }
    // A row leaves the forwarder in this clock.
    bool row_leaves() const { return draining_ && word_ < block_words_ && clock_ < Config::lanes; }
    int row() const { return static_cast<int>(word_) * Config::lanes + static_cast<int>(clock_); }
    bool row_exists() const { return row() < rows_; }
    bool covers(int column) const { return column < remaining_ && column < group_; }
    parameter_address_t parameter() const { return parameter_ + row(); }

    // Takes the mantissa that column i made of the row that leaves now.
    void assemble(int column, typename G::mantissa_t mantissa) {
#pragma HLS INLINE
        words_.assemble(column, static_cast<int>(clock_), mantissa);
    }

    // One clock of the write port. Before `next`, so a word is written after the clock in which it became complete.
    template <class Memory>
    void write(Memory& memory) {
#pragma HLS INLINE
        words_.write(memory);
    }

    // One clock of the drain.
    void next() {
#pragma HLS INLINE
        if (!draining_) {
            return;
        }
        ++clock_;
        if (clock_ == window_) {
            clock_ = 0;
            send_word();
            ++word_;
            draining_ = last_ ? word_ <= block_words_ : word_ < block_words_;
        }
    }

    // The accumulators of a pass have entered the forwarder. `last`: one more window follows, to write the last word.
    void begin(bool last) {
#pragma HLS INLINE
        simulation_check(!draining_, "a pass",
                         "is shorter than the drain of the pass before; clocks of a word:", static_cast<int>(window_));
        if (started_) {
            next_pass();
        }
        started_ = true;
        draining_ = true;
        last_ = last;
        clock_ = 0;
        word_ = 0;
    }

   private:
    void next_pass() {
#pragma HLS INLINE
        ++block_;
        block_word_ += block_words_;
        rows_ -= block_rows_;
        parameter_ += block_rows_;
        if (block_ == blocks_) {
            block_ = 0;
            block_word_ = 0;
            rows_ = output_rows_;
            parameter_ = parameter_base_;
            remaining_ -= group_;
        Columns_Group:
            for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
                pixel_[i] = pixel_[i].after(walk_.group, walk_);
            }
        }
    }

    // Words without an output row are not written: they belong to the next pixel.
    void send_word() {
#pragma HLS INLINE
        if (!writes_ || word_ >= block_words_ || static_cast<int>(word_) * Config::lanes >= rows_) {
            return;
        }
        Request<Config> request[Config::columns];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        coordinate_t run[Config::columns];
#pragma HLS ARRAY_PARTITION variable=run complete dim=0
    Columns_Send:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            request[i].active = covers(i);
            request[i].address = pixel_[i].address;
            request[i].address.word += block_word_ + word_;
            run[i] = runs_ ? static_cast<coordinate_t>(pixel_[i].row - pixel_[0].row) : static_cast<coordinate_t>(0);
        }
        words_.send(request, run);
    }

    PixelWalk<Config> walk_;
    Pixel<Config> pixel_[Config::columns];
    coordinate_t remaining_, group_, blocks_, output_rows_, window_;
    bool runs_, writes_;
    // Output channels and words of one pass
    coordinate_t block_rows_, block_words_;
    parameter_address_t parameter_base_;
    // The pass that drains
    bool started_, draining_, last_;
    coordinate_t block_, rows_, word_, clock_;
    word_t block_word_;
    parameter_address_t parameter_;
    OutgoingWords<Config> words_;
};

}  // namespace bfpga
