// Cuts a map into pieces of nearly equal work, one for each unit (SC R21-R25, R33).
//
// The values that are not zero are counted as the map comes, all channels of a cell together. Then limits move, one at
// a time, until no two pieces differ by more than a threshold, no move helps, or as many moves as are allowed were
// made. A threshold out of reach is a result like any other: the report flags it.
//
// Pieces of the grid may be joined: then a map is cut into fewer pieces, and the units of a joined one share its cells.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/exchange.hpp"
#include "bfpga/processes/sparse_cluster/layer.hpp"
#include "bfpga/processes/sparse_cluster/map_record.hpp"
#include "bfpga/processes/sparse_cluster/piece_limits.hpp"

namespace bfpga {

template <class Config>
class PartitionProcess {
    using T = ClusterUnitTypes<Config>;
    using Cells = MapCellBeat<Config>;
    using Limits = LimitsBeat<Config>;
    using Maps = PartitionBeat<Config>;
    using work_t = typename WorkTable<Config>::work_t;
    using Partition = PartitionLimits<Config>;
    using index_t = typename Partition::index_t;
    static constexpr int most_bands = Partition::most_bands;
    static constexpr int most_across = Partition::most_across;
    static constexpr int units = most_bands * most_across;
    static constexpr int fields = Config::halo ? 7 : 5;  // numbers of a map before its limits
    using unit_t = typename Limits::unit_t;

   public:
    PartitionProcess() {
#pragma HLS ARRAY_PARTITION variable=partition_.row complete dim=0
#pragma HLS ARRAY_PARTITION variable=partition_.column complete dim=0
#pragma HLS ARRAY_PARTITION variable=partition_.load complete dim=0
    }

    // One map. `numbers`: rows, columns, words of channels, threshold, moves that are allowed; with halo rows and
    // columns of the kernel; then the limits that the search starts from: of bands, of the pieces of each. `cells`: all
    // words of a cell after each other. `limits`: of the pieces, for the distributor and for the collector. `reports`:
    // moves, whether the threshold is met, the largest and the smallest work of a piece.
    void run(stream<int_t<32>>& numbers, stream<wire_t<Cells>>& cells, stream<wire_t<Limits>>& limits,
             stream<wire_t<Limits>>& grid_limits, stream<int_t<32>>& reports) {
#pragma HLS INLINE
        int_t<32> number[fields];
#pragma HLS ARRAY_PARTITION variable=number complete dim=0
    Numbers_Read:
        for (int n = 0; n < fields; ++n) {
#pragma HLS UNROLL
            number[n] = numbers.read();
        }
        join(1, 1);
        // Without halo both receive a number that they do not use.
        partition_.down.set(static_cast<line_t>(number[0]), static_cast<line_t>(number[fields - 2]));
        partition_.beside.set(static_cast<line_t>(number[1]), static_cast<line_t>(number[fields - 1]));
        read_start(numbers);
        count(static_cast<line_t>(number[0]), static_cast<line_t>(number[1]), static_cast<line_t>(number[2]), cells);
        const int_t<32> moves = search(number[3], number[4]);
        send(limits, grid_limits);
        reports.write(moves);
        reports.write(met(number[3]) ? 1 : 0);
        reports.write(static_cast<int_t<32>>(largest_));
        reports.write(static_cast<int_t<32>>(smallest_));
    }

    // All maps of a start of a kernel. Pieces are equal, or begin so and follow the work of `cells`, which come word of
    // channels by word of channels then, each a raster. `cuts`: the partition's words of a record, of maps that report.
    template <class Cuts>
    void run(stream<wire_t<Maps>>& maps, stream<wire_t<Cells>>& cells, stream<wire_t<Limits>>& limits,
             stream<wire_t<Limits>>& grid_limits, Cuts& cuts) {
#pragma HLS INLINE
        bool running = true;
    Maps_Cut:
        while (running) {
// Not pipelined: a map is cut by pipelined loops, one after the other.
#pragma HLS LOOP_TRIPCOUNT min=1 max=1024
            const Maps map = from_wire<Maps>(maps.read());
            running = !map.stop;
            if (running) {
                join(map.joined_rows, map.joined_columns);
                partition_.down.set(map.rows, static_cast<line_t>(map.halo_rows + 1));
                partition_.beside.set(map.columns, static_cast<line_t>(map.halo_columns + 1));
                start_equal(map);
                const bool counted = map.moves != 0;
                int_t<32> moves = 0;
                if (counted) {
                    count_words(map, cells);
                    moves = search(map.work_difference, static_cast<int_t<32>>(map.moves));
                }
                send(limits, grid_limits);
                if (map.tells) {
                    tell(counted, moves, map.work_difference, cuts);
                }
            }
        }
    }

   private:
    // The record words of a map that was counted and of one that was not; units do not receive them.
    template <class Cuts>
    void tell(bool counted, int_t<32> moves, int_t<32> threshold, Cuts& cuts) {
#pragma HLS INLINE
        const bool reached = counted && met(threshold);
        cuts.write(cut_word(static_cast<uint32_t>(static_cast<int32_t>(moves)), reached, counted));
        cuts.write(counted ? static_cast<int_t<32>>(largest_) : static_cast<int_t<32>>(0));
        cuts.write(counted ? static_cast<int_t<32>>(smallest_) : static_cast<int_t<32>>(0));
    }

    // Moves limits as long as that is allowed and helps; how often.
    int_t<32> search(int_t<32> threshold, int_t<32> most) {
#pragma HLS INLINE
        int_t<32> moves = 0;
        bool moving = true;
    Moves:
        while (moving) {
// Not pipelined: a move needs the loads that the one before has left.
#pragma HLS LOOP_TRIPCOUNT min=1 max=256
            find_loads();
            moving = !met(threshold) && moves < most && search_.move(partition_, table_);
            moves += moving ? 1 : 0;
        }
        return moves;
    }

    // So many pieces of the grid are one, down and across; numbers that divide the grid.
    void join(line_t down, line_t beside) {
#pragma HLS INLINE
        simulation_check(divides<most_bands>(down) && divides<most_across>(beside), "a map",
                         "joins pieces in no equal parts of the grid; rows:", static_cast<int>(down));
        partition_.bands = parts_of<most_bands>(down);
        partition_.across = parts_of<most_across>(beside);
        last_turn_ = static_cast<unit_t>(
            static_cast<int>(static_cast<index_t>(down)) * static_cast<int>(static_cast<index_t>(beside)) - 1);
    }

    template <int N>
    static bool divides(line_t joined) {
        return joined != 0 && N % static_cast<int>(joined) == 0;
    }

    // How many parts there are of N of which `joined` are one.
    template <int N>
    static index_t parts_of(line_t joined) {
#pragma HLS INLINE
        index_t parts = N;
    Parts_Choose:
        for (int j = 2; j <= N; ++j) {
#pragma HLS UNROLL
            parts = joined == j ? static_cast<index_t>(N / j) : parts;
        }
        return parts;
    }

    // Limit `number` of equal pieces of which `joined` are one: one of those of all.
    template <int N>
    static line_t joined_limit(line_t lines, int number, line_t joined) {
#pragma HLS INLINE
        line_t limit = equal_limit<N>(lines, number);
    Limits_Choose:
        for (int j = 2; j <= N; ++j) {
#pragma HLS UNROLL
            if (N % j == 0) {
                limit = joined == j ? equal_limit<N>(lines, number * j < N ? number * j : N) : limit;
            }
        }
        return limit;
    }

    void start_equal(const Maps& map) {
#pragma HLS INLINE
    Rows_Start:
        for (int b = 0; b <= most_bands; ++b) {
#pragma HLS UNROLL
            partition_.row[b] = joined_limit<most_bands>(map.rows, b, map.joined_rows);
        }
    Bands_Start:
        for (int b = 0; b < most_bands; ++b) {
#pragma HLS UNROLL
        Columns_Start:
            for (int c = 0; c <= most_across; ++c) {
#pragma HLS UNROLL
                partition_.column[b][c] = joined_limit<most_across>(map.columns, c, map.joined_columns);
            }
        }
    }

    // The table of the work of a map whose words of channels come one after the other: the work left of and above a
    // cell is that of its columns up to it, and each word adds its own.
    void count_words(const Maps& map, stream<wire_t<Cells>>& cells) {
#pragma HLS INLINE
        line_t row = 0, column = 0, word = 0;
        work_t work = 0;
        int pause = 0;
        bool counting = true;
        simulation_check(map.rows <= Config::map_lines && map.columns <= Config::map_lines, "a map",
                         "has more lines than the partition counts; rows:", static_cast<int>(map.rows));
        PipelinedLoop loop("Words_Count");
    Words_Count:
        while (counting) {
// II=1: what is carried is a sum; what a column and a cell had was written before a pause.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=65536
            loop.iteration();
            if (pause > 0) {
                --pause;
            } else {
                const work_t more = nonzeros(from_wire<Cells>(cells.read()));
                const work_t of_column = columns_.add(column, more, row == 0);
                work = static_cast<work_t>((column == 0 ? static_cast<work_t>(0) : work) + of_column);
                const bool adds = word != 0;
                const work_t before =
                    table_.above(0, static_cast<line_t>(row + 1), static_cast<line_t>(column + 1), adds);
                table_.write(row, column, static_cast<work_t>((adds ? before : static_cast<work_t>(0)) + work));
                const bool last_column = column == static_cast<line_t>(map.columns - 1);
                const bool last_row = last_column && row == static_cast<line_t>(map.rows - 1);
                column = last_column ? static_cast<line_t>(0) : static_cast<line_t>(column + 1);
                row = last_row ? static_cast<line_t>(0) : last_column ? static_cast<line_t>(row + 1) : row;
                pause = last_column ? table_guard : 0;
                counting = !(last_row && word == static_cast<line_t>(map.words - 1));
                word = last_row ? static_cast<line_t>(word + 1) : word;
            }
        }
    }

    void read_start(stream<int_t<32>>& numbers) {
#pragma HLS INLINE
    Rows_Read:
        for (int b = 0; b <= most_bands; ++b) {
#pragma HLS UNROLL
            partition_.row[b] = static_cast<line_t>(numbers.read());
        }
    Bands_Read:
        for (int b = 0; b < most_bands; ++b) {
#pragma HLS UNROLL
        Columns_Read:
            for (int c = 0; c <= most_across; ++c) {
#pragma HLS UNROLL
                partition_.column[b][c] = static_cast<line_t>(numbers.read());
            }
        }
    }

    // The table of the work of a map.
    void count(line_t rows, line_t columns, line_t words, stream<wire_t<Cells>>& cells) {
#pragma HLS INLINE
        line_t row = 0, column = 0, word = 0;
        work_t of_row = 0;
        int pause = 0;
        bool counting = true;
        PipelinedLoop loop("Count");
    Count:
        while (counting) {
// II=1: what is carried is a sum; the row above was written before a pause.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=65536
            loop.iteration();
            if (pause > 0) {
                --pause;
            } else {
                const work_t more = nonzeros(from_wire<Cells>(cells.read()));
                of_row = static_cast<work_t>(of_row + more);
                const bool last_word = word == static_cast<line_t>(words - 1);
                const bool last_column = last_word && column == static_cast<line_t>(columns - 1);
                if (last_word) {
                    const work_t above = table_.above(0, row, static_cast<line_t>(column + 1), true);
                    table_.write(row, column, static_cast<work_t>(above + of_row));
                }
                word = last_word ? static_cast<line_t>(0) : static_cast<line_t>(word + 1);
                column = last_column ? static_cast<line_t>(0) : last_word ? static_cast<line_t>(column + 1) : column;
                if (last_column) {
                    of_row = 0;
                    pause = table_guard;
                    counting = row != static_cast<line_t>(rows - 1);
                    row = static_cast<line_t>(row + 1);
                }
            }
        }
    }

    static work_t nonzeros(const Cells& cell) {
#pragma HLS INLINE
        work_t found = 0;
    Lanes_Count:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            found = static_cast<work_t>(found + (cell.value[l] != 0 ? 1 : 0));
        }
        return found;
    }

    // The work of every piece, the largest and the smallest.
    void find_loads() {
        index_t band = 0, piece = 0;
        bool first = true, weighing = true;
        largest_ = 0;
        PipelinedLoop loop("Loads");
    Loads:
        while (weighing) {
// II=1: a piece a cycle, limits are stable.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=16
            loop.iteration();
            const int b = static_cast<int>(band), c = static_cast<int>(piece);
            const Lines rows = {partition_.row[b], partition_.row[b + 1]};
            const Lines columns = {partition_.column[b][c], partition_.column[b][c + 1]};
            const work_t load = table_.work(partition_.down.cells(rows), partition_.beside.cells(columns), true);
            partition_.load[b][c] = load;
            largest_ = load > largest_ ? load : largest_;
            smallest_ = first || load < smallest_ ? load : smallest_;
            first = false;
            weighing = !next_piece(band, piece);
        }
    }

    // Advances to the next piece; whether this was the last, which wraps to the first.
    bool next_piece(index_t& band, index_t& piece) const {
#pragma HLS INLINE
        const bool last_piece = piece == partition_.across - 1;
        const bool last_band = band == partition_.bands - 1;
        piece = last_piece ? static_cast<index_t>(0) : static_cast<index_t>(piece + 1);
        band = !last_piece ? band : last_band ? static_cast<index_t>(0) : static_cast<index_t>(band + 1);
        return last_piece && last_band;
    }

    bool met(int_t<32> threshold) const {
#pragma HLS INLINE
        return static_cast<int_t<32>>(largest_) - static_cast<int_t<32>>(smallest_) <= threshold;
    }

    // The limits of each unit; those of a piece follow each other and take its cells in turn.
    void send(stream<wire_t<Limits>>& limits, stream<wire_t<Limits>>& grid_limits) {
#pragma HLS INLINE
        index_t band = 0, piece = 0;
        unit_t turn = 0;
        PipelinedLoop loop("Limits_Send");
    Limits_Send:
        for (int n = 0; n < units; ++n) {
// II=1: a unit a cycle.
#pragma HLS PIPELINE II=1
            loop.iteration();
            const int b = static_cast<int>(band), c = static_cast<int>(piece);
            Limits beat = piece_limits<Config>({partition_.row[b], partition_.row[b + 1]},
                                               {partition_.column[b][c], partition_.column[b][c + 1]}, partition_.down,
                                               partition_.beside);
            beat.turn = turn;
            beat.last_turn = last_turn_;
            limits.write(to_wire(beat));
            grid_limits.write(to_wire(beat));
            const bool last_of_piece = turn == last_turn_;
            turn = last_of_piece ? static_cast<unit_t>(0) : static_cast<unit_t>(turn + 1);
            if (last_of_piece) {
                next_piece(band, piece);
            }
        }
    }

    WorkTable<Config> table_;
    ColumnWork<Config> columns_;
    Partition partition_;
    unit_t last_turn_;  // of the units of a piece
    ExchangeSearch<Config> search_;
    work_t largest_, smallest_;
};

}  // namespace bfpga
