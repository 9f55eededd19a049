// Where the streams of the host end in a simulation of a kernel: at the sequencer and the store process, or at the
// processes of compressed maps before and after them.
#pragma once
#include <string>
#include <vector>

#include "bfpga/processes/maps/compressor.hpp"
#include "bfpga/processes/maps/ends.hpp"
#include "bfpga/processes/maps/expander.hpp"
#include "bfpga/processes/maps/joiner.hpp"
#include "bfpga/processes/maps/splitter.hpp"

namespace bfpga {

// A kernel without compressed maps.
template <class Config, bool Exist>
class MapPaths {
   public:
    static void name_processes(std::vector<std::string>&) {}

    void reset() {}

    template <class Join>
    void join(const Join&) {}

    // What the sequencer reads, and what the store process writes: the streams of the host.
    template <class Source>
    using Read = Source&;
    template <class Sink>
    using Written = Sink&;

    template <class Source>
    Source& read(Source& source) {
        return source;
    }

    template <class Sink>
    Sink& written(Sink& sink) {
        return sink;
    }

    template <class Bodies, class Source, class Sink>
    void add_processes(Bodies&, Source&, Sink&, int) {}
};

template <class Config>
class MapPaths<Config, true> {
   public:
    static void name_processes(std::vector<std::string>& names) {
        names.insert(names.end(), {"map_splitter", "map_expander", "map_compressor", "map_joiner"});
    }

    // Nothing of a start that was given up is left.
    void reset() { own_ = Processes(); }

    template <class Join>
    void join(const Join& join) {
        join(map_masks_, Config::map_masks_depth);
        join(map_values_, Config::map_values_depth);
        join(input_beats_, Config::input_beats_depth);
        join(output_beats_, Config::output_beats_depth);
        join(stored_masks_, Config::stored_masks_depth);
        join(stored_values_, Config::stored_values_depth);
    }

    template <class Source>
    using Read = PlainSource<Config>;
    template <class Sink>
    using Written = StoredSink<Config>;

    template <class Source>
    PlainSource<Config> read(Source&) {
        return PlainSource<Config>(input_beats_);
    }

    template <class Sink>
    StoredSink<Config> written(Sink&) {
        return StoredSink<Config>(output_beats_);
    }

    // A start without descriptors has no input: on a board its processes wait for the next one.
    template <class Bodies, class Source, class Sink>
    void add_processes(Bodies& bodies, Source& source, Sink& sink, int descriptors) {
        bodies.push_back([this, &source, descriptors] {
            if (descriptors > 0) {
                own_.splitter.run(source, map_masks_, map_values_);
            }
        });
        bodies.push_back([this, descriptors] {
            if (descriptors > 0) {
                own_.expander.run(map_masks_, map_values_, input_beats_);
            }
        });
        bodies.push_back([this] { own_.compressor.run(output_beats_, stored_masks_, stored_values_); });
        bodies.push_back([this, &sink] { own_.joiner.run(stored_masks_, stored_values_, sink); });
    }

   private:
    using Chunk = ChunkBeat<Config>;
    using Plain = PlainBeat<Config>;

    // An aggregate: a new one begins with zeros, as the registers of hardware do.
    struct Processes {
        MapSplitter<Config> splitter;
        MapExpander<Config> expander;
        MapCompressor<Config> compressor;
        MapJoiner<Config> joiner;
    };

    Processes own_;
    stream<wire_t<Chunk>> map_masks_{"map_masks"}, stored_masks_{"stored_masks"};
    stream<wire_t<Plain>> map_values_{"map_values"}, stored_values_{"stored_values"}, input_beats_{"input_beats"};
    stream<wire_t<StoredBeat<Config>>> output_beats_{"output_beats"};
};

}  // namespace bfpga
