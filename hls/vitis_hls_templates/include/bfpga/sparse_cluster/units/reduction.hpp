// The reduction path of the sparse cluster: fully connected layers and 1 x 1 convolutions (SC R117-R120).
//
// The lanes of a round hold non-zero inputs of one pixel, each with its own weight of one output. Their products are
// summed in a tree, and a reduction accumulator adds the sums of all rounds.
#pragma once
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

// The numbers of a reduction unit.
struct ReductionDefaults {
    static constexpr int lanes = 9;
    static constexpr int inputs = 256;  // channels of a pixel
    static constexpr int outputs = 8;   // kernels in flight
    static constexpr int input_bits = 8;
    static constexpr int weight_bits = 8;
    static constexpr int accumulator_bits = 32;
    using Multiplier = LaneDsp;
};

// The sum of N numbers, in as many levels as a tree of adders has; a missing number is zero (a group p' < p, SC R117).
template <class Sum, int N>
struct AdderTree {
    static constexpr int levels = bits_for(N);
    static constexpr int width = 1 << levels;

    template <class Term>
    static Sum sum(const Term (&term)[N]) {
#pragma HLS INLINE
        Sum node[width];
#pragma HLS ARRAY_PARTITION variable=node complete dim=0
    Leaves_Take:
        for (int n = 0; n < width; ++n) {
#pragma HLS UNROLL
            node[n] = n < N ? static_cast<Sum>(term[n < N ? n : 0]) : static_cast<Sum>(0);
        }
    Levels_Add:
        for (int level = levels - 1; level >= 0; --level) {
#pragma HLS UNROLL
        Nodes_Add:
            for (int n = 0; n < 1 << level; ++n) {
#pragma HLS UNROLL
                node[n] = static_cast<Sum>(node[n] + node[n + (1 << level)]);
            }
        }
        return node[0];
    }
};

template <class Config>
class ReductionUnit {
    static_assert(Config::lanes >= 1 && Config::lanes <= 32, "a unit has 1 to 32 lanes");
    static constexpr int product_bits = Config::input_bits + Config::weight_bits;
    static_assert(Config::accumulator_bits >= product_bits + bits_for(Config::inputs),
                  "accumulators hold the products of all inputs (SC E10)");
    static constexpr int groups = divided_up(Config::inputs, Config::lanes);

   public:
    using value_t = int_t<Config::input_bits>;
    using weight_t = int_t<Config::weight_bits>;
    using partial_t = int_t<product_bits + bits_for(Config::lanes)>;
    using accumulator_t = int_t<Config::accumulator_bits>;

    // Non-zero inputs lie anywhere, so every lane has the weights for itself.
    ReductionUnit() {
#pragma HLS ARRAY_PARTITION variable=weight_ complete dim=1
#pragma HLS BIND_STORAGE variable=weight_ type=ram_s2p impl=lutram
#pragma HLS ARRAY_PARTITION variable=value_ complete dim=2
#pragma HLS ARRAY_PARTITION variable=place_ complete dim=2
    }

    void set_weight(int output, int input, weight_t value) {
#pragma HLS INLINE
    Lanes_Copy:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            weight_[l][output * Config::inputs + input] = value;
        }
    }

    // The inputs of a pixel: those that are not zero, lane after lane (SC R119).
    void clear() {
#pragma HLS INLINE
        held_ = 0;
        group_ = 0;
        lane_ = 0;
    }
    void push(int input, value_t value) {
#pragma HLS INLINE
        simulation_check(held_ < Config::inputs, "a pixel", "has more inputs than the build:", held_ + 1);
        value_[group_][lane_] = value;
        place_[group_][lane_] = input;
        ++held_;
        const bool full = lane_ == Config::lanes - 1;
        lane_ = full ? 0 : lane_ + 1;
        group_ += full ? 1 : 0;
    }

    // Outputs [0, outputs) of the pixel: `sink.partial` gets the sum of each round, `sink.write` each output.
    template <class Sink>
    void outputs(int outputs, Sink& sink, TileUnitCounters& counters) {
        accumulator_t sum = 0;
        int output = 0;
        int group = 0;
    Rounds:
        while (output < outputs) {
// II=1: the tree is a pipeline; its end adds to one register in one clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::outputs* divided_up(Config::inputs, Config::lanes)
            const int left = held_ - group * Config::lanes;
            const int used = left < Config::lanes ? left : Config::lanes;
            if (used > 0) {
                const partial_t partial = round(output, group, used);
                sink.partial(partial);
                sum = add(sum, partial);
                ++counters.rounds;
                counters.issued += used;
                counters.idle += Config::lanes - used;
            }
            ++group;
            if (left <= Config::lanes) {
                sink.write(sum);
                sum = 0;
                group = 0;
                ++output;
            }
        }
    }

   private:
    partial_t round(int output, int group, int used) const {
#pragma HLS INLINE
        int_t<product_bits> product[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
    Lanes_Multiply:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            const bool valid = l < used;
            const int input = valid ? static_cast<int>(place_[group][l]) : 0;
            const value_t x[1] = {valid ? value_[group][l] : static_cast<value_t>(0)};
            int_t<product_bits> one[1];
            Config::Multiplier::template multiply<Config::input_bits, Config::weight_bits, 1>(
                x, weight_[l][output * Config::inputs + input], one);
            product[l] = one[0];
        }
        return AdderTree<partial_t, Config::lanes>::sum(product);
    }

    static accumulator_t add(accumulator_t sum, partial_t partial) {
#pragma HLS INLINE
        const int_t<Config::accumulator_bits + 1> wide =
            static_cast<int_t<Config::accumulator_bits + 1>>(sum) + partial;
        return low_bits<Config::accumulator_bits>(wide);
    }

    weight_t weight_[Config::lanes][Config::outputs * Config::inputs] = {};
    value_t value_[groups][Config::lanes] = {};
    uint_t<16> place_[groups][Config::lanes] = {};
    int32_t held_ = 0, group_ = 0, lane_ = 0;
};

}  // namespace bfpga
