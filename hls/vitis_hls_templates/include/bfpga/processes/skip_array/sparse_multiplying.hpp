// An array that skips zeros of activations in a simulation of a kernel, with the process of its weights.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/skip_array/slice_read.hpp"
#include "bfpga/processes/skip_array/sparse_array.hpp"

namespace bfpga {

// Same interface as `SystolicMultiplying`.
template <class Config, class Storage>
class SparseMultiplying {
    using Array = SparseArrayProcess<Config, Storage>;

   public:
    SparseMultiplying() : array_(std::make_unique<Array>()) {}

    template <class Join>
    void join(const Join& join) {
        join(windows_, Config::windows_depth);
        join(weight_words_, Config::weight_words_depth);
    }

    NoArrayCommands& commands() { return commands_; }

    template <class Scratchpad, class Trace, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Streams&... streams) {
        scratchpad.run(streams..., windows_, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        weights_.run(commands, source, parameters, reports, trace, weight_words_);
    }

    static void name_arrays(std::vector<std::string>& names) { names.push_back("array"); }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &operands, &sums] { array_->run(operands, weight_words_, sums, windows_); });
    }

    template <class Post, class Commands, class Sums, class... Streams>
    void run_post(Post& post, Commands& commands, Sums& sums, Streams&... streams) {
        post.run(commands, sums, streams...);
    }

    template <class Store, class... Streams>
    void run_store(Store& store, Streams&... streams) {
        store.run(streams...);
    }

    void reset() { array_ = std::make_unique<Array>(); }

   private:
    NoArrayCommands commands_;
    WeightsProcess<Config, StoredSlices<Config>> weights_;
    std::unique_ptr<Array> array_;
    stream<bool> windows_{"windows"};
    stream<wire_t<WeightBeat<Config>>> weight_words_{"weight_words"};
};

}  // namespace bfpga
