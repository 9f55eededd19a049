// A kernel's state of its layers: the exponents of its tensors, and the state of the policies.
#pragma once
#include "bfpga/memory/adds_tensor.hpp"
#include "bfpga/memory/geometry.hpp"
#include "bfpga/output/exponent_selector.hpp"

namespace bfpga {

// Exponents of a layer: its operands, its accumulators, its result.
struct LayerExponents {
    int32_t first;
    int32_t second;
    int32_t accumulator;
    int32_t output;
};

template <class Config>
class LayerRegisters {
   public:
    LayerRegisters() : exponent_(), policy_() {
// Exponents are in LUT memory, none in block memory (BFP R39): operations need one after the other, and so many
// registers would need a wide multiplexer at every read.
#pragma HLS BIND_STORAGE variable=exponent_ type=ram_s2p impl=lutram
// Policy slots are rows of a LUT memory; the slot of the running operation is copied to registers.
#pragma HLS AGGREGATE variable=policy_
#pragma HLS BIND_STORAGE variable=policy_ type=ram_s2p impl=lutram
    }

    // Resets the policies.
    void clear_policies() {
    Policies_Clear:
        for (int slot = 0; slot < Config::policy_slots; ++slot) {
// II=1: one slot a cycle.
#pragma HLS PIPELINE II=1
            policy_[slot] = PolicySlot<Config>();
        }
    }

    int32_t exponent(int32_t tensor) const { return static_cast<int32_t>(exponent_[tensor_index(tensor)]); }
    void set_exponent(int32_t tensor, int32_t exponent) { exponent_[tensor_index(tensor)] = exponent; }

    PolicySlot<Config> policy(int32_t slot) const { return policy_[policy_index(slot)]; }
    void set_policy(int32_t slot, const PolicySlot<Config>& policy) { policy_[policy_index(slot)] = policy; }

    // The exponents of a layer's operands and of its result; the result's is chosen at the first descriptor that
    // writes. `status`: receives the bits of that choice.
    LayerExponents begin(const Descriptor& d, PolicySlot<Config>& policy, int32_t& status) {
        LayerExponents exponents;
        exponents.first = exponent(d.input_slot);
        const bool two = static_cast<Operation>(d.operation) == Operation::Sum && d.kernel_width > 1;
        exponents.second = two ? exponent(d.second_slot) : exponents.first;
        exponents.accumulator = exponents.second > exponents.first ? exponents.second : exponents.first;
        // A tensor that is added comes to the unit of the sums.
        if (adds_tensor<Config>(d)) {
            exponents.second = exponent(d.second_slot);
        }
        // The exponent of the results of rows is given, in this word; those of a product's operands add to it.
        if (works_on_rows<Config>(d)) {
            exponents.second = exponent(d.second_slot);
            exponents.accumulator = d.wide_word + (d.kernel_width > 1 ? exponents.first + exponents.second : 0);
        }
        // The weights of a product of two tensors have the exponent of one of them.
        if (multiplies_tensors<Config>(d)) {
            exponents.second = exponent(d.second_slot);
            exponents.accumulator = exponents.first + exponents.second;
        }
        const bool first = d.has(Flag::First);
        const bool measures = d.has(Flag::Measure);
        if (first) {
            policy.begin(measures);
        }
        if (first && !measures) {
            set_exponent(d.output_slot, policy.choose(d, exponents.accumulator, status));
        }
        // A measurement has no output, so its register may never have been written.
        exponents.output = measures ? 0 : exponent(d.output_slot);
        return exponents;
    }

   private:
    static int tensor_index(int32_t index) {
        simulation_check(index >= 0 && index < Config::tensor_slots, "a descriptor", "names tensor slot", index);
        return index;
    }

    static int policy_index(int32_t index) {
        simulation_check(index >= 0 && index < Config::policy_slots, "a descriptor", "names policy slot", index);
        return index;
    }

    int_t<32> exponent_[Config::tensor_slots];
    PolicySlot<Config> policy_[Config::policy_slots];
};

}  // namespace bfpga
