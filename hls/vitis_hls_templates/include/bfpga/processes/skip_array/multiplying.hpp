// A skip array in a simulation of a kernel, with the process of its weights and the streams of its groups.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "bfpga/processes/sequencer.hpp"
#include "bfpga/processes/skip_array/entry_read.hpp"
#include "bfpga/processes/skip_array/skip_array.hpp"

namespace bfpga {

// Same interface as `SystolicMultiplying`.
template <class Config, class Storage>
class SkipMultiplying {
    using Array = SkipArrayProcess<Config, Storage>;
    using Groups = std::make_integer_sequence<int, Config::skip_groups>;

   public:
    SkipMultiplying() : array_(std::make_unique<Array>()) {
        for (int group = 0; group < Config::skip_groups; ++group) {
            entries_.emplace_back(("entries_" + std::to_string(group)).c_str());
        }
    }

    template <class Join>
    void join(const Join& join) {
        join(windows_, Config::windows_depth);
        for (Stream& entries : entries_) {
            join(entries, Config::skip_queue);
        }
    }

    NoArrayCommands& commands() { return commands_; }

    template <class Scratchpad, class Trace, class... Streams>
    void run_scratchpad(Scratchpad& scratchpad, stream<int_t<32>>& reports, Trace& trace, Streams&... streams) {
        scratchpad.run(streams..., windows_, reports, trace);
    }

    template <class Source, class Trace>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace) {
        run_weights(commands, source, parameters, reports, trace, Groups());
    }

    static void name_arrays(std::vector<std::string>& names) { names.push_back("array"); }

    template <class Bodies>
    void add_arrays(Bodies& bodies, stream<wire_t<OperandBeat<Config>>>& operands,
                    stream<wire_t<SumBeat<Config>>>& sums) {
        bodies.push_back([this, &operands, &sums] { run_array(operands, sums, Groups()); });
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
    using Stream = stream<wire_t<Entry<Config>>>;

    template <class Source, class Trace, int... G>
    void run_weights(stream<command_t>& commands, Source& source, stream<wire_t<ParameterBeat<Config>>>& parameters,
                     stream<int_t<32>>& reports, Trace& trace, std::integer_sequence<int, G...>) {
        weights_.run(commands, source, parameters, reports, trace, entries_[G]...);
    }

    template <int... G>
    void run_array(stream<wire_t<OperandBeat<Config>>>& operands, stream<wire_t<SumBeat<Config>>>& sums,
                   std::integer_sequence<int, G...>) {
        array_->run(operands, sums, windows_, entries_[G]...);
    }

    WeightsProcess<Config, StoredEntryWords<Config>> weights_;
    std::unique_ptr<Array> array_;
    stream<bool> windows_{"windows"};
    std::deque<Stream> entries_;
};

}  // namespace bfpga
