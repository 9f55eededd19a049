// The zero-coefficient-skip convolution engine: entries of one image on its tile, while the next one comes in.
//
// One loop holds three processes that do not wait for each other: the lanes apply the entries of an image to set n of
// the tile buffer, the loader fills the other set, the decoder reads the kernels of the next image. The loop ends when
// all three have finished, so an image costs the longest of them (ZS R34, Z9). Sums stay where they are until the last
// image of a tile, then `read_out` gives them away (ZS R37, R24).
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/zero_skip/entries.hpp"
#include "bfpga/zero_skip/lanes.hpp"
#include "bfpga/zero_skip/tile.hpp"

namespace bfpga {

// What an image brings in: its tile, and the segments of its kernels.
struct ZeroSkipImage {
    TileWindow window;
    int32_t segments;
    bool exists;
};

template <class Config>
class ZeroSkipEngine {
    using T = ZeroSkipTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    using coordinate_t = typename T::coordinate_t;

   public:
    // Clocks between the last use of a sum in one loop and the first one in the next: the pipeline empties.
    static constexpr int image_depth = 8;

    ZeroSkipEngine() {
#pragma HLS BIND_STORAGE variable=preset_ type=ram_s2p impl=lutram
#pragma HLS ARRAY_PARTITION variable=wait_ complete dim=0
    }

    // The kernels of a group begin.
    void start(const ZeroSkipLayer& layer) {
#pragma HLS INLINE
        simulation_check(layer.kernels <= Config::kernels_in_flight, "a group", "has too many kernels:", layer.kernels);
        simulation_check(layer.kernel_height <= Config::kernel_height && layer.kernel_width <= Config::kernel_width,
                         "a layer", "has larger kernels than the build:", layer.kernel_height);
        simulation_check(layer.stride_y <= Config::stride && layer.stride_x <= Config::stride, "a layer",
                         "has a larger stride than the build:", layer.stride_y);
        layer_ = layer;
    }

    // What the sums of a kernel start from (ZS R14).
    void preset(int kernel, accumulator_t value) {
#pragma HLS INLINE
        preset_[kernel] = value;
    }

    // Computes the image that is in place, on the sums from word `base` on, while `next` comes in; at the very
    // beginning nothing is in place. `cells` gives beats, `words` the words of kernel segments.
    template <class Cells, class Words>
    void image(int32_t base, const ZeroSkipImage& next, Cells& cells, Words& words, ZeroSkipCounters& counters) {
        begin(base);
        if (next.exists) {
            loader_.start(1 - set_, next.window, buffer_);
            decoder_.start(1 - set_, next.segments, layer_);
        }
        bool running = !queue_.empty() || loader_.busy() || decoder_.busy();
        PipelinedLoop loop("Image");
    Image:
        while (running) {  // lint: allow(memory-order) known: it costs clocks, no value
// II=1: a word of sums is read and written once a clock, and used again dependence_latency clocks later at the earliest
// (the wait below; rows of an entry have different words). The loader and the decoder write the set that is not read.
// An entry is taken from registers, and the key tree of the walk has a clock of its own because entries queue.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=65536
            loop.iteration();
            counters.load_cycles += loader_.busy() ? 1 : 0;
            counters.decode_cycles += decoder_.busy() ? 1 : 0;
            compute(counters);
            loader_.step(buffer_, cells);
            decoder_.step(memory_, words);
            if (!queue_.full() && !walk_.finished()) {
                queue_.push(walk_.next(memory_));
            }
            running = !queue_.empty() || loader_.busy() || decoder_.busy();
            ++counters.loop_cycles;
            ++clock_;
        }
        clock_ += image_depth;
        set_ = 1 - set_;
        tile_ = next.window;
        in_place_ = next.exists;
    }

    // The sums of a tile of this size, kernel by kernel, row group by row group; they start anew.
    template <class Sink>
    void read_out(int32_t base, const TileWindow& tile, Sink& sink) {
        const int32_t words = steps_of(tile);
        int32_t plane = base;
    Kernels_Out:
        for (int z = 0; z < layer_.kernels; ++z) {
// The loop inside is the pipelined one: a plane of sums is read without a gap.
#pragma HLS LOOP_TRIPCOUNT min=1 max=Config::kernels_in_flight
            PipelinedLoop loop("Words_Out");
        Words_Out:
            for (int n = 0; n < words; ++n) {
// II=1: every word is read once, and nothing is added meanwhile.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=32
                loop.iteration();
                sink.write(take(plane + n, z));
            }
            plane += T::plane_words;
        }
    }

    // One word of sums of a kernel; a word is taken once for each tile.
    SumWord<Config> take(int32_t address, int kernel) {
#pragma HLS INLINE
        return sums_.take(address, preset_[kernel]);
    }

    // The sum of one lane of a word; lanes may take from different words in one clock.
    accumulator_t take_lane(int32_t address, int kernel, int lane) {
#pragma HLS INLINE
        return sums_.take_lane(address, preset_[kernel], lane);
    }

    // What an image or a tile that was given up has left is forgotten.
    void clear() {
        queue_.clear();
        walk_.clear();
        loader_.stop();
        decoder_.stop();
        in_place_ = false;
        sums_.clear();
    }

    // Clocks of one coefficient on a tile (ZS Z6).
    static int32_t steps_of(const TileWindow& tile) {
#pragma HLS INLINE
        int32_t groups = 0;
    Groups_Count:
        for (int y = 0; y < Config::tile_height; y += Config::rows_parallel) {
#pragma HLS UNROLL
            groups += y < tile.tile_height ? 1 : 0;
        }
        int32_t steps = 0;
    Chunks_Count:
        for (int x = 0; x < Config::tile_width; x += Config::lanes) {
#pragma HLS UNROLL
            steps += x < tile.tile_width ? groups : static_cast<int32_t>(0);
        }
        return steps;
    }

   private:
    void begin(int32_t base) {
#pragma HLS INLINE
        base_ = base;
        steps_ = steps_of(tile_);
        shift_y_ = -1;
        shift_x_ = -1;
        row_step_ = layer_.stride_y * Config::rows_parallel;
        chunk_shift_ = layer_.stride_x * Config::lanes;
    Kernels_Ready:
        for (int z = 0; z < Config::kernels_in_flight; ++z) {
#pragma HLS UNROLL
            wait_[z] = 0;
        }
        first_step();
        if (in_place_) {
#ifdef BFPGA_SIMULATION
            const NoLoop between;
#endif
            walk_.start(set_, decoder_.masks(), layer_);
            if (!walk_.finished()) {
                queue_.push(walk_.next(memory_));
            }
        }
    }

    void first_step() {
#pragma HLS INLINE
        step_ = 0;
        y_ = 0;
        row_ = 0;
        x_ = 0;
        shift_ = 0;
    }

    // One clock of the lanes: a row group of the shifted tile, or a clock of waiting for the sums of the entry's
    // kernel.
    void compute(ZeroSkipCounters& counters) {
#pragma HLS INLINE
        const bool present = !queue_.empty();
        const KernelEntry<Config> entry = queue_.front();
        const int z = present ? static_cast<int>(entry.kernel) : 0;
        const bool starts = step_ == 0;
        const bool waits = present && starts && wait_[z] != 0;
        counters.compute_cycles += present ? 1 : 0;
        counters.hazard_stalls += waits ? 1 : 0;
        if (present && !waits && starts) {
            wait_[z] = Config::dependence_latency;
            count_entry(entry, counters);
        }
        if (present && !waits) {
            multiply(entry, z, counters);
            next_step();
        }
    Kernels_Wait:
        for (int k = 0; k < Config::kernels_in_flight; ++k) {
#pragma HLS UNROLL
            wait_[k] = static_cast<uint_t<4>>(wait_[k] - (wait_[k] != 0 ? 1 : 0));
        }
    }

    void count_entry(const KernelEntry<Config>& entry, ZeroSkipCounters& counters) {
#pragma HLS INLINE
        const int ky = static_cast<int>(entry.ky);
        const int kx = static_cast<int>(entry.kx);
        counters.shift_changes += ky != shift_y_ || kx != shift_x_ ? 1 : 0;
        ++counters.coef_entries;
        shift_y_ = ky;
        shift_x_ = kx;
    }

    // Start row ky, column shift kx, one coefficient for all lanes, sums in place (ZS R20).
    void multiply(const KernelEntry<Config>& entry, int z, ZeroSkipCounters& counters) {
#pragma HLS INLINE
        BufferRow<Config> row[Config::rows_parallel];
#pragma HLS ARRAY_PARTITION variable=row complete dim=0
        const coordinate_t start = row_ + static_cast<int>(entry.ky);
        buffer_.read(set_, start, static_cast<coordinate_t>(layer_.stride_y), row);
        typename T::product_t product[T::word_lanes];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        bool inside[T::word_lanes];
#pragma HLS ARRAY_PARTITION variable=inside complete dim=0
        const int amount = static_cast<int>(shift_) + static_cast<int>(entry.kx);
    Rows_Multiply:
        for (int r = 0; r < Config::rows_parallel; ++r) {
#pragma HLS UNROLL
            Config::Shifter::left(row[r].cell, amount);
            typename T::operand_t pixel[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=pixel complete dim=0
            pick(row[r], pixel);
            typename T::product_t of_row[Config::lanes];
#pragma HLS ARRAY_PARTITION variable=of_row complete dim=0
            Config::Multiplier::template multiply<Config::operand_bits, Config::coefficient_bits, Config::lanes>(
                pixel, entry.coefficient, of_row);
            const bool exists = y_ + r < tile_.tile_height;
            counters.mac_rows += exists && x_ == 0 ? 1 : 0;
        Lanes_Collect:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                product[r * Config::lanes + l] = of_row[l];
                inside[r * Config::lanes + l] = exists && x_ + l < tile_.tile_width;
                counters.macs += inside[r * Config::lanes + l] ? 1 : 0;
            }
        }
        sums_.add(base_ + z * T::plane_words + step_, preset_[z], product, inside, clock_);
    }

    // Every cell, every second one, ...: the stride (ZS R10). Lanes beyond the row see zeros.
    void pick(const BufferRow<Config>& row, typename T::operand_t (&pixel)[Config::lanes]) const {
#pragma HLS INLINE
    Lanes_Pick:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            pixel[l] = 0;
        Strides_Pick:
            for (int s = 1; s <= Config::stride; ++s) {
#pragma HLS UNROLL
                const bool inside = l * s < T::buffer_columns;
                if (inside && layer_.stride_x == s) {
                    pixel[l] = row.cell[inside ? l * s : 0];
                }
            }
        }
    }

    // Chunks of a row group, then the next row group, then the next entry.
    void next_step() {
#pragma HLS INLINE
        ++step_;
        x_ += Config::lanes;
        shift_ += chunk_shift_;
        if (x_ >= tile_.tile_width) {
            x_ = 0;
            shift_ = 0;
            y_ += Config::rows_parallel;
            row_ += row_step_;
        }
        if (step_ == steps_) {
            queue_.pop();
            first_step();
        }
    }

    TileBuffer<Config> buffer_;
    TileLoader<Config> loader_;
    CoefficientMemory<Config> memory_;
    KernelDecoder<Config> decoder_;
    EntryWalk<Config> walk_;
    EntryQueue<Config> queue_;
    SumMemory<Config> sums_;
    accumulator_t preset_[Config::kernels_in_flight] = {};
    uint_t<4> wait_[Config::kernels_in_flight] = {};  // clocks until the sums of a kernel may be used
    ZeroSkipLayer layer_ = {};
    TileWindow tile_ = {};  // of the image in place
    int64_t clock_ = image_depth;
    int32_t set_ = 0, base_ = 0, steps_ = 0, step_ = 0, shift_y_ = -1, shift_x_ = -1;
    coordinate_t y_ = 0, x_ = 0;  // first row and column of the step in the tile
    coordinate_t row_ = 0, shift_ = 0, row_step_ = 0, chunk_shift_ = 0;
    bool in_place_ = false;
};

}  // namespace bfpga
