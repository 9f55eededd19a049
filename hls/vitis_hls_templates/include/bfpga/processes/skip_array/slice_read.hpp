// The weights process's part for an array that skips zeros of activations.
//
// The words of a row block are sent once for all passes of a run: block by block, in chunks, and then the next run. In
// parallel with the words of a block the parameters of its rows are sent, again for each group of output pixels of the
// run. They need room for two runs: those of a block wait for its sums, which need its words, and those of the block
// before may still be there.
#pragma once
#include "bfpga/processes/scratchpad/runs.hpp"
#include "bfpga/processes/weights.hpp"

namespace bfpga {

// The rows of a block, again for each group of a run. They continue with the next block right after the last one: they
// never wait for the words.
template <class Config>
class SliceRows {
    using G = Geometry<Config>;
    using coordinate_t = typename G::coordinate_t;
    using parameter_address_t = typename G::parameter_address_t;
    static constexpr int groups = Config::skip_halves * Config::skip_passes;
    static constexpr int shift = bit_length(groups) - 1;

   public:
    // In a sparse cluster a run is a whole map: `parameters` has no room for its rows, for which the words of a block
    // must not wait. Its sums need all words of the block, and no word of the next one.
    static constexpr bool behind_words = Config::has_cluster;

    // Number of walks through all blocks: one per run.
    static int32_t turns(const Descriptor& d) {
#pragma HLS INLINE
        return on_skip_array<Config>(d) ? ((d.groups - 1) >> shift) + 1 : d.groups;
    }

    void start(const Descriptor& d) {
#pragma HLS INLINE
        // For a systolic array a run is one group.
        if (on_skip_array<Config>(d)) {
            groups_.set_turns(d.groups);
        } else {
            groups_.set_singles(d.groups);
        }
        rows_.set(static_cast<coordinate_t>(Config::rows));
        output_rows_ = static_cast<coordinate_t>(d.output_rows);
        base_ = static_cast<parameter_address_t>(d.parameter_base);
    }

    bool exists() const { return exists_; }
    bool last() const { return rows_.last() && groups_.last(); }
    parameter_address_t address() const { return address_; }

    // One cycle; `row`: one has gone; `last_block`: it is of the run's last block; `begins`: the operation.
    void step(bool row, bool, bool last_block, bool begins) {
#pragma HLS INLINE
        const bool group = row & rows_.last();
        const bool block = group & groups_.last();
        const bool run = block & last_block;
        const coordinate_t below = static_cast<coordinate_t>(of_block_ - Config::rows);
        const coordinate_t of_block = (run | begins) ? output_rows_ : block ? below : of_block_;
        const parameter_address_t behind = static_cast<parameter_address_t>(block_ + Config::rows);
        const parameter_address_t address = (run | begins) ? base_ : block ? behind : block_;
        const bool again = group | begins;
        exists_ = again | (row ? exists_ & (left_ != 1) : exists_);
        left_ = again ? of_block : row ? static_cast<coordinate_t>(left_ - 1) : left_;
        address_ = again ? address : row ? static_cast<parameter_address_t>(address_ + 1) : address_;
        of_block_ = of_block;
        block_ = address;
        rows_.step(row, begins);
        groups_.step(group, last_block, begins);
    }

   private:
    Turns<G::coordinate_bits> rows_;
    RunTurns<groups, G::coordinate_bits, Config::dense_beside> groups_;
    coordinate_t output_rows_, of_block_;  // that the output has, of them from the block on
    coordinate_t left_;                    // from the row on that is due
    bool exists_;
    parameter_address_t base_, block_, address_;
};

// Where the words of a block end a chunk: the array holds two.
template <class Config>
class WordChunks {
   public:
    void start(const Descriptor& d) {
#pragma HLS INLINE
        chunked_ = on_skip_array<Config>(d);
        apart_ = d.has(Flag::LanesApart);
        simulation_check(!reads_chunks<Config>(d) || d.chunk_steps > 0, "a descriptor",
                         "has no steps of a chunk; it has", d.chunk_steps);
        steps_.set(static_cast<typename Geometry<Config>::coordinate_t>(d.chunk_steps));
    }

    // Whether the words go to a skip array, and each lane of them to its own group; whether the one that is due ends a
    // chunk.
    bool chunked() const { return chunked_; }
    bool apart() const { return apart_; }
    bool ends() const { return ends_; }

    // One cycle, a word ahead; `on`: the next one is due, `last`: the block's last one.
    void step(bool on, bool last, bool begins) {
#pragma HLS INLINE
        if (on) {
            ends_ = steps_.last() || last;
        }
        steps_.step(on, (on && last) || begins);
    }

   private:
    Turns<Geometry<Config>::coordinate_bits> steps_;
    bool chunked_, apart_, ends_;
};

// The words of a systolic array, each with a flag for the end of a chunk.
template <class Config>
struct StoredSlices {
    using Beats = WeightBeats<Config>;
    using Memory = WeightMemory<Config>;
    using Read = WeightRead<Config, SliceRows<Config>, WordChunks<Config>>;

    static void send(const WeightWord<Config>& word, const Read& read,
                     stream<wire_t<WeightBeat<Config>>>& weight_words) {
#pragma HLS INLINE
        weight_words.write(to_wire(beat(word, read)));
    }

    // For two arrays, to the one that computes the operation.
    static void send(const WeightWord<Config>& word, const Read& read, stream<wire_t<WeightBeat<Config>>>& weight_words,
                     stream<wire_t<WeightBeat<Config>>>& skip_words) {
#pragma HLS INLINE
        if (read.chunks().chunked()) {
            skip_words.write(to_wire(beat(word, read)));
        } else {
            weight_words.write(to_wire(beat(word, read)));
        }
    }

   private:
    static WeightBeat<Config> beat(const WeightWord<Config>& word, const Read& read) {
#pragma HLS INLINE
        WeightBeat<Config> weight;
        weight.weight = word;
        weight.two_hot = read.chunks().chunked() && read.chunks().ends();
        weight.power_of_two = read.chunks().chunked() && read.chunks().apart();
        return weight;
    }
};

}  // namespace bfpga
