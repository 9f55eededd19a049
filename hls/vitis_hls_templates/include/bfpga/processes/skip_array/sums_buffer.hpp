// The sums buffer of the skip array: accumulates the chunks of a pass for each row, and returns the sums of a pass row
// by row.
//
// Sums of kernels come in any order, each with its row; the chunk that opens a pass writes them, others are added. When
// the last chunk has left, the pass leaves: all rows of half 0, then those of the other halves if the pass has them.
// Two passes have room, so that one drains while the next one comes; a third one waits. A word stalled by the stream is
// read again: only the drain waits for it.
#pragma once
#include "bfpga/processes/skip_array/chunk_marks.hpp"
#include "bfpga/processes/skip_array/forwarder.hpp"
#include "bfpga/processes/skip_array/window.hpp"

namespace bfpga {

// A count of at most two; its queries are registers.
class UpToTwo {
   public:
    void clear() {
#pragma HLS INLINE
        any_ = false;
        two_ = false;
    }

    bool any() const { return any_; }
    bool two() const { return two_; }

    // One cycle: whether one comes, and whether one leaves. None comes where there are two.
    void step(bool comes, bool leaves) {
#pragma HLS INLINE
        const bool any = any_;
        const bool two = two_;
        any_ = comes || two || (any && !leaves);
        two_ = !leaves && (two || (any && comes));
    }

   private:
    bool any_, two_;
};

template <class Config>
class SumsBuffer {
    using Sums = SumBeat<Config>;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using half_t = typename KernelSums<Config>::half_t;
    using row_t = typename KernelSums<Config>::row_t;
    static constexpr int columns = Config::columns;
    static constexpr int halves = Config::skip_halves;
    // Rows of a half and halves of a pass, rounded up to powers of two: an address is put together.
    static constexpr int row_bits = bit_length(Config::rows - 1);
    static constexpr int half_bits = bit_length(halves - 1);
    static constexpr int words = 2 << (row_bits + half_bits);
    using address_t = uint_t<bit_length(words - 1)>;
    // Cycles after the one that receives a chunk's end in which none of it is read: its last sum came at least two
    // cycles before that one.
    static constexpr int apart = skip_guard - 3;

   public:
    SumsBuffer() {
        static_assert(skip_guard >= 8, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=ended_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=closed_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=rows_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=single_ complete dim=0
#pragma HLS ARRAY_RESHAPE variable=cell_ complete dim=2
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A word is read `skip_guard` cycles after it was written, or later.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=8 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    void clear() {
#pragma HLS INLINE
        fills_ = false;
        drains_ = false;
        come_.clear();
        ready_.clear();
        near_ = false;
        last_row_ = 0;
        row_ = 1;
        half_ = 0;
        all_fetched_ = false;
        fetched_there_ = false;
        drained_ = false;
    Clocks_Clear:
        for (int k = 0; k < apart; ++k) {
#pragma HLS UNROLL
            ended_[k] = false;
            closed_[k] = false;
        }
    }

    // Whether sums of the chunk can come in this cycle.
    bool takes(const ChunkMarks& chunk) const { return !come_.two() && (chunk.opens || !near_); }
    // Whether every pass has left.
    bool idle() const { return !come_.any(); }

    // One cycle: sums of `chunk` that come, or the flag that its sums have come in the cycles before the last one.
    void step(const KernelSums<Config>& kernel, const ChunkMarks& chunk, bool chunk_ends, stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        const bool adds = kernel.there && !chunk.opens;
        const bool refused = fetched_there_ && !sums.write_nb(to_wire(fetched_));
        const bool drained = drained_;
        const bool fetches = !adds && ready_.any() && !all_fetched_;
        drained_ = fetched_there_ && !refused && fetched_last_;
        fetched_there_ = fetches && !refused;
        const address_t own = address(fills_, kernel.half, kernel.row);
        const Sums found = read(adds ? own : address(drains_, half_, row_), adds || fetches);
        fetched_ = found;
        walk(fetches, refused, drained);
        if (kernel.there) {
            keep(own, kernel.sums, found, chunk.opens);
            last_row_ = kernel.row > last_row_ ? kernel.row : last_row_;
        }
        count(chunk, chunk_ends, drained);
    }

   private:
    static address_t address(bool buffer, half_t half, row_t row) {
#pragma HLS INLINE
        const address_t of_pass = static_cast<address_t>(buffer ? words / 2 : 0);
        const address_t of_half =
            static_cast<address_t>(static_cast<address_t>(half) << static_cast<unsigned>(row_bits));
        // Rows count from one; the last one may use the address of row 0.
        const address_t of_row = static_cast<address_t>(row & static_cast<row_t>((1 << row_bits) - 1));
        return static_cast<address_t>(of_pass | of_half | of_row);
    }

    // The next fetch; if the stream has stalled the fetch before, that one again.
    void walk(bool fetches, bool refused, bool drained) {
#pragma HLS INLINE
        const int buffer = drains_ ? 1 : 0;
        const row_t row = row_;
        const half_t half = half_;
        const bool last_row = row == rows_[buffer];
        const bool last_half = single_[buffer] || half == halves - 1;
        if (refused) {
            row_ = fetched_row_;
            half_ = fetched_half_;
        } else if (fetches) {
            row_ = last_row ? static_cast<row_t>(1) : static_cast<row_t>(row + 1);
            half_ = !last_row ? half : last_half ? static_cast<half_t>(0) : static_cast<half_t>(half + 1);
        }
        all_fetched_ = !refused && !drained && (all_fetched_ || (fetches && last_row && last_half));
        fetched_row_ = row;
        fetched_half_ = half;
        fetched_last_ = last_row && last_half;
    }

    // `used`: the word is needed.
    Sums read(address_t address, bool used) const {
#pragma HLS INLINE
        if (native_integers && !used) {
            return Sums();  // a simulation saves the time
        }
        Sums found;
        if (used) {
            cell_waiver_.reads(static_cast<int>(address));
        }
    Columns_Read:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            found.sum[i] = cell_[static_cast<int>(address)][i];
        }
        return found;
    }

    void keep(address_t address, const Sums& sums, const Sums& before, bool opens) {
#pragma HLS INLINE
        cell_waiver_.writes(static_cast<int>(address));
    Columns_Keep:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            const accumulator_t start = opens ? static_cast<accumulator_t>(0) : before.sum[i];
            cell_[static_cast<int>(address)][i] = static_cast<accumulator_t>(start + sums.sum[i]);
        }
    }

    // Passes that have come and that may leave, and how long ago the last chunk has.
    void count(const ChunkMarks& chunk, bool chunk_ends, bool drained) {
#pragma HLS INLINE
        const bool closes = chunk_ends && chunk.closes;
        simulation_check(!closes || last_row_ != 0, "a pass of the skip array",
                         "has no kernel; rows:", static_cast<int>(last_row_));
        const bool readies = closed_[apart - 1];
        bool near = chunk_ends;
    Clocks_Count:
        for (int k = apart - 1; k > 0; --k) {
#pragma HLS UNROLL
            ended_[k] = ended_[k - 1];
            closed_[k] = closed_[k - 1];
            near = near || ended_[k];
        }
        ended_[0] = chunk_ends;
        closed_[0] = closes;
        near_ = near;
        come_.step(closes, drained);
        ready_.step(readies, drained);
        if (closes) {
            rows_[fills_ ? 1 : 0] = last_row_;
            single_[fills_ ? 1 : 0] = chunk.single;
            last_row_ = 0;
        }
        fills_ = fills_ != closes;
        drains_ = drains_ != drained;
    }

    accumulator_t cell_[words][columns];
    Waiver<InterRawDistance<8>, words> cell_waiver_;
    // Which half of the words the next sums go to, and which one leaves
    bool fills_, drains_;
    UpToTwo come_, ready_;               // passes that have come and not left; of these, that may be read
    bool near_;                          // a chunk has just ended
    bool ended_[apart], closed_[apart];  // [k]: k + 1 cycles ago, a chunk; a pass
    row_t last_row_;                     // of the pass that comes, so far
    row_t rows_[2];
    bool single_[2];
    // What is fetched next, unless all of the pass is, and what was fetched a cycle ago
    row_t row_;
    half_t half_;
    bool all_fetched_;
    Sums fetched_;
    row_t fetched_row_;
    half_t fetched_half_;
    bool fetched_there_, fetched_last_;
    bool drained_;  // with it the pass has left
};

}  // namespace bfpga
