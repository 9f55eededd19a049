// The sums of the lanes, which stay in place (ZS R35-R41).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/zero_skip/types.hpp"

namespace bfpga {

// One word of the accumulators: all lanes of the rows of a step.
template <class Config>
struct SumWord {
    typename ZeroSkipTypes<Config>::accumulator_t lane[ZeroSkipTypes<Config>::word_lanes];
};

// The accumulators: a memory a lane, a word an address. A sum that was not used since it was taken counts as the preset
// of its kernel, so nothing is cleared and kernels without an entry give their preset (ZS R7, R14, R41). Every lane has
// a bit of its own for that, because results leave in other groups of pixels than those of a word.
template <class Config>
class SumMemory {
    using T = ZeroSkipTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int wide_bits =
        (Config::accumulator_bits > T::product_bits ? Config::accumulator_bits : T::product_bits) + 1;

   public:
    // A word is used again `dependence_latency` clocks later at the earliest: an entry visits each word of its kernel
    // once, and the next entry of that kernel waits (ZS 7.2).
    SumMemory() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=2
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=Config::dependence_latency true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=used_ complete dim=2
#pragma HLS BIND_STORAGE variable=used_ type=ram_s2p impl=lutram
#pragma HLS DEPENDENCE variable=used_ type=inter direction=raw distance=Config::dependence_latency true
        used_waiver_.states("used_", __FILE__, __LINE__ - 1);
    }

    // sums += products, modulo 2**accumulator_bits (ZS R37, R39), in the lanes that lie `inside` the tile: only those
    // are taken. clock: when, for the check of a simulation.
    void add(int address, accumulator_t preset, const typename T::product_t (&product)[T::word_lanes],
             const bool (&inside)[T::word_lanes], int64_t clock) {
#pragma HLS INLINE
        check(address, clock);
    Lanes_Add:
        for (int l = 0; l < T::word_lanes; ++l) {
#pragma HLS UNROLL
            reads(address, l);
            const accumulator_t before = used_[address][l] ? cell_[address][l] : preset;
            const int_t<wide_bits> sum = static_cast<int_t<wide_bits>>(before) + product[l];
            if (inside[l]) {
                cell_waiver_.writes(word(address, l));
                used_waiver_.writes(word(address, l));
                cell_[address][l] = low_bits<Config::accumulator_bits>(sum);
                used_[address][l] = true;
            }
        }
    }

    // The sum of one lane, which is free then. Lanes may take from different words in one clock.
    accumulator_t take_lane(int address, accumulator_t preset, int lane) {
#pragma HLS INLINE
        reads(address, lane);
        used_waiver_.writes(word(address, lane));
        const accumulator_t sum = used_[address][lane] ? cell_[address][lane] : preset;
        used_[address][lane] = false;
        return sum;
    }

    // The sums of a word.
    SumWord<Config> take(int address, accumulator_t preset) {
#pragma HLS INLINE
        SumWord<Config> word;
    Lanes_Take:
        for (int l = 0; l < T::word_lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = take_lane(address, preset, l);
        }
        return word;
    }

    // All sums are free.
    void clear() {
        PipelinedLoop loop("Words_Clear");
    Words_Clear:
        for (int address = 0; address < Config::accumulator_words; ++address) {
// II=1: one word a clock.
#pragma HLS PIPELINE II=1
            loop.iteration();
        Lanes_Clear:
            for (int l = 0; l < T::word_lanes; ++l) {
#pragma HLS UNROLL
                used_waiver_.writes(word(address, l));
                used_[address][l] = false;
            }
        }
    }

   private:
    using Distance = InterRawDistance<Config::dependence_latency>;
    static constexpr int words = Config::accumulator_words * T::word_lanes;

    static int word(int address, int lane) {
#pragma HLS INLINE
        return address * T::word_lanes + lane;
    }

    // A sum is taken from memory only if its bit says that it is there.
    void reads(int address, int lane) const {
#pragma HLS INLINE
        used_waiver_.reads(word(address, lane));
        if (used_[address][lane]) {
            cell_waiver_.reads(word(address, lane));
        }
    }

    void check(int address, int64_t clock) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        simulation_check(address >= 0 && address < Config::accumulator_words, "an entry", "goes to the sums of word",
                         address);
        simulation_check(clock - last_use_[address] >= Config::dependence_latency, "the sums of a word",
                         "are used too early, in clock", clock);
        last_use_[address] = clock;
#else
        (void)address;
        (void)clock;
#endif
    }

    accumulator_t cell_[Config::accumulator_words][T::word_lanes] = {};
    bool used_[Config::accumulator_words][T::word_lanes] = {};
    Waiver<Distance, words> cell_waiver_, used_waiver_;
#ifdef BFPGA_SIMULATION
    int64_t last_use_[Config::accumulator_words] = {};
#endif
};

}  // namespace bfpga
