// Where the host's input ends in a simulation of a kernel: at the sequencer, or at the program memory before it.
#pragma once
#include <string>
#include <vector>

#include "bfpga/processes/program/program.hpp"

namespace bfpga {

// As `MapPaths` (processes/maps/paths.hpp).
template <class Config>
class ProgramPath {
   public:
    static void name_processes(std::vector<std::string>& names) { names.push_back("program"); }

    // Nothing of a start that was given up is left.
    void reset() { own_ = ProgramProcess<Config>(); }

    template <class Join>
    void join(const Join& join) {
        join(program_beats_, Config::program_beats_depth);
        join(program_reports_, Config::program_reports_depth);
    }

    template <class Source>
    using Read = ProgramSource<Config>;
    template <class Sink>
    using Written = Sink&;

    template <class Source>
    ProgramSource<Config> read(Source&) {
        return ProgramSource<Config>(program_beats_, program_reports_);
    }

    template <class Sink>
    Sink& written(Sink& sink) {
        return sink;
    }

    // A start without descriptors has no input: on a board the process waits for the next one.
    template <class Bodies, class Source, class Sink>
    void add_processes(Bodies& bodies, Source& source, Sink&, int descriptors) {
        bodies.push_back([this, &source, descriptors] {
            if (descriptors > 0) {
                own_.run(source, program_beats_, program_reports_);
            }
        });
    }

   private:
    ProgramProcess<Config> own_;
    stream<wire_t<PlainBeat<Config>>> program_beats_{"program_beats"};
    stream<int_t<32>> program_reports_{"program_reports"};
};

}  // namespace bfpga
