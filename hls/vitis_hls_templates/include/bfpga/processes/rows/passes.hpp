// Where the process of rows is in an operation: which pass over a group of rows, which word, which lane.
//
//     Softmax         largest, sums, totals leave, factors come, results
//     normalization   zeros come, sums, totals leave, factors come, results
//     product         results
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/rows/beats.hpp"

namespace bfpga {

template <class Config>
class RowPasses {
    static constexpr int lanes = Config::lanes;
    using count_t = int_t<Geometry<Config>::coordinate_bits>;

   public:
    using lane_t = uint_t<bit_length(lanes)>;

    void start(RowOperation operation, int32_t channels, int32_t words, int32_t groups) {
#pragma HLS INLINE
        softmax_ = operation == RowOperation::Softmax;
        product_ = operation == RowOperation::Product;
        norm_ = operation == RowOperation::LayerNorm || operation == RowOperation::RmsNorm;
        tail_ = static_cast<lane_t>((channels - 1) & (lanes - 1));
        words_.start(static_cast<count_t>(words));
        groups_.start(static_cast<count_t>(groups));
        lane_ = 0;
        last_lane_ = lanes == 1;
        last_step_ = last_lane_ && words == 1;
        first_lane_ = true;
        first_word_ = product_;
        largest_ = softmax_;
        sums_ = norm_;
        gives_ = product_;
        // Of what the columns have summed before, the other loop knows nothing yet.
        sends_ = !product_;
        begins_ = true;
        open_ = false;
        sent_ = false;
    }

    bool softmax() const { return softmax_; }
    bool product() const { return product_; }
    // Whether the step adds squares: one factor of the first product is x itself.
    bool squares() const { return sums_ && norm_; }
    bool sums() const { return sums_; }
    bool seeks() const { return largest_; }
    // Whether it gives results, each of whose steps takes the gain of its channel.
    bool gives() const { return gives_; }
    bool sends() const { return sends_; }
    bool open() const { return open_; }
    // Whether the next word is the first one of a product, of two.
    bool first_word() const { return first_word_; }
    lane_t lane() const { return lane_; }
    bool last_lane() const { return last_lane_; }
    // Whether the lane is one of the row, and the first one of a pass.
    bool exists() const { return !(words_.last() && lane_ > tail_); }
    bool first_lane() const { return first_lane_; }
    // Whether a step now would be the last one of the operation.
    bool last() const {
        const bool last_group = groups_.last();
        return last_step_ & gives_ & last_group;
    }

    // One cycle. `took`: the first word of a product; `step`: a lane was computed; `sent`: the last column's totals
    // have left; `all`: the last column's factors have come.
    void next(bool took, bool step, bool sent, bool all) {
#pragma HLS INLINE
        const bool word_ends = step & last_lane_;
        const bool pass_ends = step & last_step_;
        const bool group_ends = step & (last_step_ & gives_);
        const bool sums_end = step & (last_step_ & sums_);
        const bool seeks_end = step & (last_step_ & largest_);
        const bool closes = all & sent_;
        if (step) {
            first_lane_ = pass_ends;
            const bool before_last = lanes == 1 || lane_ == lanes - 2;
            last_step_ = lanes == 1 ? words_.last_behind() : before_last && words_.last();
            lane_ = last_lane_ ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_ + 1);
            last_lane_ = before_last;
        }
        first_word_ = (took | word_ends) ? product_ & !first_word_ : first_word_;
        words_.step_late(word_ends, false);
        groups_.step_late(group_ends, false);
        largest_ = (largest_ & !seeks_end) | (group_ends & softmax_);
        sums_ = (sums_ & !sums_end) | seeks_end | (group_ends & norm_);
        sends_ = (sends_ & !sent) | sums_end;
        gives_ = (gives_ & !(group_ends & !product_)) | closes;
        open_ = (open_ & !sums_end & !(group_ends & norm_)) | all;
        sent_ = (sent_ | (sent & !begins_)) & !group_ends;
        begins_ = begins_ & !sent;
    }

   private:
    // Of the operation
    bool softmax_, product_, norm_;
    lane_t tail_;
    Turns<Geometry<Config>::coordinate_bits> words_, groups_;
    // Of the pass: it seeks the largest element, sums, gives results
    bool largest_, sums_, gives_;
    // Totals leave, those of before the operation; those of a pass have left; the columns have their factors
    bool sends_, begins_, sent_, open_;
    // Of the word and of the lane: the first and the last one of a word, of a pass
    bool first_word_, first_lane_, last_lane_, last_step_;
    lane_t lane_;
};

}  // namespace bfpga
