// Variant E: one value a step meets all weights of a kernel, kernel after kernel (SC R113-R116).
//
// Kernel rows x kernel columns banks: bank = (row mod kernel rows, column mod kernel columns). The products of one
// value with the weights of one kernel lie in a rectangle of that size, so they meet different banks (R115).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/sparse_cluster/units/window.hpp"

namespace bfpga {

// The weights of the kernels in flight as the lanes take them: steps of `lanes` weights of one kernel.
template <class Config>
class KernelSteps {
    using T = TileUnitTypes<Config>;

   public:
    static constexpr int largest = Config::kernels_in_flight * divided_up(T::kernel_cells, Config::lanes);

    KernelSteps() {
#pragma HLS ARRAY_PARTITION variable=value_ complete dim=2
#pragma HLS ARRAY_PARTITION variable=row_ complete dim=2
#pragma HLS ARRAY_PARTITION variable=column_ complete dim=2
    }

    void clear() {
#pragma HLS INLINE
        steps_ = 0;
        deepest_ = 1;
        weights_ = 0;
        kernels_ = 0;
    }

    // The next kernel: groups of its weights behind each other.
    void push(const IssuedWeights<Config>& weights) {
        simulation_check(kernels_ < Config::kernels_in_flight, "a group", "has too many kernels:", kernels_ + 1);
        int groups = 0;
    Groups_Push:
        for (int first = 0; first < weights.count(); first += Config::lanes) {
// II=1: a step a clock is written.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=divided_up(Config::kernel_rows* Config::kernel_columns, Config::lanes)
            kernel_[steps_] = kernels_;
            const int rest = weights.count() - first;
            used_[steps_] = rest < Config::lanes ? rest : Config::lanes;
        Lanes_Push:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const int number = l < rest ? first + l : 0;
                value_[steps_][l] = weights.value(number);
                row_[steps_][l] = weights.row_offset(number);
                column_[steps_][l] = weights.column_offset(number);
            }
            ++steps_;
            ++groups;
        }
        deepest_ = groups > deepest_ ? groups : deepest_;
        weights_ += weights.count();
        ++kernels_;
    }

    int steps() const { return steps_; }
    int weights() const { return weights_; }
    // Clocks of a value: a word is met again in the first step of its kernel, after the last one that may have met it.
    int slots() const {
#pragma HLS INLINE
        const int needed = Config::dependence_latency + deepest_ - 1;
        return steps_ == 0 || steps_ > needed ? steps_ : needed;
    }
    int kernel(int step) const { return kernel_[step]; }
    int used(int step) const { return used_[step]; }
    const typename T::weight_t (&values(int step) const)[Config::lanes] { return value_[step]; }
    int row_offset(int step, int lane) const { return static_cast<int>(row_[step][lane]); }
    int column_offset(int step, int lane) const { return static_cast<int>(column_[step][lane]); }

   private:
    typename T::weight_t value_[largest][Config::lanes] = {};
    typename T::place_t row_[largest][Config::lanes] = {};
    typename T::place_t column_[largest][Config::lanes] = {};
    int32_t kernel_[largest] = {};
    int32_t used_[largest] = {};
    int32_t steps_ = 0, deepest_ = 1, weights_ = 0, kernels_ = 0;
};

template <class Config>
class DataStationaryUnit {
    using T = TileUnitTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int rows = Config::kernel_rows;
    static constexpr int columns = Config::kernel_columns;
    static constexpr int words_across = divided_up(T::grid_columns, columns);
    static constexpr int plane = divided_up(T::grid_rows, rows) * words_across;
    static constexpr int memory_words = Config::kernels_in_flight * plane;

   public:
    DataStationaryUnit() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=Config::dependence_latency true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // All sums are zero (SC R77); where every sum is taken, they are again afterwards.
    void clear() {
        PipelinedLoop loop("Words_Clear");
    Words_Clear:
        for (int w = 0; w < Config::kernels_in_flight * plane; ++w) {
// II=1: a word of every bank a clock.
#pragma HLS PIPELINE II=1
            loop.iteration();
        Banks_Clear:
            for (int b = 0; b < rows * columns; ++b) {
#pragma HLS UNROLL
                cell_waiver_.writes(b * memory_words + w);
                cell_[b][w] = 0;
            }
        }
    }

    // The values of one channel in any order, each with all kernels in flight.
    template <class Source>
    void piece(const PieceWalk& walk, const KernelSteps<Config>& kernels, Source& source, TileUnitCounters& counters) {
        simulation_check(
            walk.rows <= Config::piece_rows && walk.columns <= Config::piece_columns, "a piece",
            "has more rows or columns than the build:", walk.rows > walk.columns ? walk.rows : walk.columns);
        const bool any = source.has();
        const int slots = kernels.slots();
        const int tiles = walk.rows > 0 && walk.columns > 0 ? 1 : 0;  // outputs of padding alone read no cell
        counters.tiles += tiles;
        counters.tiles_skipped += any ? 0 : tiles;
        counters.iterations += any ? kernels.weights() : 0;
        int slot = 0;
        PieceValue<Config> cell = {};
        PipelinedLoop loop("Steps");
    Steps:
        while (slot > 0 || source.has()) {
// II=1: a word is used again dependence_latency clocks later at the earliest (KernelSteps::slots), and the lanes of a
// step meet different banks.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=65536
            loop.iteration();
            if (slot == 0) {
                cell = source.front();
                source.pop();
                ++counters.loads;
            }
            if (slot < kernels.steps()) {
                step(cell, kernels, slot);
                ++counters.rounds;
                counters.issued += kernels.used(slot);
                counters.idle += Config::lanes - kernels.used(slot);
            } else {
                counters.waits += slots > 0 ? 1 : 0;
            }
            ++clock_;
            slot = slot + 1 < slots ? slot + 1 : 0;
        }
        clock_ += Config::dependence_latency;
    }

    // The sum of a cell of a kernel's full grid, which starts anew.
    accumulator_t take(int kernel, int row, int column) {
#pragma HLS INLINE
        const int bank = row % rows * columns + column % columns;
        const int word = kernel * plane + row / rows * words_across + column / columns;
        cell_waiver_.reads(bank * memory_words + word);
        cell_waiver_.writes(bank * memory_words + word);
        const accumulator_t value = cell_[bank][word];
        cell_[bank][word] = 0;
        return value;
    }

   private:
    // Bank and word of the value are known once; a lane is less than a kernel further, so it subtracts and never
    // divides.
    void step(const PieceValue<Config>& cell, const KernelSteps<Config>& kernels, int number) {
#pragma HLS INLINE
        typename T::product_t product[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::Multiplier::template multiply<Config::weight_bits, Config::input_bits, Config::lanes>(
            kernels.values(number), cell.value, product);
        const int row_phase = static_cast<int>(cell.row) % rows;
        const int column_phase = static_cast<int>(cell.column) % columns;
        const int word = kernels.kernel(number) * plane + static_cast<int>(cell.row) / rows * words_across +
                         static_cast<int>(cell.column) / columns;
    Banks_Add:
        for (int b = 0; b < rows * columns; ++b) {
#pragma HLS UNROLL
            typename T::product_t amount = 0;
            int at = word;
            bool hit = false;
        Lanes_Select:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const int row = row_phase + kernels.row_offset(number, l);
                const int column = column_phase + kernels.column_offset(number, l);
                const int of_lane =
                    (row < rows ? row : row - rows) * columns + (column < columns ? column : column - columns);
                if (l < kernels.used(number) && of_lane == b) {
                    simulation_check(!hit, "a step", "adds twice to bank", b);
                    amount = product[l];
                    at = word + (row < rows ? 0 : words_across) + (column < columns ? 0 : 1);
                    hit = true;
                }
            }
            if (hit) {
                check(b, at);
                cell_waiver_.reads(b * memory_words + at);
                cell_waiver_.writes(b * memory_words + at);
                cell_[b][at] = GridMemory<Config, 1, 1>::sum(cell_[b][at], amount);
            }
        }
    }

    void check(int bank, int word) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        simulation_check(clock_ - last_use_[bank][word] >= Config::dependence_latency, "the sum of a word",
                         "is used too early, in clock", clock_);
        last_use_[bank][word] = clock_;
#else
        (void)bank;
        (void)word;
#endif
    }

    accumulator_t cell_[rows * columns][memory_words] = {};
    Waiver<InterRawDistance<Config::dependence_latency>, rows * columns * memory_words> cell_waiver_;
    int64_t clock_ = Config::dependence_latency;
#ifdef BFPGA_SIMULATION
    int64_t last_use_[rows * columns][memory_words] = {};
#endif
};

}  // namespace bfpga
