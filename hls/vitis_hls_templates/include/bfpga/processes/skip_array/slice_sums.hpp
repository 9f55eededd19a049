// The sums buffer of an array that skips zeros of activations: accumulates the chunks of a slice for each row of each
// group of a run, and returns the sums of the slice in their order.
//
// Sums come chunk by chunk, group by group, row by row; the first chunk of a slice writes them, others are added.
// Groups of the last one leave when they have come. Two slices have room, so that one drains while the next one comes;
// a third one waits. A word stalled by the stream is read again: only the drain waits for it.
#pragma once
#include "bfpga/processes/skip_array/pass_forwarder.hpp"
#include "bfpga/processes/skip_array/sums_buffer.hpp"

namespace bfpga {

template <class Config>
class SliceSums {
    using Sums = SumBeat<Config>;
    using Row = RowSums<Config>;
    using accumulator_t = int_t<Config::accumulator_bits>;
    using group_t = typename Row::group_t;
    using row_t = typename Row::row_t;
    static constexpr int columns = Config::columns;
    static constexpr int last_row = Config::rows - 1;
    // Rows of a group and groups of a run, rounded up to powers of two: an address is put together.
    static constexpr int row_bits = bit_length(Config::rows - 1);
    static constexpr int group_bits = bit_length(Config::skip_halves * Config::skip_passes - 1);
    static constexpr int words = 2 << (row_bits + group_bits);
    using address_t = uint_t<bit_length(words - 1)>;
    // Groups that have come and not left.
    using count_t = uint_t<group_bits + 2>;

   public:
    SliceSums() {
        static_assert(slice_guard >= 12, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=known_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=last_group_ complete dim=0
#pragma HLS ARRAY_RESHAPE variable=cell_ complete dim=2
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// A word is read `slice_guard` cycles after it was written, or later.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=12 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    void clear() {
#pragma HLS INLINE
        fills_ = false;
        drains_ = false;
        come_.clear();
        ready_ = 0;
        any_ready_ = false;
        row_ = 0;
        ends_group_ = false;
        group_ = 0;
        all_fetched_ = false;
        fetched_there_ = false;
        drained_ = false;
        known_[0] = false;
        known_[1] = false;
    }

    // Whether sums of another slice can come in the next cycle, unless one ends in this cycle.
    bool takes() const { return !come_.two(); }
    // Whether every slice has left.
    bool idle() const { return !come_.any(); }

    // One cycle: sums of `pass` that come; `ends_group`, `ends_pass`: they are the last ones.
    void step(const Row& in, const ChunkMarks& pass, bool ends_group, bool ends_pass, stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        const bool adds = in.there && !pass.opens;
        const bool refused = fetched_there_ && !sums.write_nb(to_wire(fetched_));
        const bool drained = drained_;
        // A ready group's decision is evaluated last.
        const bool may = !adds && !all_fetched_;
        const bool may_take = may && ends_group_;
        const bool fetches = any_ready_ & may;
        const bool taken = any_ready_ & may_take;
        const bool back = fetched_ends_group_;
        drained_ = fetched_there_ && !refused && fetched_last_;
        fetched_there_ = fetches && !refused;
        const address_t own = address(fills_, in.group, in.row);
        const Sums found = read(adds ? own : address(drains_, group_, row_), adds || fetches);
        fetched_ = found;
        walk(fetches, refused, drained);
        if (in.there) {
            keep(own, in.sums, found, pass.opens);
        }
        const bool closes = ends_pass && pass.closes && pass.leaves;
        count_groups(pass.closes && (pass.single ? ends_pass : ends_group), taken, refused, back);
        count_slices(in.group, ends_group, closes, drained);
    }

   private:
    static address_t address(bool buffer, group_t group, row_t row) {
#pragma HLS INLINE
        const address_t of_slice = static_cast<address_t>(buffer ? words / 2 : 0);
        const address_t of_group =
            static_cast<address_t>(static_cast<address_t>(group) << static_cast<unsigned>(row_bits));
        return static_cast<address_t>(static_cast<address_t>(of_slice | of_group) | static_cast<address_t>(row));
    }

    // The next fetch; if the stream has stalled the fetch before, that one again.
    void walk(bool fetches, bool refused, bool drained) {
#pragma HLS INLINE
        const row_t row = row_;
        const group_t group = group_;
        const bool ends_group = ends_group_;
        const int slice = drains_ ? 1 : 0;
        const bool ends_slice = ends_group && known_[slice] && group == last_group_[slice];
        if (refused) {
            row_ = fetched_row_;
            ends_group_ = fetched_ends_group_;
            group_ = fetched_group_;
        } else if (fetches) {
            row_ = ends_group ? static_cast<row_t>(0) : static_cast<row_t>(row + 1);
            ends_group_ = row == last_row - 1;
            group_ = ends_slice ? static_cast<group_t>(0) : ends_group ? static_cast<group_t>(group + 1) : group;
        }
        all_fetched_ = !refused && !drained && (all_fetched_ || (fetches && ends_slice));
        fetched_row_ = row;
        fetched_ends_group_ = ends_group;
        fetched_group_ = group;
        fetched_last_ = ends_slice;
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

    // Groups that may leave: one has come; the last row of one is fetched; the previous and the current fetch are
    // stalled, `back`: the former was the last row of a group. The rows of a group have come one by one in
    // `slice_guard` cycles or more, and leave no faster.
    void count_groups(bool comes, bool taken, bool refused, bool back) {
#pragma HLS INLINE
        const bool more = ready_ > 1;
        const bool some = ready_ != 0;
        const bool adds = refused && back;
        const bool takes = !refused && taken;
        const count_t plus = static_cast<count_t>(ready_ + (comes ? 1 : 0));
        ready_ = adds ? static_cast<count_t>(plus + 1) : takes ? static_cast<count_t>(plus - 1) : plus;
        // The group of the stalled word has not left.
        const bool others = comes || refused;
        const bool if_taken = others || more;
        const bool if_not = others || some;
        any_ready_ = taken ? if_taken : if_not;
    }

    // Slices that have come and not left.
    void count_slices(group_t group, bool ends_group, bool closes, bool drained) {
#pragma HLS INLINE
        come_.step(closes, drained);
        // A pass without a second half ends after its only group.
        last_come_ = ends_group ? group : last_come_;
    Slices_Count:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            const bool own = fills_ == (s == 1);
            known_[s] = (closes && own) || (known_[s] && !(drained && drains_ == (s == 1)));
            last_group_[s] = closes && own ? last_come_ : last_group_[s];
        }
        fills_ = fills_ != closes;
        drains_ = drains_ != drained;
    }

    accumulator_t cell_[words][columns];
    Waiver<InterRawDistance<12>, words> cell_waiver_;
    // Which half of the words the next sums go to, and which one leaves
    bool fills_, drains_;
    UpToTwo come_;  // slices that have come and not left
    group_t last_come_;
    // Of each half of the words: its slice has come, with this group as the last one
    bool known_[2];
    group_t last_group_[2];
    count_t ready_;  // groups that may leave
    bool any_ready_;
    // What is fetched next, unless all of the slice is, and what was fetched a cycle ago
    row_t row_;
    bool ends_group_;  // it is the last one of the group
    group_t group_;
    bool all_fetched_;
    Sums fetched_;
    row_t fetched_row_;
    bool fetched_ends_group_;
    group_t fetched_group_;
    bool fetched_there_, fetched_last_;
    bool drained_;  // with it the slice has left
};

}  // namespace bfpga
