// The multipliers of a dot tile, selected by a tag: pragmas stay out of the arithmetic (BFP R59, section 7).
//
// `Dsp`: one product per DSP slice; the sum of a tile's products is one expression on exact widths. `DspPacked`: two
// rows share one slice. The operand (w1 << SHIFT) + w0 times a shared activation holds both products, SHIFT bits apart.
// Exact because weights are symmetric (|w| <= 127: the operand fits 25 bits on DSP48E1 and 27 bits on DSP48E2) and
// because the sum of one cycle is split before its low field overflows.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// Sum of the products of one cycle and an accumulator: one expression, which maps to slices in cascade.
template <int MW, int ACC, int LANES>
struct Products {
    static_assert(2 * MW <= ACC, "an accumulator holds a product at least");

    static int_t<ACC> add(int_t<ACC> sum, const int_t<MW> (&x)[LANES], const int_t<MW> (&w)[LANES]) {
#pragma HLS INLINE
    Lanes_Multiply:
        for (int l = 0; l < LANES; ++l) {
#pragma HLS UNROLL
            const int_t<2 * MW> product = static_cast<factor_t<2 * MW, MW>>(x[l]) * w[l];
#pragma HLS BIND_OP variable=product op=mul impl=dsp latency=3
            sum = static_cast<int_t<ACC>>(sum + product);
        }
        return sum;
    }
};

// Two products with a shared factor in one slice.
template <int MW, int SHIFT, int LANES>
struct PackedProducts {
    static constexpr int terms_limit = SHIFT == 17 ? 4 : 8;
    static_assert(MW <= 8, "two products share a slice only if their factors have 8 bits at most");
    static_assert(SHIFT == 17 || SHIFT == 18, "fields lie 17 bits apart on DSP48E1, 18 on DSP48E2 and DSP58");
    static_assert(LANES <= terms_limit, "the low field holds 4 products at distance 17, 8 at distance 18");

    // 25 bits on a DSP48E1, one more at distance 18: the larger inputs of the multipliers.
    static constexpr int operand_bits = SHIFT + 8;
    static constexpr int product_bits = operand_bits + MW;
    static constexpr int sum_bits = product_bits + 3;

    // The operand of rows 1 (high) and 0 (low).
    static int_t<operand_bits> operand(int_t<MW> high, int_t<MW> low) {
#pragma HLS INLINE
        const int_t<operand_bits> raised = shifted_left<operand_bits>(high, static_cast<uint_t<6>>(SHIFT));
        return static_cast<int_t<operand_bits>>(raised + low);
    }

    // One DSP slice.
    static int_t<product_bits> product(int_t<MW> x, int_t<operand_bits> w) {
#pragma HLS INLINE
        const int_t<product_bits> result = static_cast<factor_t<product_bits, operand_bits>>(w) * x;
#pragma HLS BIND_OP variable=result op=mul impl=dsp latency=3
        return result;
    }

    // The sum of a cycle: its low field is signed, and borrows from the high one if it is negative.
    static int_t<sum_bits> multiply_signed(const int_t<MW> (&x)[LANES], const int_t<operand_bits> (&w)[LANES]) {
#pragma HLS INLINE
        int_t<sum_bits> sum = product(x[0], w[0]);
    Lanes_Multiply_Signed:
        for (int l = 1; l < LANES; ++l) {
#pragma HLS UNROLL
            sum = static_cast<int_t<sum_bits>>(sum + product(x[l], w[l]));
        }
        return sum;
    }

    // A number and the high field of a signed sum. The sign that the low field borrows is just below the high field in
    // the same sum: one more adder bit restores it.
    template <int ACC>
    static int_t<ACC> add_high(int_t<ACC> before, int_t<sum_bits> sum) {
#pragma HLS INLINE
        const int_t<ACC + 1> doubled = static_cast<int_t<ACC + 1>>(shifted_left<ACC + 1>(before, uint_t<1>(1)) + 1);
        return static_cast<int_t<ACC>>(static_cast<int_t<ACC + 1>>(doubled + (sum >> (SHIFT - 1))) >> 1);
    }
};

// Each tag has `Weights`, a weight word decoded once for all columns; a value that registers may hold. `accumulate`
// adds the products of one cycle, weight row r times the operands of a column, to row r of the column, which starts
// from them if they are the `first`. `columns`: how many share multipliers, and so are computed at once.
struct Dsp {
    static constexpr int columns = 1;

    template <class Config>
    class Weights {
        using mantissa_t = int_t<Config::mantissa_bits>;

        using accumulator_t = int_t<Config::accumulator_bits>;
        using Tile = Products<Config::mantissa_bits, Config::accumulator_bits, Config::lanes>;

       public:
        Weights() {}
        Weights(const mantissa_t (&w)[Config::rows][Config::lanes], bool) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=w_ complete dim=0
        Rows_Hold:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
            Lanes_Hold:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    w_[r][l] = w[r][l];
                }
            }
        }

        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[Config::lanes], bool first) const {
#pragma HLS INLINE
        Rows_Add:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                const accumulator_t before = first ? static_cast<accumulator_t>(0) : column.get(r);
                const accumulator_t sum = Tile::add(static_cast<accumulator_t>(0), x, w_[r]);
                column.set(r, static_cast<accumulator_t>(before + sum));
            }
        }

        // As above; every row pair has operands of its own.
        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[(Config::rows + 1) / 2][Config::lanes],
                        bool first) const {
#pragma HLS INLINE
        Rows_Add_Own:
            for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
                const accumulator_t before = first ? static_cast<accumulator_t>(0) : column.get(r);
                const accumulator_t sum = Tile::add(static_cast<accumulator_t>(0), x[r / 2], w_[r]);
                column.set(r, static_cast<accumulator_t>(before + sum));
            }
        }

       private:
        mantissa_t w_[Config::rows][Config::lanes];
    };
};

struct DspPacked {
    static constexpr int columns = 1;

    template <class Config>
    class Weights {
        static_assert(Config::rows % 2 == 0, "packed multipliers serve pairs of rows");
        using mantissa_t = int_t<Config::mantissa_bits>;
        using accumulator_t = int_t<Config::accumulator_bits>;
        using Tile = PackedProducts<Config::mantissa_bits, Config::packing_shift, Config::lanes>;

       public:
        Weights() {}
        Weights(const mantissa_t (&w)[Config::rows][Config::lanes], bool) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
        Pairs_Pack:
            for (int r = 0; r < Config::rows; r += 2) {
#pragma HLS UNROLL
            Lanes_Pack:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    operand_[r / 2][l] = Tile::operand(w[r + 1][l], w[r][l]);
                }
            }
        }

        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[Config::lanes], bool first) const {
#pragma HLS INLINE
        Pairs_Add:
            for (int r = 0; r < Config::rows; r += 2) {
#pragma HLS UNROLL
                add(column, r, Tile::multiply_signed(x, operand_[r / 2]), first);
            }
        }

        // As above; every row pair has operands of its own.
        template <class Column>
        void accumulate(Column& column, const mantissa_t (&x)[(Config::rows + 1) / 2][Config::lanes],
                        bool first) const {
#pragma HLS INLINE
        Pairs_Add_Own:
            for (int r = 0; r < Config::rows; r += 2) {
#pragma HLS UNROLL
                add(column, r, Tile::multiply_signed(x[r / 2], operand_[r / 2]), first);
            }
        }

       private:
        // Adds both fields of a sum to rows r and r + 1.
        template <class Column>
        static void add(Column& column, int r, int_t<Tile::sum_bits> sum, bool first) {
#pragma HLS INLINE
            const accumulator_t low = first ? static_cast<accumulator_t>(0) : column.get(r);
            const accumulator_t high = first ? static_cast<accumulator_t>(0) : column.get(r + 1);
            column.set(r, static_cast<accumulator_t>(low + low_bits<Config::packing_shift>(sum)));
            column.set(r + 1, Tile::template add_high<Config::accumulator_bits>(high, sum));
        }

        int_t<Tile::operand_bits> operand_[Config::rows / 2][Config::lanes];
    };
};

}  // namespace bfpga
