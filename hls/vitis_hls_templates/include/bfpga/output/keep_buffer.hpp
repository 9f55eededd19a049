// The keep buffer: accumulators of a measured pass, which the main pass reads instead of recomputing them (FP R24).
//
// Every column of the output stage has its own memory. The rows of a pass leave in the same order when they are written
// and when they are read, and so do the slices of a row: an address is counted, not computed.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/output/column_slices.hpp"

namespace bfpga {

// A kernel without the buffer.
template <class Config, bool Present = (Config::wide_words > 0)>
class KeepBuffer {
   public:
    using accumulator_t = int_t<Config::accumulator_bits>;

    void start(int32_t word, bool used) {
#pragma HLS INLINE
        simulation_check(!used, "a kernel without a keep buffer", "is to keep accumulators from word", word);
    }

    void write(int, accumulator_t) {}
    accumulator_t read(int) const { return 0; }
    void next() {}
};

template <class Config>
class KeepBuffer<Config, true> {
    static constexpr int columns = StageColumns<Config>::count;
    static constexpr int turns = StageColumns<Config>::turns;
    static constexpr int words = Config::wide_words * turns;

   public:
    using accumulator_t = int_t<Config::accumulator_bits>;

    KeepBuffer() {
// One memory for each column; a cycle reads or writes one accumulator of each.
#pragma HLS ARRAY_PARTITION variable=cell_ complete dim=1
#pragma HLS BIND_STORAGE variable=cell_ type=ram_s2p impl=bram
// An operation writes or reads, never both, and is one execution of its loop, whose last writes have ended with it: no
// read waits for a write in the pipeline, however long that is.
#pragma HLS DEPENDENCE variable=cell_ inter false
        cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
    }

    // `word`: where the first row of the operation is.
    void start(int32_t word, bool used) {
#pragma HLS INLINE
        word_ = word * turns;
        used_ = used;
    }

    void write(int column, accumulator_t value) {
#pragma HLS INLINE
        check();
        cell_waiver_.writes(column * words + word_);
        cell_[column][word_] = value;
    }

    accumulator_t read(int column) const {
#pragma HLS INLINE
        check();
        cell_waiver_.reads(column * words + word_);
        return cell_[column][word_];
    }

    // The row has left in all columns of a slice.
    void next() {
#pragma HLS INLINE
        if (used_) {
            ++word_;
        }
    }

   private:
    void check() const {
#pragma HLS INLINE
        simulation_check(word_ >= 0 && word_ < words, "an operation", "keeps beyond the buffer, word", word_);
    }

    accumulator_t cell_[columns][words];
    Waiver<InterFalse, columns * words> cell_waiver_;
    int32_t word_;
    bool used_;
};

}  // namespace bfpga
