// The way from the sums of a tile to the ports of an output stage: `Ports` pixels of a row, one kernel a clock.
#pragma once
#include "bfpga/zero_skip/engine.hpp"

namespace bfpga {

// Walks over the rows of a tile, `Ports` pixels at a time (engine_drain.hpp says how). The pixels of a row follow each
// other in the lanes, so ports take from different memories; a block may end one word of a row and begin the next.
template <class Config, int Ports>
class ZeroSkipPorts {
    using T = ZeroSkipTypes<Config>;
    using accumulator_t = typename T::accumulator_t;
    static constexpr int lanes = Config::lanes;
    static_assert(Ports <= lanes, "ports of the output stage take from different lanes: no more ports than lanes");

    static constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
    // Lanes on which blocks begin.
    static constexpr int begin_step = common_divisor(lanes, Ports);

   public:
    ZeroSkipPorts(ZeroSkipEngine<Config>& engine, const TileWindow& tile) : engine_(engine), columns_(tile.tile_width) {
    Chunks_Count:
        for (int x = 0; x < Config::tile_width; x += lanes) {
#pragma HLS UNROLL
            row_words_ += x < tile.tile_width ? 1 : 0;
        }
    }

    void first_block() {
#pragma HLS INLINE
        row_word_ = 0;
        row_ = 0;
        first_pixel();
    }

    void next_block() {
#pragma HLS INLINE
        left_ -= Ports;
        lane_ += Ports;
        if (lane_ >= lanes) {
            lane_ -= lanes;
            ++word_;
        }
    }

    void next_block_row() {
#pragma HLS INLINE
        ++row_;
        if (row_ == Config::rows_parallel) {
            row_ = 0;
            row_word_ += row_words_;
        }
        first_pixel();
    }

    // The sums of a kernel in the pixels of the block. Kernels come in ascending order from 0 on.
    void take(int kernel, accumulator_t (&value)[Ports]) {
#pragma HLS INLINE
        plane_ = kernel == 0 ? static_cast<int32_t>(0) : static_cast<int32_t>(plane_ + T::plane_words);
        accumulator_t taken[lanes];
#pragma HLS ARRAY_PARTITION variable=taken complete dim=0
    Lanes_Take:
        for (int l = 0; l < lanes; ++l) {
#pragma HLS UNROLL
            const bool wraps = l < lane_;
            const int32_t port = wraps ? l - lane_ + lanes : l - lane_;
            const int32_t address = plane_ + word_ + (wraps ? 1 : 0);
            const bool wanted = port < Ports && port < left_;
            taken[l] = 0;
        Rows_Take:
            for (int r = 0; r < Config::rows_parallel; ++r) {
#pragma HLS UNROLL
                if (wanted && row_ == r) {
                    taken[l] = engine_.take_lane(address, kernel, r * lanes + l);
                }
            }
        }
    Ports_Select:
        for (int i = 0; i < Ports; ++i) {
#pragma HLS UNROLL
            value[i] = 0;
        Begins_Select:
            for (int s = 0; s < lanes; s += begin_step) {
#pragma HLS UNROLL
                if (lane_ == s) {
                    value[i] = taken[(s + i) % lanes];
                }
            }
        }
    }

   private:
    void first_pixel() {
#pragma HLS INLINE
        word_ = row_word_;
        lane_ = 0;
        left_ = columns_;
    }

    ZeroSkipEngine<Config>& engine_;
    int32_t columns_;
    int32_t row_words_ = 0;           // words of a row of steps
    int32_t row_word_ = 0, row_ = 0;  // first word of the row, and its place among the rows of a step
    int32_t word_ = 0, lane_ = 0;     // of the block's first pixel
    int32_t left_ = 0;                // pixels from there to the end of the row
    int32_t plane_ = 0;               // first word of the kernel
};

}  // namespace bfpga
