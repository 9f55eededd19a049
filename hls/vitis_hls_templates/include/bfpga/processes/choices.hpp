// Skipped operations: what the output stage counts, and how the sequencer decides on it.
//
// The output stage counts the nonzero values that operations store, in the count register that an operation names, and
// reports to the sequencer whether the count exceeds its threshold. The sequencer holds the command of an operation
// with a predicate until all counts of earlier operations have arrived.
#pragma once
#include "bfpga/contract/beats.hpp"
#include "bfpga/contract/commands.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// Replaces the stream of counts where a kernel has none.
struct NoCounts {
    bool read_nb(command_t&) const { return false; }
    void write(command_t) const {}
};

// The register that gets what an operation stores, and the one that decides whether it runs; 0: none.
inline uint32_t counted_in(int32_t flags) {
#pragma HLS INLINE
    return (static_cast<uint32_t>(flags) >> FlagNumbersFields::counted_in) &
           ((1U << FlagNumbersFields::counted_in_bits) - 1);
}

inline uint32_t runs_by(int32_t flags) {
#pragma HLS INLINE
    return (static_cast<uint32_t>(flags) >> FlagNumbersFields::runs_by) & ((1U << FlagNumbersFields::runs_by_bits) - 1);
}

// The counts of the output stage; registers keep theirs from start to start, as a layer may go on in the next one.
template <class Config>
class CountRegisters {
    static constexpr bool exist = Config::count_registers > 0;
    using row_count_t = uint_t<bit_length(Config::columns)>;

   public:
    void start() {
#pragma HLS INLINE
        values_ = 0;
    }

    // The mantissas of a row of an operation; those of columns that are not `shown` do not count.
    template <class Mantissa, int N>
    void add(const Mantissa (&mantissa)[N], const bool (&shown)[N]) {
#pragma HLS INLINE
        row_count_t row = 0;
    Columns_Count:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            row = static_cast<row_count_t>(row + (exist && shown[i] && mantissa[i] != 0 ? 1 : 0));
        }
        values_ = static_cast<uint_t<32>>(values_ + row);
    }

    // The operation has ended.
    template <class Counts>
    void finish(const Descriptor& d, Counts& counts) {
#pragma HLS INLINE
        const uint32_t number = counted_in(d.flags);
        if (!exist || number == 0) {
            return;
        }
        simulation_check(number <= static_cast<uint32_t>(Config::count_registers), "an operation",
                         "counts in a register that is not there:", static_cast<long long>(number));
        const uint_t<32> before = d.has(Flag::First) ? static_cast<uint_t<32>>(0) : sums_[number];
        const uint_t<32> sum = static_cast<uint_t<32>>(before + values_);
        sums_[number] = sum;
        const bool more = sum > static_cast<uint32_t>(d.count_threshold);
        counts.write(
            static_cast<command_t>((more ? 1U << CountWordFields::more : 0U) | (number << CountWordFields::number)));
    }

   private:
    uint_t<32> values_;  // of the operation
    uint_t<32> sums_[Config::count_registers + 1];
};

// The sequencer's copy of the counts, and whether to skip the descriptor that it reads.
template <class Config>
class Choices {
   public:
    static constexpr bool exist = Config::count_registers > 0;
    // Beats of a descriptor that are left after its flags, its second word.
    static constexpr int words_per_beat = Config::stream_bits / 32;
    static constexpr int beats_behind_flags =
        Descriptor::words / words_per_beat - (1 + words_per_beat) / words_per_beat;
    static_assert(!exist || beats_behind_flags > 0, "a descriptor goes on behind the beat of its flags");

    Choices() : truths_(0) {}

    void start(bool clear) {
#pragma HLS INLINE
        if (clear) {
            truths_ = 0;
        }
        pending_ = 0;
        settled_ = true;
        tests_ = false;
        ripe_ = false;
    }

    // Bit n: whether register n exceeds its threshold.
    uint_t<16> truths() const { return truths_; }
    // Whether no count is outstanding.
    bool settled() const { return settled_; }
    // Whether the decision on the descriptor is known, and whether it is skipped.
    bool decided() const { return !tests_ || ripe_; }
    bool skips() const { return tests_ && holds_ == unless_; }

    // The flags of a descriptor have been read.
    void take(int32_t flags) {
#pragma HLS INLINE
        tested_ = static_cast<uint_t<4>>(runs_by(flags));
        tests_ = runs_by(flags) != 0;
        unless_ = (flags & Flag::Unless) != 0;
        ripe_ = false;
    }

    // One cycle; `counted`: a counting operation has been issued. An outstanding count is read when it comes.
    template <class Counts>
    void step(Counts& counts, bool counted) {
#pragma HLS INLINE
        command_t word = 0;
        bool came = false;
        if (exist && pending_ != 0) {
            came = counts.read_nb(word);
        }
        holds_ = ((static_cast<uint32_t>(truths_) >> static_cast<uint32_t>(tested_)) & 1U) != 0;
        ripe_ = tests_ && settled_;
        settled_ = pending_ == 0;
        if (came) {
            const uint32_t told = static_cast<uint32_t>(static_cast<int32_t>(word));
            const uint32_t bit = 1U << ((told >> CountWordFields::number) & ((1U << CountWordFields::number_bits) - 1));
            const bool more = ((told >> CountWordFields::more) & 1U) != 0;
            const uint32_t others = static_cast<uint32_t>(truths_) & ~bit;
            truths_ = static_cast<uint_t<16>>(others | (more ? bit : 0U));
        }
        const bool more = counted && !came;
        const bool fewer = came && !counted;
        pending_ = more    ? static_cast<uint_t<6>>(pending_ + 1)
                   : fewer ? static_cast<uint_t<6>>(pending_ - 1)
                           : pending_;
    }

   private:
    uint_t<16> truths_;
    uint_t<6> pending_;  // outstanding counts
    bool settled_;       // there were none a cycle before
    // The descriptor that is read
    uint_t<4> tested_;
    bool tests_, unless_;
    bool holds_, ripe_;  // the value of its register; that it is final
};

}  // namespace bfpga
