// The memory of a unit: the segments of its piece that hold a non-zero element, of one channel word in each of two
// sets.
//
// One set is filled while the unit computes on the other (SC R47-R49); memory and unit belong together (SC R40). Values
// and their place are one word (SC R46).
#pragma once
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/sparse_cluster/grid.hpp"

namespace bfpga {

template <class Config>
struct StoredSegment {
    Word<Config> pixel[ClusterTypes<Config>::pixels];
    SegmentIndex<Config> index;
};

// A segment in registers, with the places of its elements that are not zero.
template <class Config>
struct MarkedSegment {
    using T = ClusterTypes<Config>;

    Word<Config> pixel[T::pixels];
    SegmentIndex<Config> index;
    typename T::lanes_t lanes[T::pixels];  // bit l: lane l of the pixel is not zero
    typename T::pixels_t pixels;           // bit p: pixel p has such a lane

    // In a clock of its own, so that a unit that takes the segment finds all of it in registers.
    void mark(const StoredSegment<Config>& segment) {
#pragma HLS INLINE
        index = segment.index;
        pixels = 0;
    Pixels_Mark:
        for (int p = 0; p < T::pixels; ++p) {
#pragma HLS UNROLL
            pixel[p] = segment.pixel[p];
            lanes[p] = nonzero_lanes(pixel[p]);
            if (lanes[p] != 0) {
                pixels = static_cast<typename T::pixels_t>(pixels | (static_cast<typename T::pixels_t>(1) << p));
            }
        }
    }

    // Bit l: lane l is not zero.
    static typename T::lanes_t nonzero_lanes(const Word<Config>& word) {
#pragma HLS INLINE
        using lanes_t = typename T::lanes_t;
        lanes_t found = 0;
    Lanes_Mark:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            if (word.lane[l] != 0) {
                found = static_cast<lanes_t>(found | (static_cast<lanes_t>(1) << l));
            }
        }
        return found;
    }
};

template <class Config>
class SegmentMemory {
   public:
    // Both sets are halves of one memory, which takes half the blocks of two shallow ones: a clock writes a segment at
    // most and reads one at most. A loop writes the set that it does not read, so no iteration waits for another.
    SegmentMemory() {
#pragma HLS AGGREGATE variable=cell_
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ inter false
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
#pragma HLS ARRAY_PARTITION variable=count_ complete dim=0
    }

    // A set is filled anew.
    void open(int set) {
#pragma HLS INLINE
        count_[set] = 0;
    }

    // Capacity is what piece_rows and piece_columns promise (SC R55).
    void store(int set, const StoredSegment<Config>& segment) {
#pragma HLS INLINE
        simulation_check(count_[set] < Config::cluster_memory_words, "a piece",
                         "has more segments than a unit's memory holds, in set", set);
        cell_waiver_.writes(place(set, count_[set]));
        cell_[place(set, count_[set])] = segment;
        ++count_[set];
    }

    int32_t count(int set) const { return count_[set]; }

    StoredSegment<Config> read(int set, int32_t number) const {
#pragma HLS INLINE
        cell_waiver_.reads(place(set, number));
        return cell_[place(set, number)];
    }

   private:
    static int32_t place(int set, int32_t number) {
#pragma HLS INLINE
        return set == 0 ? number : number + Config::cluster_memory_words;
    }

    StoredSegment<Config> cell_[2 * Config::cluster_memory_words];
    Waiver<InterFalse, 2 * Config::cluster_memory_words> cell_waiver_;
    int32_t count_[2] = {};
};

}  // namespace bfpga
