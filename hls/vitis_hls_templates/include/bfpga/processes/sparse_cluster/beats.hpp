// The beats to and from the units of a sparse cluster: words of pieces, steps of kernels, blocks of sums.
//
// All units of a cluster have these three streams, whichever variant they are: pieces come in, steps are broadcast,
// blocks leave. A piece has a stream of its own for each unit, whose FIFO is the unit's queue: it holds values with
// their places (SC R39, R46), and the next piece is prefetched while one is computed (SC R49).
//
// Sums of a piece are stored in banks: kernel rows x kernel columns cells of the full grid are a block, and a word of a
// bank is a cell of each block (SC R115). Blocks are counted from the map's origin, so blocks of two pieces are the
// same cells.
#pragma once
#include "bfpga/numeric/numeric.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Sizes and types that follow from the numbers of a cluster.
template <class Config>
struct ClusterUnitTypes {
    static constexpr int lanes = Config::lanes;  // channels of a word
    static constexpr int rows = Config::kernel_rows;
    static constexpr int columns = Config::kernel_columns;
    static constexpr int cells = rows * columns;      // of the largest kernel, and of a block
    static constexpr int planes = Config::planes;     // kernels in flight
    static constexpr int words = Config::unit_words;  // blocks of a piece and kernel
    static constexpr int product_bits = Config::value_bits + Config::weight_bits;
    static_assert((planes & (planes - 1)) == 0 && (words & (words - 1)) == 0, "addresses are put together of bits");
    static_assert(Config::value_bits <= 16 && Config::weight_bits <= 16, "values and weights have 16 bits at most");
    static_assert(Config::accumulator_bits >= product_bits + bit_length(cells - 1),
                  "accumulators hold all products of a kernel (SC E10)");
    static_assert(lanes <= 16 && planes <= 64, "a word has 16 channels at most, 64 kernels are in flight (SC 2.2)");

    static constexpr int place_bits = bit_length(words - 1);
    static constexpr int plane_bits = planes > 1 ? bit_length(planes - 1) : 1;
    static constexpr int phase_bits = bit_length((rows > columns ? rows : columns) - 1) + 1;
    static constexpr int lane_bits = lanes > 1 ? bit_length(lanes - 1) : 1;
    using value_t = int_t<Config::value_bits>;
    using weight_t = int_t<Config::weight_bits>;
    using product_t = int_t<product_bits>;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using place_t = uint_t<place_bits>;
    using plane_t = uint_t<plane_bits>;
    using phase_t = uint_t<phase_bits>;
    using lane_t = uint_t<lane_bits>;

    // The next block to the right or below.
    static place_t behind(place_t place, place_t by) {
#pragma HLS INLINE
        const uint_t<place_bits + 1> sum =
            static_cast<uint_t<place_bits + 1>>(static_cast<uint_t<place_bits + 1>>(place) + by);
        return static_cast<place_t>(sum & static_cast<uint_t<place_bits + 1>>(words - 1));
    }
};

// The field of W bits from bit `low` on, without a sign.
template <int W, class Bits>
inline uint_t<W> unsigned_at(const Bits& word, int low) {
#pragma HLS INLINE
    return static_cast<uint_t<W>>(get_signed<W + 1>(word, low) & ((1LL << W) - 1));
}

// Signed numbers of W bits each, one after the other from bit 0 on.
template <int N, int W>
struct PackedNumbers {
    static constexpr int bits = N * W;

    template <class Bits, class Number>
    static void pack(Bits& to, const Number (&number)[N]) {
#pragma HLS INLINE
    Numbers_Pack:
        for (int n = 0; n < N; ++n) {
#pragma HLS UNROLL
            set_signed<W>(to, n * W, static_cast<int64_t>(number[n]));
        }
    }

    template <class Bits, class Number>
    static void unpack(const Bits& from, Number (&number)[N]) {
#pragma HLS INLINE
    Numbers_Unpack:
        for (int n = 0; n < N; ++n) {
#pragma HLS UNROLL
            number[n] = static_cast<Number>(get_signed<W>(from, n * W));
        }
    }
};

// A beat of a unit's queue. Without a mark: the values of a cell in the channels of a word.
template <class Config>
struct PieceBeat {
    using T = ClusterUnitTypes<Config>;
    using Values = PackedNumbers<Config::lanes, Config::value_bits>;
    static constexpr int value_bits = Values::bits;
    static constexpr int phases = value_bits + T::place_bits;
    static constexpr int marks = phases + 2 * T::phase_bits;
    static constexpr int bits = marks + 5;  // one spare bit: each flag is read with the bit above it

    typename T::value_t value[Config::lanes];
    typename T::place_t place;                    // of the block where the products of the last weight go
    typename T::phase_t row_phase, column_phase;  // the cell of that block
    bool opens;                                   // a piece begins; `place`: blocks per row
    bool ends;                                    // the values of a word of channels have come, and so has their set
    bool drains;  // the piece ends: its sums leave; `place`: the last block, value[0]: the last kernel
    bool stop;    // the start ends

    bool marked() const { return opens || ends || drains || stop; }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Values::pack(to, value);
        set_signed<T::place_bits>(to, value_bits, static_cast<int64_t>(place));
        set_signed<T::phase_bits>(to, phases, static_cast<int64_t>(row_phase));
        set_signed<T::phase_bits>(to, phases + T::phase_bits, static_cast<int64_t>(column_phase));
        const bool mark[4] = {opens, ends, drains, stop};
        PackedFlags<4>::pack(to, marks, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Values::unpack(from, value);
        place = unsigned_at<T::place_bits>(from, value_bits);
        row_phase = unsigned_at<T::phase_bits>(from, phases);
        column_phase = unsigned_at<T::phase_bits>(from, phases + T::phase_bits);
        bool mark[4];
        PackedFlags<4>::unpack(from, marks, mark);
        opens = mark[0];
        ends = mark[1];
        drains = mark[2];
        stop = mark[3];
    }
};

// A step of a value: the weights of one kernel that it meets. Steps come channel after channel of a word; those of all
// its channels are a set.
template <class Config>
struct StepBeat {
    using T = ClusterUnitTypes<Config>;
    using Weights = PackedNumbers<T::cells, Config::weight_bits>;
    static constexpr int weight_bits = Weights::bits;
    static constexpr int marks = weight_bits + T::plane_bits;
    static constexpr int bits = marks + 4;

    typename T::weight_t weight[T::cells];  // row after row; a kernel smaller than the largest follows zeros
    typename T::plane_t plane;              // the kernel
    bool adds;                              // no pause
    bool last;                              // of its channel
    bool stop;                              // the start ends; no unit sees it

    // What a unit keeps of a step: all.
    static const StepBeat& of(const StepBeat& step) { return step; }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Weights::pack(to, weight);
        set_signed<T::plane_bits>(to, weight_bits, static_cast<int64_t>(plane));
        const bool mark[3] = {adds, last, stop};
        PackedFlags<3>::pack(to, marks, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Weights::unpack(from, weight);
        plane = unsigned_at<T::plane_bits>(from, weight_bits);
        bool mark[3];
        PackedFlags<3>::unpack(from, marks, mark);
        adds = mark[0];
        last = mark[1];
        stop = mark[2];
    }
};

// The sums of a block, row after row; block after block of a piece, and of each all kernels.
template <class Config>
struct BlockBeat {
    using T = ClusterUnitTypes<Config>;
    using Sums = PackedNumbers<T::cells, Config::accumulator_bits>;
    static constexpr int bits = Sums::bits;

    typename T::accumulator_t sum[T::cells];

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Sums::pack(to, sum);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Sums::unpack(from, sum);
    }
};

}  // namespace bfpga
