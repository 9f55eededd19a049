// The sequencer: fetches descriptors from the input stream and executes them, one after the other.
//
// `Kernel` is everything an accelerator remembers. One start executes a list of descriptors; activations, weights,
// exponents and what the policies have learned stay from start to start (BFP R56, R68, R80).
#pragma once
#include "bfpga/array/systolic_array.hpp"
#include "bfpga/kernel/engines.hpp"
#include "bfpga/kernel/status.hpp"
#include "bfpga/kernel/transfers.hpp"
#include "bfpga/output/layer_registers.hpp"
#include "bfpga/ports/checksum.hpp"

namespace bfpga {

template <class Config, class Storage>
class Kernel {
   public:
    Kernel() {}

    // Executes `descriptors` descriptors. `clear`: the policy slots forget what they have learned, and the engines the
    // sums of a start that was given up.
    template <class Source, class WeightSource, class Sink, class Trace>
    KernelStatus run(int descriptors, bool clear, Source& source, WeightSource& weight_source, Sink& sink,
                     Trace& trace) {
        CheckedSource<Config::stream_bits, Source> input(source);
        CheckedSource<Config::weight_stream_bits, WeightSource> weight_stream(weight_source);
        CheckedSink<Config::stream_bits, Sink> output(sink);
        KernelStatus status = {0, 0, 0, 0, 0, 0, 0};
        if (clear) {
            layers_.clear_policies();
            beside_.clear();
        }
    Descriptors:
        for (int n = 0; n < descriptors; ++n) {
// Not pipelined: an operation begins when the one before has left its results.
#pragma HLS LOOP_TRIPCOUNT min=1 max=256
            Descriptor descriptor;
            input.expect(Descriptor::words / (Config::stream_bits / 32), "descriptor", n);
            uint32_t cycles = fetch(input, descriptor);
            cycles += execute(descriptor, input, weight_stream, output, status);
            status.cycles += cycles;
            trace.finished(n, descriptor, cycles);
        }
        status.input_checksum = input.checksum();
        status.weight_checksum = weight_stream.checksum();
        status.output_checksum = output.checksum();
        return status;
    }

   private:
    template <class Source>
    static uint32_t fetch(Source& input, Descriptor& descriptor) {
        constexpr int per_beat = Config::stream_bits / 32;
        constexpr int beats = Descriptor::words / per_beat;
        static_assert(beats * per_beat == Descriptor::words, "a descriptor is a whole number of beats");
        int32_t words[Descriptor::words];
#pragma HLS ARRAY_PARTITION variable=words complete dim=0
        uint32_t cycles = 0;
    Beats_Fetch:
        for (int beat = 0; beat < beats; ++beat) {
// II=1: one beat is read a clock; the words are registers.
#pragma HLS PIPELINE II=1
            const bits_t<Config::stream_bits> data = input.read();
        Words_Fetch:
            for (int word = 0; word < per_beat; ++word) {
#pragma HLS UNROLL
                words[beat * per_beat + word] = static_cast<int32_t>(get_signed<32>(data, 32 * word));
            }
            ++cycles;
        }
        descriptor = decode_descriptor(words);
        return cycles;
    }

    template <class Source, class WeightSource, class Sink>
    uint32_t execute(const Descriptor& d, Source& input, WeightSource& weight_stream, Sink& output,
                     KernelStatus& status) {
        const Operation operation = static_cast<Operation>(d.operation);
        switch (operation) {
            case Operation::Load: {
                int32_t exponent = 0;
                const int clocks = load_tensor<Config>(d, activations_, input, exponent);
                layers_.set_exponent(d.output_slot, exponent);
                return clocks + Config::transfer_depth;
            }
            case Operation::Store:
                return store_tensor<Config>(d, activations_, output, layers_.exponent(d.input_slot)) +
                       Config::transfer_depth;
            case Operation::Weights:
                return load_weights(d, weights_, parameters_, weight_stream) + Config::transfer_depth;
            case Operation::Gemm:
            case Operation::Max:
            case Operation::Sum:
                return compute(array_, d, weight_stream, status);
            default:
                if (EnginesBeside<Config, Storage>::executes(operation)) {
                    return compute(beside_, d, weight_stream, status);
                }
                simulation_check(d.operation == 0, "a descriptor", "has no such operation:", d.operation);
                return 0;
        }
    }

    // A layer on the array or on an engine beside it: exponents, policies and depth are the same for all.
    template <class Engine, class WeightSource>
    uint32_t compute(Engine& engine, const Descriptor& d, WeightSource& weight_stream, KernelStatus& status) {
        weight_stream.expect(1, "streamed weights for slot", d.output_slot);
        PolicySlot<Config> policy = layers_.policy(d.policy_slot);
        const LayerExponents exponents = layers_.begin(d, policy, status.bits);
        KernelMemories<Config, Storage> memories = {activations_, weights_, parameters_};
        const uint32_t clocks = engine.run(d, exponents, memories, policy, weight_stream, status);
        if (d.has(Flag::Last)) {
            policy.learn(d, exponents.output, status.bits);
        }
        layers_.set_policy(d.policy_slot, policy);
        const uint32_t selection = selects_position<Config>(d) ? Config::position_bins : 0;
        return clocks + Config::operation_depth + selection;
    }

    ActivationMemory<Config, typename Storage::Ports> activations_;
    WeightMemory<Config> weights_;
    ParameterMemory<Config> parameters_;
    SystolicArray<Config, Storage> array_;
    EnginesBeside<Config, Storage> beside_;
    LayerRegisters<Config> layers_;
};

}  // namespace bfpga
