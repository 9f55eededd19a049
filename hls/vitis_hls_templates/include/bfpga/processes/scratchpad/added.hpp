// The tensor that a product adds to its sums, on its way from the scratchpad to the output stage: the pixels of a group
// after each other, a word of all of them in a cycle, in the order of the results.
//
// Every word meets a word of results, and a word of results that has come back is a credit for another one. So no more
// words are on the way than their stream holds, whatever waits behind the array, and the loop never waits to send one.
// A pass begins when the words of all passes before it have been sent: so the sums before it can leave, and the loop
// never waits with its operands for sums that wait for words of the same loop.
#pragma once
#include "bfpga/memory/adds_tensor.hpp"
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/pass_shape.hpp"
#include "bfpga/processes/scratchpad/banks.hpp"
#include "bfpga/processes/scratchpad/passes.hpp"

namespace bfpga {

// A kernel whose products add nothing.
template <class Config, bool There = Config::residual_adds>
class AddedReader {
   public:
    void clear() {}
    void take(const Descriptor&) {}
    bool running() const { return false; }
    bool lets(bool) const { return true; }
    bool wants() const { return false; }
    bool issued() const { return false; }
    void requests(PortRequest<Config> (&)[ScratchpadTypes<Config>::ports]) const {}
    void step(bool, bool, bool, bool) {}
};

template <class Config>
class AddedReader<Config, true> {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;
    static constexpr int bits = Geometry<Config>::coordinate_bits;
    static constexpr int pass_bits = bit_length(2 * Config::words_per_block) + 1;
    // Words on the way to results; flags that lag let two more go than this.
    static constexpr int may_be_out = ProcessLimits::added_words - 2;
    using out_t = uint_t<bit_length(ProcessLimits::added_words)>;
    // Passes whose words have been sent are at most as many as words, and one more.
    using ahead_t = uint_t<bit_length(ProcessLimits::added_words + 1)>;

   public:
    void clear() {
#pragma HLS INLINE
        running_ = false;
        issue_.valid = false;
        out_ = 0;
        room_ = true;
        joins_ = false;
        ahead_ = 1;
        any_ = true;
        several_ = false;
    }

    // What the next operation needs.
    void take(const Descriptor& d) {
#pragma HLS INLINE
        const int pixels = group_pixels<Config>(d);
        adds_ = adds_tensor<Config>(d);
        pixel_words_ = static_cast<word_t>(added_pixel_words(d));
        first_ = Place<Config>::of(added_word(d), added_bank(d));
        group_ = Stride<Config>::of(0, 0, added_pixel_words(d))
                     .plus(0, static_cast<typename T::bank_sum_t>(pixels), pixel_words_);
        pixels_ = static_cast<int_t<bits>>(pixels);
        pixel_count_ = static_cast<int_t<bits>>(d.output_pixels);
        words_.set(static_cast<int_t<bits>>(output_words<Config>(d)));
        pass_.set(static_cast<int_t<pass_bits>>(pass_words<Config>(d)));
        groups_.set(static_cast<int_t<bits>>(d.groups));
    }

    bool running() const { return running_; }
    // Whether a pass may begin; `begun`: another one did in the cycle before.
    bool lets(bool begun) const { return !joins_ | several_ | (any_ & !begun); }
    // It reads next, before any operand: what the results wait for comes first.
    bool wants() const { return running_ & room_; }
    // The request of the step before is read in this one.
    bool issued() const { return issue_.valid; }

    void requests(PortRequest<Config> (&request)[T::ports]) const {
#pragma HLS INLINE
    Columns_Request:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            Place<Config>& place = request[i].place;
            const bool carry = bank_sum<Config>(issue_.bank, static_cast<typename T::bank_sum_t>(i), place.bank);
            place.word = carry ? issue_.carried : issue_.word;
            request[i].active = issue_.covers[i];
        }
    }

    // One cycle; `goes`: the port is its own in the next one; `returned`: a word of results has come back; `begun`: a
    // pass did in the cycle before; `starts`: an operation does.
    void step(bool goes, bool returned, bool begun, bool starts) {
#pragma HLS INLINE
        const bool last_word = words_.last();
        const bool group = goes & last_word;
        const bool ends_pass = last_word | pass_.last();
        count_passes(goes & ends_pass, begun & joins_);
        joins_ = starts ? adds_ : joins_;
        simulation_check(!starts || ahead_ == 1, "an operation",
                         "begins with passes of the one before left, ahead:", static_cast<long long>(ahead_));
        issue(goes);
        room_ = out_ < may_be_out;
        const bool more = goes & !returned;
        const bool fewer = returned & !goes;
        out_ = more ? static_cast<out_t>(out_ + 1) : fewer ? static_cast<out_t>(out_ - 1) : out_;
        simulation_check(out_ <= ProcessLimits::added_words, "a product",
                         "adds more words than have room, on the way:", static_cast<long long>(out_));
        running_ = (starts & adds_) | (running_ & !(group & groups_.last()));
        if (goes) {
            word_ = last_word ? static_cast<word_t>(0) : static_cast<word_t>(word_ + 1);
        } else if (starts) {
            word_ = 0;
        }
        if (group) {
            place_ = place_.after(group_);
            left_ = static_cast<int_t<bits>>(left_ - pixels_);
        } else if (starts) {
            place_ = first_;
            left_ = pixel_count_;
        }
        words_.step_late(goes, starts);
        pass_.step_late(goes, ends_pass, starts);
        groups_.step_late(group, starts);
    }

   private:
    // One cycle; `sent`: the last word of a pass; `begun`: a pass that needed those of the ones before.
    void count_passes(bool sent, bool begun) {
#pragma HLS INLINE
        const bool more = sent & !begun;
        const bool fewer = begun & !sent;
        simulation_check(!fewer || ahead_ > 0, "a pass",
                         "begins before words of others, which are on the way:", static_cast<long long>(out_));
        any_ = more | (fewer ? several_ : any_);
        several_ = more ? ahead_ > 0 : fewer ? ahead_ > 2 : several_;
        ahead_ = more ? static_cast<ahead_t>(ahead_ + 1) : fewer ? static_cast<ahead_t>(ahead_ - 1) : ahead_;
    }

    struct Issue {
        bool valid;
        typename T::bank_t bank;
        word_t word, carried;
        bool covers[Config::columns];
    };

    void issue(bool goes) {
#pragma HLS INLINE
        issue_.valid = goes;
        issue_.bank = place_.bank;
        issue_.word = static_cast<word_t>(place_.word + word_);
        issue_.carried = static_cast<word_t>(issue_.word + pixel_words_);
    Columns_Issue:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            issue_.covers[i] = i < left_ && i < pixels_;
        }
    }

    // The operation
    bool adds_;
    Place<Config> first_;
    Stride<Config> group_;
    word_t pixel_words_;
    int_t<bits> pixels_, pixel_count_;  // of a group, of all
    // The walk: the group's first pixel, the word of each, pixels from the group on
    Place<Config> place_;
    word_t word_;
    int_t<bits> left_;
    Turns<bits> words_, groups_;
    Turns<pass_bits> pass_;
    bool running_, room_;
    out_t out_;
    // Of the operation at work: whether it adds, passes that may begin, whether it is one, or more
    bool joins_, any_, several_;
    ahead_t ahead_;
    Issue issue_;
};

}  // namespace bfpga
