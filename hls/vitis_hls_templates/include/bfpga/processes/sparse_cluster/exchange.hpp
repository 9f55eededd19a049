// The next move of a partition: the limit that moves so that the sum of squared work falls most (SC R23, 4.1).
//
// Candidates have a fixed order: bands from the top, limits of a band from the left, back before forward; then the
// limits between bands. The work of a strip is added to some pieces and taken from others, a piece a cycle; where that
// changes nothing, the strip grows in the next round. With halo a limit moves the cells of the pieces before and after
// it by separate strips.
#pragma once
#include "bfpga/processes/sparse_cluster/halo.hpp"

namespace bfpga {

// Limits of bands and of their pieces, and the work of each piece.
template <class Config>
struct PartitionLimits {
    static constexpr int most_bands = Config::grid_rows;
    static constexpr int most_across = Config::grid_columns;
    using work_t = typename WorkTable<Config>::work_t;
    using index_t = uint_t<bit_length((most_bands > most_across ? most_bands : most_across) + 1)>;

    index_t bands, across;  // that there are, and pieces of each
    line_t row[most_bands + 1];
    line_t column[most_bands][most_across + 1];
    work_t load[most_bands][most_across];
    Halo<Config, Config::kernel_rows> down;  // what pieces have beyond their limits
    Halo<Config, Config::kernel_columns> beside;
};

template <class Config>
class ExchangeSearch {
    using T = ClusterUnitTypes<Config>;
    using Partition = PartitionLimits<Config>;
    using Table = WorkTable<Config>;
    using work_t = typename Table::work_t;
    static constexpr int most_bands = Partition::most_bands;
    static constexpr int most_across = Partition::most_across;
    static constexpr int candidates = 2 * most_bands * (most_across - 1) + 2 * (most_bands - 1);
    static constexpr int change_bits = 2 * Config::work_bits + 8;
    using change_t = int_t<change_bits>;
    using number_t = uint_t<bit_length(candidates)>;
    using index_t = typename Partition::index_t;
    using place_t = int_t<line_bits + 2>;

    // One piece of one candidate.
    struct Term {
        bool between_bands;  // the limit is between bands
        index_t band, limit;
        bool forward;
        bool second;  // the piece follows the limit
        index_t piece;
        bool first_term, last_term;
    };

    // A candidate that is known, or nothing.
    struct Candidate {
        bool known;
        Term term;  // its last one
        line_t place;
        bool possible;
        change_t change;
    };

   public:
    ExchangeSearch() : best_(0) {
#pragma HLS ARRAY_PARTITION variable=open_ complete dim=0
    }

    // Finds the best move and makes it; whether there was one.
    bool move(Partition& partition, const Table& table) {
        best_ = 0;
        line_t distance = 1;
        bool left = partition.bands != 1 || partition.across != 1;
    Candidates_Open:
        for (int k = 0; k < candidates; ++k) {
#pragma HLS UNROLL
            open_[k] = true;
        }
    Rounds:
        while (left) {
// Not pipelined: each round is a pipelined loop of its own, and the next one needs what it has found.
#pragma HLS LOOP_TRIPCOUNT min=1 max=64
            left = round(partition, table, distance);
            distance = static_cast<line_t>(distance + 1);
        }
        if (best_ < 0) {
            apply(partition);
        }
        return best_ < 0;
    }

   private:
    // All candidates that are open, at a distance; whether one is left.
    bool round(const Partition& partition, const Table& table, line_t distance) {
        Term term = {partition.across == 1, 0, 1, false, false, 0, true, false};
        // What a term has completed is compared in the next cycle: sum and comparison are too long for one.
        Candidate candidate = {};
        number_t number = 0;
        bool fits = true;
        bool left = false;
        bool weighing = true, deciding = true;
        PipelinedLoop loop("Terms");
    Terms:
        while (deciding) {
// II=1: what is carried are a sum and a comparison; which term comes next depends on none of them.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=4 max=256
            loop.iteration();
            if (candidate.known) {
                left = decide(number, candidate) || left;
                number = static_cast<number_t>(number + 1);
            }
            deciding = weighing;
            term.first_term = term.between_bands ? !term.second && term.piece == 0 : !term.second;
            term.last_term = term.second && (!term.between_bands || term.piece == partition.across - 1);
            bool inside = false;
            bool fit = false;
            place_t place = 0;
            const change_t more = change_of(partition, table, term, distance, place, inside, fit);
            candidate.change =
                static_cast<change_t>((term.first_term ? static_cast<change_t>(0) : candidate.change) + more);
            fits = (term.first_term || fits) && fit;
            candidate.possible = inside && fits;
            candidate.term = term;
            candidate.place = static_cast<line_t>(place);
            candidate.known = weighing && term.last_term;
            weighing = advance(term, partition) && weighing;
        }
        loop.ended();
        return left;
    }

    // A candidate is known: it is out, or a move, or changes nothing and stays. Whether it stays.
    bool decide(number_t number, const Candidate& candidate) {
#pragma HLS INLINE
        const bool open = open_[static_cast<int>(number)];
        const bool possible = open && candidate.possible;
        const bool first = candidate.change == best_ && number < best_number_;
        if (possible && candidate.change < 0 && (candidate.change < best_ || first)) {
            best_ = candidate.change;
            best_number_ = number;
            best_term_ = candidate.term;
            best_place_ = candidate.place;
        }
        const bool stays = possible && candidate.change == 0;
        open_[static_cast<int>(number)] = stays;
        return stays;
    }

    // What the sum of squares changes by the strip in one piece; where the limit would be, whether that is possible.
    change_t change_of(const Partition& partition, const Table& table, const Term& term, line_t distance,
                       place_t& place, bool& inside, bool& fit) const {
#pragma HLS INLINE
        const int limit = static_cast<int>(term.limit);
        const int band = term.between_bands ? limit - (term.second ? 0 : 1) : static_cast<int>(term.band);
        const int piece = term.between_bands ? static_cast<int>(term.piece) : limit - (term.second ? 0 : 1);
        const Lines rows = {partition.row[band], partition.row[band + 1]};
        const Lines columns = {partition.column[band][piece], partition.column[band][piece + 1]};
        const Lines& cut = term.between_bands ? rows : columns;
        // The limit is the end of the first piece and the begin of the second one.
        const line_t now = term.second ? cut.first : cut.end;
        const line_t low = term.between_bands ? partition.row[limit - 1] : partition.column[band][limit - 1];
        const line_t high = term.between_bands ? partition.row[limit + 1] : partition.column[band][limit + 1];
        place = static_cast<place_t>(term.forward ? static_cast<int>(now) + static_cast<int>(distance)
                                                  : static_cast<int>(now) - static_cast<int>(distance));
        inside = place > static_cast<place_t>(low) && place < static_cast<place_t>(high);
        const line_t safe = inside ? static_cast<line_t>(place) : now;
        const Lines crossed = {term.forward ? now : safe, term.forward ? safe : now};
        const Lines changed = {term.second ? safe : cut.first, term.second ? cut.end : safe};
        const Lines cell_rows = partition.down.cells(term.between_bands ? changed : rows);
        const Lines cell_columns = partition.beside.cells(term.between_bands ? columns : changed);
        fit = holds(cell_rows, cell_columns);
        const work_t work =
            table.work(term.between_bands ? strip(partition.down, crossed, term.second) : cell_rows,
                       term.between_bands ? cell_columns : strip(partition.beside, crossed, term.second), inside);
        const bool gains = term.forward != term.second;
        const int_t<Config::work_bits + 2> load = partition.load[band][piece];
        const int_t<Config::work_bits + 2> twice = static_cast<int_t<Config::work_bits + 2>>(load + load);
        const int_t<Config::work_bits + 2> factor =
            static_cast<int_t<Config::work_bits + 2>>(gains ? work + twice : work - twice);
        return product(factor, work);
    }

    // The cells that a piece gains or loses where its limit crosses some lines; `second`: it follows the limit.
    template <class Axis>
    static Lines strip(const Axis& halo, const Lines& crossed, bool second) {
#pragma HLS INLINE
        const Lines lines = {second ? halo.first(crossed.first) : halo.end(crossed.first),
                             second ? halo.first(crossed.end) : halo.end(crossed.end)};
        return lines;
    }

    // In two parts, each of which a DSP block has: a product of all bits would be longer than a cycle.
    static change_t product(int_t<Config::work_bits + 2> factor, work_t work) {
#pragma HLS INLINE
        constexpr int part_bits = 12;
        constexpr int part = 1 << part_bits;
        static_assert(Config::work_bits > part_bits && Config::work_bits + 2 <= 27, "a part has a DSP block");
        const int_t<part_bits + 1> low = static_cast<int_t<part_bits + 1>>(work & (part - 1));
        const int_t<Config::work_bits - part_bits> high =
            static_cast<int_t<Config::work_bits - part_bits>>(work >> part_bits);
        const int_t<40> lower = static_cast<factor_t<40, Config::work_bits + 2>>(factor) * low;
#pragma HLS BIND_OP variable=lower op=mul impl=dsp latency=3
        const int_t<40> upper = static_cast<factor_t<40, Config::work_bits + 2>>(factor) * high;
#pragma HLS BIND_OP variable=upper op=mul impl=dsp latency=3
        return static_cast<change_t>(static_cast<change_t>(upper) * part + static_cast<change_t>(lower));
    }

    // Whether a unit holds the sums of a piece, wherever its first block begins (SC R155).
    static bool holds(const Lines& rows, const Lines& columns) {
#pragma HLS INLINE
        const int down = blocks<T::rows>(rows);
        const int beside = blocks<T::columns>(columns);
        return down * beside <= T::words;
    }

    template <int Kernel>
    static int blocks(const Lines& lines) {
#pragma HLS INLINE
        constexpr int reciprocal = ((1 << 14) + Kernel - 1) / Kernel;  // exact for what lines there are
        const int cells = static_cast<int>(lines.end) - static_cast<int>(lines.first) + 3 * (Kernel - 1);
        return (cells * reciprocal) >> 14;
    }

    // Advances to the next term; whether there is one. The last one's limit stays.
    static bool advance(Term& term, const Partition& partition) {
#pragma HLS INLINE
        const bool last_piece = !term.between_bands || term.piece == partition.across - 1;
        const bool candidate = term.second && last_piece;
        const bool limit = candidate && term.forward;
        term.piece = last_piece ? static_cast<index_t>(0) : static_cast<index_t>(term.piece + 1);
        term.second = last_piece ? !term.second : term.second;
        term.forward = candidate ? !term.forward : term.forward;
        const bool band = !term.between_bands && term.limit == partition.across - 1;
        const bool rows = band && term.band == partition.bands - 1;
        const bool last = term.between_bands ? term.limit == partition.bands - 1 : rows && partition.bands == 1;
        if (limit && !last) {
            term.limit = band ? static_cast<index_t>(1) : static_cast<index_t>(term.limit + 1);
            term.band = band ? static_cast<index_t>(term.band + 1) : term.band;
            term.between_bands = term.between_bands || rows;
        }
        return !(limit && last);
    }

    void apply(Partition& partition) const {
#pragma HLS INLINE
    Rows_Apply:
        for (int b = 0; b <= most_bands; ++b) {
#pragma HLS UNROLL
            const bool moves = best_term_.between_bands && best_term_.limit == b;
            partition.row[b] = moves ? best_place_ : partition.row[b];
        }
    Bands_Apply:
        for (int b = 0; b < most_bands; ++b) {
#pragma HLS UNROLL
        Columns_Apply:
            for (int c = 0; c <= most_across; ++c) {
#pragma HLS UNROLL
                const bool moves = !best_term_.between_bands && best_term_.band == b && best_term_.limit == c;
                partition.column[b][c] = moves ? best_place_ : partition.column[b][c];
            }
        }
    }

    bool open_[candidates > 0 ? candidates : 1];
    change_t best_;  // 0: none
    number_t best_number_;
    Term best_term_;
    line_t best_place_;
};

}  // namespace bfpga
