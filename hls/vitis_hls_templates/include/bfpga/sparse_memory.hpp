// The memory of a unit: the segments of its piece that hold a non-zero element, of one channel word in each of two
// sets.
//
// One set is filled while the unit computes on the other (SC R47-R49); memory and unit belong together (SC R40). Values
// and their place are one word (SC R46).
#pragma once
#include "bfpga/sparse_grid.hpp"

namespace bfpga {

template <class Config>
struct StoredSegment {
    Word<Config> pixel[ClusterTypes<Config>::pixels];
    SegmentIndex<Config> index;
};

template <class Config>
class SegmentMemory {
   public:
    // A set is written in one loop and read in the next one: no dependence between iterations.
    SegmentMemory() {
#pragma HLS AGGREGATE variable=cell_
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell_ inter false
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
        cell_[set][count_[set]] = segment;
        ++count_[set];
    }

    int32_t count(int set) const { return count_[set]; }

    StoredSegment<Config> read(int set, int32_t number) const {
#pragma HLS INLINE
        return cell_[set][number];
    }

   private:
    StoredSegment<Config> cell_[2][Config::cluster_memory_words];
    int32_t count_[2] = {};
};

}  // namespace bfpga
