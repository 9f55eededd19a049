// A tensor of the activation memory on its way to the weight memory: products of two tensors (docs/kernel.md).
//
// For WEIGH the scratchpad reads groups of pixels as for other operations, word by word, and sends them here. Where
// pixels are output channels, a group is the rows of a weight word, and each of its words is one. Where channels are
// output channels, a group is the lanes of weight words, and so many of its words as are the rows of one are turned.
#pragma once
#include "bfpga/processes/counters.hpp"
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

// A word of each pixel of a group.
template <class Config>
using OperandWords = WordsBeat<Config, Config::rows>;

// In the place of their stream in a kernel without them.
struct NoOperandWords {};

// What the scratchpad has beside its array: that of other kernels, and the words that become weights.
template <class Config, class Others>
struct WithOperandWords {
    Others& others;
    stream<wire_t<OperandWords<Config>>>& words;

    template <int Ports>
    void send_weights(const Word<Config> (&word)[Ports]) {
#pragma HLS INLINE
        words.write(to_wire(OperandWords<Config>::of(word)));
    }
};

// The weight words that a WEIGH makes, and their places; nothing in a kernel without it.
template <class Config, bool There = Config::operand_weights>
class OperandFill {
   public:
    void clear() {}
    void start(const Descriptor&) {}
    bool there() const { return false; }
    bool completes() const { return false; }
    bool last() const { return false; }
    int address() const { return 0; }
    void step(NoOperandWords&, bool, bool) {}

    template <class Word>
    const Word& chosen(bool, const Word& other) const {
#pragma HLS INLINE
        return other;
    }
};

template <class Config>
class OperandFill<Config, true> {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using weight_address_t = typename G::weight_address_t;
    using mantissa_t = typename G::mantissa_t;
    // Words of a group that are turned into a weight word.
    static constexpr int pieces = Config::rows / Config::lanes;
    using piece_t = uint_t<bit_length(pieces)>;

   public:
    OperandFill() : held_() {
#pragma HLS ARRAY_PARTITION variable=held_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        wants_ = false;
        beat_.drop();
    }

    // Counts when it has been restarted.
    void start(const Descriptor& d) {
#pragma HLS INLINE
        turns_words_ = d.weight_tap_step != 0;
        group_.set(turns_words_ ? static_cast<coordinate_t>(d.channel_words) : static_cast<coordinate_t>(1));
        words_.set(static_cast<coordinate_t>(d.weight_words));
        base_ = static_cast<weight_address_t>(d.weight_base);
        block_step_ = static_cast<weight_address_t>(d.weight_block_step);
    }

    // Whether there is a beat: it is used in this cycle.
    bool there() const { return beat_.there(); }
    // Of the beat: whether it completes a weight word, whether that is the last one, and where it goes.
    bool completes() const { return !turns_words_ || last_piece_ || group_.last(); }
    bool last() const { return completes() && words_.last(); }
    weight_address_t address() const { return address_; }

    // The word that it completes, or another one. Rows beyond the last word of a group reach no result.
    WeightWord<Config> chosen(bool mine, const WeightWord<Config>& other) const {
#pragma HLS INLINE
        const OperandWords<Config>& beat = beat_.beat();
        WeightWord<Config> word;
    Pieces_Choose:
        for (int p = 0; p < pieces; ++p) {
#pragma HLS UNROLL
            const bool now = p == pieces - 1 || piece_ == p;
        Rows_Choose:
            for (int j = 0; j < Config::lanes; ++j) {
#pragma HLS UNROLL
            Lanes_Choose:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    const int row = p * Config::lanes + j;
                    const mantissa_t turned = now ? beat.word[l].lane[j] : held_[p][j][l];
                    const mantissa_t own = turns_words_ ? turned : beat.word[row].lane[l];
                    word.row[row][l] = mine ? static_cast<typename G::weight_t>(own) : other.row[row][l];
                }
            }
        }
        return word;
    }

    // One cycle; `opens`: words are wanted from now on; `again`: an operation begins. No beat is read beyond its last
    // one: that of another operation waits in the stream.
    void step(stream<wire_t<OperandWords<Config>>>& words, bool opens, bool again) {
#pragma HLS INLINE
        const bool taken = there();
        const bool ends = completes();
        const bool ends_group = group_.last();
        const bool last = taken && this->last();
        hold(taken);
        const weight_address_t one_more = static_cast<weight_address_t>(next_ + 1);
        const weight_address_t block = static_cast<weight_address_t>(address_ + block_step_);
        if (again) {
            address_ = base_;
            next_ = static_cast<weight_address_t>(base_ + 1);
        } else if (taken && ends) {
            address_ = ends_group ? next_ : block;
            next_ = ends_group ? one_more : next_;
        }
        const piece_t next_piece = static_cast<piece_t>(piece_ + 1);
        const bool before_last = piece_ + 2 == pieces;
        const bool first = again || (taken && ends);
        piece_ = first ? static_cast<piece_t>(0) : taken ? next_piece : piece_;
        last_piece_ = first ? pieces == 1 : taken ? before_last : last_piece_;
        group_.step(taken, again);
        words_.step(taken && ends, again);
        if (wants_ && !last) {
            beat_.next(words);
        } else {
            beat_.drop();
        }
        wants_ = opens || (wants_ && !last);
    }

   private:
    // The last piece of a word is never held: it completes it.
    void hold(bool taken) {
#pragma HLS INLINE
    Pieces_Hold:
        for (int p = 0; p < pieces - 1; ++p) {
#pragma HLS UNROLL
            if (taken && piece_ == p) {
            Rows_Hold:
                for (int j = 0; j < Config::lanes; ++j) {
#pragma HLS UNROLL
                Lanes_Hold:
                    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                        held_[p][j][l] = beat_.beat().word[l].lane[j];
                    }
                }
            }
        }
    }

    bool wants_, turns_words_;
    HeldBeat<OperandWords<Config>> beat_;
    mantissa_t held_[pieces][Config::lanes][Config::lanes];
    piece_t piece_;  // of the beat
    bool last_piece_;
    Turns<G::coordinate_bits> group_, words_;  // beats until the next group's first word, weight words
    // Of the word that is made, of the first one of the next group
    weight_address_t base_, block_step_, address_, next_;
};

// The stream of these words in a simulation of a kernel; nothing where there is none.
template <class Config, bool There = Config::operand_weights>
class OperandLink {
   public:
    template <class Join>
    void join(const Join&) {}

    template <class Others>
    Others& beside(Others& others) {
        return others;
    }

    NoOperandWords& words() { return words_; }

   private:
    NoOperandWords words_;
};

template <class Config>
class OperandLink<Config, true> {
   public:
    template <class Join>
    void join(const Join& join) {
        join(words_, Config::operand_words_depth);
    }

    template <class Others>
    WithOperandWords<Config, Others> beside(Others& others) {
        return {others, words_};
    }

    stream<wire_t<OperandWords<Config>>>& words() { return words_; }

   private:
    stream<wire_t<OperandWords<Config>>> words_{"operand_words"};
};

}  // namespace bfpga
