// What surrounds the units of a sparse cluster, behind a C interface: payloads, reduction, pooling, stitching.
#include "bfpga/sparse_cluster/units/compress.hpp"
#include "bfpga/sparse_cluster/units/indexed.hpp"
#include "bfpga/sparse_cluster/units/payload.hpp"
#include "bfpga/sparse_cluster/units/post.hpp"
#include "bfpga/sparse_cluster/units/reduction.hpp"
#include "bfpga/sparse_cluster/units/stitch.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

using namespace bfpga;

namespace {

template <int TileRows, int TileColumns, int Bits>
struct Piece : TileUnitDefaults {
    static constexpr int lanes = 6;
    static constexpr int tile_rows = TileRows;
    static constexpr int tile_columns = TileColumns;
    static constexpr int piece_rows = 33;
    static constexpr int piece_columns = 21;
    static constexpr int input_bits = Bits;
    static constexpr int accumulator_bits = 40;
};

// A 32-bit stream in memory.
struct Words {
    const uint32_t* next;
    const uint32_t* end;
    uint32_t read() {
        simulation_check(next != end, "the payload", "is cut off, words missing:", 1);
        return *next++;
    }
};

struct WordSink {
    uint32_t* next;
    void write(uint32_t word) { *next++ = word; }
};

struct Map {
    const int32_t* value;
    int columns;
    int32_t at(int row, int column) const { return value[row * columns + column]; }
};

// The values of a payload with their places, and the clocks in which they came: (row, column, value) each.
template <class Config, class Reader>
void read_all(const PieceHeader& header, Reader& reader, int32_t* values) {
    reader.start(header);
    while (reader.has()) {
        const PieceValue<Config> cell = reader.front();
        reader.pop();
        *values++ = static_cast<int32_t>(cell.row);
        *values++ = static_cast<int32_t>(cell.column);
        *values++ = static_cast<int32_t>(cell.value);
    }
}

template <class Config>
void decode(const uint32_t* words, int count, int32_t* values) {
    uint32_t first[PieceHeader::words];
    std::copy(words, words + PieceHeader::words, first);
    const PieceHeader header = PieceHeader::decode(first);
    Words source = {words + PieceHeader::words, words + count};
    if (header.payload == PiecePayload::Coo32) {
        Coo32Reader<Config, Words> reader(source);
        read_all<Config>(header, reader, values);
    } else {
        std::unique_ptr<BitmapReader<Config, Words>> reader(new BitmapReader<Config, Words>(source));
        read_all<Config>(header, *reader, values);
    }
    simulation_check(source.next == source.end, "the decoder", "left words:", source.end - source.next);
}

template <class Config>
int encode(const int32_t* fields, const int32_t* cells, uint32_t* words) {
    uint32_t first[PieceHeader::words] = {};
    first[0] = 0x151;
    PieceHeader header = PieceHeader::decode(first);
    header.payload = static_cast<PiecePayload>(fields[0]);
    header.value_bytes = fields[1];
    header.rows = fields[2];
    header.columns = fields[3];
    header.block_exponent = fields[4];
    header.tile_rows = Config::tile_rows;
    header.tile_columns = Config::tile_columns;
    std::unique_ptr<PieceWriter<Config>> writer(new PieceWriter<Config>());
    const Map map = {cells, header.columns};
    WordSink sink = {words + PieceHeader::words};
    const Compressed result = header.payload == PiecePayload::Coo32
                                  ? writer->coo32(header.rows, header.columns, map, sink)
                                  : writer->bitmap(header.rows, header.columns, header.value_bytes, map, sink);
    simulation_check(result.payload_words == sink.next - words - PieceHeader::words, "the writer", "counts words",
                     result.payload_words);
    header.non_zeros = result.non_zeros;
    header.payload_words = result.payload_words;
    header.encode(first);
    std::copy(first, first + PieceHeader::words, words);
    return static_cast<int>(sink.next - words);
}

// A BITMAP piece straight into a unit of variant B: the full grid, and the counters.
template <class Config>
void compute(const uint32_t* words, int count, const int32_t* weights, int64_t* full, int64_t* counted) {
    uint32_t first[PieceHeader::words];
    std::copy(words, words + PieceHeader::words, first);
    const PieceHeader header = PieceHeader::decode(first);
    Words source = {words + PieceHeader::words, words + count};
    std::unique_ptr<BitmapReader<Config, Words>> reader(new BitmapReader<Config, Words>(source));
    reader->start(header);
    IssuedWeights<Config> issued;
    issued.clear(3, 3);
    for (int n = 0; n < 9; ++n) {
        if (weights[n] != 0) {
            issued.push(static_cast<typename TileUnitTypes<Config>::weight_t>(weights[n]), n / 3, n % 3);
        }
    }
    std::unique_ptr<IndexedUnit<Config>> unit(new IndexedUnit<Config>());
    TileUnitCounters counters = {};
    unit->piece({header.rows, header.columns, false, false, false}, issued, *reader, counters);
    for (int r = 0; r < header.rows + 2; ++r) {
        for (int c = 0; c < header.columns + 2; ++c) {
            *full++ = static_cast<int64_t>(unit->take(r, c));
        }
    }
    counted[0] = counters.rounds;
    counted[1] = counters.tiles_skipped;
}

template <class Action>
int guarded(char* text, const Action& action) {
    try {
        return action();
    } catch (const std::exception& error) {
        std::strncpy(text, error.what(), 199);
        return -1;
    }
}

struct SumSink {
    int64_t* outputs;
    int64_t* partials;
    template <class Value>
    void partial(Value value) {
        *partials++ = static_cast<int64_t>(value);
    }
    template <class Value>
    void write(Value value) {
        *outputs++ = static_cast<int64_t>(value);
    }
};

template <int Lanes, class M>
struct Reduction : ReductionDefaults {
    static constexpr int lanes = Lanes;
    static constexpr int inputs = 40;
    static constexpr int outputs = 12;
    static constexpr int input_bits = 16;
    using Multiplier = M;
};

// Every pixel of (pixels, inputs) with a matrix (outputs, inputs).
template <class Config>
void reduce(const int32_t* shape, const int32_t* matrix, const int32_t* pixels, int64_t* outputs, int64_t* partials,
            int64_t* counted) {
    std::unique_ptr<ReductionUnit<Config>> unit(new ReductionUnit<Config>());
    for (int z = 0; z < shape[1]; ++z) {
        for (int i = 0; i < shape[2]; ++i) {
            unit->set_weight(z, i, static_cast<typename ReductionUnit<Config>::weight_t>(matrix[z * shape[2] + i]));
        }
    }
    SumSink sink = {outputs, partials};
    TileUnitCounters counters = {};
    for (int n = 0; n < shape[0]; ++n) {
        unit->clear();
        for (int i = 0; i < shape[2]; ++i) {
            const int32_t value = pixels[n * shape[2] + i];
            if (value != 0) {
                unit->push(i, static_cast<typename ReductionUnit<Config>::value_t>(value));
            }
        }
        unit->outputs(shape[1], sink, counters);
    }
    counted[0] = counters.rounds;
    counted[1] = counters.issued;
    counted[2] = counters.idle;
}

template <int Rows, int Columns, int StrideRows, int StrideColumns>
struct Pool : PoolDefaults {
    static constexpr int pool_rows = Rows;
    static constexpr int pool_columns = Columns;
    static constexpr int stride_rows = StrideRows;
    static constexpr int stride_columns = StrideColumns;
    static constexpr int map_columns = 24;
    static constexpr int pool_units = 2;
};

template <class Config>
int pool(const int32_t* fields, const int32_t* values, int64_t* outputs) {
    PoolArray<Config> units;
    units.start(fields[2] != 0, static_cast<Pooling>(fields[3]), fields[1]);
    int count = 0;
    for (int n = 0; n < fields[0] * fields[1]; ++n) {
        typename PoolArray<Config>::value_t value[2];
        typename PoolArray<Config>::sum_t result[2];
        value[0] = values[2 * n];
        value[1] = values[2 * n + 1];
        if (units.push(value, result)) {
            outputs[count++] = static_cast<int64_t>(result[0]);
            outputs[count++] = static_cast<int64_t>(result[1]);
        }
    }
    return count;
}

struct Narrow : StitchDefaults {
    static constexpr int map_rows = 40;
    static constexpr int map_columns = 30;
    static constexpr int accumulator_bits = 20;
};

struct Results {
    const int64_t* next;
    int_t<20> read() { return low_bits<20>(*next++); }
};

}  // namespace

extern "C" {

// Words of a piece -> its values; build 0: tiles of 4 x 4 and 8 bits, 1: 2 x 2 and 16 bits, 2: 3 x 5 and 8 bits.
int unit_cluster_decode(int build, const uint32_t* words, int count, int32_t* values, char* text) {
    return guarded(text, [=] {
        if (build == 0) {
            decode<Piece<4, 4, 8>>(words, count, values);
        } else if (build == 1) {
            decode<Piece<2, 2, 16>>(words, count, values);
        } else {
            decode<Piece<3, 5, 8>>(words, count, values);
        }
        return 0;
    });
}

// Cells (payload, value bytes, rows, columns, exponent in `fields`) -> words; returns how many.
int unit_cluster_encode(int build, const int32_t* fields, const int32_t* cells, uint32_t* words, char* text) {
    return guarded(text, [=] {
        return build == 0   ? encode<Piece<4, 4, 8>>(fields, cells, words)
               : build == 1 ? encode<Piece<2, 2, 16>>(fields, cells, words)
                            : encode<Piece<3, 5, 8>>(fields, cells, words);
    });
}

// A descriptor, decoded and encoded again.
void unit_cluster_header(const uint32_t* words, uint32_t* again) {
    uint32_t word[PieceHeader::words];
    std::copy(words, words + PieceHeader::words, word);
    PieceHeader::decode(word).encode(word);
    std::copy(word, word + PieceHeader::words, again);
}

// A BITMAP piece with tiles of 4 x 4 through decoder and unit.
int unit_cluster_compute(const uint32_t* words, int count, const int32_t* weights, int64_t* full, int64_t* counted,
                         char* text) {
    return guarded(text, [=] {
        compute<Piece<4, 4, 8>>(words, count, weights, full, counted);
        return 0;
    });
}

// shape: pixels, outputs, inputs.
int unit_cluster_reduce(int lanes, const int32_t* shape, const int32_t* matrix, const int32_t* pixels, int64_t* outputs,
                        int64_t* partials, int64_t* counted) {
    switch (lanes) {
        case 1:
            reduce<Reduction<1, LaneLut>>(shape, matrix, pixels, outputs, partials, counted);
            return 0;
        case 2:
            reduce<Reduction<2, LaneDsp>>(shape, matrix, pixels, outputs, partials, counted);
            return 0;
        case 3:
            reduce<Reduction<3, LaneLut>>(shape, matrix, pixels, outputs, partials, counted);
            return 0;
        case 9:
            reduce<Reduction<9, LaneDsp>>(shape, matrix, pixels, outputs, partials, counted);
            return 0;
        default:
            return 1;
    }
}

// fields: rows, columns, ReLU, kind; two channels. Returns the number of results.
int unit_cluster_pool(int build, const int32_t* fields, const int32_t* values, int64_t* outputs) {
    switch (build) {
        case 0:
            return pool<Pool<2, 2, 2, 2>>(fields, values, outputs);
        case 1:
            return pool<Pool<3, 3, 2, 2>>(fields, values, outputs);
        case 2:
            return pool<Pool<1, 4, 3, 1>>(fields, values, outputs);
        case 3:
            return pool<Pool<3, 1, 1, 2>>(fields, values, outputs);
        default:
            return pool<Pool<1, 1, 1, 1>>(fields, values, outputs);
    }
}

// map: rows, columns. places: (pieces, 4). window: the fields of ReadOut.
int unit_cluster_stitch(const int32_t* map, int pieces, const int32_t* places, const int64_t* results,
                        const int32_t* window, int64_t* outputs, char* text) {
    return guarded(text, [=] {
        std::unique_ptr<Stitcher<Narrow>> stitcher(new Stitcher<Narrow>());
        Results source = {results};
        stitcher->start(map[0], map[1]);
        for (int n = 0; n < pieces; ++n) {
            StitchPlace place;
            std::memcpy(&place, places + 4 * n, sizeof place);
            stitcher->add(place, source);
        }
        ReadOut read;
        std::memcpy(&read, window, sizeof read);
        SumSink sink = {outputs, nullptr};
        stitcher->read_out(read, sink);
        return 0;
    });
}

// Values (rows, columns) -> counts of each row, of each column, in all.
void unit_cluster_counts(int rows, int columns, const int32_t* values, int32_t* counts) {
    OutputCounts<20, 20> counter;
    counter.clear();
    for (int n = 0; n < rows * columns; ++n) {
        counter.count(n / columns, n % columns, values[n] != 0);
    }
    for (int r = 0; r < rows; ++r) {
        *counts++ = counter.of_row(r);
    }
    for (int c = 0; c < columns; ++c) {
        *counts++ = counter.of_column(c);
    }
    *counts = counter.total();
}

// The sum of N numbers in a tree: N from 1 to 9.
int64_t unit_cluster_tree(int count, const int32_t* terms) {
    int32_t nine[9] = {};
    std::copy(terms, terms + count, nine);
    const int32_t one[1] = {nine[0]};
    const int32_t five[5] = {nine[0], nine[1], nine[2], nine[3], nine[4]};
    return count == 1   ? AdderTree<int64_t, 1>::sum(one)
           : count <= 5 ? AdderTree<int64_t, 5>::sum(five)
                        : AdderTree<int64_t, 9>::sum(nine);
}
}
