// The units of a cluster in a simulation: the processes of each variant, and the streams between those of one unit.
//
// All have the three streams of a unit (beats.hpp), so a cluster has whichever it likes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bfpga/processes/sparse_cluster/data_stationary.hpp"
#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/merge.hpp"
#include "bfpga/processes/sparse_cluster/packed.hpp"
#include "bfpga/processes/sparse_cluster/shift_window.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"

namespace bfpga {

// Variant E: one process.
template <class Config>
class DataStationaryProcesses {
   public:
    explicit DataStationaryProcesses(int number) : number_(std::to_string(number)) {}

    // In the order of the bodies.
    std::vector<std::string> names() const { return {"unit_" + number_}; }

    // Calls `join` with each stream inside.
    template <class Join>
    void join(const Join&) {}

    void reset() { process_ = std::make_unique<DataStationaryProcess<Config>>(); }

    template <class Bodies, class Reports>
    void add(Bodies& bodies, stream<wire_t<PieceBeat<Config>>>& pieces, stream<wire_t<StepBeat<Config>>>& steps,
             stream<wire_t<BlockBeat<Config>>>& sums, Reports& reports) {
        bodies.push_back([this, &pieces, &steps, &sums, &reports] { process_->run(pieces, steps, sums, reports); });
    }

   private:
    std::string number_;
    std::unique_ptr<DataStationaryProcess<Config>> process_ = std::make_unique<DataStationaryProcess<Config>>();
};

// Variants A and B: what gathers micro-tiles, and what computes with them.
template <class Config, class Group, class Process>
class GatheredProcesses {
    using Gather = TileGather<Config, Group>;

   public:
    static constexpr int tiles_depth = 16;  // groups that wait between the two

    explicit GatheredProcesses(int number) : number_(std::to_string(number)), tiles_(("tiles_" + number_).c_str()) {}

    std::vector<std::string> names() const { return {"gather_" + number_, "unit_" + number_}; }

    template <class Join>
    void join(const Join& join) {
        join(tiles_, tiles_depth);
    }

    void reset() {
        gather_ = std::make_unique<Gather>();
        process_ = std::make_unique<Process>();
    }

    template <class Bodies, class Reports>
    void add(Bodies& bodies, stream<wire_t<PieceBeat<Config>>>& pieces, stream<wire_t<StepBeat<Config>>>& steps,
             stream<wire_t<BlockBeat<Config>>>& sums, Reports& reports) {
        bodies.push_back([this, &pieces] { gather_->run(pieces, tiles_); });
        bodies.push_back([this, &steps, &sums, &reports] { process_->run(tiles_, steps, sums, reports); });
    }

   private:
    std::string number_;
    stream<wire_t<Group>> tiles_;
    std::unique_ptr<Gather> gather_ = std::make_unique<Gather>();
    std::unique_ptr<Process> process_ = std::make_unique<Process>();
};

template <class Config>
using ShiftWindowProcesses = GatheredProcesses<Config, WholeTileBeat<Config>, ShiftWindowProcess<Config>>;

template <class Config>
using IndexedProcesses = GatheredProcesses<Config, TileBeat<Config>, IndexedProcess<Config>>;

// Variants C and D: what gathers micro-tiles, what multiplies, and what adds.
template <class Config>
class PackedProcesses {
   public:
    static constexpr int tiles_depth = 16;   // groups that wait between the first two
    static constexpr int rounds_depth = 16;  // rounds that wait between the other two

    explicit PackedProcesses(int number)
        : number_(std::to_string(number)),
          tiles_(("tiles_" + number_).c_str()),
          rounds_(("rounds_" + number_).c_str()) {}

    std::vector<std::string> names() const { return {"gather_" + number_, "unit_" + number_, "merge_" + number_}; }

    template <class Join>
    void join(const Join& join) {
        join(tiles_, tiles_depth);
        join(rounds_, rounds_depth);
    }

    void reset() {
        gather_ = std::make_unique<TileGather<Config>>();
        process_ = std::make_unique<PackedProcess<Config>>();
        merge_ = std::make_unique<MergeProcess<Config>>();
    }

    template <class Bodies, class Reports>
    void add(Bodies& bodies, stream<wire_t<PieceBeat<Config>>>& pieces, stream<wire_t<StepBeat<Config>>>& steps,
             stream<wire_t<BlockBeat<Config>>>& sums, Reports& reports) {
        bodies.push_back([this, &pieces] { gather_->run(pieces, tiles_); });
        bodies.push_back([this, &steps, &reports] { process_->run(tiles_, steps, rounds_, reports); });
        bodies.push_back([this, &sums] { merge_->run(rounds_, sums); });
    }

   private:
    std::string number_;
    stream<wire_t<TileBeat<Config>>> tiles_;
    stream<wire_t<RoundBeat<Config>>> rounds_;
    std::unique_ptr<TileGather<Config>> gather_ = std::make_unique<TileGather<Config>>();
    std::unique_ptr<PackedProcess<Config>> process_ = std::make_unique<PackedProcess<Config>>();
    std::unique_ptr<MergeProcess<Config>> merge_ = std::make_unique<MergeProcess<Config>>();
};

}  // namespace bfpga
