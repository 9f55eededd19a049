// segment_reader.hpp and engine_drain.hpp: walks over a memory, and sums that leave through the output stage.
#include "bfpga/output/engine_drain.hpp"

#include <cstring>
#include <exception>
#include <memory>

#include "bfpga/kernel/storage.hpp"
#include "bfpga/memory/segment_reader.hpp"
#include "unit_config.hpp"

using namespace bfpga;

namespace {

// A build: block of ports, kernels in flight, pixels of a segment.
template <int Lanes, int Columns, int Banks, int Rows, int Width, int Flight, int Pixels, class S>
struct Build : UnitConfig<8, Rounding::Rne, Saturation::Sym, LogMode::Floor, 32, 18> {
    static constexpr int lanes = Lanes;
    static constexpr int columns = Columns;
    static constexpr int rows = Lanes;
    static constexpr int banks = Banks;
    static constexpr int words_per_block = 1;
    static constexpr int stream_bits = 64;
    static constexpr int container_bits = 8;
    static constexpr int words_per_beat = stream_bits / (Lanes * container_bits);
    static constexpr int transfer_pixels = 1;
    static constexpr int weight_stream_bits = 64;
    static constexpr int weight_container_bits = 8;
    static constexpr int weight_bits = 8;
    static constexpr int beats_per_weight_word = 1 + Lanes * Lanes / 8;
    static constexpr int accumulator_rows = Lanes;
    static constexpr int activation_words = 128;
    static constexpr int weight_words = 1;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 64;
    static constexpr int shift_columns = 0;
    // Of the test
    static constexpr int block_rows = Rows;
    static constexpr int block_columns = Width;
    static constexpr int flight = Flight;
    static constexpr int pixels = Pixels;
    using Storage = S;
    using Activations = ActivationMemory<Build, typename Storage::Ports>;
};

template <class... Builds>
struct List {};
using All = List<Build<2, 3, 5, 1, 3, 4, 4, SimulationStorage>, Build<4, 9, 11, 3, 3, 8, 8, VitisStorage>,
                 Build<1, 5, 5, 2, 2, 3, 1, SimulationStorage>, Build<2, 4, 5, 2, 2, 2, 2, VitisStorage>>;

template <class Action, class Config>
void visit(int& number, const Action& action, const Config*) {
    if (number-- == 0) {
        action.template apply<Config>();
    }
}

template <class Action, class... Builds>
void visit(int& number, const Action& action, const List<Builds...>*) {
    const int expand[] = {(visit(number, action, static_cast<const Builds*>(nullptr)), 0)...};
    static_cast<void>(expand);
}

Descriptor decode(const int32_t* words) {
    int32_t copy[Descriptor::words];
    std::memcpy(copy, words, sizeof copy);
    return decode_descriptor(copy);
}

// Moves a memory [bank][word][lane] of the caller in or out, word by word through port 0.
template <class Config, class Activations>
void fill(Activations& activations, const int32_t* memory) {
    for (int bank = 0; bank < Config::banks; ++bank) {
        for (int address = 0; address < Config::activation_words; ++address) {
            Request<Config> request[1] = {{true, Address<Config>::of(address, bank)}};
            Word<Config> word[1];
            for (int l = 0; l < Config::lanes; ++l) {
                word[0].lane[l] = static_cast<int_t<8>>(*memory++);
            }
            activations.write(request, word);
        }
    }
}

template <class Config, class Activations>
void empty(const Activations& activations, int32_t* memory) {
    for (int bank = 0; bank < Config::banks; ++bank) {
        for (int address = 0; address < Config::activation_words; ++address) {
            const Request<Config> request[1] = {{true, Address<Config>::of(address, bank)}};
            Word<Config> word[1] = {Word<Config>::zero()};
            activations.read(request, word);
            for (int l = 0; l < Config::lanes; ++l) {
                *memory++ = static_cast<int32_t>(word[0].lane[l]);
            }
        }
    }
}

struct NoDrain {
    void place(int) {}
};

struct ReadAction {
    const int32_t* words;
    int32_t* memory;
    const int32_t* bands;  // rows of each; 0 rows alone: the whole rectangle
    int32_t band_count, word_count;
    int32_t* cells;  // for each segment: row, segment, column, last of the row, then [pixel][lane]
    int32_t* segments;

    template <class Config>
    void apply() const {
        const std::unique_ptr<typename Config::Activations> activations(new typename Config::Activations());
        fill<Config>(*activations, memory);
        SegmentReader<Config, Config::pixels> reader;
        reader.start(decode(words));
        NoDrain drain;
        place_ports<Config, Config::pixels>(reader, drain);
        int32_t* next = cells;
        *segments = 0;
        for (int band = 0; band < band_count; ++band) {
            if (bands[band] != 0) {
                if (band == 0) {
                    reader.begin(0);
                }
                reader.next_band(bands[band]);
            }
            for (int word = 0; word < word_count; ++word) {
                reader.begin(word);
                while (!reader.finished()) {
                    next = segment<Config>(reader, *activations, next);
                    ++*segments;
                }
            }
        }
    }

    template <class Config, class Reader>
    static int32_t* segment(Reader& reader, const typename Config::Activations& activations, int32_t* next) {
        Word<Config> cell[Config::pixels];
        reader.read(activations, cell);
        *next++ = static_cast<int32_t>(reader.row());
        *next++ = static_cast<int32_t>(reader.segment());
        *next++ = static_cast<int32_t>(reader.column());
        *next++ = reader.row_ends() ? 1 : 0;
        for (const Word<Config>& word : cell) {
            for (int l = 0; l < Config::lanes; ++l) {
                *next++ = static_cast<int32_t>(word.lane[l]);
            }
        }
        reader.next();
        return next;
    }
};

// The sums of a tile [kernel][row][column]. Each one is taken once, kernels of a block in ascending order.
template <class Config>
class TileSums {
   public:
    TileSums(const Descriptor& d, int64_t* sums) : d_(d), sums_(sums) {}

    void first_block() { row_ = column_ = next_ = 0; }
    void next_block() {
        column_ += Config::block_columns;
        next_ = 0;
    }
    void next_block_row() {
        row_ += Config::block_rows;
        column_ = next_ = 0;
    }
    void next_group() { first_ += Config::flight; }

    void take(int kernel, int_t<32> (&value)[Config::block_rows * Config::block_columns]) {
        simulation_check(kernel == next_++, "the drain", "asks out of order for kernel", kernel);
        for (int i = 0; i < Config::block_rows * Config::block_columns; ++i) {
            const int row = row_ + i / Config::block_columns, column = column_ + i % Config::block_columns;
            const bool inside = row < d_.group_rows && column < d_.output_width;
            // What lies beyond the tile is anything.
            value[i] = static_cast<int_t<32>>(1 << 30);
            if (inside) {
                int64_t& sum = sums_[((first_ + kernel) * d_.group_rows + row) * d_.output_width + column];
                simulation_check(sum != taken, "the drain", "takes a sum again, of kernel", kernel);
                value[i] = static_cast<int_t<32>>(sum);
                sum = taken;
            }
        }
    }

    static constexpr int64_t taken = int64_t(1) << 40;

   private:
    const Descriptor& d_;
    int64_t* sums_;
    int first_ = 0, row_ = 0, column_ = 0, next_ = 0;
};

struct Counted {
    uint32_t overflows, underflows;
    int32_t bits;
};

struct DrainAction {
    const int32_t* words;
    int32_t* memory;
    int64_t* sums;
    const int32_t* bias;
    int32_t* results;  // clocks of the placement and of all groups, overflows, underflows, bits, exponent of the result

    template <class Config>
    void apply() const {
        using Memories = KernelMemories<Config, typename Config::Storage>;
        const std::unique_ptr<typename Config::Activations> activations(new typename Config::Activations());
        fill<Config>(*activations, memory);
        WeightMemory<Config> weights;
        ParameterMemory<Config> parameters;
        for (int row = 0; row < Config::parameter_rows; ++row) {
            parameters.write(row, {static_cast<int_t<18>>(bias[row]), 0});
        }
        Memories memories = {*activations, weights, parameters};
        const Descriptor d = decode(words);
        PolicySlot<Config> policy;
        policy.begin(d.has(Flag::Measure));
        using Drain = EngineDrain<Config, Config::block_rows, Config::block_columns, Config::flight>;
        const std::unique_ptr<Drain> drain(new Drain());
        drain->start(d, {0, 0, 0, d.output_exponent});
        NoDrain reader;
        results[0] = static_cast<int32_t>(place_ports<Config, Config::pixels>(reader, *drain));
        results[1] = 0;
        TileSums<Config> source(d, sums);
        while (drain->kernels() != 0) {
            results[1] += static_cast<int32_t>(drain->group(source, memories, policy));
            source.next_group();
        }
        Counted counted = {0, 0, 0};
        drain->finish(policy, counted);
        results[2] = static_cast<int32_t>(counted.overflows);
        results[3] = static_cast<int32_t>(counted.underflows);
        results[4] = counted.bits;
        int32_t status = 0;
        results[5] = policy.choose(d, 0, status);
        empty<Config>(*activations, memory);
    }
};

struct DescribeAction {
    int32_t* values;
    template <class Config>
    void apply() const {
        const int32_t numbers[] = {Config::lanes,      Config::columns,       Config::banks,  Config::activation_words,
                                   Config::block_rows, Config::block_columns, Config::flight, Config::pixels};
        std::memcpy(values, numbers, sizeof numbers);
    }
};

template <class Action>
int guarded(int number, const Action& action, char* text) {
    try {
        visit(number, action, static_cast<const All*>(nullptr));
    } catch (const std::exception& error) {
        std::strncpy(text, error.what(), 199);
        return 1;
    }
    return 0;
}

}  // namespace

extern "C" {

// Numbers of a build; 1 if there is no such build.
int unit_engine_build(int number, int32_t* values) {
    visit(number, DescribeAction{values}, static_cast<const All*>(nullptr));
    return number < 0 ? 0 : 1;
}

// Walks over the rectangle of a descriptor. Returns 0, or 1 with a sentence in `text` (200 characters).
int unit_segments(int number, const int32_t* words, int32_t* memory, const int32_t* bands, int band_count,
                  int word_count, int32_t* cells, int32_t* segments, char* text) {
    return guarded(number, ReadAction{words, memory, bands, band_count, word_count, cells, segments}, text);
}

// The sums of all groups leave. Returns 0, or 1 with a sentence in `text`.
int unit_engine_drain(int number, const int32_t* words, int32_t* memory, int64_t* sums, const int32_t* bias,
                      int32_t* results, char* text) {
    return guarded(number, DrainAction{words, memory, sums, bias, results}, text);
}
}
