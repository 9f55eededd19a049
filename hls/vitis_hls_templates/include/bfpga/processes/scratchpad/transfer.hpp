// The walk of a LOAD or a STORE: row by row, in a row `transfer_pixels` pixels together, word by word of these pixels.
//
// The pixels of a row are consecutive, so those of a group are in consecutive banks.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/scratchpad/banks.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

template <class Config>
class TransferPlaces {
    using T = ScratchpadTypes<Config>;
    using word_t = typename T::word_t;
    static constexpr int pixels = Config::transfer_pixels;
    static constexpr int bits = Geometry<Config>::coordinate_bits;
    static constexpr int pixel_bits = bit_length(pixels);
    using pixels_t = uint_t<pixel_bits>;

   public:
    void clear() {
#pragma HLS INLINE
        running_ = false;
    }

    // What the next operation needs: its first pixel, what comes on top of a step at the end of a row.
    void take(const Descriptor& d, int32_t word, int32_t bank, int32_t wrap_word, int32_t wrap_bank,
              int32_t pixel_words) {
#pragma HLS INLINE
        const int32_t last = ((d.output_width - 1) & (pixels - 1)) + 1;
        pixel_words_ = static_cast<word_t>(pixel_words);
        first_ = Place<Config>::of(word, bank);
        group_ =
            Stride<Config>::of(0, 0, pixel_words).plus(0, static_cast<typename T::bank_sum_t>(pixels), pixel_words_);
        next_row_ = Stride<Config>::of(wrap_word, wrap_bank, pixel_words)
                        .plus(0, static_cast<typename T::bank_sum_t>(last), pixel_words_);
        last_pixels_ = static_cast<pixels_t>(last);
        width_ = static_cast<int_t<bits>>(d.output_width);
        pixel_count_ = static_cast<int_t<bits>>(d.output_pixels);
        words_.set(static_cast<int_t<bits>>(pixel_words));
        groups_.set(static_cast<int_t<bits>>((d.output_width + pixels - 1) >> (pixel_bits - 1)));
    }

    bool running() const { return running_; }
    typename T::bank_t bank() const { return place_.bank; }

    // The words of this cycle: of the first pixel, and of those whose bank is below its bank.
    word_t word() const {
#pragma HLS INLINE
        return static_cast<word_t>(place_.word + word_);
    }
    word_t carried() const {
#pragma HLS INLINE
        return static_cast<word_t>(word() + pixel_words_);
    }
    // Whether the group has a pixel `i`: not beyond the end of the row.
    bool covers(int i) const {
#pragma HLS INLINE
        return !groups_.last() || i < last_pixels_;
    }

    // One cycle; `enable`: the words have been moved; `starts`: an operation does.
    void step(bool enable, bool starts) {
#pragma HLS INLINE
        const bool last_word = words_.last(), last_group = groups_.last();
        const bool word = enable & last_word;
        const bool row = enable & (last_word & last_group);
        if (enable) {
            word_ = words_.last() ? static_cast<word_t>(0) : static_cast<word_t>(word_ + 1);
        } else if (starts) {
            word_ = 0;
        }
        if (word) {
            place_ = place_.after(by_);
        } else if (starts) {
            place_ = first_;
        }
        running_ = starts | (running_ & !(row & last_row_));
        simulation_check(!row || rest_ >= 0, "a transfer",
                         "ends inside a row; pixels moved beyond its end:", -static_cast<long long>(rest_));
        const bool last_row = rest_ <= width_;
        const int_t<bits> rest = static_cast<int_t<bits>>(rest_ - width_);
        if (row) {
            last_row_ = last_row;
            rest_ = rest;
        } else if (starts) {
            last_row_ = pixel_count_ <= width_;
            rest_ = static_cast<int_t<bits>>(pixel_count_ - width_);
        }
        words_.step_late(enable, starts);
        groups_.step_late(word, starts);
        choose();
    }

   private:
    // The step to the next group is chosen a cycle before it is taken.
    void choose() {
#pragma HLS INLINE
        if (groups_.last()) {
            by_ = next_row_;
        } else {
            by_ = group_;
        }
    }

    // The operation
    Place<Config> first_;
    Stride<Config> group_, next_row_;
    word_t pixel_words_;
    pixels_t last_pixels_;
    int_t<bits> width_, pixel_count_;
    // The walk
    Place<Config> place_;
    Stride<Config> by_;
    word_t word_;
    Turns<bits> words_, groups_;
    int_t<bits> rest_;  // pixels after this row
    bool last_row_, running_;
};

// The words of the loads in flight to memory, in cycles that no result takes.
template <class Config>
class LoadWriter {
    using T = ScratchpadTypes<Config>;

   public:
    void clear() {
#pragma HLS INLINE
        places_.clear();
        held_ = false;
        waits_ = false;
    }

    void take(const Descriptor& d) {
#pragma HLS INLINE
        places_.take(d, d.output_word, d.output_bank, d.output_wrap_word, d.output_wrap_bank, d.output_pixel_words);
    }

    bool running() const { return places_.running(); }
    // Whether a word is held that is of the operation.
    bool waits() const { return waits_; }

    // Instead of a run of results.
    void write(RunWrite<Config>& write) const {
#pragma HLS INLINE
        write.first.bank = places_.bank();
        write.first.word = places_.word();
        write.carried = places_.carried();
        write.rotation = places_.bank();
    Pixels_Write:
        for (int i = 0; i < T::ports; ++i) {
#pragma HLS UNROLL
            // A word beyond those of the group is masked: it is unchanged.
            if (i < Config::transfer_pixels) {
                write.word[i] = word_[i];
            }
            write.mask[i] = i < Config::transfer_pixels && places_.covers(i);
        }
    }

    // One cycle; `delayed`: what is held does not go to memory; `starts`: an operation does.
    void step(stream<wire_t<GroupBeat<Config>>>& loads, bool delayed, bool starts) {
#pragma HLS INLINE
        const bool runs = places_.running();
        const bool asks = runs & !(held_ & delayed);
        const bool stays = held_ & (delayed | !runs);
        bool there = false;
        if (asks) {
            there = receive(loads);
        }
        held_ = there | stays;
        places_.step(waits_ & !delayed, starts);
        waits_ = places_.running() & held_;
    }

   private:
    bool receive(stream<wire_t<GroupBeat<Config>>>& loads) {
#pragma HLS INLINE
        wire_t<GroupBeat<Config>> wire;
        if (!loads.read_nb(wire)) {
            return false;
        }
        const GroupBeat<Config> beat = from_wire<GroupBeat<Config>>(wire);
    Pixels_Receive:
        for (int i = 0; i < Config::transfer_pixels; ++i) {
#pragma HLS UNROLL
            word_[i] = beat.word[i];
        }
        return true;
    }

    TransferPlaces<Config> places_;
    Word<Config> word_[Config::transfer_pixels];
    bool held_, waits_;
};

// The words of the stores in flight from memory, in cycles that no pass takes, or in one of eight.
template <class Config>
class StoreReader {
    using T = ScratchpadTypes<Config>;
    // Groups in flight to the store process; flags that lag let two more go than this.
    static constexpr int may_be_out = ProcessLimits::store_credits - 2;

   public:
    void clear() {
#pragma HLS INLINE
        places_.clear();
        issue_.valid = false;
        out_ = 0;
        room_ = true;
        forced_ = false;
        turn_ = 0;
    }

    void take(const Descriptor& d) {
#pragma HLS INLINE
        places_.take(d, d.input_word, d.input_bank, d.input_wrap_word, d.input_wrap_bank, d.input_pixel_words);
    }

    bool running() const { return places_.running(); }
    bool idle() const { return !places_.running() && out_ == 0; }
    // A pass leaves the port to the store in this cycle.
    bool forced() const { return forced_; }
    // The store reads, if no pass does.
    bool wants() const { return places_.running() & room_; }
    // The request of the step before is read in this one.
    bool issued() const { return issue_.valid; }

    void requests(PortRequest<Config> (&request)[T::ports]) const {
#pragma HLS INLINE
    Pixels_Request:
        for (int i = 0; i < T::ports; ++i) {
#pragma HLS UNROLL
            Place<Config>& place = request[i].place;
            const bool carry = bank_sum<Config>(issue_.bank, static_cast<typename T::bank_sum_t>(i), place.bank);
            place.word = carry ? issue_.carried : issue_.word;
            request[i].active = i < Config::transfer_pixels && issue_.covers[i < Config::transfer_pixels ? i : 0];
            simulation_check(!issue_.valid || !request[i].active || inside_memory<Config>(place.word), "a store",
                             "goes outside the activation memory, to word", static_cast<int>(place.word));
        }
    }

    // One cycle; `goes`: the port is the store's in the next one; `starts`: an operation does.
    void step(bool goes, stream<bool>& credits, bool starts) {
#pragma HLS INLINE
        issue_.valid = goes;
        issue_.bank = places_.bank();
        issue_.word = places_.word();
        issue_.carried = places_.carried();
    Pixels_Issue:
        for (int i = 0; i < Config::transfer_pixels; ++i) {
#pragma HLS UNROLL
            issue_.covers[i] = places_.covers(i);
        }
        const bool waits = wants() && !goes;
        forced_ = waits && turn_ == 6;
        turn_ = waits && !forced_ ? static_cast<uint_t<3>>(turn_ + 1) : static_cast<uint_t<3>>(0);
        bool credit = false;
        if (out_ != 0) {
            credit = receive(credits);
        }
        room_ = out_ < may_be_out;
        const bool more = goes && !credit;
        const bool fewer = credit && !goes;
        out_ = more ? static_cast<out_t>(out_ + 1) : fewer ? static_cast<out_t>(out_ - 1) : out_;
        places_.step(goes, starts);
    }

   private:
    using out_t = uint_t<7>;

    struct Issue {
        bool valid;
        typename T::bank_t bank;
        typename T::word_t word, carried;
        bool covers[Config::transfer_pixels];
    };

    static bool receive(stream<bool>& credits) {
#pragma HLS INLINE
        bool credit = false;
        return credits.read_nb(credit);
    }

    TransferPlaces<Config> places_;
    Issue issue_;
    out_t out_;
    bool room_, forced_;
    uint_t<3> turn_;
};

}  // namespace bfpga
