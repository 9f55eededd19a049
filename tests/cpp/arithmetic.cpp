// numeric.hpp and types.hpp for arrays of cases. Every function returns 0, or 1 if it has no such instantiation.
#include <cstdint>

#include "bfpga/numeric/numeric.hpp"

namespace {

using bfpga::Rounding;
using bfpga::Saturation;

struct Cases {
    int32_t count;
    const int64_t* value;
    const int32_t* distance;
    int64_t* result;
    uint8_t* overflow;
    uint8_t* underflow;
};

template <int MW, Rounding R, Saturation S, int ACC>
int requantize_cases(const Cases& cases) {
    for (int k = 0; k < cases.count; ++k) {
        const bfpga::Requantized<MW> result = bfpga::requantize<MW, R, S, ACC>(
            static_cast<bfpga::int_t<ACC>>(cases.value[k]), static_cast<bfpga::exponent_t>(cases.distance[k]));
        cases.result[k] = static_cast<int64_t>(result.mantissa);
        cases.overflow[k] = result.overflow;
        cases.underflow[k] = result.underflow;
    }
    return 0;
}

template <int MW, Rounding R, int ACC>
int with_saturation(int saturation, const Cases& cases) {
    switch (saturation) {
        case 0:
            return requantize_cases<MW, R, Saturation::Sym, ACC>(cases);
        case 1:
            return requantize_cases<MW, R, Saturation::Full, ACC>(cases);
        default:
            return requantize_cases<MW, R, Saturation::Wrap, ACC>(cases);
    }
}

template <int MW, int ACC>
int with_rounding(int rounding, int saturation, const Cases& cases) {
    switch (rounding) {
        case 0:
            return with_saturation<MW, Rounding::Trunc, ACC>(saturation, cases);
        case 1:
            return with_saturation<MW, Rounding::Tozero, ACC>(saturation, cases);
        case 2:
            return with_saturation<MW, Rounding::HalfUp, ACC>(saturation, cases);
        case 3:
            return with_saturation<MW, Rounding::HalfAway, ACC>(saturation, cases);
        default:
            return with_saturation<MW, Rounding::Rne, ACC>(saturation, cases);
    }
}

template <int N>
int64_t shift_differences(const int64_t* value, int count) {
    int64_t differences = 0;
    for (int k = 0; k < count; ++k) {
        const bfpga::int_t<N> number = bfpga::low_bits<N>(value[k]);
        for (int amount = 0; amount < 64; ++amount) {
            const bfpga::amount_t distance = static_cast<bfpga::amount_t>(amount);
            const bfpga::Shifted<N> staged = bfpga::StagedShift::right<N>(number, distance);
            const bfpga::Shifted<N> machine = bfpga::MachineShift::right<N>(number, distance);
            differences +=
                staged.floor != machine.floor || staged.guard != machine.guard || staged.sticky != machine.sticky;
        }
    }
    return differences;
}

template <int N>
int64_t lead_differences(const int64_t* value, int count) {
    int64_t differences = 0;
    for (int k = 0; k < count; ++k) {
        const bfpga::uint_t<N> number = bfpga::magnitude<N>(bfpga::low_bits<N>(value[k]));
        differences += number != 0 && bfpga::StagedLead::position<N>(number) !=
                                          63 - __builtin_clzll(static_cast<unsigned long long>(number));
    }
    return differences;
}

template <bfpga::LogMode L>
int largest_position(const int64_t* value, int count) {
    bfpga::LargestMagnitude<L, 48> largest;
    largest.clear();
    for (int k = 0; k < count; ++k) {
        largest.include(bfpga::magnitude<48>(static_cast<bfpga::int_t<48>>(value[k])));
    }
    return largest.any ? largest.position() : -1;
}

}  // namespace

extern "C" {

int unit_requantize(int mantissa_bits, int rounding, int saturation, Cases* cases) {
    switch (mantissa_bits) {
        case 4:
            return with_rounding<4, 10>(rounding, saturation, *cases);
        case 8:
            return with_rounding<8, 58>(rounding, saturation, *cases);
#ifdef BFPGA_NATIVE_INTEGERS  // the same code for other widths: ap_int takes a minute to compile all
        case 7:
            return with_rounding<7, 20>(rounding, saturation, *cases);
        case 12:
            return with_rounding<12, 48>(rounding, saturation, *cases);
        case 18:
            return with_rounding<18, 58>(rounding, saturation, *cases);
#endif
        case 16:
            return with_rounding<16, 58>(rounding, saturation, *cases);
        default:
            return 1;
    }
}

// Differences between the staged and the machine's form of a right shift, over all amounts.
int64_t unit_shift_differences(const int64_t* value, int count) {
    return shift_differences<8>(value, count) + shift_differences<17>(value, count) +
           shift_differences<32>(value, count) + shift_differences<48>(value, count) +
           shift_differences<58>(value, count) + shift_differences<62>(value, count);
}

int64_t unit_lead_differences(const int64_t* value, int count) {
    return lead_differences<8>(value, count) + lead_differences<33>(value, count) + lead_differences<58>(value, count);
}

// Leading position of the largest magnitude, -1 if all are zero.
int unit_largest_position(int ceil, const int64_t* value, int count) {
    return ceil != 0 ? largest_position<bfpga::LogMode::Ceil>(value, count)
                     : largest_position<bfpga::LogMode::Floor>(value, count);
}

// Square roots of high * 2**64 + low.
void unit_integer_sqrt(const uint64_t* high, const uint64_t* low, uint64_t* root, int count) {
    using radicand_t = bfpga::uint_t<82>;
    for (int k = 0; k < count; ++k) {
        const radicand_t value = static_cast<radicand_t>((static_cast<radicand_t>(high[k]) << 64) | radicand_t(low[k]));
        root[k] = static_cast<uint64_t>(bfpga::integer_sqrt<82>(value));
    }
}

// Sets every field of a word of 1024 bits and reads it back; counts the fields that differ.
int unit_field_differences(const int64_t* value, int count) {
    bfpga::bits_t<1024> words[4] = {0, 0, 0, 0};
    for (int k = 0; k < 1024 / 32 && k < count; ++k) {
        bfpga::set_signed<4>(words[0], 4 * k, value[k]);
        bfpga::set_signed<8>(words[1], 8 * k, value[k]);
        bfpga::set_signed<16>(words[2], 16 * k, value[k]);
        bfpga::set_signed<32>(words[3], 32 * k, value[k]);
    }
    int differences = 0;
    for (int k = 0; k < 1024 / 32 && k < count; ++k) {
        differences += bfpga::get_signed<4>(words[0], 4 * k) != static_cast<int64_t>(bfpga::low_bits<4>(value[k]));
        differences += bfpga::get_signed<8>(words[1], 8 * k) != static_cast<int64_t>(bfpga::low_bits<8>(value[k]));
        differences += bfpga::get_signed<16>(words[2], 16 * k) != static_cast<int64_t>(bfpga::low_bits<16>(value[k]));
        differences += bfpga::get_signed<32>(words[3], 32 * k) != static_cast<int64_t>(bfpga::low_bits<32>(value[k]));
    }
    return differences;
}

}  // extern "C"
