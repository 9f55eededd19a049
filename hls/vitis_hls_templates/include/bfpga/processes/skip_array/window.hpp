// The windows of the skip array: wide words of one channel of one tap, with all pixels of a pass.
//
// The words are a ring: each chunk begins where the one before it ended, and as many as fit are prefetched while one is
// multiplied. Each group has a copy, since it reads at its own entry's address. A word of operands has several
// channels, so it takes as many cycles to write; halves of the pixels alternate and each is written by itself. Where
// every kernel reads one channel alone, a group has kernels of one lane only: lanes are separate then, each in the
// copies of its own groups, at the same address, and a word of operands is written in one cycle.
#pragma once
#include "bfpga/memory/word.hpp"
#include "bfpga/processes/skip_array/pixel_pairs.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Cycles between the write of a word and its first read: more than the loop has between these stages.
constexpr int skip_guard = 8;

template <class Config>
struct WindowTypes {
    static_assert(Config::columns % 2 == 0, "two columns share a DSP block");
    static_assert(Config::mantissa_bits <= PixelPairs::pixel_bits && Config::weight_bits <= PixelPairs::pixel_bits,
                  "two products share a DSP block only if their factors have 8 bits at most");
    static_assert(Config::skip_halves >= 1, "a pass has pixels");
    static constexpr int pairs = Config::columns / 2;
    static constexpr int words = 2 * Config::skip_chunk;
    // Chunks that the ring has at most; numbers wrap around.
    static constexpr int chunks = 4;
    using chunk_t = uint_t<bit_length(chunks - 1)>;
    using address_t = uint_t<bit_length(words - 1)>;

    // The address `by` words after another one.
    static address_t behind(address_t address, address_t by) {
#pragma HLS INLINE
        return static_cast<address_t>(static_cast<address_t>(address + by) & static_cast<address_t>(words - 1));
    }

    // Words from one to another.
    static address_t between(address_t from, address_t to) {
#pragma HLS INLINE
        return static_cast<address_t>(static_cast<address_t>(to - from) & static_cast<address_t>(words - 1));
    }

    static chunk_t next(chunk_t chunk) {
#pragma HLS INLINE
        return static_cast<chunk_t>(static_cast<chunk_t>(chunk + 1) & static_cast<chunk_t>(chunks - 1));
    }
};

// A wide word of one half.
template <class Config>
struct PairWord {
    PixelPairs::pair_t pair[WindowTypes<Config>::pairs];
};

template <class Config>
class WindowMemory {
    using T = WindowTypes<Config>;
    static constexpr int lanes = Config::lanes;
    // A simulation that is to be fast has one copy for each lane.
    static constexpr int needed = Config::skip_groups < lanes ? Config::skip_groups : lanes;
    static constexpr int copies = native_integers ? needed : Config::skip_groups;

   public:
    WindowMemory() {
        static_assert(skip_guard >= 8, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=2
#pragma HLS ARRAY_RESHAPE variable=cell_ complete dim=4
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A chunk is read when `skip_guard` cycles have passed, and overwritten when all groups have left it.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // `used`: the word is needed.
    PairWord<Config> read(int group, int half, typename T::address_t address, bool used) const {
#pragma HLS INLINE
        if (used) {
            cell_waiver_.reads(half * T::words + static_cast<int>(address));
        }
        PairWord<Config> word;
    Pairs_Read:
        for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
            word.pair[p] = cell_[group % copies][half][static_cast<int>(address)][p];
        }
        return word;
    }

    // `word`: for the groups of each lane.
    void write(int half, typename T::address_t address, const PairWord<Config> (&word)[lanes]) {
#pragma HLS INLINE
        cell_waiver_.writes(half * T::words + static_cast<int>(address));
    Groups_Write:
        for (int g = 0; g < copies; ++g) {
#pragma HLS UNROLL
        Pairs_Write:
            for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
                cell_[g][half][static_cast<int>(address)][p] = word[g % lanes].pair[p];
            }
        }
    }

   private:
    PixelPairs::pair_t cell_[copies][Config::skip_halves][T::words][T::pairs];
    Waiver<InterRawDistance<8>, Config::skip_halves * T::words> cell_waiver_;
};

// Writes the words of one half.
template <class Config>
class HalfWriter {
    using T = WindowTypes<Config>;
    static constexpr int lanes = Config::lanes;
    using lane_t = uint_t<bit_length(lanes)>;
    using address_t = typename T::address_t;

   public:
    HalfWriter() {
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=lane_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        writes_ = false;
        last_ = false;
        ends_ = false;
        begin_word(false);
        address_ = 0;
        words_ = 0;
    }

    // Whether a beat can be taken in this cycle.
    bool free() const { return !writes_ || last_lane_; }
    // Whether the chunk is complete with this cycle.
    bool completes() const { return writes_ && last_lane_ && last_ && ends_; }
    // Address of the next word.
    address_t address() const { return address_; }

    // One cycle: the channel whose turn it is, or each to its groups.
    void step(WindowMemory<Config>& memory, int half) {
#pragma HLS INLINE
        if (!writes_) {
            return;
        }
        PairWord<Config> word[lanes];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
    Lanes_Hold:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const int lane = static_cast<int>(lane_[l]);
        Pairs_Hold:
            for (int p = 0; p < T::pairs; ++p) {
#pragma HLS UNROLL
                word[l].pair[p] = PixelPairs::hold(word_[2 * p + 1].lane[lane], word_[2 * p].lane[lane]);
            }
        }
        memory.write(half, address_, word);
        simulation_check(words_ < Config::skip_chunk, "a chunk of a window", "has too many words:", words_ + 1);
        words_ = last_lane_ && last_ ? 0 : words_ + 1;
        address_ = T::behind(address_, 1);
        writes_ = !last_lane_;
        const bool before_last = lane_[0] == lanes - 2;
    Lanes_Next:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            lane_[l] = last_lane_ ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_[l] + 1);
        }
        last_lane_ = lanes == 1 || (!last_lane_ && before_last);
    }

    // A chunk without this half, which is idle; the next word goes where that of another half goes.
    void pass_over(address_t address) {
#pragma HLS INLINE
        address_ = address;
    }

    // A beat for this half, after the step of a cycle in which it was free. `ends`: no other half follows.
    void take(const OperandBeat<Config>& beat, bool ends) {
#pragma HLS INLINE
        simulation_check(!beat.fires || beat.first == (words_ == 0), "a chunk of a window",
                         "begins somewhere else than its first word; word", words_);
    Columns_Take:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            if (beat.mine[i]) {
                word_[i] = beat.word[i];
            }
        }
        begin_word(beat.apart);
        writes_ = beat.fires;
        last_ = beat.last;
        ends_ = ends;
    }

   private:
    // Lanes go in turns, or all with the next step.
    void begin_word(bool apart) {
#pragma HLS INLINE
    Lanes_Begin:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            lane_[l] = static_cast<lane_t>(apart ? l : 0);
        }
        last_lane_ = lanes == 1 || apart;
    }

    Word<Config> word_[Config::columns];
    bool writes_, last_, ends_;  // the word is complete; it is the chunk's last of this half; of all halves
    lane_t lane_[lanes];         // that is written next to the groups of each lane
    bool last_lane_;
    address_t address_;
    int words_;  // of the chunk so far, for checks alone
};

}  // namespace bfpga
