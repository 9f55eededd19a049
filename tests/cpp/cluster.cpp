// The comparison units of the sparse cluster behind a C interface: pieces of several channels on each variant.
#include "bfpga/sparse_cluster/units/data_stationary.hpp"
#include "bfpga/sparse_cluster/units/indexed.hpp"
#include "bfpga/sparse_cluster/units/merge_fifo.hpp"
#include "bfpga/sparse_cluster/units/pair_adder.hpp"
#include "bfpga/sparse_cluster/units/shift_window.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

using namespace bfpga;

namespace {

template <int Lanes, int TileRows, int TileColumns, class M = LaneDsp>
struct Small : TileUnitDefaults {
    static constexpr int lanes = Lanes;
    static constexpr int tile_rows = TileRows;
    static constexpr int tile_columns = TileColumns;
    static constexpr int kernel_rows = 5;
    static constexpr int kernel_columns = 5;
    static constexpr int piece_rows = 14;
    static constexpr int piece_columns = 13;
    static constexpr int weights_per_round = 256;
    using Multiplier = M;
};
struct Wide : Small<5, 3, 4, LaneDsp> {
    static constexpr int input_bits = 16;
    static constexpr int weight_bits = 16;
    static constexpr int accumulator_bits = 48;
    static constexpr int weights_per_round = 2;
    static constexpr int kernels_in_flight = 1;
};
struct Short : Small<1, 1, 3, LaneLut> {
    static constexpr int accumulator_bits = 21;
    static constexpr int kernel_rows = 4;
    static constexpr int kernel_columns = 2;
    static constexpr int dependence_latency = 6;
};

template <class... Builds>
struct List {};
#ifdef BFPGA_NATIVE_INTEGERS
using All = List<Small<3, 2, 2>, Small<4, 2, 2, LaneLut>, Small<6, 3, 3, LaneDspPacked>, Small<4, 4, 4>,
                 Small<16, 2, 2>, Small<16, 3, 3, LaneDspPacked>, Wide, Short>;
#else
// ap_int adds the widths and the multipliers; its compilation takes many times as long.
using All = List<Small<6, 3, 3, LaneDspPacked>, Small<4, 4, 4>, Wide, Short>;
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

enum Variant { A, ATurned, B, BWindow, CWord, CBank, DWord, DBank, E };

// A piece; field by field the array of int32 of the caller.
struct Piece {
    int32_t variant, channels, kernels, rows, columns, kernel_rows, kernel_columns;
    int32_t keep_zeros, tiles_by_column, values_by_column, cap, defer_earlier;
    int32_t turn_rows, turn_columns;  // variant A: the group is turned before it is read
};

struct Data {
    const int32_t* values;   // (channel, row, column)
    const int32_t* weights;  // of each channel and kernel: a count, then value, row, column of each
    int64_t* full;           // (kernel, full-grid row, column)
    int64_t* counters;
};

// The values of a map that are not zero, in the order of the tiles.
template <class Config>
class MapSource {
   public:
    MapSource(const Piece& piece, const int32_t* values, bool tiles) : next_(0) {
        const int height = tiles ? Config::tile_rows : piece.rows;
        const int width = tiles ? Config::tile_columns : piece.columns;
        for (int a = 0; a < (piece.tiles_by_column ? piece.columns : piece.rows);
             a += piece.tiles_by_column ? width : height) {
            for (int b = 0; b < (piece.tiles_by_column ? piece.rows : piece.columns);
                 b += piece.tiles_by_column ? height : width) {
                tile(piece, values, piece.tiles_by_column ? b : a, piece.tiles_by_column ? a : b, height, width);
            }
        }
    }

    bool has() const { return next_ < cells_.size(); }
    const PieceValue<Config>& front() const { return cells_[next_]; }
    void pop() { ++next_; }

   private:
    void tile(const Piece& piece, const int32_t* values, int top, int left, int height, int width) {
        for (int r = top; r < std::min(top + height, piece.rows); ++r) {
            for (int c = left; c < std::min(left + width, piece.columns); ++c) {
                if (values[r * piece.columns + c] != 0) {
                    PieceValue<Config> cell;
                    cell.value = values[r * piece.columns + c];
                    cell.row = r;
                    cell.column = c;
                    cells_.push_back(cell);
                }
            }
        }
    }

    std::vector<PieceValue<Config>> cells_;
    std::size_t next_;
};

template <class Config>
class Run {
   public:
    Run(const Piece& piece, const Data& data) : piece_(piece), data_(data), weights_(data.weights), counters_() {}

    void run() {
        switch (piece_.variant) {
            case A:
                return tiles<ShiftWindowUnit<Config>>([](ShiftWindowUnit<Config>&) {});
            case ATurned:
                return turned();
            case B:
                return tiles<IndexedUnit<Config>>([](IndexedUnit<Config>&) {});
            case BWindow:
                return tiles<IndexedUnit<Config, TileWindowSums<Config>>>(
                    [](IndexedUnit<Config, TileWindowSums<Config>>&) {});
            case CWord:
                return packed<MergeFifoUnit<Config>>();
            case CBank:
                return packed<MergeFifoUnit<Config, BankedSums<Config>>>();
            case DWord:
                return packed<PairAdderUnit<Config>>();
            case DBank:
                return packed<PairAdderUnit<Config, BankedSums<Config>>>();
            default:
                return stationary();
        }
    }

   private:
    template <class Unit>
    void packed() {
        const int most = TileUnitTypes<Config>::weight_cap;  // std::min takes references, and this has no address
        const int cap = std::min<int>(piece_.cap, most);
        const MergePolicy policy = piece_.defer_earlier ? MergePolicy::DeferEarlier : MergePolicy::DeferLater;
        tiles<Unit>([=](Unit& unit) { unit.rounds().configure(cap, policy); });
    }

    template <class Unit, class Configure>
    void tiles(const Configure& configure) {
        std::unique_ptr<Unit> unit(new Unit());
        configure(*unit);
        unit->clear();
        for (int channel = 0; channel < piece_.channels; ++channel) {
            MapSource<Config> source(piece_, data_.values + channel * piece_.rows * piece_.columns, true);
            unit->piece(walk(), next_kernel(), source, counters_);
        }
        read_out([&](int, int row, int column) { return unit->take(row, column); });
    }

    void turned() {
        std::unique_ptr<ShiftWindowUnit<Config>> unit(new ShiftWindowUnit<Config>());
        unit->clear();
        MapSource<Config> source(piece_, data_.values, true);
        unit->piece(walk(), next_kernel(), source, counters_);
        unit->rounds().rotate(piece_.turn_rows, piece_.turn_columns);
        int64_t* full = data_.full;
        for (int r = 0; r < piece_.rows + piece_.kernel_rows - 1; ++r) {
            for (int c = 0; c < piece_.columns + piece_.kernel_columns - 1; ++c) {
                *full++ = static_cast<int64_t>(unit->rounds().at_origin(r, c));
            }
        }
    }

    void stationary() {
        std::unique_ptr<DataStationaryUnit<Config>> unit(new DataStationaryUnit<Config>());
        std::unique_ptr<KernelSteps<Config>> kernels(new KernelSteps<Config>());
        unit->clear();
        for (int channel = 0; channel < piece_.channels; ++channel) {
            kernels->clear();
            for (int z = 0; z < piece_.kernels; ++z) {
                kernels->push(next_kernel());
            }
            MapSource<Config> source(piece_, data_.values + channel * piece_.rows * piece_.columns, false);
            unit->piece(walk(), *kernels, source, counters_);
        }
        read_out([&](int z, int row, int column) { return unit->take(z, row, column); });
    }

    PieceWalk walk() const {
        return {piece_.rows, piece_.columns, piece_.tiles_by_column != 0, piece_.values_by_column != 0,
                piece_.keep_zeros != 0};
    }

    IssuedWeights<Config> next_kernel() {
        IssuedWeights<Config> result;
        result.clear(piece_.kernel_rows, piece_.kernel_columns);
        const int count = *weights_++;
        for (int n = 0; n < count; ++n, weights_ += 3) {
            result.push(static_cast<typename TileUnitTypes<Config>::weight_t>(weights_[0]), weights_[1], weights_[2]);
        }
        return result;
    }

    template <class Take>
    void read_out(const Take& take) {
        int64_t* full = data_.full;
        const NoLoop between;
        for (int z = 0; z < piece_.kernels; ++z) {
            for (int r = 0; r < piece_.rows + piece_.kernel_rows - 1; ++r) {
                for (int c = 0; c < piece_.columns + piece_.kernel_columns - 1; ++c) {
                    *full++ = static_cast<int64_t>(take(z, r, c));
                    simulation_check(take(z, r, c) == 0, "a sum", "remains after it was taken, in row", r);
                }
            }
        }
        std::memcpy(data_.counters, &counters_, sizeof counters_);
    }

    Piece piece_;
    Data data_;
    const int32_t* weights_;
    TileUnitCounters counters_;
};

struct RunPiece {
    const Piece& piece;
    const Data& data;
    template <class Config>
    void apply() const {
        Run<Config>(piece, data).run();
    }
};

struct Describe {
    int32_t* values;
    template <class Config>
    void apply() const {
        const int32_t numbers[] = {Config::lanes,
                                   Config::tile_rows,
                                   Config::tile_columns,
                                   Config::kernel_rows,
                                   Config::kernel_columns,
                                   Config::piece_rows,
                                   Config::piece_columns,
                                   Config::input_bits,
                                   Config::weight_bits,
                                   Config::accumulator_bits,
                                   Config::weights_per_round,
                                   Config::kernels_in_flight,
                                   Config::dependence_latency,
                                   TileWindowSums<Config>::transfer};
        std::copy(std::begin(numbers), std::end(numbers), values);
    }
};

}  // namespace

extern "C" {

// Numbers of a build; 1 if there is no such build.
int unit_cluster_build(int number, int32_t* values) {
    visit(number, Describe{values}, static_cast<const All*>(nullptr));
    return number < 0 ? 0 : 1;
}

// A piece on a build. Returns 0, or 1 with a sentence in `text` (200 characters).
int unit_cluster_piece(int number, const int32_t* fields, const int32_t* values, const int32_t* weights, int64_t* full,
                       int64_t* counters, char* text) {
    Piece piece;
    std::memcpy(&piece, fields, sizeof piece);
    const Data data = {values, weights, full, counters};
    try {
        visit(number, RunPiece{piece, data}, static_cast<const All*>(nullptr));
    } catch (const std::exception& error) {
        std::strncpy(text, error.what(), 199);
        return 1;
    }
    return 0;
}

// Full grid of 9 x 7 cells in a ring, turned by (rows, columns): what is at (row, column).
int unit_cluster_ring(int rows, int columns, int32_t* cells) {
    RingPlane<int32_t, 9, 7> ring;
    for (int n = 0; n < 63; ++n) {
        ring.write(n / 7, n % 7, n);
    }
    for (int n = 0; n < (rows < 0 ? -rows : rows); ++n) {
        ring.up<1>(rows < 0);
    }
    for (int n = 0; n < (columns < 0 ? -columns : columns) / 2; ++n) {
        ring.left<2>(columns < 0);
    }
    for (int n = 0; n < 63; ++n) {
        cells[n] = ring.read(n / 7, n % 7);
    }
    return 0;
}
}
