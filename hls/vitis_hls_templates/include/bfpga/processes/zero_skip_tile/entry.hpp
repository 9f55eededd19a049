// Entries of a tile: as they are stored, weights that are not zero with kx, ky and their kernels (ZS R43, R46), and as
// the steps that they are for the tile.
#pragma once
#include "bfpga/processes/zero_skip_tile/types.hpp"

namespace bfpga {

// A step of a tile: a weight that meets the map, a pause, or a channel's end, which may be either.
template <class Config>
struct TileStep {
    using T = ClusterUnitTypes<Config>;
    static constexpr int down_from = Config::weight_bits;
    static constexpr int right_from = down_from + T::phase_bits;
    static constexpr int plane_from = right_from + T::phase_bits;
    static constexpr int marks = plane_from + T::plane_bits;
    static constexpr int bits = marks + 3;

    typename T::weight_t weight;
    typename T::phase_t down, right;  // offset of products from their cells (SC E2)
    typename T::plane_t plane;        // the kernel
    bool adds;                        // no pause
    bool last;                        // of its channel
    bool stop;                        // the start ends

    template <class Bits>
    void pack(Bits& to) const {
#pragma HLS INLINE
        set_signed<Config::weight_bits>(to, 0, static_cast<int64_t>(weight));
        set_signed<T::phase_bits>(to, down_from, static_cast<int64_t>(down));
        set_signed<T::phase_bits>(to, right_from, static_cast<int64_t>(right));
        set_signed<T::plane_bits>(to, plane_from, static_cast<int64_t>(plane));
        const bool mark[3] = {adds, last, stop};
        PackedFlags<3>::pack(to, marks, mark);
    }

    template <class Bits>
    void unpack(const Bits& from) {
#pragma HLS INLINE
        weight = static_cast<typename T::weight_t>(get_signed<Config::weight_bits>(from, 0));
        down = unsigned_at<T::phase_bits>(from, down_from);
        right = unsigned_at<T::phase_bits>(from, right_from);
        plane = unsigned_at<T::plane_bits>(from, plane_from);
        bool mark[3];
        PackedFlags<3>::unpack(from, marks, mark);
        adds = mark[0];
        last = mark[1];
        stop = mark[2];
    }
};

// Where the cells of a stored word are, each of a weight's bits: an entry has its weight in one, its place in the
// following ones.
template <class Config>
struct EntryCells {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using weight_t = typename T::weight_t;
    static constexpr int weight_bits = C::weight_bits;
    static constexpr int tap_bits = Config::cluster_kernel > 1 ? bit_length(Config::cluster_kernel - 1) : 1;
    static constexpr int place_cells = (2 * tap_bits + T::plane_bits + weight_bits - 1) / weight_bits;
    static constexpr int cells = 1 + place_cells;  // of an entry
    static constexpr int word_cells = Config::rows * Config::lanes;
    static_assert(word_cells >= cells, "a word holds an entry");
    static constexpr int entries = word_cells / cells;  // of a word
    static constexpr int last_entry = (entries - 1) * cells;
    // Plain weights are examined some at a time; where those of a block begin, after the entry that announces them.
    static constexpr int together = Config::rows < 8 ? Config::rows : 8;
    static constexpr int plain_from = (cells + together - 1) / together * together;
    static_assert(Config::rows % together == 0 && plain_from <= word_cells,
                  "plain weights of a tap lie beside each other");
    using index_t = uint_t<bit_length(word_cells)>;
    using place_t = uint_t<place_cells * weight_bits>;
    using tap_t = uint_t<tap_bits>;

    // The `Width` cells of a word from cell `index` on, which is one of `number` places: cells of no other are chosen.
    template <int Width, int Number>
    static void read(const WeightWord<Config>& word, index_t index, weight_t (&found)[Width]) {
#pragma HLS INLINE
    Cells_Read:
        for (int c = 0; c < Width; ++c) {
#pragma HLS UNROLL
            found[c] = 0;
        Places_Choose:
            for (int n = 0; n < Number; ++n) {
#pragma HLS UNROLL
                // One place is selected: an OR of all gives its number.
                const int cell = n * Width + c;
                const weight_t weight = static_cast<weight_t>(word.row[cell / Config::lanes][cell % Config::lanes]);
                found[c] = static_cast<weight_t>(found[c] | (index == n * Width ? weight : static_cast<weight_t>(0)));
            }
        }
    }

    // The place of an entry.
    static place_t place(const weight_t (&entry)[cells]) {
#pragma HLS INLINE
        place_t found = 0;
    Places_Join:
        for (int c = 1; c < cells; ++c) {
#pragma HLS UNROLL
            const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(entry[c])) &
                                  ((1ULL << static_cast<unsigned>(weight_bits)) - 1);
            found = static_cast<place_t>(found |
                                         static_cast<place_t>(bits << static_cast<unsigned>((c - 1) * weight_bits)));
        }
        return found;
    }

    // Fields of a place: kx, ky, the kernel.
    static tap_t column(place_t place) { return static_cast<tap_t>(field(place, 0, tap_bits)); }
    static tap_t row(place_t place) { return static_cast<tap_t>(field(place, tap_bits, tap_bits)); }
    static typename T::plane_t plane(place_t place) {
        return static_cast<typename T::plane_t>(field(place, 2 * tap_bits, T::plane_bits));
    }

   private:
    static uint64_t field(place_t place, int low, int width) {
#pragma HLS INLINE
        return static_cast<uint64_t>(place) >> static_cast<unsigned>(low) &
               ((1ULL << static_cast<unsigned>(width)) - 1);
    }
};

}  // namespace bfpga
