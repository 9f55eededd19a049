// The wires between the processes of a kernel: beats, and the words of streams that carry them.
//
// A beat is a structure of fields. On a stream it is one word of bits, so that both ends of a wire agree whatever a
// tool does with structures; a simulation with native integers sends the structure itself, which is faster and
// equivalent.
#pragma once
#include "bfpga/memory/weight_memory.hpp"
#include "bfpga/memory/word.hpp"
#include "bfpga/ports/stream.hpp"

namespace bfpga {

#ifdef BFPGA_NATIVE_INTEGERS

template <class Beat>
using wire_t = Beat;

template <class Beat>
inline const Beat& to_wire(const Beat& beat) {
    return beat;
}

template <class Beat>
inline const Beat& from_wire(const wire_t<Beat>& word) {
    return word;
}

#else

// Whole bytes, as AXI-Stream has them.
template <class Beat>
using wire_t = bits_t<(Beat::bits + 7) / 8 * 8>;

template <class Beat>
inline wire_t<Beat> to_wire(const Beat& beat) {
#pragma HLS INLINE
    wire_t<Beat> word = 0;
    beat.pack(word);
    return word;
}

template <class Beat>
inline Beat from_wire(const wire_t<Beat>& word) {
#pragma HLS INLINE
    Beat beat;
    beat.unpack(word);
    return beat;
}

#endif

// A word of a command: a field of a descriptor.
using command_t = int_t<32>;
// Bits of an operation in the first word of a command; for `store` the values of the count registers follow them.
constexpr int operation_bits = 8;

// Bits `low` and up of a stream's word, as fields of W bits; a field that holds a truth value has one bit.
template <int W, class Bits>
inline int64_t field_at(const Bits& word, int low) {
#pragma HLS INLINE
    return get_signed<W>(word, low);
}

template <class Bits>
inline bool flag_at(const Bits& word, int low) {
#pragma HLS INLINE
    // A number of one bit is no legal signed integer of clang.
    return ((word >> static_cast<unsigned>(low)) & 1) != 0;
}

// Words of pixels, one after the other from bit 0 on.
template <class Config, int N>
struct PackedWords {
    static constexpr int lane_bits = Config::mantissa_bits;
    static constexpr int bits = N * Config::lanes * lane_bits;

    template <class Bits>
    static void pack(Bits& to, const Word<Config> (&word)[N]) {
#pragma HLS INLINE
    Words_Pack:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
        Lanes_Pack:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                set_signed<lane_bits>(to, (i * Config::lanes + l) * lane_bits, static_cast<int64_t>(word[i].lane[l]));
            }
        }
    }

    template <class Bits>
    static void unpack(const Bits& from, Word<Config> (&word)[N]) {
#pragma HLS INLINE
    Words_Unpack:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
        Lanes_Unpack:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                word[i].lane[l] = static_cast<typename Geometry<Config>::mantissa_t>(
                    get_signed<lane_bits>(from, (i * Config::lanes + l) * lane_bits));
            }
        }
    }
};

// A truth value for each of N columns, from bit `low` on.
template <int N>
struct PackedFlags {
    template <class Bits>
    static void pack(Bits& to, int low, const bool (&flag)[N]) {
#pragma HLS INLINE
    Flags_Pack:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            set_signed<1>(to, low + i, flag[i] ? 1 : 0);
        }
    }

    template <class Bits>
    static void unpack(const Bits& from, int low, bool (&flag)[N]) {
#pragma HLS INLINE
    Flags_Unpack:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            flag[i] = flag_at(from, low + i);
        }
    }
};

// A word of each of N pixels.
template <class Config, int N>
struct WordsBeat {
    using Words = PackedWords<Config, N>;
    static constexpr int bits = Words::bits;

    Word<Config> word[N];

    // The first ones of what several ports have read.
    template <int Ports>
    static WordsBeat of(const Word<Config> (&read)[Ports]) {
#pragma HLS INLINE
        WordsBeat beat;
    Words_First:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            beat.word[i] = read[i];
        }
        return beat;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Words::pack(to, word);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Words::unpack(from, word);
    }
};

// The data of a load's write or a store's read in a cycle: consecutive pixels of a row.
template <class Config>
using GroupBeat = WordsBeat<Config, Config::transfer_pixels>;

// One word of results of all columns; undefined in columns without a pixel.
template <class Config>
using ResultBeat = WordsBeat<Config, Config::columns>;

// Operands of the array in one slot of a step. `mine`: columns whose word this is; the others hold theirs.
// `neighbours`: columns multiply the words of adjacent ones too, but across the start of a row. A skip array gets its
// windows in chunks: `first` and `last` mark a step of a chunk then, and `opens`, `closes`, `single` and `slides` a
// chunk (scratchpad/chunks.hpp); `apart` an operation. Where it skips activations, `first` and `last` mark a pass's
// part of a chunk, as does `leaves`, and no window slides: then `apart` takes the place of `slides`, and `leaves` that
// of `apart` (scratchpad/run_chunks.hpp).
template <class Config>
struct OperandBeat {
    using Words = PackedWords<Config, Config::columns>;
    static constexpr bool chunked = Config::skip_groups > 0;
    static constexpr int control_bits = Words::bits + Config::columns;
    static constexpr int beside_bits = control_bits + 4;
    static constexpr int chunk_bits = beside_bits + (Config::tap_reuse ? Config::columns + 1 : 0);
    static constexpr int bits = chunk_bits + (chunked ? 5 : 0);

    Word<Config> word[Config::columns];
    bool mine[Config::columns];
    bool begins_row[Config::columns];
    bool neighbours;
    bool fires;   // the last slot of a step: multiply
    bool first;   // of the pass: the accumulators start
    bool last;    // of the pass
    bool stop;    // the start ends; nothing else counts
    bool opens;   // the chunk is the first one of its sums
    bool closes;  // with `last`: it is the last one of its pass
    bool single;  // the pass has no second half
    bool slides;  // the window is that of the chunk before, further by the words that come
    bool apart;   // each group needs one lane of the words; of activations: of the words of the only pixel
    bool leaves;  // with `last`: the pass is the last one of its run, and the weights of the chunk may go

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Words::pack(to, word);
        PackedFlags<Config::columns>::pack(to, Words::bits, mine);
        const bool control[4] = {fires, first, last, stop};
        PackedFlags<4>::pack(to, control_bits, control);
        if (Config::tap_reuse) {
            PackedFlags<Config::columns>::pack(to, beside_bits, begins_row);
            set_signed<1>(to, beside_bits + Config::columns, neighbours ? 1 : 0);
        }
        if (chunked) {
            const bool of_chunk = Config::skip_activations ? apart : slides;
            const bool of_operation = Config::skip_activations ? leaves : apart;
            const bool chunk[5] = {opens, closes, single, of_chunk, of_operation};
            PackedFlags<5>::pack(to, chunk_bits, chunk);
        }
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Words::unpack(from, word);
        PackedFlags<Config::columns>::unpack(from, Words::bits, mine);
        bool control[4];
        PackedFlags<4>::unpack(from, control_bits, control);
        fires = control[0];
        first = control[1];
        last = control[2];
        stop = control[3];
    Beside_Unpack:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            begins_row[i] = Config::tap_reuse && flag_at(from, Config::tap_reuse ? beside_bits + i : 0);
        }
        neighbours = Config::tap_reuse && flag_at(from, Config::tap_reuse ? beside_bits + Config::columns : 0);
        opens = chunked && flag_at(from, chunked ? chunk_bits : 0);
        closes = chunked && flag_at(from, chunked ? chunk_bits + 1 : 0);
        single = chunked && flag_at(from, chunked ? chunk_bits + 2 : 0);
        const bool of_chunk = chunked && flag_at(from, chunked ? chunk_bits + 3 : 0);
        const bool of_operation = chunked && flag_at(from, chunked ? chunk_bits + 4 : 0);
        slides = of_chunk && !Config::skip_activations;
        apart = Config::skip_activations ? of_chunk : of_operation;
        leaves = Config::skip_activations && of_operation;
    }
};

// Operands that bypass the array. `mine` as above; `present`: the tap is inside the image and the column works.
template <class Config>
struct VectorBeat {
    using Words = PackedWords<Config, Config::columns>;
    static constexpr int bits = Words::bits + 2 * Config::columns + 1;

    Word<Config> word[Config::columns];
    bool mine[Config::columns];
    bool present[Config::columns];
    bool fires;  // the last slot of a tap

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Words::pack(to, word);
        PackedFlags<Config::columns>::pack(to, Words::bits, mine);
        PackedFlags<Config::columns>::pack(to, Words::bits + Config::columns, present);
        set_signed<1>(to, Words::bits + 2 * Config::columns, fires ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Words::unpack(from, word);
        PackedFlags<Config::columns>::unpack(from, Words::bits, mine);
        PackedFlags<Config::columns>::unpack(from, Words::bits + Config::columns, present);
        fires = flag_at(from, Words::bits + 2 * Config::columns);
    }
};

// The weights of a step, and their format. In an array that skips activations `two_hot` marks the last step of its
// chunk, `power_of_two` that each group needs one lane of the word.
template <class Config>
struct WeightBeat {
    static constexpr int weights = Config::rows * Config::lanes;
    static constexpr int bits = weights * Config::weight_bits + 2;

    WeightWord<Config> weight;
    bool two_hot;
    bool power_of_two;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Weights_Pack:
        for (int n = 0; n < weights; ++n) {
#pragma HLS UNROLL
            set_signed<Config::weight_bits>(to, n * Config::weight_bits,
                                            static_cast<int64_t>(weight.row[n / Config::lanes][n % Config::lanes]));
        }
        set_signed<1>(to, weights * Config::weight_bits, two_hot ? 1 : 0);
        set_signed<1>(to, weights * Config::weight_bits + 1, power_of_two ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
    Weights_Unpack:
        for (int n = 0; n < weights; ++n) {
#pragma HLS UNROLL
            weight.row[n / Config::lanes][n % Config::lanes] = static_cast<typename Geometry<Config>::weight_t>(
                get_signed<Config::weight_bits>(from, n * Config::weight_bits));
        }
        two_hot = flag_at(from, weights * Config::weight_bits);
        power_of_two = flag_at(from, weights * Config::weight_bits + 1);
    }
};

// Bias and exponent of a row of the output.
template <class Config>
struct ParameterBeat {
    static constexpr int bits = Config::bias_bits + 16;

    Parameters<Config> row;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<Config::bias_bits>(to, 0, static_cast<int64_t>(row.bias));
        set_signed<16>(to, Config::bias_bits, static_cast<int64_t>(row.exponent));
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        row.bias = static_cast<int_t<Config::bias_bits>>(get_signed<Config::bias_bits>(from, 0));
        row.exponent = static_cast<int_t<16>>(get_signed<16>(from, Config::bias_bits));
    }
};

// One row of accumulators of a finished pass.
template <class Config>
struct SumBeat {
    static constexpr int bits = Config::columns * Config::accumulator_bits;

    int_t<Config::accumulator_bits> sum[Config::columns];

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Columns_Pack:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            set_signed<Config::accumulator_bits>(to, i * Config::accumulator_bits, static_cast<int64_t>(sum[i]));
        }
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
    Columns_Unpack:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            sum[i] = static_cast<int_t<Config::accumulator_bits>>(
                get_signed<Config::accumulator_bits>(from, i * Config::accumulator_bits));
        }
    }
};

}  // namespace bfpga
