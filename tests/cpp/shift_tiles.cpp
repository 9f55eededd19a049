// shift_tiles.hpp and column_weights.hpp: arrays of a list, by their number. The test asks each for its parameters, so
// that the list is here alone. Functions return 0, or 1 if there is no array of that number.
#include <cstdint>

#include "bfpga/array/mixed_columns.hpp"
#include "bfpga/array/multiplier.hpp"
#include "bfpga/kernel/storage.hpp"

namespace {

using bfpga::SignMode;
using bfpga::ZeroCode;
using bfpga::ZeroScope;

constexpr int larger(int a, int b) { return a > b ? a : b; }

// Two rows of two lanes: enough for a packed pair of rows, and for every word beside every other one.
template <int MW, int EW, int D, int BASE, ZeroCode ZERO, ZeroScope SCOPE, SignMode SIGN, int SHIFT_COLUMNS, class Mult>
struct Array {
    using Multiplier = Mult;
    static constexpr int mantissa_bits = MW;
    static constexpr int container_bits = 16;
    static constexpr int shift_exp_width = EW;
    static constexpr int shift_d = D;
    static constexpr int shift_base_log2 = BASE;
    static constexpr ZeroCode shift_zero_code = ZERO;
    static constexpr ZeroScope shift_zero_scope = SCOPE;
    static constexpr SignMode shift_sign_mode = SIGN;
    static constexpr int shift_columns = SHIFT_COLUMNS;
    static constexpr int word_bits = 2 * (EW + 1 + (ZERO == ZeroCode::Flag ? 1 : 0));
    static constexpr int weight_bits = SHIFT_COLUMNS > 0 ? larger(word_bits, MW) : word_bits;
    static constexpr int weight_container_bits = 16;
    static constexpr int packing_shift = 17;
    static constexpr int accumulator_bits = 40;
    static constexpr int columns = 3;
    static constexpr int banks = 5;
    static constexpr int rows = 2;
    static constexpr int lanes = 2;
    static constexpr int words_per_block = 1;
    static constexpr int accumulator_rows = SHIFT_COLUMNS > 0 ? rows : 2 * rows;
    static constexpr int activation_words = 16;
    static constexpr int weight_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 16;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 2;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = 1;
};

// All columns shift.
template <int MW, int EW, int D, int BASE, ZeroCode ZERO, ZeroScope SCOPE = ZeroScope::Auto,
          SignMode SIGN = SignMode::Relative>
using Shift = Array<MW, EW, D, BASE, ZERO, SCOPE, SIGN, 0, bfpga::ShiftUnits>;
// One column shifts, beside two with DSP slices.
template <class Mult, int MW, int EW, int D, int BASE, ZeroCode ZERO, ZeroScope SCOPE = ZeroScope::Auto,
          SignMode SIGN = SignMode::Relative>
using Mixed = Array<MW, EW, D, BASE, ZERO, SCOPE, SIGN, 1, Mult>;

template <class... Arrays>
struct List {};

using All =
    List<Shift<8, 3, 0, 1, ZeroCode::NegMin>, Shift<8, 3, 0, 1, ZeroCode::Flag>, Shift<4, 1, 1, 1, ZeroCode::NegMin>,
         Shift<5, 1, 2, 1, ZeroCode::ExpMax, ZeroScope::Both>, Shift<6, 2, 1, 1, ZeroCode::Flag>,
         Shift<7, 2, 4, 1, ZeroCode::NegMin, ZeroScope::Auto, SignMode::Absolute>, Shift<8, 2, 0, 2, ZeroCode::ExpMax>,
         Shift<4, 4, 0, 1, ZeroCode::NegMin>, Shift<11, 3, 8, 1, ZeroCode::NegMin>,
         Mixed<bfpga::Dsp, 8, 3, 0, 1, ZeroCode::NegMin>, Mixed<bfpga::DspPacked, 8, 3, 0, 1, ZeroCode::NegMin>,
         Mixed<bfpga::DspPacked, 6, 3, 0, 1, ZeroCode::Flag>, Mixed<bfpga::Dsp, 12, 2, 1, 1, ZeroCode::Flag>,
         Mixed<bfpga::DspPacked, 5, 1, 1, 1, ZeroCode::NegMin>,
         Mixed<bfpga::Dsp, 9, 2, 4, 1, ZeroCode::ExpMax, ZeroScope::Both, SignMode::Absolute>,
         Mixed<bfpga::Dsp, 10, 2, 0, 2, ZeroCode::NegMin>>;

// Calls `action` for the array of a number; counts the number down along the list.
template <class Action, class... Arrays>
int with_array(int number, const Action& action, const List<Arrays...>*) {
    int left = number;
    const int expand[] = {(left-- == 0 ? (action.template apply<Arrays>(), 0) : 0)...};
    static_cast<void>(expand);
    return number >= 0 && left < 0 ? 0 : 1;
}

template <class Action>
int with_array(int number, const Action& action) {
    return with_array(number, action, static_cast<const All*>(nullptr));
}

struct Parameters {
    int32_t* value;

    template <class Config>
    void apply() const {
        const int32_t values[] = {Config::mantissa_bits,
                                  Config::shift_exp_width,
                                  Config::shift_d,
                                  Config::shift_base_log2,
                                  static_cast<int32_t>(Config::shift_zero_code),
                                  static_cast<int32_t>(Config::shift_zero_scope),
                                  static_cast<int32_t>(Config::shift_sign_mode),
                                  Config::shift_columns,
                                  Config::weight_bits,
                                  Config::accumulator_rows};
        int32_t* out = value;
        for (const int32_t number : values) {
            *out++ = number;
        }
    }
};

// Clocks of a column: the weights (rows, lanes) and operands (lanes) of each, and all accumulators after it.
struct Clocks {
    int column;
    bool two_hot;
    bool power_of_two;
    bool keep;  // the accumulators keep their sums from clock to clock
    int count;
    const int32_t* weight;
    const int32_t* x;
    const int64_t* initial;
    int64_t* result;

    template <class Config>
    void apply() const {
        using weight_t = typename bfpga::Geometry<Config>::weight_t;
        using mantissa_t = typename bfpga::Geometry<Config>::mantissa_t;
        using accumulator_t = bfpga::int_t<Config::accumulator_bits>;
        bfpga::ArrayRegisters::Set<accumulator_t, Config::accumulator_rows> accumulators;
        for (int n = 0; n < count; ++n) {
            weight_t word[Config::rows][Config::lanes];
            mantissa_t operand[Config::lanes];
            for (int l = 0; l < Config::lanes; ++l) {
                operand[l] = static_cast<mantissa_t>(x[n * Config::lanes + l]);
                for (int r = 0; r < Config::rows; ++r) {
                    word[r][l] = static_cast<weight_t>(
                        bfpga::low_bits<Config::weight_bits>(weight[(n * Config::rows + r) * Config::lanes + l]));
                }
            }
            if (n == 0 || !keep) {
                for (int r = 0; r < Config::accumulator_rows; ++r) {
                    accumulators.set(r, static_cast<accumulator_t>(initial[r]));
                }
            }
            const bfpga::ColumnWeights<Config> ready(word, bfpga::WeightMode{two_hot, power_of_two});
            ready.accumulate(column, accumulators, operand, false);
            for (int r = 0; r < Config::accumulator_rows; ++r) {
                result[n * Config::accumulator_rows + r] = static_cast<int64_t>(accumulators.get(r));
            }
        }
    }
};

}  // namespace

extern "C" {

int unit_array_parameters(int number, int32_t* parameters) { return with_array(number, Parameters{parameters}); }

int unit_array_clocks(int number, int column, int two_hot, int power_of_two, int keep, int count, const int32_t* weight,
                      const int32_t* x, const int64_t* initial, int64_t* result) {
    return with_array(number,
                      Clocks{column, two_hot != 0, power_of_two != 0, keep != 0, count, weight, x, initial, result});
}

}  // extern "C"
