// A unit of the sparse cluster: its segment memory, the selection of non-zero elements, its multipliers and sums.
//
// An element stays for `slots` clocks and meets one active kernel in each of them (SC R69, R113, R116). In a clock,
// `kernel` x `kernel` products go to as many banks of sums; products that are no output of the strip are dropped, so
// only words that the drain reads are ever written.
#pragma once
#include "bfpga/array/lane_multiplier.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/sparse_cluster/kernels.hpp"
#include "bfpga/sparse_cluster/memory.hpp"
#include "bfpga/sparse_cluster/partition.hpp"

namespace bfpga {

// The sums of a unit: one memory a bank, the words of one kernel after those of another (SC R115).
template <class Config>
class SumBanks {
    using T = ClusterTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int words = T::flight * T::words;
    static constexpr int wide_bits = larger(Config::accumulator_bits, T::product_bits) + 1;

   public:
    // An element adds once to a word, and stays in its unit for dependence_latency clocks at least: a word returns
    // after as many clocks (SC R116, 7.2 remedy 1). The drain takes a word once, and nothing is added meanwhile.
    SumBanks() {
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=Config::dependence_latency true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // sum += product, modulo 2**accumulator_bits.
    void add(int bank, int32_t address, typename T::product_t product) {
#pragma HLS INLINE
        cell_waiver_.reads(bank * words + address);
        cell_waiver_.writes(bank * words + address);
        const int_t<wide_bits> sum = static_cast<int_t<wide_bits>>(cell_[bank][address]) + product;
        cell_[bank][address] = low_bits<Config::accumulator_bits>(sum);
    }

    // The sum, which starts anew (SC R77, R82).
    accumulator_t take(int bank, int32_t address) {
#pragma HLS INLINE
        cell_waiver_.reads(bank * words + address);
        cell_waiver_.writes(bank * words + address);
        const accumulator_t sum = cell_[bank][address];
        cell_[bank][address] = 0;
        return sum;
    }

    void clear(int32_t address) {
#pragma HLS INLINE
    Banks_Clear:
        for (int bank = 0; bank < T::banks; ++bank) {
#pragma HLS UNROLL
            cell_waiver_.writes(bank * words + address);
            cell_[bank][address] = 0;
        }
    }

   private:
    accumulator_t cell_[T::banks][words] = {};
    Waiver<InterRawDistance<Config::dependence_latency>, T::banks * words> cell_waiver_;
};

template <class Config>
class SparseUnit {
    using T = ClusterTypes<Config>;
    using number_t = typename T::number_t;
    using lanes_t = typename T::lanes_t;
    using pixels_t = typename T::pixels_t;
    using Grid = StripGrid<Config>;

   public:
    SparseUnit() {
// Segments on their way are registers: elements are chosen among all of them.
#pragma HLS ARRAY_PARTITION variable=segment_.pixel complete dim=0
#pragma HLS ARRAY_PARTITION variable=segment_.lanes complete dim=0
#pragma HLS ARRAY_PARTITION variable=staged_.pixel complete dim=0
#pragma HLS ARRAY_PARTITION variable=staged_.lanes complete dim=0
#pragma HLS ARRAY_PARTITION variable=arriving_.pixel complete dim=0
#pragma HLS ARRAY_PARTITION variable=arrived_.pixel complete dim=0
    }

    // The unit's piece of a strip.
    void place(const Piece<Config>& piece) {
#pragma HLS INLINE
        piece_ = piece;
        present_ = false;
    }

    const Piece<Config>& piece() const { return piece_; }

    // A set of the memory is filled anew.
    void open(int set) {
#pragma HLS INLINE
        memory_.open(set);
    }

    // A segment of the strip comes by: kept if the piece holds a non-zero element of it.
    void offer(int set, number_t row, number_t column, const Word<Config> (&cell)[T::pixels],
               const SegmentIndex<Config>& index) {
#pragma HLS INLINE
        const bool outside = column >= piece_.end_column || column + T::pixels <= piece_.first_column;
        if (!piece_.has_row(row) || outside) {
            return;
        }
        StoredSegment<Config> segment;
        bool any = false;
    Pixels_Mask:
        for (int p = 0; p < T::pixels; ++p) {
#pragma HLS UNROLL
            const bool mine = piece_.has_column(static_cast<number_t>(column + p));
            segment.pixel[p] = mine ? cell[p] : Word<Config>::zero();
            any = any || MarkedSegment<Config>::nonzero_lanes(segment.pixel[p]) != 0;
        }
        if (any) {
            segment.index = index;
            segment.index.address = static_cast<typename T::address_t>(index.address - piece_.origin);
            memory_.store(set, segment);
        }
    }

    // Computing on a set begins: the first element is in place.
    void start(int set, const Grid& grid) {
#pragma HLS INLINE
        set_ = set;
        taken_ = 0;
        pixels_ = 0;
        lanes_ = 0;
        if (memory_.count(set) != 0) {
            staged_.mark(memory_.read(set, 0));
        }
        next(grid);
    }

    // An element is in place.
    bool busy() const { return present_; }

    // The element meets a kernel: `kernel` is its number, `clock` serves a check.
    void multiply(int32_t kernel, const KernelWeights<Config>& weights, int64_t clock) {
#pragma HLS INLINE
        check_distance(kernel, clock);
        typename T::mantissa_t weight[T::banks];
#pragma HLS ARRAY_PARTITION variable=weight complete dim=0
        rotate(weights, weight);
        typename T::product_t product[T::banks];
#pragma HLS ARRAY_PARTITION variable=product complete dim=0
        Config::ClusterMultiplier::template multiply<Config::mantissa_bits, Config::mantissa_bits, T::banks>(
            weight, value_, product);
        const int32_t plane = T::plane(kernel);
    Banks_Add:
        for (int bank = 0; bank < T::banks; ++bank) {
#pragma HLS UNROLL
            if (rows_.used[bank / T::kernel] && columns_.used[bank % T::kernel]) {
                sums_.add(bank, plane + word(bank), product[bank]);
            }
        }
    }

    // Ends clock `slot` of an element; after its last one the next element follows.
    //
    // The segment behind the one in use comes from the memory in slot 0, through an output register in slot 1, is
    // marked in slot 2 and needed in slot 3 at the earliest. Every step takes what an earlier clock has left, so the
    // way through the memory is as many clocks long as the schedule needs.
    void advance(int32_t slot, bool last, const Grid& grid) {
#pragma HLS INLINE
        const bool wanted = wanted_;
        const int32_t number = taken_;
        if (last) {
            next(grid);
        }
        if (slot == 2 && wanted) {
            staged_.mark(arrived_);
            wanted_ = false;
        }
        if (slot == 1) {
            arrived_ = arriving_;
        }
        if (slot == 0 && wanted) {
            arriving_ = memory_.read(set_, number);
        }
    }

    // A sum of the drain; `address` in the grid of the strip.
    typename T::accumulator_t take(int bank, int32_t kernel, number_t address) {
#pragma HLS INLINE
        return sums_.take(bank, T::plane(kernel) + static_cast<int32_t>(address - piece_.origin));
    }

    void clear(int32_t address) {
#pragma HLS INLINE
        sums_.clear(address);
    }

   private:
    // The weight that meets each bank: rows first, then columns, so that every choice is a small multiplexer (SC 7.2).
    void rotate(const KernelWeights<Config>& weights, typename T::mantissa_t (&weight)[T::banks]) const {
#pragma HLS INLINE
        typename T::mantissa_t of_row[T::kernel][T::kernel];
#pragma HLS ARRAY_PARTITION variable=of_row complete dim=0
    Rows_Rotate:
        for (int i = 0; i < T::kernel; ++i) {
#pragma HLS UNROLL
        Columns_Keep:
            for (int b = 0; b < T::kernel; ++b) {
#pragma HLS UNROLL
                of_row[i][b] = weights.cell[lane_][rows_.tap[i]][b];
            }
        }
    Columns_Rotate:
        for (int bank = 0; bank < T::banks; ++bank) {
#pragma HLS UNROLL
            weight[bank] = of_row[bank / T::kernel][columns_.tap[bank % T::kernel]];
        }
    }

    // To the next non-zero element: lanes of a pixel, pixels of a segment, segments in raster order.
    void next(const Grid& grid) {
#pragma HLS INLINE
        if (lanes_ == 0) {
            if (pixels_ == 0) {
                present_ = taken_ < memory_.count(set_);
                if (!present_) {
                    return;
                }
                next_segment(grid);
            }
            next_pixel(grid);
        }
        lane_ = lowest_one<Config::lanes>(lanes_);
        lanes_ = without_lowest<Config::lanes>(lanes_);
        value_ = segment_.pixel[pixel_].lane[lane_];
    }

    void next_segment(const Grid& grid) {
#pragma HLS INLINE
        segment_ = staged_;
        pixels_ = staged_.pixels;
        ++taken_;
        wanted_ = taken_ < memory_.count(set_);
        rows_.select(segment_.index.row_phase, grid.kernel_height, segment_.index.row_taps, grid.pitch);
    }

    void next_pixel(const Grid& grid) {
#pragma HLS INLINE
        using R = Residue<Config>;
        pixel_ = lowest_one<T::pixels>(pixels_);
        pixels_ = without_lowest<T::pixels>(pixels_);
        lanes_ = segment_.lanes[pixel_];
        const SegmentIndex<Config>& index = segment_.index;
        const R first = R::of(index.address, index.column_phase);
        const R cell = first.plus(R::of_pixel(pixel_), T::kernel, 1);
        columns_.select(cell.remainder, grid.kernel_width, grid.columns.taps(grid.columns.after(index.column, pixel_)),
                        1);
        address_ = cell.quotient;
        check_banks();
    }

    // Address of the product that meets a bank, in the words of a kernel.
    int32_t word(int bank) const {
#pragma HLS INLINE
        return static_cast<int32_t>(address_ + rows_.offset[bank / T::kernel] + columns_.offset[bank % T::kernel]);
    }

    // All products of an element lie in the words of the unit, and every one in a bank of its own: no tap meets two
    // banks of an axis (SC R115).
    void check_banks() const {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    Banks_Check:
        for (int bank = 0; bank < T::banks; ++bank) {
            if (rows_.used[bank / T::kernel] && columns_.used[bank % T::kernel]) {
                simulation_check(word(bank) >= 0 && word(bank) < T::words, "a unit of the sparse cluster",
                                 "has no sums in word", word(bank));
            }
        }
        int32_t met_row = 0;
        int32_t met_column = 0;
    Taps_Check:
        for (int i = 0; i < T::kernel; ++i) {
            const int32_t row = rows_.used[i] ? 1 << rows_.tap[i] : 0;
            const int32_t column = columns_.used[i] ? 1 << columns_.tap[i] : 0;
            simulation_check((met_row & row) == 0 && (met_column & column) == 0, "a weight",
                             "meets two banks, the second one is", i);
            met_row |= row;
            met_column |= column;
        }
#endif
    }

    // The words of a kernel were last used dependence_latency clocks ago or earlier.
    void check_distance(int32_t kernel, int64_t clock) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        simulation_check(clock - last_use_[kernel] >= Config::dependence_latency, "the sums of a unit",
                         "are used too early, in clock", clock);
        last_use_[kernel] = clock;
#else
        (void)kernel;
        (void)clock;
#endif
    }

    Piece<Config> piece_;
    SegmentMemory<Config> memory_;
    SumBanks<Config> sums_;
    // The segment in use, and the one behind it on its way
    MarkedSegment<Config> segment_, staged_;
    StoredSegment<Config> arriving_, arrived_;
    int set_ = 0;
    int32_t taken_ = 0;    // segments
    bool wanted_ = false;  // the segment behind the one in use is not staged yet
    // The elements that are left of the segment and of the pixel in use
    pixels_t pixels_ = 0;
    lanes_t lanes_ = 0;
    // The element in use
    bool present_ = false;
    int pixel_ = 0, lane_ = 0;
    typename T::mantissa_t value_ = 0;
    number_t address_ = 0;
    BankTaps<Config> rows_, columns_;
#ifdef BFPGA_SIMULATION
    int64_t last_use_[T::flight] = {};
#endif
};

}  // namespace bfpga
