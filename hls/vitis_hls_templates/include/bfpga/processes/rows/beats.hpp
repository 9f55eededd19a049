// The streams of the process of rows: scales of channels, and what its two loops send each other of a row.
#pragma once
#include "bfpga/contract/rows.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Widths that follow from the numbers.
struct RowTypes {
    using N = RowNumbers;
    // Of sums of a row, modulo their width: of its elements; of its squares, negated, or of its exponentials.
    static constexpr int row_bits = bit_length(N::largest_row);
    static constexpr int sum_bits = N::mantissa_bits + row_bits - 1;
    static constexpr int total_bits = N::sum_fraction + row_bits;
    // Of the first product: a mantissa times a scale, and an offset of that size.
    static constexpr int first_bits = N::mantissa_bits + N::scale_bits + 2;
    // Of the factors of the second product: a normalized number or 1/sum, and a gain or an exponential.
    static constexpr int factor_bits = N::root_bits + N::factor_position - N::least_position + 1;

    using mantissa_t = int_t<N::mantissa_bits>;
    using sum_t = int_t<sum_bits>;
    using total_t = int_t<total_bits>;
    using scale_t = int_t<N::scale_bits + 1>;
    using first_t = int_t<first_bits>;
    using second_t = int_t<factor_bits>;
    using gain_t = int_t<N::gain_bits>;
};

// A word of each column that the process has: of as many pixels as there are.
template <class Config>
using RowWords = WordsBeat<Config, Config::row_columns>;

// Results of a lane of these columns.
template <class Config>
struct RowSumBeat {
    static constexpr int result_bits = RowNumbers::result_bits;
    static constexpr int bits = Config::row_columns * result_bits;
    int_t<result_bits> sum[Config::row_columns];

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
    Results_Pack:
        for (int i = 0; i < Config::row_columns; ++i) {
#pragma HLS UNROLL
            set_signed<result_bits>(to, i * result_bits, static_cast<int64_t>(sum[i]));
        }
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
    Results_Unpack:
        for (int i = 0; i < Config::row_columns; ++i) {
#pragma HLS UNROLL
            sum[i] = static_cast<int_t<result_bits>>(get_signed<result_bits>(from, i * result_bits));
        }
    }
};

// The scale of a channel in a normalization.
struct RowGainBeat {
    static constexpr int bits = RowNumbers::gain_bits;
    RowTypes::gain_t gain;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<bits>(to, 0, static_cast<int64_t>(gain));
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        gain = static_cast<RowTypes::gain_t>(get_signed<bits>(from, 0));
    }
};

// What a pass has added to in a column: sums are never cleared, differences of two of them count.
struct RowTotalBeat {
    using T = RowTypes;
    static constexpr int bits = T::sum_bits + T::total_bits;
    static_assert(bits == RowNumbers::total_beat_bits, "the stream of totals has their bits");
    T::sum_t sum;
    T::total_t total;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<T::sum_bits>(to, 0, static_cast<int64_t>(sum));
        set_signed<T::total_bits>(to, T::sum_bits, static_cast<int64_t>(total));
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        sum = static_cast<T::sum_t>(get_signed<T::sum_bits>(from, 0));
        total = static_cast<T::total_t>(get_signed<T::total_bits>(from, T::sum_bits));
    }
};

// What a pass needs of a column's row: 1/deviation and the mean times it, or log2(e) and 1/sum.
struct RowFactorBeat {
    using T = RowTypes;
    static constexpr int scale_bits = RowNumbers::scale_bits + 1;
    static constexpr int bits = scale_bits + T::first_bits + T::factor_bits;
    static_assert(bits == RowNumbers::factor_beat_bits, "the stream of factors has their bits");
    T::scale_t scale;
    T::first_t offset;
    T::second_t factor;

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<scale_bits>(to, 0, static_cast<int64_t>(scale));
        set_signed<T::first_bits>(to, scale_bits, static_cast<int64_t>(offset));
        set_signed<T::factor_bits>(to, scale_bits + T::first_bits, static_cast<int64_t>(factor));
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        scale = static_cast<T::scale_t>(get_signed<scale_bits>(from, 0));
        offset = static_cast<T::first_t>(get_signed<T::first_bits>(from, scale_bits));
        factor = static_cast<T::second_t>(get_signed<T::factor_bits>(from, scale_bits + T::first_bits));
    }
};

}  // namespace bfpga
