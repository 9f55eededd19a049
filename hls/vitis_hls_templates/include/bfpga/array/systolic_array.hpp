// The array: operand fetch, dot tiles, output stage of the pass before, write-back, in one pipelined loop.
//
// The loop runs passes x steps + tail clocks: pass n multiplies while the rows of pass n - 1 leave (BFP R71). Weights
// travel from column to column and operands from row to row through the pipeline registers of the loop; with `skew`
// every hop is a register, which lengthens the pipeline by rows - 1 + columns - 1 clocks and changes no value (R62).
#pragma once
#include "bfpga/array/dot_tiles.hpp"
#include "bfpga/array/operand_walk.hpp"
#include "bfpga/array/write_back.hpp"
#include "bfpga/memory/kernel_memories.hpp"
#include "bfpga/output/exponent_selector.hpp"
#include "bfpga/output/keep_buffer.hpp"
#include "bfpga/output/output_stage.hpp"

namespace bfpga {

template <class Config, class Storage>
class SystolicArray {
   public:
    SystolicArray() {
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=present_ complete dim=0
    }

    using accumulator_t = int_t<Config::accumulator_bits>;

    using Activations = ActivationMemory<Config, typename Storage::Ports>;

    using Memories = KernelMemories<Config, Storage>;

    // One GEMM, MAX or SUM; returns the clocks its loops took.
    template <class WeightSource, class Counters>
    uint32_t run(const Descriptor& d, const LayerExponents& exponents, Memories memories, PolicySlot<Config>& policy,
                 WeightSource& weight_stream, Counters& counters) {
        start(d, exponents);
        uint32_t clocks = walk_.start(d, slots_);
        write_back_.start(d, !d.has(Flag::Measure));
        int32_t step = 0;
        bool running = true;
        PipelinedLoop loop("Array");
    Array:
        while (running) {  // lint: allow(memory-order) known: it costs clocks, no value
// II=1: a bank serves one read and one write a clock (crossbar, dual-ported banks); every counter, address and
// accumulator is a register that one addition updates; weight and parameter memories are read once a clock. A word is
// read again by a later operation only, and its address is never the one that is written: no dependence through memory.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            write_back_.write(memories.activations);
            drain_row(memories.parameters, policy);
            write_back_.next();
            multiply(memories, weight_stream);
            ++step;
            if (step == d.steps && !walk_.finished()) {
                step = 0;
                walk_.next_pass();
                tiles_.forward();
                write_back_.begin(walk_.finished());
            }
            running = !walk_.finished() || write_back_.draining();
            ++clocks;
        }
        stage_.finish(policy, counters);
        return clocks;
    }

   private:
    void start(const Descriptor& d, const LayerExponents& exponents) {
        operation_ = static_cast<Operation>(d.operation);
        streams_ = operation_ == Operation::Gemm && d.has(Flag::StreamWeights);
        negate_ = d.has(Flag::NegateSecond);
        mode_.two_hot = d.has(Flag::TwoHot);
        mode_.power_of_two = d.has(Flag::PowerOfTwo);
        first_shift_ = exponents.accumulator - exponents.first;
        second_shift_ = exponents.accumulator - exponents.second;
        slots_ = d.read_slots;
        if (streams_ && slots_ < Config::beats_per_weight_word) {
            slots_ = Config::beats_per_weight_word;
        }
        stage_.start(d, exponents.accumulator, exponents.output);
        keeps_ = d.has(Flag::Keep);
        kept_ = d.has(Flag::Kept);
        simulation_check(!(keeps_ && kept_), "an operation", "keeps what it takes, policy slot", d.policy_slot);
        wide_.start(d.wide_word, keeps_ || kept_);
    }

    // One clock of the kernel steps: operands and weights arrive; in the last slot of a step the tiles work.
    template <class WeightSource>
    void multiply(Memories& memories, WeightSource& weight_stream) {
#pragma HLS INLINE
        if (!walk_.stepping()) {
            return;
        }
        if (kept_) {
            walk_.next();
            return;
        }
        fetch_operands(memories.activations);
        if (streams_ && walk_.slot() < Config::beats_per_weight_word) {
            beats_.set(walk_.slot(), weight_stream.read());
        }
        if (walk_.last_slot()) {
            if (operation_ == Operation::Gemm) {
                const WeightWord<Config> weights =
                    streams_ ? beats_.word() : memories.weights.read(walk_.weight_address());
                tiles_.multiply(walk_.first_step(), mode_, weights, operand_);
            } else if (operation_ == Operation::Max) {
                tiles_.maximum(walk_.first_step(), walk_.channel_word(), operand_, present_);
            } else {
                const bool second = walk_.second_operand();
                tiles_.sum(walk_.first_step(), walk_.channel_word(), operand_, second ? second_shift_ : first_shift_,
                           second && negate_);
            }
        }
        walk_.next();
    }

    void fetch_operands(const Activations& activations) {
#pragma HLS INLINE
        Request<Config> request[Config::columns];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        bool mine[Config::columns];
#pragma HLS ARRAY_PARTITION variable=mine complete dim=0
        walk_.requests(operation_ != Operation::Sum, request, mine);
    Columns_Clear:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            if (mine[i]) {
                operand_[i] = Word<Config>::zero();
                present_[i] = request[i].active;
            }
        }
        activations.read(request, operand_, walk_.counts());
    }

    // One row of the pass before, in all columns: bias, function, requantizer or measurement.
    void drain_row(const ParameterMemory<Config>& memory, PolicySlot<Config>& policy) {
#pragma HLS INLINE
        if (!write_back_.row_leaves()) {
            return;
        }
        const bool exists = write_back_.row_exists();
        if (exists) {
            const Parameters<Config> parameters = memory.read(write_back_.parameter());
            stage_.row(parameters.bias, static_cast<int32_t>(parameters.exponent));
        }
        accumulator_t sum[Config::columns];
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
        bool covered[Config::columns];
#pragma HLS ARRAY_PARTITION variable=covered complete dim=0
        typename Geometry<Config>::mantissa_t mantissa[Config::columns];
#pragma HLS ARRAY_PARTITION variable=mantissa complete dim=0
    Columns_Drain:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            covered[i] = exists && write_back_.covers(i);
            sum[i] = 0;
            mantissa[i] = 0;
            if (covered[i]) {
                sum[i] = kept_ ? wide_.read(i) : tiles_.result(write_back_.row(), i);
                if (keeps_) {
                    wide_.write(i, sum[i]);
                }
            }
        }
        if (exists) {
            stage_.values(sum, covered, policy, mantissa);
            wide_.next();
        }
    Columns_Assemble:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            write_back_.assemble(i, mantissa[i]);
        }
    }

    OperandWalk<Config> walk_;
    WriteBack<Config> write_back_;
    DotTiles<Config, typename Storage::RegisterSets> tiles_;
    OutputStage<Config> stage_;
    KeepBuffer<Config> wide_;
    WeightBeats<Config> beats_;
    Word<Config> operand_[Config::columns];
    bool present_[Config::columns];
    Operation operation_;
    bool streams_, negate_, keeps_, kept_;
    WeightMode mode_;
    int32_t slots_, first_shift_, second_shift_;
};

}  // namespace bfpga
