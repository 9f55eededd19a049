// Puts the values of a piece together by micro-tiles, and sends those of a tile and channel in groups (SC R69, R79,
// R80).
//
// Cells come row by row, and a tile has cells of several rows. So a word of channels is loaded into one of two sets of
// memories (SC R49), a bank for each cell of a tile, while the tiles of the other set leave. Only tiles with values are
// listed. A tile leaves in as many cycles as it could have groups, whatever it has: nothing that is read decides what
// is read next.
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/map_beats.hpp"
#include "bfpga/processes/sparse_cluster/tile_beats.hpp"

namespace bfpga {

// Cycles between the write of a cell and its first read: more than the loop has between these stages.
constexpr int tile_guard = 6;

// `Groups`: the beats that leave, which take a tile's values group by group.
template <class Config, class Groups = TileBeat<Config>>
class TileGather {
    using T = ClusterUnitTypes<Config>;
    using Pieces = PieceBeat<Config>;
    using Cells = MapCellBeat<Config>;
    using place_t = typename T::place_t;
    using lane_t = typename T::lane_t;
    using value_t = typename T::value_t;
    static constexpr int lanes = Config::lanes;
    static constexpr int sets = 2;
    static constexpr int words = T::words;
    static constexpr int groups = Groups::groups;
    using group_t = uint_t<bit_length(groups)>;
    using count_t = uint_t<bit_length(words)>;
    using guard_t = uint_t<bit_length(tile_guard)>;

   public:
    TileGather() : mark_() {
        static_assert(tile_guard >= 6, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
// A set is read when `tile_guard` cycles have passed since it was loaded, and loaded when it has left.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=6 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
#pragma HLS BIND_STORAGE variable=list_ type=ram_s2p impl=lutram
// As above.
#pragma HLS DEPENDENCE variable=list_ type=inter direction=raw distance=6 true
        list_waiver_.states("list_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=listed_ complete dim=0
        clear();
    }

    // Until a `stop` has come, which is sent on.
    void run(stream<wire_t<Pieces>>& pieces, stream<wire_t<Groups>>& to) {
#pragma HLS INLINE
        clear();
        clear_cells();
        bool running = true;
        PipelinedLoop loop("Gather");
    Gather:
        while (running) {
// II=1: what is decided in a cycle are flags and counters of the one before.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool walks = leaves_ && guard_ == 0 && left_ != 0;
            const bool tells = leaves_ && guard_ == 0 && left_ == 0;
            const bool marked = held_.there() && held_.beat().marked();
            const bool value = held_.there() && !marked && !(leaves_ && mark_.stop);
            const bool mark = marked && !leaves_;
            running = !(tells && mark_.stop);
            send(walks, tells, value, to);
            list(value, mark);
            go_on(walks, tells);
            if (mark) {
                begin();
            }
            if (value || mark || !held_.there()) {
                held_.next(pieces);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        leaves_ = false;
        loading_ = false;
        guard_ = 0;
        count_ = 0;
        left_ = 0;
        tile_ = 0;
        lane_ = 0;
        group_ = 0;
    Places_Clear:
        for (int w = 0; w < words; ++w) {
#pragma HLS UNROLL
            listed_[w] = false;
        }
    }

    // All cells are zero; each is again when it has left.
    void clear_cells() {
#pragma HLS INLINE
        Cells none;
    Lanes_Clear:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            none.value[l] = 0;
        }
        PipelinedLoop loop("Cells_Clear");
    Cells_Clear:
        for (int word = 0; word < words; ++word) {
// II=1: a word of every bank a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
        Banks_Clear:
            for (int n = 0; n < sets * T::cells; ++n) {
#pragma HLS UNROLL
                cell_waiver_.writes(n * words + word);
                cell_[n][word] = to_wire(none);
            }
        }
    }

    static int listed_at(bool set, int number) {
#pragma HLS INLINE
        return (set ? words : 0) + number;
    }

    // What leaves in a cycle, and what is written: the cell of a value, or zeros where a tile has left.
    void send(bool walks, bool tells, bool value, stream<wire_t<Groups>>& to) {
#pragma HLS INLINE
        if (native_integers && !walks && !tells && !value) {  // a simulation saves the time
            return;
        }
        const int number = listed_at(!loading_, static_cast<int>(tile_));
        if (walks) {
            list_waiver_.reads(number);
        }
        const place_t place = list_[number];
        const bool last = walks && lane_ == lanes - 1 && group_ == groups - 1;
        value_t tile[T::cells];
#pragma HLS ARRAY_PARTITION variable=tile complete dim=0
    Sets_Read:
        for (int s = 0; s < sets; ++s) {
#pragma HLS UNROLL
            const bool loads = loading_ == (s == 1);
        Cells_Read:
            for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
                const bool here =
                    value && held_.beat().row_phase == n / T::columns && held_.beat().column_phase == n % T::columns;
                const Cells read = cell(s * T::cells + n, loads ? here : last, loads ? held_.beat().place : place,
                                        walks && !loads, place, loads);
                tile[n] = loads && s > 0 ? tile[n] : read.value[static_cast<int>(lane_)];
            }
        }
        Groups beat;
        const bool some = beat.gather(tile, static_cast<int>(group_));
        beat.place = tells ? mark_.place : place;
        if (tells) {
            beat.value[0] = mark_.value[0];
        }
        beat.channel = lane_;
        beat.is_value = walks;
        beat.opens = tells && mark_.opens;
        beat.ends = tells && mark_.ends;
        beat.drains = tells && mark_.drains;
        beat.stop = tells && mark_.stop;
        if (tells || (walks && some)) {
            to.write(to_wire(beat));
        }
    }

    // A word of a bank: read, and written with what has come or with zeros.
    Cells cell(int bank, bool writes, place_t at, bool reads, place_t from, bool loads) {
#pragma HLS INLINE
        if (reads) {
            cell_waiver_.reads(bank * words + static_cast<int>(from));
        }
        const Cells found = from_wire<Cells>(cell_[bank][static_cast<int>(from)]);
        Cells written;
    Lanes_Write:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            written.value[l] = loads ? held_.beat().value[l] : static_cast<value_t>(0);
        }
        if (writes) {
            cell_waiver_.writes(bank * words + static_cast<int>(at));
            cell_[bank][static_cast<int>(at)] = to_wire(written);
        }
        return found;
    }

    // Lists a tile when its first value comes.
    void list(bool value, bool mark) {
#pragma HLS INLINE
        const place_t place = held_.beat().place;
        const bool lists = value && !listed_[static_cast<int>(place)];
        if (lists) {
            const int number = listed_at(loading_, static_cast<int>(count_));
            list_waiver_.writes(number);
            list_[number] = place;
            count_ = static_cast<count_t>(count_ + 1);
        }
    Places_List:
        for (int w = 0; w < words; ++w) {
#pragma HLS UNROLL
            listed_[w] = !mark && (listed_[w] || (lists && place == w));
        }
    }

    void go_on(bool walks, bool tells) {
#pragma HLS INLINE
        const bool last_group = group_ == groups - 1;
        const bool last_lane = lane_ == lanes - 1;
        if (walks) {
            group_ = last_group ? static_cast<group_t>(0) : static_cast<group_t>(group_ + 1);
            if (last_group) {
                lane_ = last_lane ? static_cast<lane_t>(0) : static_cast<lane_t>(lane_ + 1);
            }
            if (last_group && last_lane) {
                tile_ = static_cast<count_t>(tile_ + 1);
                left_ = static_cast<count_t>(left_ - 1);
            }
        }
        guard_ = guard_ != 0 ? static_cast<guard_t>(guard_ - 1) : guard_;
        leaves_ = leaves_ && !tells;
    }

    // The set that was loaded leaves, then its mark.
    void begin() {
#pragma HLS INLINE
        mark_ = held_.beat();
        leaves_ = true;
        guard_ = tile_guard;
        left_ = count_;
        tile_ = 0;
        count_ = 0;
        loading_ = !loading_;
    }

    HeldBeat<Pieces> held_;
    wire_t<Cells> cell_[sets * T::cells][words];  // the banks of the first set, then of the second one
    mutable Waiver<InterRawDistance<6>, sets * T::cells * words> cell_waiver_;
    place_t list_[sets * words];  // the tiles of a set
    mutable Waiver<InterRawDistance<6>, sets * words> list_waiver_;
    bool listed_[words];  // tiles of the set that is loaded
    bool loading_;        // it is the second set
    count_t count_;       // of its tiles
    Pieces mark_;         // what leaves after the other set
    bool leaves_;
    guard_t guard_;        // cycles until it can be read
    count_t left_, tile_;  // tiles that are left; the one that leaves
    lane_t lane_;
    group_t group_;
};

}  // namespace bfpga
