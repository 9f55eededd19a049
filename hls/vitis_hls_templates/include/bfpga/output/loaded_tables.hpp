// Functions by tables that come with the program (BFP R11; docs/kernel.md): what an operation's function is follows
// from bits of its descriptor and from the words of its table, so any function by a table runs on the same bitstream.
//
// A word holds a step: its first point, and the distance to the next one. Two columns share a unit with a copy of all
// tables and take turns, so a row takes two cycles, or each slice of it; the bias that stands alone in a row has a unit
// of its own.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/output/activation_unit.hpp"
#include "bfpga/output/column_slices.hpp"

namespace bfpga {

// A kernel whose tables are built in.
template <class Config, bool Present = (Config::function_tables > 0)>
class LoadedTables {
    using value_t = int_t<Config::accumulator_bits>;

   public:
    void take(int, int32_t) {}
    void start(const Descriptor&) {}
    bool used() const { return false; }
    exponent_t collected_exponent(exponent_t exponent) const { return exponent; }
    exponent_t result_exponent(exponent_t exponent) const { return exponent; }
    bool gives_unit(exponent_t) const { return false; }
    bool gives_unit_first(exponent_t) const { return false; }
    bool first_turn() const { return true; }
    bool last_turn() const { return true; }
    void end_turn() {}
    value_t alone(value_t value, exponent_t) const { return value; }
    template <int N>
    void map(const Saturated<Config::accumulator_bits> (&)[N], exponent_t, value_t (&)[N]) {}
};

template <class Config>
class LoadedTables<Config, true> {
    static constexpr int ACC = Config::accumulator_bits;
    using value_t = int_t<ACC>;
    using Use = TableUseFields;
    static_assert(ACC >= 16, "an accumulator holds the results of a table");
    static constexpr int steps = 256;
    static constexpr int words = Config::function_tables * steps;
    // Places of arguments in a table: 64 in a step.
    static constexpr int places = steps << 6;
    static constexpr int address_bits = bit_length(words);

   public:
    static constexpr int units = (StageColumns<Config>::count + kColumnsOfAUnit - 1) / kColumnsOfAUnit;
    static_assert(kColumnsOfAUnit == 2, "columns of a unit have a first and a last turn");
    static constexpr int copies = units + 1;

    LoadedTables() {
#pragma HLS ARRAY_PARTITION variable=held_ complete dim=0
// One memory for each copy, which reads a word a cycle. Words are written between operations.
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
    }

    // Word `index` of a command: of a TABLE an address, then words of a table.
    void take(int index, int32_t word) {
#pragma HLS INLINE
        if (index == 0) {
            loads_ = static_cast<Operation>(word) == Operation::Table;
        }
        if (index == kTableAddressPlace) {
            simulation_check(!loads_ || (word >= 0 && word <= words - kTableWords), "a descriptor",
                             "brings words of a table beyond the memory of tables, to", word);
            address_ = static_cast<uint_t<address_bits>>(word);
        }
        if (loads_ && index > kTableAddressPlace && index <= kTableAddressPlace + kTableWords) {
        Copies_Write:
            for (int i = 0; i < copies; ++i) {
#pragma HLS UNROLL
                cell_[i][static_cast<int>(address_)] = word;
            }
            address_ = static_cast<uint_t<address_bits>>(address_ + 1);
        }
    }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        const int32_t use = d.function_argument;
        used_ = d.function == kLoadedTable;
        slot_ = static_cast<uint_t<Use::slot_bits>>((use >> Use::slot) & ((1 << Use::slot_bits) - 1));
        raised_ = static_cast<uint_t<Use::raised_bits>>((use >> Use::raised) & ((1 << Use::raised_bits) - 1));
        half_ = ((use >> Use::half) & 1) != 0;
        odd_ = ((use >> Use::odd) & 1) != 0;
        below_ = ((use >> Use::below) & 1) != 0;
        above_ = ((use >> Use::above) & 1) != 0;
        table_unit_ = used_ && ((use >> Use::table_unit) & 1) != 0;
        const bool finer_unit = used_ && ((use >> Use::finer_unit) & 1) != 0;
        constexpr int far = 1 << (kExponentBits - 1);
        least_ = static_cast<exponent_t>(table_unit_ ? -far : finer_unit ? kActivationExponent : far - 1);
        least_first_ = d.has(Flag::FunctionFirst) ? least_ : static_cast<exponent_t>(far - 1);
        first_ = used_;
        second_ = false;
        simulation_check(!used_ || static_cast<int>(slot_) < Config::function_tables, "a descriptor",
                         "uses a loaded table of slot", static_cast<int>(slot_));
    }

    // Whether the operation's function is by a loaded table.
    bool used() const { return used_; }
    // Whether a row begins, and whether its last columns have their turn. Flags of their own: the loop waits for both.
    bool first_turn() const { return !second_; }
    bool last_turn() const { return !first_; }

    void end_turn() {
#pragma HLS INLINE
        second_ = first_;
        first_ = used_ && !first_;
    }

    // The function of a row's values, in the second turn.
    template <int N>
    void map(const Saturated<ACC> (&value)[N], exponent_t exponent, value_t (&mapped)[N]) {
#pragma HLS INLINE
    Units_Map:
        for (int unit = 0; unit < units && unit < N; ++unit) {
#pragma HLS UNROLL
            const int other = units + unit < N ? units + unit : unit;
            const value_t result = apply(unit, second_ ? value[other].value : value[unit].value, exponent);
            mapped[other] = result;
            mapped[unit] = second_ && other != unit ? held_[unit] : result;
            held_[unit] = result;
        }
    }

    // The function of a bias that stands alone in its row.
    value_t alone(value_t value, exponent_t exponent) const {
#pragma HLS INLINE
        return apply(units, value, exponent);
    }

    // As the functions of the same names (activation_unit.hpp), given what these say of functions that are built in.
    exponent_t collected_exponent(exponent_t exponent) const {
#pragma HLS INLINE
        return table_unit_ ? static_cast<exponent_t>(kActivationExponent) : exponent;
    }

    exponent_t result_exponent(exponent_t exponent) const {
#pragma HLS INLINE
        return gives_unit(exponent) ? static_cast<exponent_t>(kActivationExponent) : exponent;
    }

    // Whether results of values with an exponent have the unit of tables; whether they have it when a bias joins them.
    // A comparison each: there is no time for more.
    bool gives_unit(exponent_t exponent) const { return exponent > least_; }
    bool gives_unit_first(exponent_t exponent) const { return exponent > least_first_; }

   private:
    // The function of value * 2**exponent, by one of the copies. Its parts are those of `apply_function`: here a value
    // moves once for both of what needs it in the unit of tables, and one adder joins a table's number.
    value_t apply(int copy, value_t value, exponent_t exponent) const {
#pragma HLS INLINE
        const Moved moved = to_table_unit(value, exponent);
        const int_t<16> number = interpolated(step(copy, on_grid(moved)));
        const bool negative = value < 0;
        const bool of_tables = above_ || exponent > kActivationExponent;  // the unit in which both are joined
        const value_t positive = of_tables ? static_cast<value_t>(moved.value) : value;
        const value_t joined = of_tables ? static_cast<value_t>(number) : finer(number, exponent);
        const bool joins = below_ || above_;
        const value_t addend = joins ? joined : static_cast<value_t>(number);
        const bool less = joins ? below_ : odd_ && negative;
        const bool up =
            above_ && !negative && rounds_up<Rounding::Rne>(false, (moved.value & 1) != 0, moved.guard, moved.sticky);
        using sum_t = int_t<ACC + 1>;
        const sum_t begin = joins && !negative ? positive : static_cast<value_t>(0);
        const sum_t sum = less ? static_cast<sum_t>(begin - addend) : static_cast<sum_t>(begin + addend + (up ? 1 : 0));
        constexpr int64_t largest = (static_cast<int64_t>(1) << (ACC - 1)) - 1;
        return sum > largest ? static_cast<value_t>(largest) : static_cast<value_t>(sum);
    }

    static constexpr int W = ACC > 24 ? ACC : 24;

    // A number in the unit of tables, before it is rounded; saturates.
    struct Moved {
        int_t<W> value;
        bool guard, sticky;
    };

    static Moved to_table_unit(value_t value, exponent_t exponent) {
#pragma HLS INLINE
        constexpr int64_t largest = (static_cast<int64_t>(1) << (W - 1)) - 1;
        // To the left by W - 1 at most: -1 is the lowest number then, and would be none of them one place further.
        const Shift shift = limited_shift<ACC + 1, W - 1>(static_cast<exponent_t>(kActivationExponent - exponent));
        const amount_t right = shift.left ? static_cast<amount_t>(0) : shift.amount;
        const amount_t left = shift.left ? shift.amount : static_cast<amount_t>(0);
        const Shifted<ACC> whole = Shifter::right<ACC, ACC + 1>(value, right);
        const int_t<W + 1> top = static_cast<int_t<W + 1>>(static_cast<int_t<W + 1>>(largest) >> left);
        const bool above = whole.floor > top, below = whole.floor < -top - 1;
        const int_t<W> raised = shifted_left<W>(whole.floor, left);
        const int_t<W> value_there = above   ? static_cast<int_t<W>>(largest)
                                     : below ? static_cast<int_t<W>>(-largest - 1)
                                             : raised;
        return {value_there, whole.guard, whole.sticky};
    }

    // As `grid_argument` has it.
    static argument_t on_grid(const Moved& moved) {
#pragma HLS INLINE
        constexpr int lost = -kActivationExponent - kGridBits;
        constexpr int largest = (1 << (kArgumentBits - 1)) - 1;
        const int_t<W> floor = static_cast<int_t<W>>(moved.value >> lost);
        const bool guard = ((moved.value >> (lost - 1)) & 1) != 0;
        const bool sticky = (moved.value & ((1 << (lost - 1)) - 1)) != 0 || moved.guard || moved.sticky;
        const bool up = rounds_up<Rounding::Rne>(false, (floor & 1) != 0, guard, sticky);
        const int_t<W> rounded = static_cast<int_t<W>>(floor + (up ? 1 : 0));
        return rounded > largest        ? static_cast<argument_t>(largest)
               : rounded < -largest - 1 ? static_cast<argument_t>(-largest - 1)
                                        : static_cast<argument_t>(rounded);
    }

    // A table's number in a unit that is finer than its own; saturates.
    static value_t finer(int_t<16> number, exponent_t exponent) {
#pragma HLS INLINE
        constexpr int64_t largest = (static_cast<int64_t>(1) << (ACC - 1)) - 1;
        const Shift shift = limited_shift<0, ACC>(static_cast<exponent_t>(exponent - kActivationExponent));
        const int_t<ACC + 1> most = static_cast<int_t<ACC + 1>>(static_cast<int_t<ACC + 1>>(largest) >> shift.amount);
        return number > most ? static_cast<value_t>(largest)
                             : shifted_left<ACC>(static_cast<value_t>(number), shift.amount);
    }

    // As `interpolate`, with fewer bits of a slope.
    static int_t<16> interpolated(const TableStep& step) {
#pragma HLS INLINE
        constexpr int bits = kSlopeBits + 7;
        const int_t<bits> product = static_cast<factor_t<bits, kSlopeBits>>(step.slope) * step.part;
#pragma HLS BIND_OP variable=product op=mul impl=dsp
        return static_cast<int_t<16>>(step.start + round_right<Rounding::Rne, bits>(product, static_cast<amount_t>(6)));
    }

    // The step in which an argument is: of a table of half the range that of its magnitude.
    TableStep step(int copy, argument_t argument) const {
#pragma HLS INLINE
        using place_t = int_t<kArgumentBits + 5>;
        const place_t moved = shifted_left<kArgumentBits + 5>(argument, static_cast<amount_t>(raised_));
        const bool mirrored = half_ && moved < 0;
        const place_t begin = half_ ? static_cast<place_t>(0) : static_cast<place_t>(places / 2);
        const place_t place = static_cast<place_t>(begin + (mirrored ? static_cast<place_t>(-moved) : moved));
        const bool before = place < 0, beyond = place >= places;
        const int inside = static_cast<int>(place) & (places - 1);
        // The end of a table is that of its last step.
        const int number = before ? 0 : beyond ? steps - 1 : inside >> 6;
        const int32_t word = cell_[copy][static_cast<int>(slot_) * steps + number];
        TableStep result;
        result.start = low_bits<16>(word);
        result.slope = low_bits<kSlopeBits>(word >> 16);
        result.part = static_cast<uint_t<7>>(before ? 0 : beyond ? 64 : inside & 63);
        return result;
    }

    int32_t cell_[copies][words];
    value_t held_[units];  // of the first turn
    bool first_, second_;  // turns of two
    // Of a TABLE
    bool loads_;
    uint_t<address_bits> address_;
    // Of the operation
    bool used_, half_, odd_, below_, above_, table_unit_;
    exponent_t least_, least_first_;  // values with an exponent above have results in the unit of tables
    uint_t<Use::slot_bits> slot_;
    uint_t<Use::raised_bits> raised_;
};

}  // namespace bfpga
