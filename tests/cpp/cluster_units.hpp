// One unit of a list of builds, fed with words of pieces and steps that come when they like.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "build_list.hpp"
#include "cluster_beats.hpp"
#include "cluster_build.hpp"
#include "process_ends.hpp"

namespace {

struct Numbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        const int32_t numbers[] = {Config::lanes,      Config::kernel_rows, Config::kernel_columns,
                                   Config::value_bits, Config::weight_bits, Config::accumulator_bits,
                                   Config::planes,     Config::unit_words,  Config::unit_steps};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Layer {
    const int32_t* piece;  // (words, lanes + 7): values, place, phases, opens, ends, drains, stop
    int32_t words;
    const int32_t* step;  // (steps, cells + 3): weights, plane, adds, last
    int32_t steps;
    int32_t rarely;    // streams have nothing yet in so many of 8 cases
    int32_t room;      // of the stream of sums, in blocks
    int32_t capacity;  // of `sum`, in blocks
    int64_t* sum;      // (blocks, cells)
    int32_t blocks;    // that came
    int32_t issued, rounds;
    int32_t held, stalls;  // of units that hold products back
    int64_t clocks;        // of the loop that takes steps; 0 where nobody counts them
    char* message;         // (256)
};

// Hands out words, and stops a unit that asks for ever.
template <class Beat>
class PatientSender : public BeatSender<Beat> {
   public:
    using BeatSender<Beat>::BeatSender;

    void polled(const std::string& stream) override {
#ifdef BFPGA_WAIVERS_CHECKED
        clocks = bfpga::PipelinedLoop::number(bfpga::PipelinedLoop::running()->now());
#endif
        polls_ = this->empty() ? polls_ + 1 : 0;
        if (polls_ > 100000) {
            throw bfpga::StreamError("the unit goes on for ever; it asks for " + stream);
        }
        BeatSender<Beat>::polled(stream);
    }

    int64_t clocks = 0;

   private:
    int32_t polls_ = 0;
};

// Takes sums when their stream is full.
template <class Config>
class BlockReceiver : public bfpga::StreamWaits {
   public:
    explicit BlockReceiver(Layer& layer) : from("sums", static_cast<std::size_t>(layer.room)), layer_(layer) {
        from.join(*this);
    }

    void wait(const std::string&, bool) override { take_all(); }
    void polled(const std::string&) override {}

    void take_all() {
        while (!from.empty()) {
            const auto block = bfpga::from_wire<bfpga::BlockBeat<Config>>(from.read());
            constexpr int cells = bfpga::ClusterUnitTypes<Config>::cells;
            for (int n = 0; n < cells && layer_.blocks < layer_.capacity; ++n) {
                layer_.sum[layer_.blocks * cells + n] = static_cast<int64_t>(block.sum[n]);
            }
            ++layer_.blocks;
        }
    }

    bfpga::stream<bfpga::wire_t<bfpga::BlockBeat<Config>>> from;

   private:
    Layer& layer_;
};

// `Config::Processes`: runs those of a unit.
struct Run {
    Layer* layer;

    template <class Config>
    int apply() const {
        return caught(layer->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        constexpr int cells = bfpga::ClusterUnitTypes<Config>::cells;
        const unsigned rarely = static_cast<unsigned>(layer->rarely);
        PatientSender<bfpga::PieceBeat<Config>> pieces("pieces", 3, rarely);
        PatientSender<bfpga::StepBeat<Config>> steps("steps", 5, rarely);
        BlockReceiver<Config> sums(*layer);
        bfpga::stream<bfpga::int_t<32>> reports("reports");
        for (int n = 0; n < layer->words; ++n) {
            pieces.words.push_back(bfpga::to_wire(piece_word<Config>(layer->piece + n * (Config::lanes + 7))));
        }
        for (int n = 0; n < layer->steps; ++n) {
            steps.words.push_back(bfpga::to_wire(step_of<Config>(layer->step + n * (cells + 3))));
        }
        Config::Processes::template run<Config>(pieces, steps, sums.from, reports);
        sums.take_all();
        layer->issued = static_cast<int32_t>(reports.read());
        layer->rounds = static_cast<int32_t>(reports.read());
        if (!reports.empty()) {
            layer->held = static_cast<int32_t>(reports.read());
            layer->stalls = static_cast<int32_t>(reports.read());
        }
        layer->clocks = steps.clocks;
        if (!steps.empty() || !pieces.empty()) {
            throw bfpga::StreamError("the unit has left words in its streams");
        }
    }
};

}  // namespace
