// A SPARSE operation: one strip of a convolution on the sparse cluster (docs/engines.md, sections 4, 6 and 8).
//
// The strip is cut into pieces once. For each group of kernels, channel words come in one after the other: while the
// units compute with one word, the segments and the kernels of the next one arrive. Then the drain adds what the units
// hold of each output, and the sums start anew.
#pragma once
#include "bfpga/output/engine_drain.hpp"
#include "bfpga/sparse_cluster/sums.hpp"

namespace bfpga {

template <class Config, class Storage>
class SparseClusterOperation {
    using T = ClusterTypes<Config>;
    using Activations = ActivationMemory<Config, typename Storage::Ports>;

   public:
    SparseClusterOperation() {
// Units are instances of their own; what their memories are is said in their classes.
#pragma HLS ARRAY_PARTITION variable=unit_ complete dim=1
    }

    // One descriptor; returns the clocks its loops took.
    template <class WeightSource, class Counters>
    uint32_t run(const Descriptor& d, const LayerExponents& exponents, KernelMemories<Config, Storage>& memories,
                 PolicySlot<Config>& policy, WeightSource& weight_stream, Counters& counters) {
        grid_.start(d);
        reader_.start(d);
        drain_.start(d, exponents);
        uint32_t clocks = place_ports<Config, T::pixels>(reader_, drain_);
        clocks += partition_.run(d, grid_, reader_, memories.activations);
        place_units();
        ClusterSums<Config> sums(unit_);
        sums.start(d, grid_);
    Groups:
        for (int32_t group = 0; group < d.blocks; ++group) {
// Not pipelined: the kernels of a group leave before those of the next one are computed.
#pragma HLS LOOP_TRIPCOUNT min=1 max=64
            clocks += words(memories.activations, weight_stream);
            clocks += drain_.group(sums, memories, policy);
        }
        drain_.finish(policy, counters);
        return clocks;
    }

    // The sums of an operation that was given up are forgotten.
    void clear() {
        PipelinedLoop loop("Sums_Clear");
    Sums_Clear:
        for (int32_t address = 0; address < T::flight * T::words; ++address) {
// II=1: a word of every bank of every unit a clock.
#pragma HLS PIPELINE II=1
            loop.iteration();
        Units_Clear:
            for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
                unit_[u].clear(address);
            }
        }
    }

   private:
    void place_units() {
#pragma HLS INLINE
    Units_Place:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            unit_[u].place(partition_.piece(u));
        }
    }

    // All channel words of a group: the units compute with one while the next one comes in. Returns the clocks.
    template <class WeightSource>
    uint32_t words(const Activations& activations, WeightSource& weight_stream) {
        KernelPart<Config> part = KernelPart<Config>::read(weight_stream);
        uint32_t clocks = 2;
        bool running = !part.header.empty;
        bool comes = running;   // a channel word comes in
        bool in_place = false;  // a channel word is in place, in the other set
    Words:
        while (running) {
// Not pipelined: a channel word is a loop of its own.
#pragma HLS LOOP_TRIPCOUNT min=2 max=257
            if (comes) {
                open(part);
            }
            if (in_place) {
                start_units();
            }
            clocks += word(activations, weight_stream) + Config::engine_depth;
            clock_ += Config::engine_depth;
            set_ = 1 - set_;
            in_place = comes;
            running = comes;
            comes = comes && !part.header.last;
            if (comes) {
                part = KernelPart<Config>::read(weight_stream);
                clocks += 2;
            }
        }
        return clocks;
    }

    // A channel word comes into the set that is not computed with.
    void open(const KernelPart<Config>& part) {
#pragma HLS INLINE
        kernels_.open(1 - set_, part);
        reader_.whole();
        reader_.begin(static_cast<typename Geometry<Config>::word_t>(part.header.index));
        walk_.begin(grid_);
        feeding_ = true;
    Units_Open:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            unit_[u].open(1 - set_);
        }
    }

    // The units begin with the channel word in place. An element stays as long as a sum takes to return.
    void start_units() {
#pragma HLS INLINE
        active_ = kernels_.active(set_);
        slots_ = active_ > Config::dependence_latency ? active_ : static_cast<int32_t>(Config::dependence_latency);
        slot_ = 0;
        const NoLoop between;
    Units_Start:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            unit_[u].start(set_, grid_);
        }
        computing_ = units_busy();
    }

    bool units_busy() const {
#pragma HLS INLINE
        bool busy = false;
    Units_Busy:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            busy = busy || unit_[u].busy();
        }
        return busy;
    }

    template <class WeightSource>
    uint32_t word(const Activations& activations, WeightSource& weight_stream) {
        uint32_t clocks = 0;
        bool running = computing_ || feeding_ || kernels_.busy();
        PipelinedLoop loop("Word");
    Word:
        while (running) {
// II=1: a word of sums returns after dependence_latency clocks or more, because an element stays that long and meets a
// kernel once; the next segment of a unit is four clocks on its way; segments and kernels go to the set that is not
// read; the activation memory is only read. All else is registers and counters.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=65536
            loop.iteration();
            if (computing_) {
                compute();
            }
            if (feeding_) {
                feed(activations);
            }
            kernels_.step(weight_stream);
            running = computing_ || feeding_ || kernels_.busy();
            ++clocks;
            ++clock_;
        }
        return clocks;
    }

    // One clock of all units: their elements meet the same kernel; in the last slot they take the next elements.
    void compute() {
#pragma HLS INLINE
        const bool meets = slot_ < active_;
        const int32_t n = meets ? slot_ : static_cast<int32_t>(0);
        KernelWeights<Config> weights;
#pragma HLS ARRAY_PARTITION variable=weights.cell complete dim=0
        kernels_.read(set_, n, weights);
        const int32_t number = kernels_.number(set_, n);
        const bool last = slot_ == slots_ - 1;
    Units_Compute:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            if (unit_[u].busy()) {
                if (meets) {
                    unit_[u].multiply(number, weights, clock_);
                }
                unit_[u].advance(slot_, last, grid_);
            }
        }
        ++slot_;
        if (last) {
            slot_ = 0;
            computing_ = units_busy();
        }
    }

    // One clock of the feed: a segment goes to the units whose pieces it touches.
    void feed(const Activations& activations) {
#pragma HLS INLINE
        Word<Config> cell[T::pixels];
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
        reader_.read(activations, cell);
        const SegmentIndex<Config> index = walk_.index();
    Units_Feed:
        for (int u = 0; u < T::units; ++u) {
#pragma HLS UNROLL
            unit_[u].offer(1 - set_, static_cast<typename T::number_t>(reader_.row()),
                           static_cast<typename T::number_t>(reader_.column()), cell, index);
        }
        walk_.next(grid_, reader_.row_ends());
        reader_.next();
        feeding_ = !reader_.finished();
    }

    SparseUnit<Config> unit_[T::units];
    StripGrid<Config> grid_;
    GridWalk<Config> walk_;
    SegmentReader<Config, T::pixels> reader_;
    Partition<Config> partition_;
    KernelRegisters<Config> kernels_;
    EngineDrain<Config, T::kernel, T::kernel, T::flight> drain_;
    int set_ = 0;  // that the units compute with
    bool computing_ = false, feeding_ = false;
    int32_t slot_ = 0, slots_ = 0, active_ = 0;
    int64_t clock_ = Config::engine_depth;
};

}  // namespace bfpga
