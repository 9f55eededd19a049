// The weights of an array that skips zeros of activations: wide words of one channel of one tap, with all rows.
//
// Each group has a copy, since it reads at its own activation's address. A copy has two buffers, each for the words of
// a chunk: while the groups work on one, the other is filled, a channel a cycle. A buffer is refilled when all groups
// have left it. Where each group needs one lane of the words it gets this alone, so a whole weight word is written in a
// cycle.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/skip_array/activation_words.hpp"

namespace bfpga {

// A wide word: rows 2p and 2p + 1 in pair p.
template <class Config>
struct WideWord {
    PixelPairs::pair_t pair[SparseTypes<Config>::pairs];
};

template <class Config>
class WideWeights {
    using T = SparseTypes<Config>;
    static constexpr int words = 2 * Config::skip_chunk;
    static constexpr int copies = native_integers ? 1 : T::groups;  // a simulation that is to be fast has one

   public:
    using address_t = uint_t<bit_length(words - 1)>;
    using lane_t = uint_t<T::lane_bits + 1>;

    WideWeights() {
        static_assert(skip_guard >= 8, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS ARRAY_RESHAPE variable=cell_ complete dim=3
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A chunk is read when `skip_guard` cycles have passed, and overwritten when all groups have left it.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    static address_t address(bool buffer, typename T::step_t step, lane_t lane) {
#pragma HLS INLINE
        const address_t of_buffer = static_cast<address_t>(buffer ? Config::skip_chunk : 0);
        const address_t of_step =
            static_cast<address_t>(static_cast<address_t>(step) << static_cast<unsigned>(T::lane_bits));
        return static_cast<address_t>(static_cast<address_t>(of_buffer | of_step) | static_cast<address_t>(lane));
    }

    // `used`: the word is needed.
    WideWord<Config> read(int group, address_t address, bool used) const {
#pragma HLS INLINE
        if (used) {
            cell_waiver_.reads(static_cast<int>(address));
        }
        WideWord<Config> word;
    Pairs_Read:
        for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
            word.pair[p] = cell_[group % copies][static_cast<int>(address)][p];
        }
        return word;
    }

    // `word`, `lane`: what goes to the groups of the first lanes, and the lane that it is of, its own or that of the
    // first one, which goes to all other groups.
    void write(bool buffer, typename T::step_t step, const lane_t (&lane)[T::lanes],
               const WideWord<Config> (&word)[T::lanes]) {
#pragma HLS INLINE
    Groups_Write:
        for (int g = 0; g < T::groups; ++g) {
#pragma HLS UNROLL
            const int own = g < T::lanes ? g : 0;
            // A simulation with one copy writes there what groups have of their own, or once what all have.
            if (g < copies || lane[own] != lane[0]) {
                write(g % copies, address(buffer, step, lane[own]), word[own]);
            }
        }
    }

   private:
    void write(int copy, address_t address, const WideWord<Config>& word) {
#pragma HLS INLINE
        cell_waiver_.writes(static_cast<int>(address));
    Pairs_Write:
        for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
            cell_[copy][static_cast<int>(address)][p] = word.pair[p];
        }
    }

    PixelPairs::pair_t cell_[copies][words][T::pairs];
    Waiver<InterRawDistance<8>, words> cell_waiver_;
};

// Spreads weight words into wide words, from start to start: those of the next one may come before this one has ended.
template <class Config>
class WeightSpreader {
    using T = SparseTypes<Config>;
    using Weights = WeightBeat<Config>;
    using lane_t = typename WideWeights<Config>::lane_t;

   public:
    WeightSpreader() {
#pragma HLS ARRAY_PARTITION variable=full_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=loading_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=last_loading_ complete dim=0
        lane_ = 0;
        last_lane_ = T::lanes == 1;
        step_ = 0;
        fills_ = false;
    Buffers_Clear:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            full_[b] = false;
            used_[b] = false;
        }
    Clocks_Clear:
        for (int k = 0; k < skip_guard; ++k) {
#pragma HLS UNROLL
            loading_[k] = false;
            last_loading_[k] = false;
        }
    }

    // Of each buffer, whether it can be read from now on.
    void loaded(bool (&loaded)[2]) const {
#pragma HLS INLINE
        loaded[0] = loading_[skip_guard - 1] && !last_loading_[skip_guard - 1];
        loaded[1] = loading_[skip_guard - 1] && last_loading_[skip_guard - 1];
    }

    // One cycle; `used`: of each buffer, whether a group needs it.
    void step(WideWeights<Config>& memory, const bool (&used)[2], stream<wire_t<Weights>>& weight_words) {
#pragma HLS INLINE
        const Weights& beat = held_.beat();
        const bool writes = held_.there() && !full_[fills_ ? 1 : 0];
        const bool apart = T::may_be_apart && beat.power_of_two;
        const bool ends_word = writes && (last_lane_ || apart);
        const bool completes = ends_word && beat.two_hot;
        if (writes || !native_integers) {  // a simulation saves the time
            WideWord<Config> word[T::lanes];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
            lane_t lane[T::lanes];
#pragma HLS ARRAY_PARTITION variable=lane complete dim=0
        Lanes_Spread:
            for (int l = 0; l < T::lanes; ++l) {
#pragma HLS UNROLL
                lane[l] = apart ? static_cast<lane_t>(l) : lane_;
                word[l] = wide(beat, l, apart);
            }
            if (writes) {
                memory.write(fills_, step_, lane, word);
            }
        }
    Clocks_Step:
        for (int k = skip_guard - 1; k > 0; --k) {
#pragma HLS UNROLL
            loading_[k] = loading_[k - 1];
            last_loading_[k] = last_loading_[k - 1];
        }
        loading_[0] = completes;
        last_loading_[0] = fills_;
    Buffers_Step:
        for (int b = 0; b < 2; ++b) {
#pragma HLS UNROLL
            const bool filled = completes && fills_ == (b == 1);
            const bool freed = used_[b] && !used[b];
            full_[b] = filled || (full_[b] && !freed);
            used_[b] = used[b];
        }
        simulation_check(!ends_word || beat.two_hot || step_ < T::chunk_steps - 1, "a chunk of weights",
                         "has too many words:", T::chunk_steps + 1);
        if (ends_word) {
            step_ = beat.two_hot ? static_cast<typename T::step_t>(0) : T::next(step_);
        }
        fills_ = fills_ != completes;
        const bool before_last = lane_ == T::lanes - 2;
        if (writes) {
            lane_ = ends_word ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_ + 1);
            last_lane_ = T::lanes == 1 || (before_last && !apart);
        }
        if (ends_word || !held_.there()) {
            held_.next(weight_words);
        }
    }

   private:
    // The lane whose turn it is; or, of lanes that are apart, a lane: while they are it is the first one's turn.
    WideWord<Config> wide(const Weights& beat, int lane, bool apart) const {
#pragma HLS INLINE
        WideWord<Config> word;
    Pairs_Spread:
        for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
            word.pair[p] = PixelPairs::hold(weight(beat, 2 * p + 1, lane, apart), weight(beat, 2 * p, lane, apart));
        }
        return word;
    }

    // The weight of a row; every index is a constant, so that the word is registers.
    typename Geometry<Config>::weight_t weight(const Weights& beat, int row, int lane, bool apart) const {
#pragma HLS INLINE
        typename Geometry<Config>::weight_t weight = beat.weight.row[row][0];
    Lanes_Choose:
        for (int l = 1; l < T::lanes; ++l) {
#pragma HLS UNROLL
            weight = lane_ == l ? beat.weight.row[row][l] : weight;
        }
        return lane != 0 && apart ? beat.weight.row[row][lane] : weight;
    }

    HeldBeat<Weights> held_;
    lane_t lane_;  // that is written next
    bool last_lane_;
    typename T::step_t step_;  // of the chunk
    bool fills_;               // which buffer is filled
    bool full_[2], used_[2];   // it has a chunk; a group needed it in the cycle before
    // [k]: k cycles before a buffer was complete, and it was the second one
    bool loading_[skip_guard], last_loading_[skip_guard];
};

}  // namespace bfpga
