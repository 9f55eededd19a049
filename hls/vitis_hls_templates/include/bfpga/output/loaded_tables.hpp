// Functions by tables that come with the program (BFP R11; docs/kernel.md): what an operation's function is follows
// from bits of its descriptor and from the words of its table, so any function by a table runs on the same bitstream.
//
// A word holds a step: its first point, and the distance to the next one. Every column has a copy of all tables, and so
// has the bias that stands alone in a row.
#pragma once
#include "bfpga/output/activation_unit.hpp"

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
    value_t apply(int, value_t value, exponent_t) const { return value; }
};

template <class Config>
class LoadedTables<Config, true> {
    static constexpr int ACC = Config::accumulator_bits;
    using value_t = int_t<ACC>;
    using Use = TableUseFields;
    static_assert(ACC >= 16, "an accumulator holds the results of a table");
    static constexpr int steps = 256;
    static constexpr int words = Config::function_tables * steps;
    // Places of the grid in a table, and bits of those in a step of it, once an argument has moved to them.
    static constexpr int places = steps << 6;
    static constexpr int address_bits = bit_length(words);

   public:
    // The copy of the bias that stands alone in a row.
    static constexpr int copies = Config::columns + 1;

    LoadedTables() {
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
        table_unit_ = ((use >> Use::table_unit) & 1) != 0;
        finer_unit_ = ((use >> Use::finer_unit) & 1) != 0;
        simulation_check(!used_ || static_cast<int>(slot_) < Config::function_tables, "a descriptor",
                         "uses a loaded table of slot", static_cast<int>(slot_));
    }

    // Whether the operation's function is by a loaded table.
    bool used() const { return used_; }

    // As the functions of the same names (activation_unit.hpp).
    exponent_t collected_exponent(exponent_t exponent) const {
#pragma HLS INLINE
        return table_unit_ ? static_cast<exponent_t>(kActivationExponent) : exponent;
    }

    exponent_t result_exponent(exponent_t exponent) const {
#pragma HLS INLINE
        const bool coarse = finer_unit_ && exponent > kActivationExponent;
        return coarse ? static_cast<exponent_t>(kActivationExponent) : collected_exponent(exponent);
    }

    // The function of value * 2**exponent, by one of the copies.
    value_t apply(int copy, value_t value, exponent_t exponent) const {
#pragma HLS INLINE
        const bool negative = value < 0;
        const value_t positive = negative ? static_cast<value_t>(0) : value;
        const int_t<16> number = interpolate(step(copy, grid_argument<ACC>(value, exponent)));
        if (below_) {
            return less_table<ACC>(positive, number, exponent);
        }
        if (above_) {
            return more_table<ACC>(positive, number, exponent);
        }
        return odd_ && negative ? static_cast<value_t>(-number) : static_cast<value_t>(number);
    }

   private:
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
        result.slope = static_cast<int_t<16>>(word >> 16);
        result.part = static_cast<uint_t<7>>(before ? 0 : beyond ? 64 : inside & 63);
        return result;
    }

    int32_t cell_[copies][words];
    // Of a TABLE
    bool loads_;
    uint_t<address_bits> address_;
    // Of the operation
    bool used_, half_, odd_, below_, above_, table_unit_, finer_unit_;
    uint_t<Use::slot_bits> slot_;
    uint_t<Use::raised_bits> raised_;
};

}  // namespace bfpga
