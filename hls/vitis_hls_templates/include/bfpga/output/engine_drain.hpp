// The drain of an engine: sums -> output stage -> activation memory, kernel by kernel (docs/engines.md, section 7).
//
// The output stage has one port a column of the array. An engine gives it a block of `BlockRows` x `BlockColumns`
// output pixels at once; the blocks of a tile follow each other in raster order. Of each block, `lanes` kernels leave
// in as many clocks and are one word of memory, which is written while the next one is assembled.
//
// An engine uses it so:
//
//     EngineDrain<Config, BlockRows, BlockColumns, kernels in flight> drain_;
//
//     drain_.start(d, exponents);                    // an operation begins
//     clocks += place_ports<Config, Pixels>(reader_, drain_);
//     for each group: compute the sums of drain_.kernels() kernels, then
//         clocks += drain_.group(sums, memories, policy);
//     drain_.finish(policy, counters);               // the operation ends
//
// `sums` walks over the blocks with the drain, so that it needs additions alone, and is asked for every kernel of a
// block in ascending order, one a clock and each one once:
//
//     void first_block();                            // rows 0.., columns 0.. of the tile
//     void next_block();                             // BlockColumns pixels to the right
//     void next_block_row();                         // BlockRows rows down, columns 0..
//     void take(int kernel, accumulator_t (&value)[BlockRows * BlockColumns]);
//
// value[i] is the sum of pixel (i div BlockColumns, i mod BlockColumns) of the block; pixels beyond the tile may get
// anything. What is taken starts anew: the engine clears it in the same clock. All functions are inlined.
#pragma once
#include "bfpga/memory/kernel_memories.hpp"
#include "bfpga/memory/outgoing_words.hpp"
#include "bfpga/output/output_stage.hpp"

namespace bfpga {

template <class Config, int BlockRows, int BlockColumns, int Flight>
class EngineDrain {
    using G = Geometry<Config>;
    using A = Address<Config>;
    using word_t = typename G::word_t;
    using coordinate_t = typename G::coordinate_t;
    using parameter_address_t = typename G::parameter_address_t;
    using accumulator_t = int_t<Config::accumulator_bits>;
    static constexpr int ports = BlockRows * BlockColumns;
    static_assert(ports >= 1 && ports <= Config::columns,
                  "every output pixel of a block has a port of the output stage");
    static_assert(Flight >= 1 && Flight % Config::lanes == 0,
                  "the kernels in flight are a multiple of lanes: a word of a result is of one group");

   public:
    EngineDrain() {
#pragma HLS ARRAY_PARTITION variable=offset_ complete dim=0
    }

    // The outputs of a descriptor; the ports are to be placed.
    void start(const Descriptor& d, const LayerExponents& exponents) {
#pragma HLS INLINE
        simulation_check(field_product(d.group_rows, d.output_width) == d.output_pixels, "a tile",
                         "has other outputs than its rows times its columns:", d.output_pixels);
        stage_.start(d, exponents.accumulator, exponents.output);
        words_.start(d.write_slots);
        pixel_words_ = d.output_pixel_words;
        step_ = A::of(d.output_step_word, d.output_step_bank);
        wrap_ = A::of(d.output_wrap_word, d.output_wrap_bank);
        block_step_ = A::of(d.output_group_word, d.output_group_bank);
        first_ = A::of(d.output_word, d.output_bank);
        rows_ = d.group_rows;
        columns_ = d.output_width;
        slotted_ = d.write_slots > 1;
        window_ = d.write_slots > Config::lanes ? static_cast<coordinate_t>(d.write_slots)
                                                : static_cast<coordinate_t>(Config::lanes);
        writes_ = !d.has(Flag::Measure);
        kernels_left_ = d.output_rows;
        group_parameter_ = d.parameter_base;
        group_word_ = 0;
        placed_ = A::of(0, 0);
        placed_row_ = A::of(0, 0);
        placed_column_ = 0;
    }

    // Clock `port` of the placement; clocks beyond the last port place nothing.
    void place(int port) {
#pragma HLS INLINE
        if (port >= ports) {
            return;
        }
        offset_[port] = placed_;
        ++placed_column_;
        if (placed_column_ == BlockColumns) {
            placed_column_ = 0;
            placed_row_ = placed_row_.plus(wrap_, pixel_words_);
            placed_ = placed_row_;
        } else {
            placed_ = placed_.plus(step_, pixel_words_);
        }
    }

    // Kernels of the group that is next; 0: all groups are drained.
    int32_t kernels() const {
#pragma HLS INLINE
        const int32_t left = static_cast<int32_t>(kernels_left_);
        return left < Flight ? left : static_cast<int32_t>(Flight);
    }

    // A group of kernels leaves; returns the clocks that takes.
    template <class Sums, class Memories>
    uint32_t group(Sums& sums, Memories& memories, PolicySlot<Config>& policy) {
        begin_group();
        sums.first_block();
        uint32_t clocks = 0;
        PipelinedLoop loop("Drain");
    Drain:
        while (leaving_ || closing_) {
// II=1: every port reads its sum from a memory of its own and writes to a bank of its own (the crossbar); a sum is
// taken once, and a word that is written is read by a later operation only, so nothing depends on an earlier clock
// through a memory; counters and addresses are registers that one addition updates.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=4 max=65536
            loop.iteration();
            words_.write(memories.activations);
            if (leaving_ && clock_ < Config::lanes) {
                kernel_leaves(sums, memories.parameters, policy);
            }
            next(sums);
            ++clocks;
        }
        next_group();
        return clocks;
    }

    // What the results of the operation have shown.
    template <class Counters>
    void finish(PolicySlot<Config>& policy, Counters& counters) {
#pragma HLS INLINE
        simulation_check(kernels_left_ == 0, "an operation", "ends before its last kernels, without",
                         static_cast<int>(kernels_left_));
        stage_.finish(policy, counters);
    }

   private:
    void begin_group() {
#pragma HLS INLINE
        group_kernels_ = static_cast<coordinate_t>(kernels());
        row_at_ = first_;
        rows_left_ = rows_;
        leaving_ = true;
        closing_ = false;
        clock_ = 0;
        first_block();
        first_word();
    }

    void next_group() {
#pragma HLS INLINE
        kernels_left_ -= group_kernels_;
        group_parameter_ += Flight;
        group_word_ += Flight / Config::lanes;
    }

    void first_block() {
#pragma HLS INLINE
        at_ = row_at_;
        columns_left_ = columns_;
    }

    void first_word() {
#pragma HLS INLINE
        kernel_ = 0;
        word_ = group_word_;
        parameter_ = group_parameter_;
    }

    // Whether port i has an output pixel. With constants once the loops around it are unrolled.
    bool covers(int i) const {
#pragma HLS INLINE
        return i / BlockColumns < rows_left_ && i % BlockColumns < columns_left_;
    }

    // One kernel of all ports: bias, function, requantizer or measurement. A word that the last group does not fill
    // ends with zeros.
    template <class Sums>
    void kernel_leaves(Sums& sums, const ParameterMemory<Config>& memory, PolicySlot<Config>& policy) {
#pragma HLS INLINE
        const bool exists = kernel_ < group_kernels_;
        accumulator_t value[ports];
#pragma HLS ARRAY_PARTITION variable=value complete dim=0
        if (exists) {
            const Parameters<Config> parameters = memory.read(parameter_);
            stage_.row(parameters.bias, static_cast<int32_t>(parameters.exponent));
            sums.take(static_cast<int>(kernel_), value);
        }
        bool covered[ports];
#pragma HLS ARRAY_PARTITION variable=covered complete dim=0
        typename G::mantissa_t mantissa[ports];
#pragma HLS ARRAY_PARTITION variable=mantissa complete dim=0
    Ports_Cover:
        for (int i = 0; i < ports; ++i) {
#pragma HLS UNROLL
            covered[i] = covers(i);
            mantissa[i] = 0;
        }
        if (exists) {
            stage_.values(value, covered, policy, mantissa);
        }
    Ports_Leave:
        for (int i = 0; i < ports; ++i) {
#pragma HLS UNROLL
            words_.assemble(i, static_cast<int>(clock_), mantissa[i]);
        }
        ++kernel_;
        ++parameter_;
    }

    // One clock further: at the end of a window to the next word, the next block, the next row of blocks. The last word
    // is written in a window of its own.
    template <class Sums>
    void next(Sums& sums) {
#pragma HLS INLINE
        ++clock_;
        if (clock_ != window_) {
            return;
        }
        clock_ = 0;
        if (closing_) {
            closing_ = false;
            return;
        }
        send_word();
        ++word_;
        if (kernel_ >= group_kernels_) {
            first_word();
            next_block(sums);
        }
    }

    template <class Sums>
    void next_block(Sums& sums) {
#pragma HLS INLINE
        if (columns_left_ > BlockColumns) {
            columns_left_ -= BlockColumns;
            at_ = at_.plus(block_step_, pixel_words_);
            sums.next_block();
            return;
        }
        if (rows_left_ > BlockRows) {
            rows_left_ -= BlockRows;
            // What follows the last port of a block is the row below its last one.
            row_at_ = row_at_.plus(placed_row_, pixel_words_);
            first_block();
            sums.next_block_row();
            return;
        }
        leaving_ = false;
        closing_ = true;
    }

    void send_word() {
#pragma HLS INLINE
        if (!writes_) {
            return;
        }
        Request<Config> request[Config::columns];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        coordinate_t slot[Config::columns];
#pragma HLS ARRAY_PARTITION variable=slot complete dim=0
    Ports_Send:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            const bool port = i < ports;
            request[i].active = port && covers(i);
            request[i].address = at_.plus(offset_[port ? i : 0], pixel_words_);
            request[i].address.word += word_;
            slot[i] = slotted_ ? static_cast<coordinate_t>(i / BlockColumns) : static_cast<coordinate_t>(0);
        }
        words_.send(request, slot);
    }

    OutputStage<Config> stage_;
    OutgoingWords<Config> words_;
    // Of the operation
    word_t pixel_words_;
    A first_, step_, wrap_, block_step_;
    coordinate_t rows_, columns_, window_;
    bool slotted_, writes_;
    // The ports
    A offset_[ports];  // from port 0
    A placed_, placed_row_;
    coordinate_t placed_column_;
    // The group of kernels
    coordinate_t kernels_left_, group_kernels_;
    parameter_address_t group_parameter_;
    word_t group_word_;
    // The block and the kernel that leaves
    A row_at_, at_;
    coordinate_t rows_left_, columns_left_, kernel_, clock_;
    parameter_address_t parameter_;
    word_t word_;
    bool leaving_, closing_;  // words leave; the last one is written
};

// Places the ports of an engine's reader and of its drain; returns the clocks that takes.
template <class Config, int Pixels, class Reader, class Drain>
uint32_t place_ports(Reader& reader, Drain& drain) {
    constexpr int clocks = Pixels > Config::columns ? Pixels : Config::columns;
Ports_Place:
    for (int i = 0; i < clocks; ++i) {
// II=1: the distance of a port is that of the one before and a step: an addition and a comparison.
#pragma HLS PIPELINE II=1
        reader.place(i);
        drain.place(i);
    }
    return clocks;
}

}  // namespace bfpga
