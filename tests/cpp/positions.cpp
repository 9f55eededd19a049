// position_*.hpp behind a C interface: bits, statistics, selection, conversion, and layers under every flow.
//
// Functions return 0, 1 if there is no build of that number, 2 with a sentence in `text` if the simulation stops.
#include "bfpga/output/positions/converter.hpp"
#include "bfpga/output/positions/selector.hpp"

#include <cstring>
#include <vector>

using namespace bfpga;

namespace {

template <int AW, int OW, int LANES, NsbKept NSB, LsbKept LSB, Rounding R, Saturation S, class Registers>
struct Build : PositionDefaults {
    static constexpr int acc_width = AW;
    static constexpr int out_width = OW;
    static constexpr int lanes = LANES;
    static constexpr NsbKept nsb = NSB;
    static constexpr LsbKept lsb = LSB;
    static constexpr Rounding rounding = R;
    static constexpr Saturation saturation = S;
    using RegisterSets = Registers;
};

// The scalar unit of a build.
template <class Config>
struct Scalar : Config {
    static constexpr int lanes = 1;
};

template <class... Builds>
struct List {};
using All = List<
#ifdef BFPGA_NATIVE_INTEGERS  // the same code for other widths: ap_int takes long to compile
    Build<48, 16, 2, NsbKept::Coarse, LsbKept::Histogram, Rounding::HalfAway, Saturation::Sym, ArrayRegisters>,
    Build<23, 12, 7, NsbKept::Coarse, LsbKept::Minimum, Rounding::HalfUp, Saturation::Wrap, ArrayRegisters>,
#endif
    Build<32, 8, 16, NsbKept::Histogram, LsbKept::Histogram, Rounding::Rne, Saturation::Full, ArrayRegisters>,
    Build<32, 8, 4, NsbKept::Coarse, LsbKept::Minimum, Rounding::Rne, Saturation::Sym, ScalarRegisters>,
    Build<32, 8, 3, NsbKept::Maximum, LsbKept::Minimum, Rounding::HalfUp, Saturation::Full, ArrayRegisters>,
    Build<32, 8, 1, NsbKept::Maximum, LsbKept::None, Rounding::Trunc, Saturation::Full, ArrayRegisters>,
    Build<32, 8, 2, NsbKept::Coarse, LsbKept::None, Rounding::Rne, Saturation::Wrap, ArrayRegisters>,
    Build<32, 16, 5, NsbKept::Histogram, LsbKept::None, Rounding::Rne, Saturation::Full, ScalarRegisters>,
    Build<16, 4, 3, NsbKept::Histogram, LsbKept::Minimum, Rounding::Tozero, Saturation::Full, ArrayRegisters>>;

template <class Action>
int visit(int, const Action&, List<>) {
    return 1;
}

template <class Action, class First, class... Others>
int visit(int number, const Action& action, List<First, Others...>) {
    return number == 0 ? action.template apply<First>() : visit(number - 1, action, List<Others...>());
}

template <class Action>
int visit(int number, const Action& action, char* text) {
    try {
        return visit(number, action, All());
    } catch (const ScheduleError& error) {
        std::strncpy(text, error.what(), 199);
        return 2;
    }
}

// Calls `step(values, valid, index of the first)` for all results, `lanes` at a time.
template <class Config, class Step>
void each_clock(const int64_t* value, int count, const Step& step) {
    for (int first = 0; first < count; first += Config::lanes) {
        typename PositionTypes<Config>::wide_t wide[Config::lanes] = {};
        bool valid[Config::lanes] = {};
        for (int lane = 0; lane < Config::lanes && first + lane < count; ++lane) {
            wide[lane] = static_cast<typename PositionTypes<Config>::wide_t>(value[first + lane]);
            valid[lane] = true;
        }
        step(wide, valid, first);
    }
}

template <class Config>
void collect(PositionStatistics<Config>& statistics, const int64_t* value, int count) {
    each_clock<Config>(value, count,
                       [&](const typename PositionTypes<Config>::wide_t(&wide)[Config::lanes],
                           const bool (&valid)[Config::lanes], int) { statistics.collect(wide, valid); });
}

template <class Config>
void convert(PositionConverter<Config>& converter, const int64_t* value, int count, int32_t* narrow) {
    each_clock<Config>(value, count,
                       [&](const typename PositionTypes<Config>::wide_t(&wide)[Config::lanes],
                           const bool (&valid)[Config::lanes], int first) {
                           typename PositionTypes<Config>::narrow_t result[Config::lanes];
                           converter.convert(wide, valid, result);
                           for (int lane = 0; lane < Config::lanes && first + lane < count; ++lane) {
                               narrow[first + lane] = static_cast<int32_t>(result[lane]);
                           }
                       });
}

struct Numbers {
    int32_t* number;

    template <class Config>
    int apply() const {
        const int32_t numbers[7] = {Config::acc_width,
                                    Config::out_width,
                                    Config::lanes,
                                    static_cast<int32_t>(Config::nsb),
                                    static_cast<int32_t>(Config::lsb),
                                    static_cast<int32_t>(Config::rounding),
                                    static_cast<int32_t>(Config::saturation)};
        std::memcpy(number, numbers, sizeof numbers);
        return 0;
    }
};

struct Bits {
    const int64_t* value;
    int count;
    int32_t* nsb;
    int32_t* lsb;

    template <class Config>
    int apply() const {
        constexpr int AW = Config::acc_width;
        for (int k = 0; k < count; ++k) {
            const int_t<AW> number = static_cast<int_t<AW>>(value[k]);
            const uint_t<AW + 1> highest = highest_bin<AW>(number);
            const uint_t<AW + 1> lowest = lowest_bin<AW>(number);
            const bool one_bit = (highest & (highest - 1)) == 0 && (lowest & (lowest - 1)) == 0;
            nsb[k] = one_bit ? lead_position<AW + 1>(highest) - 1 : -99;
            lsb[k] = one_bit ? lead_position<AW + 1>(lowest) - 1 : -99;
        }
        return 0;
    }
};

// Three parts: the vector unit, the scalar unit, a second vector unit that has seen a layer before. All are merged.
struct Statistics {
    const int64_t* value;
    const int32_t* edge;  // 4
    RuleRegisters rule;
    int64_t* state;  // count, nsb_max, lsb_min, shift, nsb histogram, lsb histogram

    template <class Config>
    int apply() const {
        PositionStatistics<Config> vector;
        PositionStatistics<Config> other;
        PositionStatistics<Scalar<Config>> scalar;
        const int64_t layer_before[3] = {-1000, 6, 0};
        collect(other, layer_before, 3);
        other.clear();
        collect(vector, value + edge[0], edge[1] - edge[0]);
        collect(scalar, value + edge[1], edge[2] - edge[1]);
        collect(other, value + edge[2], edge[3] - edge[2]);
        other.merge(scalar);
        vector.merge(other);
        constexpr int bins = PositionTypes<Config>::bins;
        state[0] = static_cast<int64_t>(vector.count());
        state[1] = vector.nsb_max();
        state[2] = vector.lsb_min();
        for (int bin = 0; bin < bins; ++bin) {
            state[4 + bin] = static_cast<int64_t>(vector.nsb_count(bin));
            state[4 + bins + bin] = static_cast<int64_t>(vector.lsb_count(bin));
        }
        state[3] = select_shift<Config>(vector, rule);
        return 0;
    }
};

struct Conversion {
    const int64_t* value;
    const int32_t* shift;
    int count;
    int32_t* narrow;
    uint8_t* saturated;

    // Every value with a shift of its own.
    template <class Config>
    int apply() const {
        PositionConverter<Config> converter;
        for (int k = 0; k < count; ++k) {
            converter.start(shift[k]);
            convert(converter, value + k, 1, narrow + k);
            saturated[k] = converter.saturated() != 0;
        }
        return 0;
    }
};

// A fully connected layer: x (items, inner) times weights (inner, outputs).
struct Layer {
    int32_t items, inner, outputs;
    const int32_t* weight;
};

// What a layer has done and left: its registers (FP R49).
struct LayerState {
    int32_t shift, saturated, computed_rows, written_rows, read_rows, seen;
};

// An operator that counts its rows, and a buffer of wide results that counts its traffic.
class Operator {
   public:
    Operator(const Layer& layer, const std::vector<int32_t>& x, LayerState& state)
        : layer_(layer), x_(x), state_(state), kept_(static_cast<size_t>(layer.items)) {}

    std::vector<int64_t> compute(int item) {
        ++state_.computed_rows;
        std::vector<int64_t> row(static_cast<size_t>(layer_.outputs));
        for (int k = 0; k < layer_.inner; ++k) {
            for (int output = 0; output < layer_.outputs; ++output) {
                row[static_cast<size_t>(output)] +=
                    static_cast<int64_t>(x_[static_cast<size_t>(item * layer_.inner + k)]) *
                    layer_.weight[k * layer_.outputs + output];
            }
        }
        return row;
    }

    void keep(int item, const std::vector<int64_t>& row) {
        ++state_.written_rows;
        kept_[static_cast<size_t>(item)] = row;
    }

    std::vector<int64_t> read_or_compute(int item) {
        if (kept_[static_cast<size_t>(item)].empty()) {
            return compute(item);
        }
        ++state_.read_rows;
        return kept_[static_cast<size_t>(item)];
    }

   private:
    const Layer& layer_;
    const std::vector<int32_t>& x_;
    LayerState& state_;
    std::vector<std::vector<int64_t>> kept_;
};

// 4.1 of the specification for one layer. sampled: marks of the items.
template <class Config>
std::vector<int32_t> run_layer(int flow, const Layer& layer, const std::vector<int32_t>& x, const uint8_t* sampled,
                               const RuleRegisters& rule, PositionStatistics<Config>& statistics, LayerState& state) {
    Operator op(layer, x, state);
    if (flow != 0) {
        statistics.clear();
        for (int item = 0; item < layer.items; ++item) {
            if (flow % 2 == 0 && sampled[item] == 0) {
                continue;
            }
            const std::vector<int64_t> row = op.compute(item);
            collect(statistics, row.data(), layer.outputs);
            if (flow >= 3) {
                op.keep(item, row);
            }
        }
        state.shift = select_shift<Config>(statistics, rule);
    }
    PositionConverter<Config> converter;
    converter.start(state.shift);
    std::vector<int32_t> narrow(static_cast<size_t>(layer.items * layer.outputs));
    for (int item = 0; item < layer.items; ++item) {
        const std::vector<int64_t> row = op.read_or_compute(item);
        convert(converter, row.data(), layer.outputs, narrow.data() + item * layer.outputs);
    }
    state.saturated = static_cast<int32_t>(converter.saturated());
    state.seen = static_cast<int32_t>(statistics.count());
    return narrow;
}

struct Network {
    int flow;
    int layers;
    const int32_t* shape;   // items, inner, outputs of each layer
    const int32_t* weight;  // of all layers, one after the other
    const int32_t* input;
    const uint8_t* sampled;
    RuleRegisters rule;
    LayerState* state;  // shift: that of flow 0
    int32_t* output;

    template <class Config>
    int apply() const {
        PositionStatistics<Config> statistics;
        std::vector<int32_t> x(input, input + shape[0] * shape[1]);
        const int32_t* next = weight;
        for (int number = 0; number < layers; ++number) {
            const Layer layer = {shape[3 * number], shape[3 * number + 1], shape[3 * number + 2], next};
            x = run_layer<Config>(flow, layer, x, sampled, rule, statistics, state[number]);
            next += layer.inner * layer.outputs;
        }
        std::copy(x.begin(), x.end(), output);
        return 0;
    }
};

}  // namespace

extern "C" {

int unit_position_build(int number, int32_t* numbers) {
    char text[200];
    return visit(number, Numbers{numbers}, text);
}

int unit_position_bits(int number, const int64_t* value, int count, int32_t* nsb, int32_t* lsb) {
    char text[200];
    return visit(number, Bits{value, count, nsb, lsb}, text);
}

int unit_position_statistics(int number, const int64_t* value, const int32_t* edge, const RuleRegisters* rule,
                             int64_t* state, char* text) {
    return visit(number, Statistics{value, edge, *rule, state}, text);
}

int unit_position_convert(int number, const int64_t* value, const int32_t* shift, int count, int32_t* narrow,
                          uint8_t* saturated) {
    char text[200];
    return visit(number, Conversion{value, shift, count, narrow, saturated}, text);
}

int unit_position_network(int number, int flow, int layers, const int32_t* shape, const int32_t* weight,
                          const int32_t* input, const uint8_t* sampled, const RuleRegisters* rule, void* state,
                          int32_t* output, char* text) {
    return visit(number,
                 Network{flow, layers, shape, weight, input, sampled, *rule, static_cast<LayerState*>(state), output},
                 text);
}

}  // extern "C"
