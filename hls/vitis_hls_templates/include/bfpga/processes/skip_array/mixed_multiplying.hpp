// A systolic array and an array that skips zeros of activations, in parallel, in a simulation of a kernel, with the
// process of their weights.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/skip_array/slice_read.hpp"
#include "bfpga/processes/skip_array/sparse_array.hpp"
#include "bfpga/processes/systolic/array.hpp"

namespace bfpga {

// Same interface as `SystolicMultiplying`. Each array has its own streams: neither stalls the other.
template <class Config, class Storage>
class MixedMultiplying {
    using Skips = SparseArrayProcess<Config, Storage>;

   public:
    MixedMultiplying() : skips_(std::make_unique<Skips>()) {}

    template <class Join>
    void join(const Join& join) {
        join(windows_, Config::windows_depth);
        join(weight_words_, Config::weight_words_depth);
        join(skip_words_, Config::skip_words_depth);
        join(skip_operands_, Config::skip_operands_depth);
        join(skip_sums_, Config::skip_sums_depth);
    }

    NoArrayCommands& commands() { return commands_; }

    template <class Scratchpad, class Trace, class Commands, class Loads, class Operands, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Commands& commands,
                        Loads& loads, Operands& operands, Streams&... streams) {
        scratchpad.run(commands, loads, operands, skip_operands_, streams..., windows_, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        weights_.run(commands, source, parameters, reports, trace, weight_words_, skip_words_);
    }

    static void name_arrays(std::vector<std::string>& names) { names.insert(names.end(), {"array", "skip_array"}); }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &operands, &sums] { array_.run(operands, weight_words_, sums); });
        bodies.push_back([this] { skips_->run(skip_operands_, skip_words_, skip_sums_, windows_); });
    }

    template <class Post, class Commands, class Sums, class... Streams>
    void run_post(Post& post, Commands& commands, Sums& sums, Streams&... streams) {
        post.run(commands, sums, skip_sums_, streams...);
    }

    template <class Store, class... Streams>
    void run_store(Store& store, Streams&... streams) {
        store.run(streams...);
    }

    void reset() {
        array_ = ArrayProcess<Config, Storage>();
        skips_ = std::make_unique<Skips>();
    }

   private:
    NoArrayCommands commands_;
    WeightsProcess<Config, StoredSlices<Config>> weights_;
    ArrayProcess<Config, Storage> array_;
    std::unique_ptr<Skips> skips_;
    stream<bool> windows_{"windows"};
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"}, skip_words_{"skip_words"};
    stream<wire_t<OperandBeat<Config>>> skip_operands_{"skip_operands"};
    stream<wire_t<SumBeat<Config>>> skip_sums_{"skip_sums"};
};

}  // namespace bfpga
