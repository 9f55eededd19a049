// Makes the steps of the units out of stored weight words: for each channel of a word the kernels that have a weight
// there, one a clock (SC R19).
//
// The taps of a word of channels come one after the other and stand in registers; then their steps leave. Between two
// steps of a kernel lie `sum_distance` steps at least, whichever channels' values follow each other: kernel z stands at
// place min(z, 3) of its list or behind it, and a list has four steps. So kernels from 3 on are met again behind three
// places at least, and the first three at their own place of a list of four. In the place of one of the first kernels
// without a weight is a pause. A channel without any weight has two pauses, which keep no kernel from its distance.
//
// Nothing waits here but for words, and for room where the steps go: words come block by block as the operations do,
// and whoever sends them has nothing to wait for but results of the blocks before.
#pragma once
#include "bfpga/processes/cluster/bank_sums.hpp"
#include "bfpga/processes/cluster/layer.hpp"
#include "bfpga/processes/held_beat.hpp"

namespace bfpga {

template <class Config>
class StepMaker {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using Steps = StepBeat<C>;
    using Kernels = KernelsBeat<C>;
    using Words = WeightBeat<Config>;
    static constexpr int lanes = C::lanes;
    static constexpr int planes = C::planes;
    static constexpr int places = planes > sum_distance ? planes : sum_distance;
    static constexpr int first_places = sum_distance - 1;
    static_assert(C::unit_steps >= places, "a unit has a step for each kernel in flight, and four");
    static_assert(lanes <= 32 && planes <= 64, "marks of a word are counted");
    // Bit z: kernel z has a place in the list, or a weight in the channel.
    using places_t = uint_t<places>;

    // What is done in a clock.
    enum Step { Waits, Words_Come, Begins, Steps_Leave };

   public:
    StepMaker() : weight_(), valid_(), any_() {
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=valid_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=any_ complete dim=0
        clear();
    }

    // Until kernels with `stop` have come. `words`: the weights of a tap, in all kernels and channels.
    void run(stream<wire_t<Kernels>>& kernels, stream<wire_t<Words>>& words, stream<wire_t<Steps>>& steps) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Make");
    Make:
        while (running) {
// II=1: the list of a channel is a register of marks, of which a clock takes the lowest; the next one is made
// meanwhile.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool begins = step_ == Waits && kernels_.there();
            const bool word = step_ == Words_Come && word_.there();
            const bool leaves = step_ == Steps_Leave;
            const bool stops = begins && kernels_.beat().stop;
            running = !stops;
            if (leaves || stops) {
                steps.write(to_wire(made(stops)));
            }
            go_on(begins, word);
            if (begins || !kernels_.there()) {
                kernels_.next(kernels);
            }
            if (word || !word_.there()) {
                word_.next(words);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        kernels_.drop();
        word_.drop();
        step_ = Waits;
        list_ = 0;
        rest_ = 0;
        next_list_ = 0;
        lane_ = 0;
    }

    // The places of a channel's list, of which each takes a clock.
    static places_t list_of(places_t any) {
#pragma HLS INLINE
        constexpr unsigned first = (1U << first_places) - 1;
        const bool none = any == 0;
        const bool few = static_cast<places_t>(any >> static_cast<unsigned>(first_places)) == 0;
        const places_t more = static_cast<places_t>(few ? 1U << first_places : 0U);
        const places_t whole = static_cast<places_t>(any | static_cast<places_t>(first) | more);
        return none ? static_cast<places_t>(3) : whole;
    }

    // A list without its first place.
    static places_t rest_of(places_t list) {
#pragma HLS INLINE
        const places_t less = static_cast<places_t>(list - 1);
        return static_cast<places_t>(list & less);
    }

    // The step of the list's first place.
    Steps made(bool stops) const {
#pragma HLS INLINE
        const places_t first = static_cast<places_t>(list_ ^ rest_);
        const places_t any = any_[static_cast<int>(lane_)];
        const int plane = number_of(first);
        Steps step;
    Weights_Choose:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const typename T::weight_t weight = weight_[n][static_cast<int>(lane_)][plane];
            step.weight[n] = valid_[n] ? weight : static_cast<typename T::weight_t>(0);
        }
        step.plane = static_cast<typename T::plane_t>(plane);
        step.adds = static_cast<places_t>(any & first) != 0;
        step.last = rest_ == 0;
        step.stop = stops;
        return step;
    }

    // The number of the bit that is set, as far as there is a kernel of this number.
    static int number_of(places_t bit) {
#pragma HLS INLINE
        int number = 0;
    Bits_Number:
        for (int z = 0; z < planes; ++z) {
#pragma HLS UNROLL
            number |= static_cast<places_t>(bit >> static_cast<unsigned>(z)) & 1 ? z : 0;
        }
        return number;
    }

    void go_on(bool begins, bool word) {
#pragma HLS INLINE
        const bool last_column = column_ == T::columns - 1;
        const bool last_row = row_ == T::rows - 1;
        const bool ends = rest_ == 0;
        const bool last_lane = lane_ == lanes - 1;
        // A list has two places at least, so the one behind it is known when it ends.
        const places_t next = next_list_;
        const places_t next_rest = rest_of(next);
        next_list_ = list_of(any_[last_lane ? 0 : static_cast<int>(lane_) + 1]);
        switch (step_) {
            case Waits:
                if (begins) {
                    begin_kernels();
                }
                break;
            case Words_Come:
                if (word) {
                    keep_word();
                    first_ = false;
                    column_ = last_column ? first_column_ : static_cast<line_t>(column_ + 1);
                    row_ = !last_column ? row_ : last_row ? first_row_ : static_cast<line_t>(row_ + 1);
                    step_ = last_column && last_row ? Begins : Words_Come;
                }
                break;
            case Begins:
                lane_ = 0;
                list_ = list_of(any_[0]);
                rest_ = rest_of(list_of(any_[0]));
                step_ = Steps_Leave;
                break;
            default:
                list_ = ends ? next : rest_;
                rest_ = ends ? next_rest : rest_of(rest_);
                if (ends) {
                    lane_ = last_lane ? static_cast<typename T::lane_t>(0) : static_cast<typename T::lane_t>(lane_ + 1);
                }
                if (ends && last_lane) {
                    first_ = true;
                    words_left_ = static_cast<line_t>(words_left_ - 1);
                    step_ = words_left_ == 0 ? Waits : Words_Come;
                }
        }
    }

    void begin_kernels() {
#pragma HLS INLINE
        const Kernels& beat = kernels_.beat();
        words_left_ = beat.words;
        // A kernel smaller than the largest lies behind zeros.
        first_row_ = static_cast<line_t>(T::rows - beat.rows);
        first_column_ = static_cast<line_t>(T::columns - beat.columns);
        row_ = first_row_;
        column_ = first_column_;
        first_ = true;
        step_ = beat.stop ? Waits : Words_Come;
    Taps_Clear:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            valid_[n] = false;
        }
    }

    // The weights of a tap.
    void keep_word() {
#pragma HLS INLINE
        const WeightWord<Config>& weights = word_.beat().weight;
    Taps_Keep:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool here = row_ == n / T::columns && column_ == n % T::columns;
            valid_[n] = valid_[n] || here;
        Lanes_Keep:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            Kernels_Keep:
                for (int z = 0; z < planes; ++z) {
#pragma HLS UNROLL
                    weight_[n][l][z] = here ? static_cast<typename T::weight_t>(weights.row[z][l]) : weight_[n][l][z];
                }
            }
        }
    Lanes_Mark:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            places_t any = first_ ? static_cast<places_t>(0) : any_[l];
        Kernels_Mark:
            for (int z = 0; z < planes; ++z) {
#pragma HLS UNROLL
                const places_t mark = static_cast<places_t>(static_cast<places_t>(weights.row[z][l] != 0 ? 1 : 0)
                                                            << static_cast<unsigned>(z));
                any = static_cast<places_t>(any | mark);
            }
            any_[l] = any;
        }
    }

    HeldBeat<Kernels> kernels_;
    HeldBeat<Words> word_;
    Step step_;
    line_t words_left_;
    line_t first_row_, first_column_, row_, column_;  // of the kernel in the largest one; where the tap lies
    bool first_;                                      // the tap is the first one of its word
    typename T::weight_t weight_[T::cells][lanes][planes];
    bool valid_[T::cells];  // the kernel has this tap
    places_t any_[lanes];   // kernels with a weight in a channel
    places_t list_, rest_;  // places that are left; without the first of them
    places_t next_list_;    // those of the next channel
    typename T::lane_t lane_;
};

}  // namespace bfpga
