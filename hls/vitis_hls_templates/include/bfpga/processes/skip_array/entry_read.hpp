// The weights process's part for a skip array: the walk of a GEMM over its stored entries and the parameters of its
// rows.
//
// A pass computes a group of pixels in each half of the array, the last one of an odd number in the first half alone.
// Each pass reads the same words; in parallel the parameters of all rows are sent, for each half that has pixels, and
// end before the entries of the next pass.
#pragma once
#include "bfpga/processes/skip_array/entry_words.hpp"
#include "bfpga/processes/weights.hpp"

namespace bfpga {

template <class Config>
class EntryRead {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using weight_address_t = typename G::weight_address_t;
    using parameter_address_t = typename G::parameter_address_t;
    static_assert(Config::skip_halves == 1 || Config::skip_halves == 2, "pixels come in one half or in two");
    static constexpr int shift = Config::skip_halves - 1;

   public:
    // Holds the words of a pass, more than memory has when they come from the stream.
    static constexpr int entry_word_bits = 20;

    void clear() {
#pragma HLS INLINE
        over_ = false;
        works_ = false;
        words_ = false;
        rows_ = false;
        gate_.clear();
    }
    bool active() const { return gate_.active(); }
    bool waits(const Finished& fills) const { return gate_.waits(fills); }
    // Whether a word of entries is due, and where it comes from; whether a row is.
    bool word() const { return words_; }
    bool streams() const { return streams_; }
    // Whether a word is due that comes from the stream.
    bool streamed() const { return words_ & streams_; }
    bool last_word() const { return entry_words_.last() && last_pass_; }
    bool row() const { return rows_; }
    weight_address_t word_address() const { return address_; }
    parameter_address_t row_address() const { return parameter_; }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        simulation_check(d.groups > 0, "a descriptor", "has no groups of output pixels; groups is", d.groups);
        kept_ = d.has(Flag::Kept);
        simulation_check(kept_ || d.entry_words > 0, "a descriptor", "has no words of entries; entry_words is",
                         d.entry_words);
        gate_.close(static_cast<uint_t<16>>(static_cast<uint32_t>(d.after_fills) & 65535U));
        streams_ = d.has(Flag::StreamWeights);
        passes_.set(static_cast<coordinate_t>((d.groups + shift) >> shift));
        odd_ = (d.groups & shift) != 0;
        entry_words_.set(static_cast<int_t<entry_word_bits + 1>>(d.entry_words));
        output_rows_.set(static_cast<parameter_address_t>(d.output_rows));
        base_ = static_cast<weight_address_t>(d.weight_base);
        parameter_base_ = static_cast<parameter_address_t>(d.parameter_base);
    }

    // One cycle; `filled`: one more fill has ended; `may`: a word that is due can be sent; `starts`: an operation does.
    // Returns whether the operation has ended with the cycle before.
    bool step(const Finished& fills, bool filled, bool may, bool starts) {
#pragma HLS INLINE
        // In parallel, not chained: each of these is few levels of logic.
        const bool opens = gate_.opens();
        const bool sends = words_ && may;
        const bool half_ends = rows_ && output_rows_.last();
        const bool last_row = output_rows_.last() && (second_ || single_);
        const bool last_word = may && entry_words_.last();
        const bool pass = works_ && (!rows_ || last_row) && (!words_ || last_word);
        const bool ended = over_;
        const bool more = !last_pass_;
        walk_words(sends, pass || gate_.begins());
        walk_rows(half_ends);
        entry_words_.step(sends, gate_.begins());
        output_rows_.step(rows_, gate_.begins());
        words_ = pass ? more & !kept_ : (opens & !kept_) | (words_ & !last_word);
        rows_ = pass ? more : opens | (rows_ & !last_row);
        works_ = opens || (works_ && !(pass && last_pass_));
        over_ = pass && last_pass_;
        walk_passes(pass || opens);
        gate_.step(fills, filled, starts, ended);
        return ended;
    }

   private:
    // The passes are one ahead: the flags of the pass that goes on are registers.
    void walk_passes(bool on) {
#pragma HLS INLINE
        if (on) {
            last_pass_ = passes_.last();
            single_ = shift == 0 || (passes_.last() && odd_);
        }
        passes_.step(on, gate_.begins());
    }

    void walk_words(bool sent, bool again) {
#pragma HLS INLINE
        const weight_address_t one_more = static_cast<weight_address_t>(address_ + 1);
        address_ = again ? base_ : sent ? one_more : address_;
    }

    void walk_rows(bool half_ends) {
#pragma HLS INLINE
        const parameter_address_t one_more = static_cast<parameter_address_t>(parameter_ + 1);
        parameter_ = half_ends || gate_.begins() ? parameter_base_ : rows_ ? one_more : parameter_;
        second_ = half_ends ? !second_ && !single_ : second_ && !gate_.begins();
    }

    bool streams_, kept_;
    bool works_, over_;  // passes are left; the last one was the cycle before
    Gate gate_;
    Turns<G::coordinate_bits> passes_;
    Turns<entry_word_bits + 1> entry_words_;
    Turns<G::parameter_address_bits> output_rows_;
    bool odd_;                 // the last pass has no second half
    bool last_pass_, single_;  // the pass that goes on
    bool second_;              // the row that is due is of the second half
    bool words_, rows_;        // words, rows of the pass are left
    weight_address_t base_, address_;
    parameter_address_t parameter_base_, parameter_;
};

template <class Config>
struct StoredEntryWords {
    using Beats = EntryBeats<Config>;
    using Memory = EntryMemory<Config>;
    using Read = EntryRead<Config>;

    // To each group its entry, if it has one.
    template <class... Entries>
    static void send(const EntryWord<Config>& word, const Read&, Entries&... entries) {
#pragma HLS INLINE
        static_assert(sizeof...(Entries) == Config::skip_groups, "every group has a stream of entries");
        send_slots<0>(word, entries...);
    }

   private:
    template <int G, class First, class... Others>
    static void send_slots(const EntryWord<Config>& word, First& entries, Others&... others) {
#pragma HLS INLINE
        if (((word.there >> G) & 1) != 0) {
            entries.write(to_wire(decode_entry<Config>(word.slot[G][0])));
        }
        send_slots<G + 1>(word, others...);
    }

    template <int G>
    static void send_slots(const EntryWord<Config>&) {
#pragma HLS INLINE
    }
};

}  // namespace bfpga
