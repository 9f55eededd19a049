// Front end of a sparse cluster that replaces a kernel's array: decodes the commands, takes operands, and sends the
// cells of the map one by one downstream.
//
// The map of an operation comes word of channels by word of channels, in groups of pixels, once for each block of
// output channels; where the pieces follow the map's work, once more before, to be counted. The parameters of a block
// are sent before its cells.
//
// No deadlock. Operands come in segments of a pass, each with a credit, and `operands` has room for all segments that
// credits allow: so a stall of this process does not stall the scratchpad. It stalls on backpressure of its streams,
// which end at processes that need nothing that comes later:
// * the processes that compute a block need only its cells, limits and weights. Cells of earlier blocks have gone; the
//   partition gets all that it counts before the first block; weights and parameters come in the order of the blocks;
// * units get the end of a word of channels at once, and all of their steps: a unit that lags has both buffered
//   (broadcast);
// * the collector takes the blocks of the grid in an order of its own. A unit that has to wait for it has all cells of
//   its map, and so have the others;
// * sums leave when `grid_sums` has all of a grid, and the output stage takes them after those of earlier operations.
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/sparse_cluster/layer.hpp"

namespace bfpga {

// A stream without a reader: writes are dropped.
struct NoWire {
    template <class Word>
    void write(const Word&) const {}
};

template <class Config>
class CellFeeder {
    using C = ClusterConfig<Config>;
    using T = ClusterUnitTypes<C>;
    using Operands = OperandBeat<Config>;
    using Maps = MapBeat<C>;
    using Cells = MapCellBeat<C>;
    using Partitions = PartitionBeat<C>;
    using Kernels = KernelsBeat<C>;
    using Outputs = OutputsBeat<C>;
    static constexpr int columns = Config::columns;
    static constexpr int cell_bits = Outputs::pixel_bits;
    using cell_t = uint_t<cell_bits>;
    using column_t = uint_t<bit_length(columns)>;
    using number_t = uint_t<16>;

    // What is done in a cycle.
    enum Step { Hears, Decides, Begins, Cells_Leave, Stops };

   public:
    CellFeeder() : word_(), next_() {
#pragma HLS ARRAY_PARTITION variable=word_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=next_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=incoming_ complete dim=0
    }

    // Until the command that ends the start, and the operand that does. `windows`: credits for segments of operands;
    // `partitions`, `counted`, `grid_maps`: streams, where a map is cut into pieces.
    template <class ToPartition, class ToCount, class ToGrid>
    void run(stream<command_t>& commands, stream<wire_t<Operands>>& operands, stream<bool>& windows,
             ToPartition& partitions, ToCount& counted, stream<wire_t<Maps>>& maps, ToGrid& grid_maps,
             stream<wire_t<Cells>>& cells, stream<wire_t<Kernels>>& kernels, stream<wire_t<Outputs>>& outputs) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Feed");
    Feed:
        while (running) {
// II=1: a cell leaves and an operand comes; counters have registered ends.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !(step_ == Stops && held_.there() && held_.beat().stop);
            const bool decides = step_ == Decides;
            const bool ends = decides && operation_ == static_cast<int32_t>(Operation::None);
            if (decides) {
                partitions.write(to_wire(partition(ends)));
            }
            if (ends || (step_ == Begins && !counts_)) {
                maps.write(to_wire(map(ends)));
                grid_maps.write(to_wire(map(ends)));
                kernels.write(to_wire(kernel(ends)));
                outputs.write(to_wire(output(ends)));
            }
            const bool cell = step_ == Cells_Leave && there_;
            if (cell && counts_) {
                counted.write(to_wire(this->cell()));
            } else if (cell) {
                cells.write(to_wire(this->cell()));
            }
            go_on(cell, ends);
            take(cell, windows);
            if (takes_ || !held_.there()) {
                held_.next(operands);
            }
            if (step_ == Hears) {
                hear(commands);
            }
        }
    }

   private:
    void clear() {
#pragma HLS INLINE
        held_.drop();
        step_ = Hears;
        heard_ = 0;
        there_ = false;
        next_there_ = false;
        takes_ = false;
        second_ = false;
        column_ = 0;
    }

    // A word of the next command. The words move on until each is in its place; a single one ends the start.
    void hear(stream<command_t>& commands) {
#pragma HLS INLINE
        command_t word = 0;
        if (!commands.read_nb(word)) {
            return;
        }
    Words_Shift:
        for (int k = 0; k < ArrayCommand::words - 1; ++k) {
#pragma HLS UNROLL
            incoming_[k] = incoming_[k + 1];
        }
        incoming_[ArrayCommand::words - 1] = static_cast<int32_t>(word);
        const bool first = heard_ == 0;
        if (first) {
            operation_ = static_cast<int32_t>(word);
        }
        const bool last = heard_ == ArrayCommand::words - 1 ||
                          (first && static_cast<int32_t>(word) == static_cast<int32_t>(Operation::None));
        heard_ = last ? static_cast<uint_t<7>>(0) : static_cast<uint_t<7>>(heard_ + 1);
        step_ = last ? Decides : Hears;
    }

    // The command that has come in.
    Descriptor incoming() const {
#pragma HLS INLINE
        Descriptor descriptor = {};
    Words_Place:
        for (int k = 0; k < ArrayCommand::words; ++k) {
#pragma HLS UNROLL
            ArrayCommand::set(descriptor, k, incoming_[k]);
        }
        return descriptor;
    }

    static line_t line(int32_t number) { return static_cast<line_t>(number); }

    // The number of blocks that hold the full grid of some lines.
    template <int Kernel>
    static line_t blocks_of(int32_t lines) {
#pragma HLS INLINE
        constexpr int reciprocal = ((1 << 14) + Kernel - 1) / Kernel;  // exact for what lines there are
        return static_cast<line_t>((((lines + Kernel - 2) * reciprocal) >> 14) + 1);
    }

    Partitions partition(bool ends) const {
#pragma HLS INLINE
        const Descriptor d = incoming();
        Partitions beat;
        beat.rows = line(d.input_height);
        beat.columns = line(d.input_width);
        beat.words = line(d.channel_words);
        beat.moves = line(d.most_moves);
        beat.joined_rows = line(d.joined_rows);
        beat.joined_columns = line(d.joined_columns);
        beat.work_difference = static_cast<int_t<32>>(d.work_difference);
        beat.halo_rows = line(d.kernel_height - 1);
        beat.halo_columns = line(d.kernel_width - 1);
        beat.stop = ends;
        beat.tells = !ends && d.told_words != 0;
        return beat;
    }

    Maps map(bool ends) const {
#pragma HLS INLINE
        const Descriptor d = incoming();
        Maps beat;
        beat.rows = line(d.input_height);
        beat.columns = line(d.input_width);
        beat.words = line(d.channel_words);
        // All kernels in flight, whether or not the output has them: the output stage takes sums of whole blocks.
        beat.last_kernel = line(C::planes - 1);
        beat.block_rows = blocks_of<T::rows>(d.input_height);
        beat.block_columns = blocks_of<T::columns>(d.input_width);
        beat.keeps = !first_block_;
        beat.stop = ends;
        beat.tells = !ends && blocks_left_ == 1 && d.told_words != 0;
        return beat;
    }

    Kernels kernel(bool ends) const {
#pragma HLS INLINE
        const Descriptor d = incoming();
        Kernels beat;
        beat.words = line(d.channel_words);
        beat.rows = line(d.kernel_height);
        beat.columns = line(d.kernel_width);
        beat.stop = ends;
        return beat;
    }

    Outputs output(bool ends) const {
#pragma HLS INLINE
        const Descriptor d = incoming();
        Outputs beat;
        beat.block_rows = blocks_of<T::rows>(d.input_height);
        beat.block_columns = blocks_of<T::columns>(d.input_width);
        beat.width = line(d.output_width);
        beat.group = line(d.group_columns);
        beat.stride_row = line(d.stride_y);
        beat.stride_column = line(d.stride_x);
        // Along an axis with parts the map has the zeros around it.
        const int32_t pad_top = d.parts_down > 1 ? 0 : d.pad_top;
        const int32_t pad_left = d.parts_across > 1 ? 0 : d.pad_left;
        beat.first_row = line(d.kernel_height - 1 - pad_top);
        beat.first_column = line(d.kernel_width - 1 - pad_left);
        beat.pixels = static_cast<typename Outputs::pixel_t>(d.output_pixels);
        beat.stop = ends;
        simulation_check(ends || (d.stride_y <= T::rows && d.stride_x <= T::columns), "an operation",
                         "has a stride beyond the largest kernel; stride_y is", d.stride_y);
        simulation_check(ends || (pad_top < d.kernel_height && pad_left < d.kernel_width), "an operation",
                         "has a padding as large as its kernel; pad_top is", d.pad_top);
        simulation_check(
            ends || static_cast<int>(beat.block_rows) * static_cast<int>(beat.block_columns) <= Config::cluster_blocks,
            "an operation", "has a grid of more blocks than there is room for; block_rows is",
            static_cast<int>(beat.block_rows));
        return beat;
    }

    Cells cell() const {
#pragma HLS INLINE
        Cells beat;
    Lanes_Feed:
        for (int l = 0; l < C::lanes; ++l) {
#pragma HLS UNROLL
            beat.value[l] = static_cast<typename T::value_t>(word_[static_cast<int>(column_)].lane[l]);
        }
        return beat;
    }

    // `cell`: one has left; `ends`: the start does.
    void go_on(bool cell, bool ends) {
#pragma HLS INLINE
        const Descriptor d = incoming();
        switch (step_) {
            case Decides:
                counts_ = d.most_moves != 0;
                first_block_ = true;
                words_ = static_cast<number_t>(d.channel_words);
                blocks_left_ = static_cast<number_t>(d.blocks);
                cells_ = static_cast<cell_t>(d.map_cells);
                group_ = static_cast<column_t>(d.group_columns - 1);
                step_ = ends ? Stops : Begins;
                break;
            case Begins:
                words_left_ = words_;
                cells_left_ = cells_;
                step_ = Cells_Leave;
                break;
            case Cells_Leave:
                if (cell) {
                    walk();
                }
                break;
            default:
                break;
        }
    }

    // After a cell.
    void walk() {
#pragma HLS INLINE
        const bool last_cell = cells_left_ == 1;
        const bool last_word = words_left_ == 1;
        const bool last_block = !counts_ && blocks_left_ == 1;
        cells_left_ = last_cell ? cells_ : static_cast<cell_t>(cells_left_ - 1);
        words_left_ = last_cell ? static_cast<number_t>(words_left_ - 1) : words_left_;
        if (last_cell && last_word) {
            blocks_left_ = counts_ ? blocks_left_ : static_cast<number_t>(blocks_left_ - 1);
            first_block_ = counts_;
            counts_ = false;
            step_ = last_block ? Hears : Begins;
        }
        ends_group_ = column_ == group_ || last_cell;
    }

    // A slot of operands comes; the group that is complete takes the place of one whose last cell has left.
    void take(bool cell, stream<bool>& windows) {
#pragma HLS INLINE
        const Operands& beat = held_.beat();
        const bool ends = cell && ends_group_;
        const bool moves = next_there_ && (!there_ || ends);
        takes_ = held_.there() && !beat.stop && !next_there_;
        const bool fires = takes_ && beat.fires;
        const bool last_half = beat.single || second_;
        if (fires && last_half) {
            windows.write(true);
        }
    Columns_Take:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            word_[i] = moves ? next_[i] : word_[i];
            if (takes_ && beat.mine[i]) {
                next_[i] = beat.word[i];
            }
        }
        column_ = ends || !there_ ? static_cast<column_t>(0) : cell ? static_cast<column_t>(column_ + 1) : column_;
        there_ = moves || (there_ && !ends);
        next_there_ = fires || (next_there_ && !moves);
        second_ = fires ? !last_half : second_;
    }

    HeldBeat<Operands> held_;
    Step step_;
    // The command
    int32_t incoming_[ArrayCommand::words];
    uint_t<7> heard_;
    int32_t operation_;
    // The operation: words of channels, cells of the map, the last column of a group
    number_t words_;
    cell_t cells_;
    column_t group_;
    // What is left of it, with what goes on
    number_t blocks_left_, words_left_;
    cell_t cells_left_;
    bool counts_, first_block_;  // the map is counted; no block has gone
    // The group whose cells leave, and the one that comes; the cell that is next
    Word<Config> word_[columns], next_[columns];
    bool there_, next_there_, ends_group_;
    bool takes_, second_;  // the operand that is held has been taken; it is of a pass's second half
    column_t column_;
};

}  // namespace bfpga
