// How a unit of variant A goes through the weights of a kernel: in serpentine order, a tap a cycle, so that the window
// moves by one cell (SC R84).
//
// The walk begins at the first tap with a weight and ends at the last tap of all, where the window is aligned with the
// sums. A tap without a weight between these takes its cycle, since the window has to pass it. Sums are transferred in
// four cycles, so a walk has as many at least: a shorter one begins at taps in front of its first weight.
#pragma once
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// Cycles in which a window is added to the sums: a block of two by two each.
constexpr int window_parts = 4;

// The taps of a kernel in the order of the walk: the first row to the right, the next one to the left.
template <class Config>
struct Serpentine {
    using T = ClusterUnitTypes<Config>;

    // The tap of a place in the order.
    static constexpr int tap(int place) {
        return place / T::columns * T::columns +
               (place / T::columns % 2 == 0 ? place % T::columns : T::columns - 1 - place % T::columns);
    }

    // Whether the window goes down to this place, or along its row to the right.
    static constexpr bool down(int place) { return place % T::columns == 0; }
    static constexpr bool right(int place) { return place / T::columns % 2 == 0; }
};

// What a unit of variant A keeps of a step: the weights of a kernel in the order of the walk, and its cycles.
template <class Config>
struct WalkedKernel {
    using T = ClusterUnitTypes<Config>;
    using Order = Serpentine<Config>;
    using Weights = PackedNumbers<T::cells, Config::weight_bits>;
    static constexpr int most_clocks = T::cells > window_parts ? T::cells : window_parts;
    static constexpr int clock_bits = bit_length(most_clocks);
    static constexpr int plane_numbers = Weights::bits + clock_bits;
    static constexpr int marks = plane_numbers + T::plane_bits;
    static constexpr int bits = marks + 2;  // a bit more than fields, as in a PieceBeat
    using clock_t = uint_t<clock_bits>;

    typename T::weight_t weight[T::cells];
    clock_t clocks;
    typename T::plane_t plane;
    bool adds;

    static WalkedKernel of(const StepBeat<Config>& step) {
#pragma HLS INLINE
        WalkedKernel kernel;
        kernel.clocks = window_parts;
        kernel.plane = step.plane;
        kernel.adds = step.adds;
    Places_Find:
        for (int n = T::cells - 1; n >= 0; --n) {
#pragma HLS UNROLL
            kernel.weight[n] = step.weight[Order::tap(n)];
            const int clocks = T::cells - n;
            kernel.clocks =
                clocks > window_parts && kernel.weight[n] != 0 ? static_cast<clock_t>(clocks) : kernel.clocks;
        }
        return kernel;
    }

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        Weights::pack(to, weight);
        set_signed<clock_bits>(to, Weights::bits, static_cast<int64_t>(clocks));
        set_signed<T::plane_bits>(to, plane_numbers, static_cast<int64_t>(plane));
        set_signed<1>(to, marks, adds ? 1 : 0);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        Weights::unpack(from, weight);
        clocks = unsigned_at<clock_bits>(from, Weights::bits);
        plane = unsigned_at<T::plane_bits>(from, plane_numbers);
        adds = flag_at(from, marks);
    }
};

// A cycle of a walk.
template <class Config>
struct WalkStep {
    using T = ClusterUnitTypes<Config>;

    typename T::weight_t weight;
    typename T::plane_t plane;
    bool adds;                 // the weight is not zero
    bool moves;                // it is a cycle of a walk
    bool begins, down, right;  // the window begins with zeros; it moves down; or along the row, to the right or left
    bool ends;                 // it is whole
};

template <class Config>
class WindowWalk {
    using T = ClusterUnitTypes<Config>;
    using Order = Serpentine<Config>;
    using Kernel = WalkedKernel<Config>;
    using clock_t = typename Kernel::clock_t;

   public:
    template <class>
    using Step = WalkStep<Config>;

    WindowWalk() : clocks_(0), left_(0) { begin(); }

    void clear() {
#pragma HLS INLINE
        begin();
    }

    void begin() {
#pragma HLS INLINE
        clock_ = 0;
        first_ = true;
        second_ = false;
        ends_ = false;
    }

    bool ends() const { return ends_; }

    WalkStep<Config> now(const Kernel& kernel, bool walks) {
#pragma HLS INLINE
        clocks_ = kernel.clocks;
        // Places in front of the first one are of kernels with fewer taps than a walk has cycles.
        const clock_t place = static_cast<clock_t>(Kernel::most_clocks - kernel.clocks + clock_);
        WalkStep<Config> step;
        step.weight = 0;
        step.plane = kernel.plane;
        step.moves = walks;
        step.begins = first_;
        step.down = false;
        step.right = false;
    Places_Choose:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool here = place == n + Kernel::most_clocks - T::cells;
            // The cycle has one place: what the places have is one number.
            step.weight = static_cast<typename T::weight_t>(
                step.weight | (here ? kernel.weight[n] : static_cast<typename T::weight_t>(0)));
            step.down = step.down || (here && Order::down(n));
            step.right = step.right || (here && Order::right(n));
        }
        step.adds = kernel.adds && step.weight != 0;
        step.ends = walks && kernel.adds && ends_;
        return step;
    }

    // A cycle has passed. How long the walk is, is known from its second cycle on, and it has more.
    void step(bool next) {
#pragma HLS INLINE
        if (next) {
            begin();
        } else {
            ends_ = !first_ && !second_ && left_ == 1;
            left_ = second_ ? static_cast<clock_t>(clocks_ - 3) : static_cast<clock_t>(left_ - 1);
            clock_ = static_cast<clock_t>(clock_ + 1);
            second_ = first_;
            first_ = false;
        }
    }

   private:
    clock_t clock_;               // of the walk
    clock_t clocks_;              // that it has
    clock_t left_;                // after this one, from the third one on
    bool first_, second_, ends_;  // it is the first cycle, the second one, the last one
};

}  // namespace bfpga
