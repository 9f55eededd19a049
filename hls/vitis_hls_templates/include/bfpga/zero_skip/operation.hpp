// A ZERO_SKIP operation: one tile of a convolution on the zero-skip engine (docs/engines.md, sections 4, 5 and 8).
//
// The core is that of zero_skip.hpp. Its cells come from the activation memory through the segment reader, its kernels
// from the weight stream, and its sums leave through the output stage of all engines.
#pragma once
#include "bfpga/memory/segment_reader.hpp"
#include "bfpga/output/engine_drain.hpp"
#include "bfpga/ports/weight_parts.hpp"
#include "bfpga/zero_skip/engine.hpp"
#include "bfpga/zero_skip/ports.hpp"

namespace bfpga {

// The numbers of the core, from those of the kernel.
template <class Kernel, class Storage>
struct ZeroSkipNumbers : ZeroSkipDefaults {
    static constexpr int tile_height = Kernel::zero_skip_tile_height;
    static constexpr int tile_width = Kernel::zero_skip_tile_width;
    static constexpr int lanes = Kernel::zero_skip_lanes;
    static constexpr int rows_parallel = Kernel::zero_skip_rows_parallel;
    static constexpr int kernels_in_flight = Kernel::zero_skip_kernels_in_flight;
    static constexpr int kernel_height = Kernel::zero_skip_kernel_height;
    static constexpr int kernel_width = Kernel::zero_skip_kernel_width;
    static constexpr int stride = Kernel::zero_skip_stride;
    static constexpr int operand_bits = Kernel::mantissa_bits;
    static constexpr int coefficient_bits = Kernel::mantissa_bits;
    static constexpr int accumulator_bits = Kernel::accumulator_bits;
    static constexpr int accumulator_words = kernels_in_flight * Kernel::zero_skip_plane_words;
    static constexpr int beat_cells = Kernel::zero_skip_load_pixels;
    static constexpr int row_banks = Kernel::zero_skip_row_banks;
    static constexpr int dependence_latency = Kernel::dependence_latency;
    using Multiplier = typename Kernel::ZeroSkipMultiplier;
    using Shifter = typename Storage::RowShifter;
};

// One channel of the segments that the reader walks over, as beats of cells.
template <class Config, class Engine, class Activations>
class ChannelCells {
   public:
    using Reader = SegmentReader<Config, Engine::beat_cells>;

    ChannelCells(Reader& reader, const Activations& activations) : reader_(reader), activations_(activations) {}

    // The walk over an input channel begins.
    void begin(int32_t image) {
#pragma HLS INLINE
        // Without a sign: lanes are a power of two in most builds, then these are bits of the number.
        const uint32_t number = static_cast<uint32_t>(image);
        lane_ = static_cast<int32_t>(number % Config::lanes);
        reader_.begin(static_cast<int32_t>(number / Config::lanes));
    }

    CellBeat<Engine> read() {
#pragma HLS INLINE
        Word<Config> word[Engine::beat_cells];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
        reader_.read(activations_, word);
        reader_.next();
        CellBeat<Engine> beat;
    Cells_Select:
        for (int i = 0; i < Engine::beat_cells; ++i) {
#pragma HLS UNROLL
            beat.cell[i] = 0;
        Lanes_Select:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                if (lane_ == l) {
                    beat.cell[i] = word[i].lane[l];
                }
            }
        }
        return beat;
    }

   private:
    Reader& reader_;
    const Activations& activations_;
    int32_t lane_ = 0;
};

template <class Config, class Storage>
class ZeroSkipOperation {
    using Numbers = ZeroSkipNumbers<Config, Storage>;
    using Engine = ZeroSkipEngine<Numbers>;
    using Activations = ActivationMemory<Config, typename Storage::Ports>;
    using Cells = ChannelCells<Config, Numbers, Activations>;
    static_assert(Engine::image_depth == Config::engine_depth, "the clocks between two loops are those of all engines");

   public:
    // One descriptor; returns the clocks its loops took.
    template <class WeightSource, class Counters>
    uint32_t run(const Descriptor& d, const LayerExponents& exponents, KernelMemories<Config, Storage>& memories,
                 PolicySlot<Config>& policy, WeightSource& weight_stream, Counters& counters) {
        start(d, exponents);
        ZeroSkipPorts<Numbers, Config::columns> ports(engine_, window_);
        uint32_t clocks = place_ports<Config, Numbers::beat_cells>(reader_, drain_);
    Groups:
        for (int32_t group = 0; group < d.blocks; ++group) {
// Not pipelined: the kernels of a group leave before those of the next one are applied.
#pragma HLS LOOP_TRIPCOUNT min=1 max=64
            layer_.kernels = drain_.kernels();
            engine_.start(layer_);
            clocks += images(memories.activations, weight_stream);
            clocks += drain_.group(ports, memories, policy);
        }
        drain_.finish(policy, counters);
        return clocks;
    }

    // The sums of an operation that was given up are forgotten.
    void clear() { engine_.clear(); }

   private:
    void start(const Descriptor& d, const LayerExponents& exponents) {
#pragma HLS INLINE
        simulation_check(d.group_rows <= Numbers::tile_height && d.output_width <= Numbers::tile_width, "a tile",
                         "is larger than those of the zero-skip engine, in outputs:", d.output_pixels);
        reader_.start(d);
        drain_.start(d, exponents);
        layer_.kernel_height = d.kernel_height;
        layer_.kernel_width = d.kernel_width;
        layer_.stride_y = d.stride_y;
        layer_.stride_x = d.stride_x;
        layer_.order = static_cast<EntryOrder>(d.entry_order);
        layer_.skip_zero = true;
        window_.fill_top = d.pad_top;
        window_.fill_left = d.pad_left;
        window_.rows = d.input_height;
        window_.columns = d.input_width;
        window_.pitch = static_cast<int32_t>(Cells::Reader::segments(d.input_width)) * Numbers::beat_cells;
        window_.tile_height = d.group_rows;
        window_.tile_width = d.output_width;
    }

    // All images of a group: one is applied while the next one is loaded and decoded. Returns the clocks.
    template <class WeightSource>
    uint32_t images(const Activations& activations, WeightSource& weight_stream) {
        PartWords<Config::weight_stream_bits, WeightSource> words(weight_stream);
        Cells cells(reader_, activations);
        ZeroSkipCounters counted = {};
        PartHeader header = PartHeader::decode<Config::weight_stream_bits>(weight_stream.read());
        uint32_t clocks = 1;
        bool running = !header.empty;
        bool comes = running;  // an image comes in
    Images:
        while (running) {
// Not pipelined: an image is a loop of its own.
#pragma HLS LOOP_TRIPCOUNT min=2 max=513
            if (comes) {
                cells.begin(header.index);
            }
            const ZeroSkipImage next = {window_, header.count, comes};
            engine_.image(0, next, cells, words, counted);
            words.finish();
            clocks += Engine::image_depth;
            running = comes;
            comes = comes && !header.last;
            if (comes) {
                header = PartHeader::decode<Config::weight_stream_bits>(weight_stream.read());
                ++clocks;
            }
        }
        return clocks + static_cast<uint32_t>(counted.loop_cycles);
    }

    Engine engine_;
    SegmentReader<Config, Numbers::beat_cells> reader_;
    EngineDrain<Config, 1, Config::columns, Numbers::kernels_in_flight> drain_;
    ZeroSkipLayer layer_ = {};
    TileWindow window_ = {};
};

}  // namespace bfpga
