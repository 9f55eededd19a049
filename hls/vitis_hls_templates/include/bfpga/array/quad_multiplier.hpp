// Four products with 4-bit weights in one DSP block: the weights of two rows times the pixels of two columns.
//
// One factor is w0 + w1 * 2^20, the other a0 + a1 * 2^10: fields of their product, 10 bits apart, are w0 a0, w0 a1,
// w1 a0 and w1 a1, and so are those of a sum of products, as long as each stays below 2^9: of four with pixels of 5
// bits
// (|w| <= 7, 4 * 7 * 16 < 2^9), of seven with pixels of 4 bits, whatever weights are. A field of the sum is signed;
// where the number below it is negative, it has lent that one 1, and the bit just below the field says so.
#pragma once
#include "bfpga/numeric/types.hpp"

namespace bfpga {

template <int MW, int LANES>
struct QuadProducts {
    static constexpr int weight_bits = 4;
    static constexpr int distance = 10;
    static_assert(MW == 4 || MW == 5, "pixels have 4 or 5 bits");
    static_assert(LANES <= (MW == 4 ? 7 : 4), "a field of 10 bits holds the sum of a cycle");

    // Of a DSP48E1's multiplier of 25 x 18 bits.
    static constexpr int weights_bits = 2 * distance + weight_bits + 1;
    static constexpr int pixels_bits = distance + MW + 1;
    static constexpr int product_bits = weights_bits + pixels_bits;
    static constexpr int sum_bits = 4 * distance;
    using weight_t = int_t<weight_bits>;
    using mantissa_t = int_t<MW>;
    using weights_t = int_t<weights_bits>;
    using pixels_t = int_t<pixels_bits>;
    using sum_t = int_t<sum_bits>;

    // The weights of rows 1 (high) and 0 (low).
    static weights_t weights(weight_t high, weight_t low) {
#pragma HLS INLINE
        const weights_t raised = shifted_left<weights_bits>(high, static_cast<uint_t<5>>(2 * distance));
        return static_cast<weights_t>(raised + low);
    }

    // The operands of columns 1 (high) and 0 (low).
    static pixels_t pixels(mantissa_t high, mantissa_t low) {
#pragma HLS INLINE
        const pixels_t raised = shifted_left<pixels_bits>(high, static_cast<uint_t<4>>(distance));
        return static_cast<pixels_t>(raised + low);
    }

    // One DSP slice.
    static int_t<product_bits> product(pixels_t x, weights_t w) {
#pragma HLS INLINE
        const int_t<product_bits> result = static_cast<factor_t<product_bits, weights_bits>>(w) * x;
#pragma HLS BIND_OP variable=result op=mul impl=dsp latency=3
        return result;
    }

    // The sum of a cycle.
    static sum_t multiply(const pixels_t (&x)[LANES], const weights_t (&w)[LANES]) {
#pragma HLS INLINE
        sum_t sum = static_cast<sum_t>(product(x[0], w[0]));
    Lanes_Multiply_Four:
        for (int l = 1; l < LANES; ++l) {
#pragma HLS UNROLL
            sum = static_cast<sum_t>(sum + product(x[l], w[l]));
        }
        return sum;
    }

    // A number and a field of a sum, field 2 r + c that of row r and column c. The bit below the field comes in as the
    // carry of one adder, which is one bit longer.
    template <int FIELD, int ACC>
    static int_t<ACC> add_field(int_t<ACC> before, sum_t sum) {
#pragma HLS INLINE
        static_assert(ACC >= distance, "an accumulator holds a field at least");
        constexpr int below = FIELD > 0 ? distance * FIELD - 1 : 0;
        const int_t<distance + 1> field = FIELD > 0 ? low_bits<distance + 1>(sum >> below)
                                                    : shifted_left<distance + 1>(sum, static_cast<uint_t<1>>(1));
        const int_t<ACC + 1> doubled = static_cast<int_t<ACC + 1>>(shifted_left<ACC + 1>(before, uint_t<1>(1)) + 1);
        return static_cast<int_t<ACC>>(static_cast<int_t<ACC + 1>>(doubled + field) >> 1);
    }
};

struct DspQuad {
    // Columns that share slices.
    static constexpr int columns = 2;

    template <class Config>
    class Weights {
        using mantissa_t = int_t<Config::mantissa_bits>;
        using accumulator_t = int_t<Config::accumulator_bits>;
        using Tile = QuadProducts<Config::mantissa_bits, Config::lanes>;
        static constexpr int pairs = Config::rows / 2;
        static_assert(Config::weight_bits == Tile::weight_bits, "four products share a slice if weights have 4 bits");
        static_assert(Config::rows % 2 == 0 && Config::columns % 2 == 0, "two rows and two columns share a slice");
        static_assert(Config::hop_columns % 2 == 0, "columns that share a slice get their weights together");

       public:
        // The operands of two columns.
        struct Pixels {
            typename Tile::pixels_t lane[Config::lanes];

            Pixels(const mantissa_t (&high)[Config::lanes], const mantissa_t (&low)[Config::lanes]) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=lane complete dim=0
            Lanes_Join:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    lane[l] = Tile::pixels(high[l], low[l]);
                }
            }
        };

        Weights() {}
        Weights(const int_t<Config::weight_bits> (&w)[Config::rows][Config::lanes], bool) {
#pragma HLS INLINE
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
        Pairs_Pack_Four:
            for (int j = 0; j < pairs; ++j) {
#pragma HLS UNROLL
            Lanes_Pack_Four:
                for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                    operand_[j][l] = Tile::weights(w[2 * j + 1][l], w[2 * j][l]);
                }
            }
        }

        // Adds the products of one cycle to two columns, of which `low` and `high` are the operands.
        template <class Column>
        void accumulate(Column& low_column, Column& high_column, const mantissa_t (&low)[Config::lanes],
                        const mantissa_t (&high)[Config::lanes], bool first) const {
#pragma HLS INLINE
            const Pixels pixels(high, low);
        Pairs_Add_Four:
            for (int j = 0; j < pairs; ++j) {
#pragma HLS UNROLL
                add(low_column, high_column, 2 * j, Tile::multiply(pixels.lane, operand_[j]), first);
            }
        }

        // As above; every row pair has operands of its own.
        template <class Column>
        void accumulate(Column& low_column, Column& high_column, const mantissa_t (&low)[pairs][Config::lanes],
                        const mantissa_t (&high)[pairs][Config::lanes], bool first) const {
#pragma HLS INLINE
        Pairs_Add_Four_Own:
            for (int j = 0; j < pairs; ++j) {
#pragma HLS UNROLL
                const Pixels pixels(high[j], low[j]);
                add(low_column, high_column, 2 * j, Tile::multiply(pixels.lane, operand_[j]), first);
            }
        }

       private:
        // Adds the fields of a sum to rows r and r + 1 of both columns.
        template <class Column>
        static void add(Column& low, Column& high, int r, typename Tile::sum_t sum, bool first) {
#pragma HLS INLINE
            add_field<0>(low, r, sum, first);
            add_field<1>(high, r, sum, first);
            add_field<2>(low, r + 1, sum, first);
            add_field<3>(high, r + 1, sum, first);
        }

        template <int FIELD, class Column>
        static void add_field(Column& column, int r, typename Tile::sum_t sum, bool first) {
#pragma HLS INLINE
            const accumulator_t before = first ? static_cast<accumulator_t>(0) : column.get(r);
            column.set(r, Tile::template add_field<FIELD, Config::accumulator_bits>(before, sum));
        }

        typename Tile::weights_t operand_[pairs][Config::lanes];
    };
};

}  // namespace bfpga
