// Sends the cells of a map to the units whose pieces have them (SC R21, R40): a cell a cycle, zeros dropped. Units that
// share a piece take its cells in turn, so each gets as many, wherever the values are.
//
// Places of a piece follow the walk: one block on after each kernel width of columns, one row of blocks on after each
// kernel height of rows. No multiplier or divider.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/map_beats.hpp"
#include "bfpga/processes/sparse_cluster/map_record.hpp"

namespace bfpga {

template <class Config>
class PieceDistributor {
    using T = ClusterUnitTypes<Config>;
    using place_t = typename T::place_t;
    using phase_t = typename T::phase_t;
    using Limits = LimitsBeat<Config>;
    static constexpr int units = Config::units;
    using unit_t = uint_t<bit_length(units)>;
    static constexpr int record_words = cut_words + units;
    using telling_t = uint_t<bit_length(record_words)>;

    // What is done in a cycle.
    enum Step { Waits, Limits_Come, Opens, Cells_Come, Ends, Drains, Tells };

   public:
    PieceDistributor() : limits_(), base_(), left_(), cut_there_(false) {
#pragma HLS ARRAY_PARTITION variable=limits_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=base_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=left_ complete dim=0
        clear();
    }

    // Until a map with `stop` has come. `pieces`: the queue of each unit.
    template <class... Pieces>
    void run(stream<wire_t<MapBeat<Config>>>& maps, stream<wire_t<Limits>>& limits,
             stream<wire_t<MapCellBeat<Config>>>& cells, Pieces&... pieces) {
#pragma HLS INLINE
        NoRecords none;
        run_telling(maps, limits, cells, none, none, pieces...);
    }

    // `cuts`: the partition's words of maps that report; `told`: their records. The stream holds all records that a
    // STORE names, so no process waits for a record that waits for it.
    template <class Cuts, class Told, class... Pieces>
    void run_telling(stream<wire_t<MapBeat<Config>>>& maps, stream<wire_t<Limits>>& limits,
                     stream<wire_t<MapCellBeat<Config>>>& cells, Cuts& cuts, Told& told, Pieces&... pieces) {
#pragma HLS INLINE
        static_assert(sizeof...(Pieces) == units, "every unit has a queue");
        clear();
        bool running = true;
        PipelinedLoop loop("Cells");
    Cells:
        while (running) {
// II=1: counters of the walk are compared with stable limits; a unit's values are one sum, a cycle after its cell.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !stops_;
            send<0>(pieces...);
            const bool map = step_ == Waits && !stops_ && map_.there();
            const bool limit = step_ == Limits_Come && limit_.there();
            const bool cell = step_ == Cells_Come && cell_.there();
            stops_ = map && map_.beat().stop;
            tell(cuts, told);
            if (limit) {
                keep_limits();
            }
            go_on(map, limit, cell);
            next(map_, map, maps);
            next(limit_, limit, limits);
            next(cell_, cell, cells);
        }
    }

   private:
    template <class Beat>
    static void next(HeldBeat<Beat>& held, bool used, stream<wire_t<Beat>>& from) {
#pragma HLS INLINE
        if (used || !held.there()) {
            held.next(from);
        }
    }

    // Sends a word of the record. Those of units shift up after those of the partition.
    template <class Cuts, class Told>
    void tell(Cuts& cuts, Told& told) {
#pragma HLS INLINE
        const bool of_unit = step_ == Tells && cuts_over_;
        const bool of_cut = step_ == Tells && !cuts_over_ && cut_there_;
        if (of_unit || of_cut) {
            told.write(of_unit ? values_.word() : cut_);
        }
        told_ = of_unit || of_cut;
        values_.step(cell_.beat(), step_ == Limits_Come, of_unit);
        if (of_cut || !cut_there_) {
            cut_there_ = cuts.read_nb(cut_);
        }
    }

    void clear() {
#pragma HLS INLINE
        step_ = Waits;
        unit_ = 0;
        word_ = 0;
        stops_ = false;
        first_cell();
    }

    void first_cell() {
#pragma HLS INLINE
        row_ = 0;
        column_ = 0;
        block_column_ = 0;
        row_phase_ = 0;
        column_phase_ = 0;
    }

    void keep_limits() {
#pragma HLS INLINE
    Units_Keep:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            limits_[u] = unit_ == u ? limit_.beat() : limits_[u];
        }
    }

    // Where a unit's places begin in a row of blocks, were the row one of the map's first column.
    static place_t first_base(const Limits& limits) {
#pragma HLS INLINE
        constexpr int words = T::words;
        return T::behind(
            0, static_cast<place_t>((static_cast<int>(words) - static_cast<int>(limits.block_column)) & (words - 1)));
    }

    static place_t pitch(const Limits& limits) {
#pragma HLS INLINE
        return static_cast<place_t>(limits.end_block_column - limits.block_column);
    }

    // The beat of a unit, if it gets one.
    template <int U, class First, class... Others>
    void send(First& pieces, Others&... others) {
#pragma HLS INLINE
        const Limits& limits = limits_[U];
        const bool inside =
            row_ >= limits.row && row_ < limits.end_row && column_ >= limits.column && column_ < limits.end_column;
        const bool shared = step_ == Cells_Come && cell_.there() && inside && limits.used && cell_.beat().any();
        const bool cell = shared && left_[U] == 0;
        const bool opens = step_ == Opens && limits.used;
        left_[U] = opens    ? limits.turn
                   : cell   ? limits.last_turn
                   : shared ? static_cast<typename Limits::unit_t>(left_[U] - 1)
                            : left_[U];
        values_.take(U, cell);
        const bool drains = step_ == Drains && limits.used;
        PieceBeat<Config> beat;
        beat.stop = stops_;
        beat.opens = opens;
        beat.ends = step_ == Ends;
        beat.drains = drains;
        beat.row_phase = row_phase_;
        beat.column_phase = column_phase_;
        beat.place = opens    ? pitch(limits)
                     : drains ? static_cast<place_t>(limits.last_place)
                              : T::behind(base_[U], block_column_);
    Lanes_Send:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            beat.value[l] = cell_.beat().value[l];
        }
        beat.value[0] = drains ? static_cast<typename T::value_t>(map_kept_.last_kernel) : beat.value[0];
        if (cell || beat.marked()) {
            pieces.write(to_wire(beat));
        }
        send<U + 1>(others...);
    }

    template <int U>
    void send() {
#pragma HLS INLINE
    }

    void go_on(bool map, bool limit, bool cell) {
#pragma HLS INLINE
        const bool last_column = column_ == static_cast<line_t>(map_kept_.columns - 1);
        const bool last_row = row_ == static_cast<line_t>(map_kept_.rows - 1);
        const bool last_word = word_ == static_cast<line_t>(map_kept_.words - 1);
        const bool last_unit = unit_ == units - 1;
        switch (step_) {
            case Waits:
                if (map && !map_.beat().stop) {
                    map_kept_ = map_.beat();
                    step_ = map_.beat().keeps ? Opens : Limits_Come;
                }
                break;
            case Limits_Come:
                if (limit) {
                    unit_ = last_unit ? static_cast<unit_t>(0) : static_cast<unit_t>(unit_ + 1);
                    step_ = last_unit ? Opens : Limits_Come;
                }
                break;
            case Opens:
                word_ = 0;
                first_cell();
                begin_word();
                step_ = Cells_Come;
                break;
            case Cells_Come:
                if (cell) {
                    walk(last_column);
                    step_ = last_column && last_row ? Ends : Cells_Come;
                }
                break;
            case Ends:
                first_cell();
                begin_word();
                step_ = last_word ? Drains : Cells_Come;
                word_ = last_word ? word_ : static_cast<line_t>(word_ + 1);
                break;
            case Drains:
                step_ = map_kept_.tells ? Tells : Waits;
                telling_ = 0;
                cuts_over_ = false;
                break;
            default:
                if (told_) {
                    cuts_over_ = cuts_over_ || telling_ == cut_words - 1;
                    step_ = telling_ == record_words - 1 ? Waits : Tells;
                    telling_ = static_cast<telling_t>(telling_ + 1);
                }
        }
    }

    void begin_word() {
#pragma HLS INLINE
    Units_Begin:
        for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
            base_[u] = first_base(limits_[u]);
        }
    }

    void walk(bool last_column) {
#pragma HLS INLINE
        const bool block_ends = column_phase_ == T::columns - 1;
        const bool row_ends = row_phase_ == T::rows - 1;
        if (last_column) {
            column_ = 0;
            column_phase_ = 0;
            block_column_ = 0;
            row_phase_ = row_ends ? static_cast<phase_t>(0) : static_cast<phase_t>(row_phase_ + 1);
        Units_Walk:
            for (int u = 0; u < units; ++u) {
#pragma HLS UNROLL
                const bool below = row_ends && row_ >= limits_[u].row;
                base_[u] = below ? T::behind(base_[u], pitch(limits_[u])) : base_[u];
            }
            row_ = static_cast<line_t>(row_ + 1);
        } else {
            column_ = static_cast<line_t>(column_ + 1);
            column_phase_ = block_ends ? static_cast<phase_t>(0) : static_cast<phase_t>(column_phase_ + 1);
            block_column_ = block_ends ? T::behind(block_column_, 1) : block_column_;
        }
    }

    HeldBeat<MapBeat<Config>> map_;
    HeldBeat<Limits> limit_;
    HeldBeat<MapCellBeat<Config>> cell_;
    MapBeat<Config> map_kept_;
    Limits limits_[units];
    Step step_;
    bool stops_;
    unit_t unit_;  // whose limits come
    line_t word_, row_, column_;
    place_t block_column_;                 // of the cell, as places count
    phase_t row_phase_, column_phase_;     // of the cell in its block
    place_t base_[units];                  // places of the row of blocks, from the map's first column on
    typename Limits::unit_t left_[units];  // cells of the piece until one is the unit's
    // The record of the map
    UnitValues<Config> values_;
    int_t<32> cut_;          // a word of the partition,
    bool cut_there_;         // if there is one
    bool cuts_over_, told_;  // these words have left; one leaves in this cycle
    telling_t telling_;      // words that have left
};

}  // namespace bfpga
