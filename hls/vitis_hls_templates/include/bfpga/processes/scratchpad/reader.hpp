// The reading side of a computing operation: the pixels of the columns, the passes over them, and what a step requests.
#pragma once
#include "bfpga/processes/scratchpad/banks.hpp"
#include "bfpga/processes/scratchpad/passes.hpp"
#include "bfpga/processes/scratchpad/walker.hpp"

namespace bfpga {

// The pixel of a column: the first tap of its window, in memory and in the image.
template <class Config>
struct WindowPixel {
    using T = ScratchpadTypes<Config>;

    Place<Config> place;
    typename T::coordinate_t y, x;
    typename T::port_t run;  // rows since the group's first pixel
    bool active;
    bool begins_row;  // of the output
};

template <class Config>
class OperandReader {
    using T = ScratchpadTypes<Config>;
    using coordinate_t = typename T::coordinate_t;
    static constexpr int columns = Config::columns;
    // Groups of pixels of a pass at most.
    static constexpr int halves = Config::skip_groups > 0 ? 2 : 1;

   public:
    OperandReader() {
#pragma HLS ARRAY_PARTITION variable=spare_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=pixel_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        nest_.clear();
        walk_.clear();
    Halves_Clear:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
        Columns_Clear:
            for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
                spare_[h][c].active = false;
                pixel_[h][c].active = false;
            }
        }
    }

    // What the walk over the next operation's pixels needs.
    void take_walk(const Descriptor& operation) {
#pragma HLS INLINE
        const Descriptor d = reading_of<Config>(operation);
        walk_.take(d, reads_chunks<Config>(d), d.chunk_buffers);
        setup_.take(Place<Config>::of(d.input_word, d.input_bank),
                    Stride<Config>::of(d.input_step_word, d.input_step_bank, d.input_pixel_words), d.input_wrap_word,
                    d.input_wrap_bank, d.input_pixel_words);
        stride_y_ = static_cast<coordinate_t>(d.stride_y);
        stride_x_ = static_cast<coordinate_t>(d.stride_x);
        top_ = static_cast<coordinate_t>(-d.pad_top);
        left_ = static_cast<coordinate_t>(-d.pad_left);
    }

    // What its passes need.
    void take_passes(const Descriptor& command) {
#pragma HLS INLINE
        const Descriptor d = reading_of<Config>(command);
        nest_.take(d);
        const Operation operation = static_cast<Operation>(d.operation);
        wide_ = takes_accumulators<Config>(d);
        vector_ = operation != Operation::Gemm || wide_;
        neighbours_ = reuses_taps<Config>(d);
        weighs_ = bfpga::weighs<Config>(d);
        rows_ = works_on_rows<Config>(d);
        tests_image_ = operation != Operation::Sum && !rows_;  // the taps of both are operands
        runs_ = d.read_runs != 0;
        pixel_words_ = static_cast<typename T::word_t>(d.input_pixel_words);
        height_ = static_cast<coordinate_t>(d.input_height);
        width_ = static_cast<coordinate_t>(d.input_width);
    }

    // Whether the passes of an operation go on; whether its walk is done, so that another one's may begin.
    bool running() const { return nest_.running(); }
    bool walked() const { return walk_.through(); }
    bool vector() const { return vector_; }
    // Whether its operands become weights.
    bool weighs() const { return Config::operand_weights && weighs_; }
    // Whether its operands go to the process of rows.
    bool rows() const { return rows_; }
    // Whether columns take taps from adjacent ones, and whether no pixel is to the left of a column's.
    bool neighbours() const { return neighbours_; }
    bool begins_row(int column) const { return pixel_[0][column].begins_row; }
    const ReadIssue<Config>& issue() const { return nest_.issue(); }
    const PassChunks<Config>& chunks() const { return nest_.chunks(); }

    // Read columns of this cycle, and their addresses; `mine`: the columns whose operand of this step is chosen now.
    void requests(PortRequest<Config> (&request)[T::ports], bool (&mine)[columns]) const {
#pragma HLS INLINE
        const ReadIssue<Config>& issue = nest_.issue();
        Stride<Config> tap;
        tap.bank = issue.tap.bank;
        tap.raised = raised_step<Config>(tap.bank);
        tap.word = static_cast<typename T::word_t>(issue.tap.word + issue.offset);
        tap.carried = static_cast<typename T::word_t>(tap.word + pixel_words_);
    Columns_Request:
        for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
            const WindowPixel<Config>& pixel = pixel_[nest_.chunks().half()][c];
            const coordinate_t y = static_cast<coordinate_t>(pixel.y + issue.y);
            const coordinate_t x = static_cast<coordinate_t>(pixel.x + issue.x);
            const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
            mine[c] = !runs_ || pixel.run == issue.slot;
            request[c].active = mine[c] && pixel.active && (inside || !tests_image_);
            request[c].place = pixel.place.after(tap);
        }
    }

    // Whether the word of this cycle counts, for the check of a simulation: the last row block of a depthwise
    // operation, or of accumulators, may have more words than its pixels, and reads beyond them reach no result.
    bool counts() const {
#pragma HLS INLINE
        return (vector_ && !wide_) || nest_.issue().offset < pixel_words_;
    }

    // Whether a step reads: it begins a pass or goes on with one. `may`: no store has the port.
    bool goes(bool may) const { return nest_.goes(may); }
    // Whether the results of a group are awaited from now on.
    bool asks(bool may) const { return nest_.asks(may); }

    // Whether a pass has begun in the cycle before.
    bool begun() const { return nest_.begun(); }

    // One cycle; `returned`: the results of a group have arrived; `left`: the array has left a chunk; `lets`: a pass
    // may begin, as far as the words go that it adds; `walks`: the walk of an operation starts; `starts`: its passes
    // do, not before. Returns whether it is one of the operation's work.
    bool step(bool may, bool returned, bool left, bool lets, bool walks, bool starts) {
#pragma HLS INLINE
        const bool take = nest_.takes_group(may);
        const bool work = nest_.step(may, walk_.full(), walk_.fills_up(), returned, left, lets, starts);
        hand_over(take);
        fill(walks);
        walk_.step(setup_, take, walks);
        return work;
    }

   private:
    void hand_over(bool take) {
#pragma HLS INLINE
    Halves_Take:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
        Columns_Take:
            for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
                if (take) {
                    pixel_[h][c] = spare_[h][c];
                    spare_[h][c].active = false;
                }
            }
        }
    }

    // The walk's pixel goes to its column.
    void fill(bool starts) {
#pragma HLS INLINE
        const bool fills = walk_.fills();
        const bool ends = walk_.ends_row();
        const WindowPixel<Config> here = {walk_.place(), y_, x_, run_, walk_.active(), walk_.begins_row()};
    Halves_Fill:
        for (int h = 0; h < halves; ++h) {
#pragma HLS UNROLL
        Columns_Fill:
            for (int c = 0; c < columns; ++c) {
#pragma HLS UNROLL
                if (fills && walk_.half() == h && walk_.column() == c) {
                    spare_[h][c] = here;
                }
            }
        }
        const coordinate_t next_x = ends ? left_ : static_cast<coordinate_t>(x_ + stride_x_);
        const coordinate_t next_y = ends ? static_cast<coordinate_t>(y_ + stride_y_) : y_;
        const typename T::port_t next_run = walk_.last_column()
                                                ? static_cast<typename T::port_t>(0)
                                                : static_cast<typename T::port_t>(run_ + (ends ? 1 : 0));
        const bool returns = fills && walk_.returns();
        const bool marks = starts || (fills && walk_.goes_on());
        if (starts) {
            x_ = left_;
            y_ = top_;
            run_ = 0;
        } else if (fills) {
            x_ = returns ? begin_x_ : next_x;
            y_ = returns ? begin_y_ : next_y;
            run_ = next_run;
        }
        if (Config::skip_activations && marks) {
            begin_x_ = x_;
            begin_y_ = y_;
        }
    }

    // The operation
    WalkSetup<Config> setup_;
    bool weighs_;
    bool vector_, rows_, wide_, neighbours_, tests_image_, runs_;
    typename T::word_t pixel_words_;
    coordinate_t height_, width_, stride_y_, stride_x_, top_, left_;
    // The walk
    PassNest<Config> nest_;
    using Repeats = typename std::conditional<Config::skip_activations, RunRepeats<Config, Config::skip_passes>,
                                              OnePass<Config>>::type;
    SerialWalk<Config, halves, Repeats> walk_;
    coordinate_t y_, x_;
    coordinate_t begin_y_, begin_x_;  // of the run
    typename T::port_t run_;
    WindowPixel<Config> spare_[halves][columns], pixel_[halves][columns];
};

}  // namespace bfpga
