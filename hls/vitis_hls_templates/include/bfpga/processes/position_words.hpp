// Exponents on their way from one core to the next, while both run (docs/kernel-positions.md, section 6): what `post`
// of a kernel with `positions: stream` has besides.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Whether a layer's exponent comes from the core before, and whether it goes to the next one: of an operation with
// STREAMS_EXPONENT of contract/descriptor.py. A core that hands on what it was told has an output exponent of 1.
inline bool awaits_exponent(const Descriptor& d) {
#pragma HLS INLINE
    return static_cast<Policy>(d.policy) == Policy::Static && d.has(Flag::Preset);
}

inline bool tells_exponent(const Descriptor& d) {
#pragma HLS INLINE
    const bool found = static_cast<Policy>(d.policy) == Policy::Max && d.has(Flag::Preset);
    return found || (awaits_exponent(d) && d.output_exponent != 0);
}

// A word on the way: an exponent, and the policy slot of its layer, which both cores have.
struct PositionWord {
    static constexpr int exponent_bits = 16;

    static command_t of(int32_t exponent, int32_t slot) {
#pragma HLS INLINE
        const uint32_t low = static_cast<uint32_t>(exponent) & ((1U << exponent_bits) - 1);
        return static_cast<command_t>(static_cast<uint32_t>(slot) << exponent_bits | low);
    }

    static int32_t exponent(command_t word) {
#pragma HLS INLINE
        return static_cast<int32_t>(static_cast<int_t<exponent_bits>>(word));
    }

    static int32_t slot(command_t word) {
#pragma HLS INLINE
        return static_cast<int32_t>(static_cast<uint32_t>(word) >> exponent_bits);
    }
};

// What `post` is given in the place of its counts: these, and the streams to the next core and from the one before.
template <class Counts, class Told, class Awaited>
struct WithPositions {
    Counts& counts;
    Told& told;
    Awaited& awaited;
};

// The counts of what `post` is given.
template <class Counts>
inline Counts& counts_of(Counts& counts) {
#pragma HLS INLINE
    return counts;
}

template <class Counts, class Told, class Awaited>
inline Counts& counts_of(WithPositions<Counts, Told, Awaited>& ends) {
#pragma HLS INLINE
    return ends.counts;
}

// The word of a layer. One of another layer is an error of the host's; none but its own is ever used, so that a core
// which is not told its own waits until its start is given up.
template <class Awaited>
inline command_t position_word(Awaited& awaited, int32_t slot) {
#pragma HLS INLINE
    command_t word = 0;
    bool waits = true;
Words_Await:
    while (waits) {
// Not pipelined: a word a layer. Carried: nothing.
#pragma HLS LOOP_TRIPCOUNT min=1 max=1
        word = awaited.read();
        waits = PositionWord::slot(word) != slot;
        simulation_check(!waits, "the core before", "tells the exponent of another layer than the one awaited, slot",
                         PositionWord::slot(word));
    }
    return word;
}

// Without words of exponents none is told and none is awaited.
template <class Layers, class Slot, class Exponents, class Counts>
inline void exchange(Layers&, const Descriptor&, Slot&, Exponents&, Counts&) {}

// The operation that begins a layer's main pass tells its exponent, or takes it from the core before: once after the
// policies were cleared, and from the slot of its policy for further samples. A core does both to hand words on, which
// it does with those that it reads.
template <class Layers, class Slot, class Exponents, class Counts, class Told, class Awaited>
inline void exchange(Layers& layers, const Descriptor& d, Slot& policy, Exponents& exponents,
                     WithPositions<Counts, Told, Awaited>& ends) {
#pragma HLS INLINE
    if (!d.has(Flag::First) || d.has(Flag::Measure) || d.has(Flag::CopyExponent)) {
        return;
    }
    const bool awaits = awaits_exponent(d);
    const bool known = awaits && policy.is_given();
    if (awaits) {
        if (!known) {
            policy.give(PositionWord::exponent(position_word(ends.awaited, d.policy_slot)));
        }
        exponents.output = policy.given();
        layers.set_exponent(d.output_slot, exponents.output);
    }
    if (tells_exponent(d) && !known) {
        ends.told.write(PositionWord::of(exponents.output, d.policy_slot));
    }
}

}  // namespace bfpga
