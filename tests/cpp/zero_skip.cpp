// The zero-skip engine behind a C interface: whole layers, tile commands, packed products.
#include "bfpga/zero_skip/engine.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

using namespace bfpga;

namespace {

// Small builds that differ in what the code is made for; layers, orders and tiles are run-time numbers.
template <int Lanes, int RowsParallel, int Banks, int Latency, class M, class S>
struct Small : ZeroSkipDefaults {
    static constexpr int tile_height = 8;
    static constexpr int tile_width = 8;
    static constexpr int lanes = Lanes;
    static constexpr int rows_parallel = RowsParallel;
    static constexpr int kernels_in_flight = 7;
    static constexpr int kernel_height = 6;
    static constexpr int kernel_width = 5;
    static constexpr int stride = 3;
    static constexpr int accumulator_words = 8192;
    static constexpr int row_banks = Banks;
    static constexpr int dependence_latency = Latency;
    using Multiplier = M;
    using Shifter = S;
};

struct Wide : Small<4, 1, 2, 4, LaneDsp, StagedColumns> {
    static constexpr int operand_bits = 16;
    static constexpr int coefficient_bits = 16;
    static constexpr int accumulator_bits = 40;
    static constexpr int beat_cells = 4;
    static constexpr int entry_depth = 2;
};
struct Narrow : Small<4, 1, 2, 4, LaneDspPacked, DirectColumns> {
    static constexpr int accumulator_bits = 16;
};
struct Default : ZeroSkipDefaults {};
struct Large : ZeroSkipDefaults {
    static constexpr int kernel_height = 16;
    static constexpr int kernel_width = 16;
    using Shifter = DirectColumns;
};

template <class... Builds>
struct List {};
#ifdef BFPGA_NATIVE_INTEGERS
using All = List<Small<2, 1, 8, 4, LaneDspPacked, DirectColumns>, Small<3, 1, 8, 4, LaneDspPacked, StagedColumns>,
                 Small<4, 1, 8, 4, LaneDspPacked, DirectColumns>, Small<5, 1, 8, 4, LaneDsp, StagedColumns>,
                 Small<6, 1, 8, 4, LaneLut, DirectColumns>, Small<8, 2, 8, 8, LaneDspPacked, StagedColumns>,
                 Small<3, 4, 16, 1, LaneLut, StagedColumns>, Small<1, 1, 1, 6, LaneDspPacked, DirectColumns>, Wide,
                 Narrow, Default, Large>;
#else
// ap_int adds the widths, the multipliers and the shifters; its compilation takes many times as long.
using All = List<Small<4, 1, 8, 4, LaneDspPacked, DirectColumns>, Small<8, 2, 8, 8, LaneDspPacked, StagedColumns>,
                 Small<3, 4, 16, 1, LaneLut, StagedColumns>, Wide, Narrow>;
#endif

template <class Action, class Build>
void visit(int& number, const Action& action, const Build*) {
    if (number-- == 0) {
        action.template apply<Build>();
    }
}

template <class Action, class... Builds>
void visit(int& number, const Action& action, const List<Builds...>*) {
    const int expand[] = {(visit(number, action, static_cast<const Builds*>(nullptr)), 0)...};
    static_cast<void>(expand);
}

// A layer; field by field the array of int32 of the caller.
struct Layer {
    int32_t images, kernels, kernel_height, kernel_width, height, width, pad_top, pad_left, stride_y, stride_x;
    int32_t output_height, output_width, tile_height, tile_width, flight, order, skip_zero, image_outer, word_cells;
    int32_t segments;  // of one group and image
};

struct Data {
    const int32_t* image;   // (image, row, column)
    const uint32_t* words;  // kernel segments
    const int64_t* start;   // first word of each group and image, and one behind the last
    const int64_t* preset;  // of each kernel
    int64_t* sums;          // (kernel, row, column)
    int64_t* counters;
};

template <class Config>
struct Cells {
    std::vector<int32_t> cell;
    std::size_t next;

    CellBeat<Config> read() {
        simulation_check(next < cell.size(), "the image stream", "is empty after cells:", static_cast<long long>(next));
        CellBeat<Config> beat;
        for (auto& each : beat.cell) {
            each = next < cell.size() ? cell[next] : 0;
            ++next;
        }
        return beat;
    }
};

struct Words {
    const uint32_t* next;
    const uint32_t* end;

    uint32_t read() {
        simulation_check(next != end, "the kernel stream", "is empty, words missing:", 1);
        return *next++;
    }
};

template <class Config>
struct Sink {
    std::vector<SumWord<Config>> words;
    void write(const SumWord<Config>& word) { words.push_back(word); }
};

// What the counters of a layer hold after those of `ZeroSkipCounters`.
enum Extra { Tiles = 9, Loads, LoadWords, Total, OutWords, CounterCount };

template <class Config>
class LayerRun {
   public:
    LayerRun(const Layer& layer, const Data& data)
        : layer_(layer), data_(data), engine_(new ZeroSkipEngine<Config>()), counters_() {}

    void run() {
        for (int first = 0; first < layer_.kernels; first += layer_.flight) {
            group(first);
        }
        const int64_t counted[] = {counters_.coef_entries,   counters_.mac_rows,      counters_.macs,
                                   counters_.compute_cycles, counters_.load_cycles,   counters_.decode_cycles,
                                   counters_.hazard_stalls,  counters_.shift_changes, counters_.loop_cycles};
        std::copy(std::begin(counted), std::end(counted), data_.counters);
    }

   private:
    struct Visit {
        int row, column, image, base;
    };

    std::vector<Visit> visits(int kernels) const {
        std::vector<Visit> result;
        const int plane = kernels * ZeroSkipTypes<Config>::plane_words;
        const int outer = layer_.image_outer ? layer_.images : 1;
        const int inner = layer_.image_outer ? 1 : layer_.images;
        for (int i = 0; i < outer; ++i) {
            int base = 0;
            for (int row = 0; row < layer_.output_height; row += layer_.tile_height) {
                for (int column = 0; column < layer_.output_width; column += layer_.tile_width) {
                    for (int k = 0; k < inner; ++k) {
                        result.push_back({row, column, i + k, base});
                    }
                    base += layer_.image_outer ? plane : 0;
                }
            }
        }
        return result;
    }

    TileWindow window(const Visit& visit, Cells<Config>& cells) const {
        TileWindow result;
        result.tile_height = std::min(layer_.tile_height, layer_.output_height - visit.row);
        result.tile_width = std::min(layer_.tile_width, layer_.output_width - visit.column);
        const int top = visit.row * layer_.stride_y - layer_.pad_top;
        const int left = visit.column * layer_.stride_x - layer_.pad_left;
        const int bottom = top + (result.tile_height - 1) * layer_.stride_y + layer_.kernel_height;
        const int right = left + (result.tile_width - 1) * layer_.stride_x + layer_.kernel_width;
        const int y0 = std::max(top, 0), y1 = std::max(y0, std::min(bottom, layer_.height));
        const int x0 = std::max(left, 0), x1 = std::max(x0, std::min(right, layer_.width));
        result.rows = y1 - y0;
        result.columns = x1 - x0;
        result.fill_top = std::min(y0 - top, bottom - top - result.rows);
        result.fill_left = std::min(x0 - left, right - left - result.columns);
        result.pitch = (result.columns + layer_.word_cells - 1) / layer_.word_cells * layer_.word_cells;
        cells.cell.clear();
        cells.next = 0;
        for (int y = y0; y < y1; ++y) {
            for (int x = x0; x < x0 + result.pitch; ++x) {
                const int64_t at = (static_cast<int64_t>(visit.image) * layer_.height + y) * layer_.width + x;
                cells.cell.push_back(x < x1 ? data_.image[at] : 0);
            }
        }
        return result;
    }

    void group(int first) {
        const int kernels = std::min(layer_.flight, layer_.kernels - first);
        const int number = first / layer_.flight;
        engine_->start({kernels, layer_.kernel_height, layer_.kernel_width, layer_.stride_y, layer_.stride_x,
                        static_cast<ZeroSkipOrder>(layer_.order), layer_.skip_zero != 0});
        for (int z = 0; z < kernels; ++z) {
            engine_->preset(z, static_cast<typename ZeroSkipTypes<Config>::accumulator_t>(data_.preset[first + z]));
        }
        const std::vector<Visit> order = visits(kernels);
        int64_t load = 0;
        TileWindow tile = {};
        for (std::size_t n = 0; n <= order.size(); ++n) {
            Cells<Config> cells;
            Words words = {nullptr, nullptr};
            ZeroSkipImage next = {};
            if (n < order.size()) {
                const int64_t* start = data_.start + number * layer_.images + order[n].image;
                words = {data_.words + start[0], data_.words + start[1]};
                next = {window(order[n], cells), layer_.segments, true};
                data_.counters[Loads] += 1;
                data_.counters[LoadWords] += next.window.rows * next.window.columns;
            }
            const ZeroSkipCounters before = counters_;
            engine_->image(n == 0 ? 0 : order[n - 1].base, next, cells, words, counters_);
            simulation_check(words.next == words.end, "the decoder", "left words:", words.end - words.next);
            if (n > 0) {
                data_.counters[Total] += std::max(load, counters_.compute_cycles - before.compute_cycles);
                finish(order[n - 1], tile, first, kernels);
            }
            load = counters_.load_cycles - before.load_cycles;
            tile = next.window;
        }
    }

    // The sums of a tile whose last image was computed.
    void finish(const Visit& visit, const TileWindow& tile, int first, int kernels) {
        if (visit.image != layer_.images - 1) {
            return;
        }
        Sink<Config> sink;
        engine_->read_out(visit.base, tile, sink);
        data_.counters[Tiles] += 1;
        data_.counters[OutWords] += static_cast<int64_t>(sink.words.size());
        std::size_t word = 0;
        for (int z = 0; z < kernels; ++z) {
            for (int y = 0; y < tile.tile_height; y += Config::rows_parallel) {
                for (int x = 0; x < tile.tile_width; x += Config::lanes) {
                    store(sink.words[word++], visit, tile, first + z, y, x);
                }
            }
        }
    }

    void store(const SumWord<Config>& word, const Visit& visit, const TileWindow& tile, int kernel, int y, int x) {
        for (int r = 0; r < Config::rows_parallel && y + r < tile.tile_height; ++r) {
            for (int l = 0; l < Config::lanes && x + l < tile.tile_width; ++l) {
                const int64_t row = static_cast<int64_t>(kernel) * layer_.output_height + visit.row + y + r;
                data_.sums[row * layer_.output_width + visit.column + x + l] =
                    static_cast<int64_t>(word.lane[r * Config::lanes + l]);
            }
        }
    }

    Layer layer_;
    Data data_;
    std::unique_ptr<ZeroSkipEngine<Config>> engine_;
    ZeroSkipCounters counters_;
};

struct RunLayer {
    const Layer& layer;
    const Data& data;
    template <class Config>
    void apply() const {
        LayerRun<Config>(layer, data).run();
    }
};

struct Describe {
    int32_t* values;
    template <class Config>
    void apply() const {
        const int32_t numbers[] = {Config::tile_height,
                                   Config::tile_width,
                                   Config::lanes,
                                   Config::rows_parallel,
                                   Config::kernels_in_flight,
                                   Config::kernel_height,
                                   Config::kernel_width,
                                   Config::stride,
                                   Config::operand_bits,
                                   Config::coefficient_bits,
                                   Config::accumulator_bits,
                                   Config::dependence_latency,
                                   Config::beat_cells,
                                   Config::row_banks,
                                   Config::accumulator_words,
                                   ZeroSkipTypes<Config>::plane_words};
        std::copy(std::begin(numbers), std::end(numbers), values);
    }
};

}  // namespace

extern "C" {

// Numbers of a build; 1 if there is no such build.
int unit_zero_skip_build(int number, int32_t* values) {
    visit(number, Describe{values}, static_cast<const All*>(nullptr));
    return number < 0 ? 0 : 1;
}

// A layer on a build. Returns 0, or 1 with a sentence in `text` (200 characters).
int unit_zero_skip_layer(int number, const int32_t* fields, const int32_t* image, const uint32_t* words,
                         const int64_t* start, const int64_t* preset, int64_t* sums, int64_t* counters, char* text) {
    Layer layer;
    std::memcpy(&layer, fields, sizeof layer);
    const Data data = {image, words, start, preset, sums, counters};
    std::fill(counters, counters + CounterCount, 0);
    try {
        visit(number, RunLayer{layer, data}, static_cast<const All*>(nullptr));
    } catch (const std::exception& error) {
        std::strncpy(text, error.what(), 199);
        return 1;
    }
    return 0;
}

// A tile command and its rows as words -> its fields, and the cells of the buffer as (buffer_rows, buffer_columns) of
// build 2; returns the clocks of the load.
int unit_zero_skip_tile(const uint32_t* words, int count, int32_t* fields, int32_t* cells) {
    using Config = Small<4, 1, 8, 4, LaneDspPacked, DirectColumns>;
    const uint32_t header[4] = {words[0], words[1], words[2], words[3]};
    const TileCommand command = TileCommand::decode(header, 4);
    const TileWindow& window = command.window;
    const int32_t found[] = {command.first_image, command.last_image, command.last_tile,  command.image,
                             command.row0,        command.column0,    window.rows,        window.columns,
                             window.fill_top,     window.fill_left,   window.tile_height, window.tile_width};
    std::copy(std::begin(found), std::end(found), fields);
    Cells<Config> source = {{}, 0};
    for (int n = 4; n < count; ++n) {
        for (int byte = 0; byte < 4; ++byte) {
            source.cell.push_back(static_cast<int8_t>(words[n] >> (8 * byte)));
        }
    }
    TileBuffer<Config> buffer;
    TileLoader<Config> loader;
    loader.start(1, window, buffer);
    int clocks = 0;
    while (loader.busy()) {
        loader.step(buffer, source);
        ++clocks;
    }
    for (int i = 0; i < ZeroSkipTypes<Config>::buffer_rows; ++i) {
        BufferRow<Config> row[1];
        buffer.read(1, i, 1, row);
        for (int j = 0; j < ZeroSkipTypes<Config>::buffer_columns; ++j) {
            cells[i * ZeroSkipTypes<Config>::buffer_columns + j] = static_cast<int32_t>(row[0].cell[j]);
        }
    }
    return clocks;
}

// All pairs of pixels times coefficients in [from, to): how many products of a shared slice are wrong, and how many
// operands leave 25 bits.
int unit_zero_skip_pairs(int from, int to) {
    int wrong = 0;
    for (int high = -128; high < 128; ++high) {
        for (int low = -128; low < 128; ++low) {
            const int_t<25> operand = PixelPair::operand(static_cast<int_t<8>>(high), static_cast<int_t<8>>(low));
            wrong += static_cast<int64_t>(operand) == high * 65536 + low ? 0 : 1;
            for (int c = from; c < to; ++c) {
                const auto product = PixelPair::multiply(operand, static_cast<int_t<8>>(c));
                const bool right = PixelPair::low(product) == low * c && PixelPair::high(product) == high * c;
                wrong += right ? 0 : 1;
            }
        }
    }
    return wrong;
}

// A row of 40 cells shifted by every amount, both ways: how many cells differ.
int unit_zero_skip_shifts() {
    int wrong = 0;
    for (int amount = 0; amount < 40; ++amount) {
        int_t<8> staged[40], direct[40];
        for (int j = 0; j < 40; ++j) {
            staged[j] = direct[j] = static_cast<int_t<8>>(j + 1);
        }
        StagedColumns::left(staged, amount);
        DirectColumns::left(direct, amount);
        for (int j = 0; j < 40; ++j) {
            const int wanted = j + amount < 40 ? j + amount + 1 : 0;
            wrong += staged[j] == wanted && direct[j] == wanted ? 0 : 1;
        }
    }
    return wrong;
}
}
