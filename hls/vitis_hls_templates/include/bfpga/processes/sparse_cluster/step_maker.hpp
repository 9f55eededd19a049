// Makes the steps of the units out of stored weight words: for each channel of a word the kernels that have a weight
// there, one a cycle (SC R19).
//
// The taps of a word of channels come one after the other and are written to memories, some kernels a cycle; the steps
// of the word before leave meanwhile. Two steps of a kernel are `sum_distance` steps apart at least, whichever
// channels' values follow each other: kernel z is at place min(z, 3) of its list or later, and a list has four steps.
// So kernels from 3 on are met again after three places at least, and the first three at their own place of a list of
// four. In the place of one of the first kernels without a weight is a pause. A channel without any weight has two
// pauses, which keep no kernel from its distance.
//
// Units of variant B meet one weight a step: a channel has such a list for each tap that has weights, list after list,
// and one list of three pauses where no tap has any. Those of variants C and D meet the weights of two taps in
// parallel, so lists are fewer; a product may stall there, so a list keeps a place more. Kernel z has taps z lists
// further on in each, modulo the kernel: products of consecutive rounds then meet in different banks, and stalled ones
// find room. Kernels smaller than the largest have few taps and are not turned. Units of variant A take several cycles
// for a step: kernel z is at place min(z, 1) or later, and a list has two places.
//
// It stalls only for words and on backpressure of the steps: words come block by block as the operations do, and their
// source waits only for results of the blocks before.
#pragma once
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/layer.hpp"
#include "bfpga/processes/two_sets.hpp"

namespace bfpga {

// Cycles from the write of a weight to its first read at least.
constexpr int kernel_guard = 6;

// The weights of two words of channels: a set that is read, and one that comes.
template <class Config>
class KernelSets {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using weight_t = typename T::weight_t;
    static constexpr int lanes = C::lanes;

   public:
    // Kernels that are written in a cycle, and cycles that a tap takes.
    static constexpr int together = C::planes > 1 ? 2 : 1;
    static constexpr int slots = C::planes / together;
    using slot_t = uint_t<bit_length(slots)>;
    static constexpr int width = together * lanes;
    static constexpr int words = 2 * slots;

    KernelSets() : cell_() {
        static_assert(kernel_guard >= 6, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=lutram
// A set is read when `kernel_guard` cycles have passed, and written anew when all its steps have left.
#pragma HLS DEPENDENCE variable=cell_ type=inter direction=raw distance=6 true
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // The weights of a tap in the kernels of a slot; `here`: whether it is the tap of that place.
    void write(bool set, slot_t slot, const bool (&here)[T::cells], const WeightWord<Config>& weights) {
#pragma HLS INLINE
        weight_t column[width];
#pragma HLS ARRAY_PARTITION variable=column complete dim=0
    Columns_Choose:
        for (int k = 0; k < width; ++k) {
#pragma HLS UNROLL
            column[k] = 0;
        Slots_Choose:
            for (int n = 0; n < slots; ++n) {
#pragma HLS UNROLL
                const weight_t weight = static_cast<weight_t>(weights.row[n * together + k / lanes][k % lanes]);
                column[k] = static_cast<weight_t>(column[k] | (slot == n ? weight : static_cast<weight_t>(0)));
            }
        }
    Taps_Write:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            if (here[n]) {
                write_tap(n, address(set, slot), column);
            }
        }
    }

    // The weight of a tap in a kernel and a channel.
    weight_t read(bool set, int tap, int plane, int lane) const {
#pragma HLS INLINE
        const int word = address(set, static_cast<slot_t>(plane / together));
        const int column = plane % together * lanes + lane;
        weight_t found = 0;
    Columns_Read:
        for (int k = 0; k < width; ++k) {
#pragma HLS UNROLL
            const weight_t weight = cell_[tap * width + k][word];
            found = static_cast<weight_t>(found | (column == k ? weight : static_cast<weight_t>(0)));
            if (column == k) {
                cell_waiver_.reads((tap * width + k) * words + word);
            }
        }
        return found;
    }

   private:
    static int address(bool set, slot_t slot) {
#pragma HLS INLINE
        return (set ? slots : 0) + static_cast<int>(slot);
    }

    void write_tap(int tap, int word, const weight_t (&column)[width]) {
#pragma HLS INLINE
    Columns_Write:
        for (int k = 0; k < width; ++k) {
#pragma HLS UNROLL
            cell_waiver_.writes((tap * width + k) * words + word);
            cell_[tap * width + k][word] = column[k];
        }
    }

    weight_t cell_[T::cells * width][words];
    mutable Waiver<InterRawDistance<6>, T::cells * width * words> cell_waiver_;
};

template <class Config>
class StepMaker {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using Sets = KernelSets<Config>;
    using Steps = StepBeat<C>;
    using Kernels = KernelsBeat<C>;
    using Words = WeightBeat<Config>;
    using slot_t = typename Sets::slot_t;
    static constexpr int lanes = C::lanes;
    static constexpr int planes = C::planes;
    // From a step of a kernel to its next one.
    static constexpr int step_distance =
        C::shifts ? window_distance : sum_distance + (C::weights > 1 ? merge_delay : 0);
    static constexpr int places = planes > step_distance ? planes : step_distance;
    static constexpr int first_places = step_distance - 1;
    // Lists of a channel: one, or one for each tap or for two of them.
    static constexpr int parts = C::indexed ? (T::cells + C::weights - 1) / C::weights : 1;
    static_assert(C::unit_steps >= parts * places,
                  "a unit has a step for each kernel in flight, and those of the distance, of each list");
    // Pauses of a list without weights: one more where a cycle finds the list and one its kernels.
    static constexpr int empty_places = parts > 1 ? 3 : 2;
    // Bit n: list n of a channel has weights, or is still to come.
    using parts_t = uint_t<parts>;
    // Bit z: kernel z has a place in the list, or a weight in the channel.
    using places_t = uint_t<places>;

   public:
    StepMaker() : valid_(), any_(), used_() {
#pragma HLS ARRAY_PARTITION variable=valid_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=any_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=used_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=turned_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=found_ complete dim=0
        clear();
    }

    // Until kernels with `stop` have come. `words`: the weights of a tap, in all kernels and channels.
    void run(stream<wire_t<Kernels>>& kernels, stream<wire_t<Words>>& words, stream<wire_t<Steps>>& steps) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Make");
    Make:
        while (running) {
// II=1: the list of a channel is a register of marks, of which a cycle takes the lowest; the next one is made
// meanwhile. What is written to a memory is read `kernel_guard` cycles later.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            const bool heard = kernels_.there() && !comes_;
            const bool stops = heard && kernels_.beat().stop && turns_.empty();
            const bool begins = heard && !kernels_.beat().stop;
            const bool writes = comes_ && word_.there() && turns_.room();
            const bool taken = writes && slot_ == Sets::slots - 1;
            running = !stops;
            if (leaves_ || stops) {
                steps.write(to_wire(made(stops)));
            }
            const bool ended = send();
            const bool whole = collect(begins, writes);
            turns_.step(whole, ended);
            if (begins || !kernels_.there()) {
                kernels_.next(kernels);
            }
            if (taken || !word_.there()) {
                word_.next(words);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        kernels_.drop();
        comes_ = false;
        leaves_ = false;
        turns_.clear();
        list_ = 0;
        rest_ = 0;
        next_list_ = 0;
        part_ = 0;
        parts_ = 0;
        next_part_ = 0;
        next_parts_ = 0;
        next_lane_ = 0;
        found_[0] = false;
        found_[1] = false;
        lane_ = 0;
        slot_ = 0;
    }

    // The places of a channel's list, of which each takes a cycle.
    static places_t list_of(places_t any) {
#pragma HLS INLINE
        constexpr unsigned first = (1U << first_places) - 1;
        const bool none = any == 0;
        const bool few = static_cast<places_t>(any >> static_cast<unsigned>(first_places)) == 0;
        const places_t more = static_cast<places_t>(few ? 1U << first_places : 0U);
        const places_t whole = static_cast<places_t>(any | static_cast<places_t>(first) | more);
        return none ? static_cast<places_t>((1U << empty_places) - 1) : whole;
    }

    // A list without its first place.
    static places_t rest_of(places_t list) {
#pragma HLS INLINE
        const places_t less = static_cast<places_t>(list - 1);
        return static_cast<places_t>(list & less);
    }

    // Kernels with a weight in a list of a channel. `part`: its bit.
    places_t any(int lane, parts_t part) const {
#pragma HLS INLINE
        places_t found = 0;
    Parts_Choose:
        for (int n = 0; n < parts; ++n) {
#pragma HLS UNROLL
            const bool here = parts == 1 || bit_of(part, n);
            found = static_cast<places_t>(found |
                                          (here ? any_[turns_.reading() ? 1 : 0][lane][n] : static_cast<places_t>(0)));
        }
        return found;
    }

    // The lists of a channel, of which there is one at least.
    parts_t parts_of(int lane) const {
#pragma HLS INLINE
        const parts_t used = used_[turns_.reading() ? 1 : 0][lane];
        return parts == 1 || used == 0 ? static_cast<parts_t>(1) : used;
    }

    static bool bit_of(parts_t of, int number) {
#pragma HLS INLINE
        return (static_cast<unsigned>(of) >> static_cast<unsigned>(number) & 1U) != 0;
    }

    // Lists without the first of them.
    static parts_t behind_first(parts_t of) {
#pragma HLS INLINE
        const parts_t less = static_cast<parts_t>(of - 1);
        return static_cast<parts_t>(of & less);
    }

    // The step of the list's first place.
    Steps made(bool stops) const {
#pragma HLS INLINE
        const places_t first = static_cast<places_t>(list_ ^ rest_);
        const int plane = number_of(first);
        Steps step;
    Weights_Choose:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const bool meets = parts == 1 || has_tap(n, first);
            const bool valid = valid_[turns_.reading() ? 1 : 0][n] && leaves_ && meets;
            step.weight[n] = valid ? sets_.read(turns_.reading(), n, plane, static_cast<int>(lane_))
                                   : static_cast<typename T::weight_t>(0);
        }
        step.plane = static_cast<typename T::plane_t>(plane);
        step.adds = static_cast<places_t>(any(static_cast<int>(lane_), part_) & first) != 0;
        step.last = rest_ == 0 && last_part();
        step.stop = stops;
        return step;
    }

    // The places whose number has bit `index`.
    static constexpr uint64_t numbered(int index) {
        uint64_t found = 0;
        for (int z = 0; z < planes; ++z) {
            found |= static_cast<uint64_t>((z >> index) & 1) << z;
        }
        return found;
    }

    // The number of the bit that is set, as far as there is a kernel of this number: an OR for each of its bits.
    static int number_of(places_t bit) {
#pragma HLS INLINE
        int number = 0;
    Bits_Number:
        for (int k = 0; k < T::plane_bits; ++k) {
#pragma HLS UNROLL
            const bool set = static_cast<places_t>(bit & static_cast<places_t>(numbered(k))) != 0;
            number |= set ? 1 << k : 0;
        }
        return number;
    }

    // The list of a kernel in which a tap is.
    static constexpr int list_with(int tap, int kernel) { return (tap / C::weights + parts - kernel % parts) % parts; }

    // Kernels of a list that have a tap in it.
    static constexpr uint64_t kernels_with(int tap, int list) {
        uint64_t found = 0;
        for (int z = 0; z < planes; ++z) {
            found |= static_cast<uint64_t>(list_with(tap, z) == list ? 1 : 0) << z;
        }
        return found;
    }

    // Whether the list that leaves has a tap of the kernel of a place.
    bool has_tap(int tap, places_t place) const {
#pragma HLS INLINE
        bool found = false;
    Parts_Have:
        for (int n = 0; n < parts; ++n) {
#pragma HLS UNROLL
            const bool turned = static_cast<places_t>(place & static_cast<places_t>(kernels_with(tap, n))) != 0;
            const bool here = C::weights > 1 && turned_[turns_.reading() ? 1 : 0] ? turned : n == tap / C::weights;
            found = found || (bit_of(part_, n) && here);
        }
        return found;
    }

    // Whether no list of the channel is left after the one that leaves.
    bool last_part() const { return parts == 1 || parts_ == 0; }

    // A step leaves, or the first list of a set is made; whether the set has left with it.
    bool send() {
#pragma HLS INLINE
        const bool starts = !leaves_ && turns_.readable() && (parts == 1 || found_[1]);
        const bool ends = leaves_ && rest_ == 0;
        const bool last_lane = lane_ == lanes - 1;
        const bool ends_lane = ends && last_part();
        const bool ended = ends_lane && last_lane;
        // A list has as many places as it takes to find the next one.
        const places_t next = starts && parts == 1 ? list_of(any(0, 1)) : next_list_;
        list_ = starts || ends ? next : rest_;
        rest_ = rest_of(starts || ends ? next : rest_);
        part_ = starts || ends ? next_part_ : part_;
        const parts_t left = starts || ends ? next_parts_ : parts_;
        find_next(last_lane || !leaves_ ? 0 : static_cast<int>(lane_) + 1);
        parts_ = left;
        lane_ = starts || ended ? static_cast<typename T::lane_t>(0)
                : ends_lane     ? static_cast<typename T::lane_t>(lane_ + 1)
                                : lane_;
        leaves_ = starts || (leaves_ && !ended);
        return ended;
    }

    // The list after the one that leaves, of this channel or the next, or the first one of a set: in one cycle the bits
    // of the list, in the next its kernels.
    void find_next(int next_lane) {
#pragma HLS INLINE
        if (parts == 1) {
            next_list_ = list_of(any(next_lane, 1));
            return;
        }
        const bool behind = last_part() || !leaves_;
        const parts_t all = behind ? parts_of(next_lane) : parts_;
        next_list_ = list_of(any(static_cast<int>(next_lane_), next_part_));
        next_parts_ = behind_first(all);
        next_part_ = static_cast<parts_t>(all ^ next_parts_);
        next_lane_ = static_cast<typename T::lane_t>(behind ? next_lane : static_cast<int>(lane_));
        found_[1] = found_[0] && !leaves_;
        found_[0] = !leaves_;
    }

    // Some kernels of a tap are written, or other kernels begin; whether a set is whole with them.
    bool collect(bool begins, bool writes) {
#pragma HLS INLINE
        const bool last_slot = slot_ == Sets::slots - 1;
        const bool last_column = column_ == T::columns - 1;
        const bool last_tap = last_column && row_ == T::rows - 1;
        const bool whole = writes && last_slot && last_tap;
        const bool last_word = words_left_ == 1;
        if (writes) {
            keep();
            slot_ = last_slot ? static_cast<slot_t>(0) : static_cast<slot_t>(slot_ + 1);
            first_ = last_slot && last_tap;
        }
        if (begins) {
            const Kernels& beat = kernels_.beat();
            // A kernel smaller than the largest follows zeros.
            first_row_ = static_cast<line_t>(T::rows - beat.rows);
            first_column_ = static_cast<line_t>(T::columns - beat.columns);
            row_ = static_cast<line_t>(T::rows - beat.rows);
            column_ = static_cast<line_t>(T::columns - beat.columns);
            words_left_ = beat.words;
            first_ = true;
        } else if (writes && last_slot) {
            column_ = last_column ? first_column_ : static_cast<line_t>(column_ + 1);
            row_ = last_tap ? first_row_ : last_column ? static_cast<line_t>(row_ + 1) : row_;
            words_left_ = last_tap ? static_cast<line_t>(words_left_ - 1) : words_left_;
        }
        comes_ = begins || (comes_ && !(whole && last_word));
        return whole;
    }

    // The weights of a slot: into memory, with marks of the channels and kernels that have one.
    void keep() {
#pragma HLS INLINE
        const WeightWord<Config>& weights = word_.beat().weight;
        bool tap[T::cells];
#pragma HLS ARRAY_PARTITION variable=tap complete dim=0
    Taps_Choose:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            tap[n] = row_ == n / T::columns && column_ == n % T::columns;
        }
        sets_.write(turns_.writing(), slot_, tap, weights);
    Sets_Keep:
        for (int s = 0; s < 2; ++s) {
#pragma HLS UNROLL
            const bool here = turns_.writing() == (s == 1);
            turned_[s] = here ? turns() : turned_[s];
        Taps_Mark:
            for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
                valid_[s][n] = here ? tap[n] || (valid_[s][n] && !first_) : valid_[s][n];
            }
        Lanes_Mark:
            for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
                if (here) {
                    mark(s, l, marks(weights, l), tap);
                }
            }
        }
    }

    // Kernels with a weight in a channel come to its list.
    void mark(int set, int lane, places_t kernels, const bool (&tap)[T::cells]) {
#pragma HLS INLINE
        parts_t used = first_ ? static_cast<parts_t>(0) : used_[set][lane];
    Parts_Mark:
        for (int n = 0; n < parts; ++n) {
#pragma HLS UNROLL
            const places_t before = first_ ? static_cast<places_t>(0) : any_[set][lane][n];
            const places_t more = parts == 1 ? kernels : listed(n, kernels, tap);
            any_[set][lane][n] = static_cast<places_t>(before | more);
            used = static_cast<parts_t>(used | (static_cast<unsigned>(more != 0 ? 1 : 0) << static_cast<unsigned>(n)));
        }
        used_[set][lane] = used;
    }

    // Kernels are as large as the largest, and lists have two taps.
    bool turns() const { return C::weights > 1 && first_row_ == 0 && first_column_ == 0; }

    // Those of the kernels with a weight of a tap whose weight is in a list.
    places_t listed(int list, places_t kernels, const bool (&tap)[T::cells]) const {
#pragma HLS INLINE
        places_t found = 0;
    Taps_List:
        for (int n = 0; n < T::cells; ++n) {
#pragma HLS UNROLL
            const places_t turned = static_cast<places_t>(kernels_with(n, list));
            const places_t straight =
                n / C::weights == list ? static_cast<places_t>(~static_cast<places_t>(0)) : static_cast<places_t>(0);
            const places_t own = turns() ? turned : straight;
            found = static_cast<places_t>(found |
                                          (tap[n] ? static_cast<places_t>(kernels & own) : static_cast<places_t>(0)));
        }
        return found;
    }

    // Kernels of the slot that have a weight in a channel.
    places_t marks(const WeightWord<Config>& weights, int lane) const {
#pragma HLS INLINE
        places_t marks = 0;
    Kernels_Mark:
        for (int z = 0; z < planes; ++z) {
#pragma HLS UNROLL
            const bool mark = slot_ == z / Sets::together && weights.row[z][lane] != 0;
            marks = static_cast<places_t>(
                marks | static_cast<places_t>(static_cast<places_t>(mark ? 1 : 0) << static_cast<unsigned>(z)));
        }
        return marks;
    }

    HeldBeat<Kernels> kernels_;
    HeldBeat<Words> word_;
    Sets sets_;
    bool comes_, leaves_;  // words come; steps leave
    TwoSets<kernel_guard> turns_;
    // The words: those that are left, with the one that comes; the kernel in the largest one; the tap's position
    line_t words_left_;
    line_t first_row_, first_column_, row_, column_;
    slot_t slot_;                    // of the tap's kernels
    bool first_;                     // the set's first slot
    bool valid_[2][T::cells];        // the kernels of a set have this tap
    places_t any_[2][lanes][parts];  // kernels of a set with a weight in a list of a channel
    parts_t used_[2][lanes];         // lists of a channel with weights
    bool turned_[2];                 // kernel z has its taps z lists further on
    places_t list_, rest_;           // places that are left; without the first of them
    places_t next_list_;             // those of the next list
    parts_t part_, parts_;           // the list that leaves; those of its channel after it
    parts_t next_part_, next_parts_;
    typename T::lane_t next_lane_;
    bool found_[2];  // the bits of the set's first list; its kernels
    typename T::lane_t lane_;
};

}  // namespace bfpga
