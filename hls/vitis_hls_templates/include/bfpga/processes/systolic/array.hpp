// The process of the dot tiles: an operand beat and a weight beat in, one row of sums of the pass before out.
//
// Beats of both streams are registered, so the loop never stalls for one: its pipeline drains however late the next
// weights come, and no stream need be as deep as the pipeline is long.
//
// The columns form blocks of `hop_columns`. A beat enters block g g steps after block 0: weights and control pass from
// block to block through registers, operands are delayed as long, and the sums of early blocks wait for those of the
// last one. So a weight drives the columns of one block alone, and no value changes.
//
// A tile adds `lanes` products of one weight row and one operand column in a step (BFP R59). A finished pass moves to
// the forwarder and drains row by row while the next one computes (BFP R64).
//
// Columns that take taps from adjacent ones compute a channel of a word in each row pair; its first row leaves.
#pragma once
#include "bfpga/numeric/pipelined_loop.hpp"
#include "bfpga/processes/held_beat.hpp"
#include "bfpga/processes/systolic/tap_operands.hpp"

namespace bfpga {

template <class Config, class Storage>
class ArrayProcess {
    using accumulator_t = int_t<Config::accumulator_bits>;
    using Operands = OperandBeat<Config>;
    using Weights = WeightBeat<Config>;
    using Sums = SumBeat<Config>;
    static constexpr int columns = Config::columns;
    static constexpr int blocks = (columns + Config::hop_columns - 1) / Config::hop_columns;
    static_assert(Config::hop_columns >= 1, "a block has at least one column");
    // Columns that share multipliers.
    static constexpr int together = Config::Multiplier::columns;
    // Counts the rows of a pass, and down to the last one.
    using row_t = uint_t<bit_length(Config::accumulator_rows)>;

    // The control of a block in a step.
    struct Control {
        bool fires;
        bool first;
        bool last;
        bool doubled;  // the pass has two rows of sums for each weight row
        bool reuses;   // columns take taps from adjacent ones
    };

   public:
    ArrayProcess()
        : sending_(0), sends_(false), control_(), operand_(), begins_row_(), busy_(), doubled_(false), reused_(false) {
#pragma HLS ARRAY_PARTITION variable=control_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=weights_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=operand_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=begins_row_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=accumulator_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=finished_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=row_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=busy_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=delayed_ complete dim=0
    Blocks_Begin:
        for (int g = 0; g < blocks; ++g) {
#pragma HLS UNROLL
            row_[g] = 0;
        }
    }

    // Computes until a `stop` beat has come and all sums have left.
    void run(stream<wire_t<Operands>>& operands, stream<wire_t<Weights>>& weight_words, stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        held_.drop();
        // Steps in which the last rows drain from the blocks after the first one.
        uint_t<bit_length(blocks + 1)> tail = blocks + 1;
        bool running = true;
        PipelinedLoop loop("Array");
    Array:
        while (running) {
// II=1: an accumulator takes one addition of a finished sum of products; counters one addition or comparison each; all
// registers between blocks are read before they are written.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            send(sums);
            multiply();
            forward_rows();
            hop();
            running = tail != 0;
            // The end of a pass waits until the rows of the pass before have left the forwarder.
            const Operands& beat = held_.beat();
            const bool stops = held_.there() && beat.stop;
            const bool waits = beat.fires && (!held_weights_.there() || (beat.last && sends_));
            const bool stays = held_.there() && (beat.stop || waits);
            const bool uses = held_.there() && beat.fires && !stays;
            if (stops && !sends_) {
                --tail;
            }
            count_rows();
            if (!stays) {
                take();
                held_.next(operands);
            }
            // Weights after the stop belong to the next start.
            if ((uses || !held_weights_.there()) && !stops) {
                held_weights_.next(weight_words);
            }
        }
    }

   private:
    static constexpr int block_of(int column) { return column / Config::hop_columns; }
    // Steps that the sums of a column wait for those of the last block.
    static constexpr int wait_of(int column) { return blocks - 1 - block_of(column); }
    // Steps that the operand of a column is held: the next column may need it a step later.
    static constexpr int kept_of(int column) {
        return block_of(Config::tap_reuse && column + 1 < columns ? column + 1 : column);
    }
    // The last row that leaves a pass; of row pairs the first one leaves.
    static constexpr int last_reused = 2 * (Config::lanes - 1);

    // Index of a row. Between passes the count goes on, and rows beyond the last one are not sent.
    static int index_of(row_t row) {
#pragma HLS INLINE
        const int index = static_cast<int>(row);
        const int last = Config::accumulator_rows - 1;
        return (Config::accumulator_rows & last) == 0 ? index & last : index <= last ? index : last;
    }

    // The row of all columns that is complete now; the sums of early blocks move on in their registers.
    void send(stream<wire_t<Sums>>& sums) {
#pragma HLS INLINE
        Sums beat;
    Columns_Send:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            const int wait = wait_of(i);
            const accumulator_t fresh = finished_[i].get(index_of(row_[block_of(i)]));
            beat.sum[i] = wait > 0 ? delayed_[i][wait > 0 ? wait - 1 : 0] : fresh;
        Steps_Delay:
            for (int k = wait - 1; k > 0; --k) {
#pragma HLS UNROLL
                delayed_[i][k] = delayed_[i][k - 1];
            }
            if (wait > 0) {
                delayed_[i][0] = fresh;
            }
        }
        if (busy_[blocks - 1]) {
            sums.write(to_wire(beat));
        }
    }

    // acc = (first ? 0 : acc) + w * x in every tile whose block has a complete step (BFP R63).
    void multiply() {
#pragma HLS INLINE
    Columns_Multiply:
        for (int i = 0; i < columns; i += together) {
#pragma HLS UNROLL
            const Control& control = control_[block_of(i)];
            if (control.fires) {
                add_products(i, control, std::integral_constant<int, together>());
                if (control.last) {
                Columns_Finish:
                    for (int k = i; k < i + together; ++k) {
#pragma HLS UNROLL
                        finished_[k] = accumulator_[k];
                    }
                }
            }
        }
    }

    // The products of a column with multipliers of its own.
    void add_products(int i, const Control& control, std::integral_constant<int, 1>) {
#pragma HLS INLINE
        const ColumnWeights<Config>& weights = weights_[block_of(i)];
        const Word<Config>& own = operand_[i][block_of(i)];
        if (native_integers && !control.reuses) {
            weights.accumulate(i, accumulator_[i], own.lane, control.first);  // a simulation saves the time
        } else {
            TapOperands<Config>::accumulate(weights, i, accumulator_[i], own, left(i), right(i), control.reuses,
                                            control.first);
        }
    }

    // The products of column i and the next one, which share multipliers.
    void add_products(int i, const Control& control, std::integral_constant<int, 2>) {
#pragma HLS INLINE
        const int other = i + 1 < columns ? i + 1 : i;
        const ColumnWeights<Config>& weights = weights_[block_of(i)];
        const Word<Config>&low = operand_[i][block_of(i)], &high = operand_[other][block_of(i)];
        if (native_integers && !control.reuses) {
            weights.accumulate(accumulator_[i], accumulator_[other], low.lane, high.lane, control.first);
        } else {
            const AdjacentWords<Config> words = {low, left(i), right(i)}, others = {high, left(other), right(other)};
            TapOperands<Config>::accumulate(weights, accumulator_[i], accumulator_[other], words, others,
                                            control.reuses, control.first);
        }
    }

    // The operands left and right of a column in its step, zero across the start of a row.
    Word<Config> left(int i) const {
#pragma HLS INLINE
        const bool none = i == 0 || begins_row_[i][block_of(i)];
        return none ? Word<Config>::zero() : operand_[i > 0 ? i - 1 : 0][block_of(i)];
    }

    Word<Config> right(int i) const {
#pragma HLS INLINE
        const int next = i + 1 < columns ? i + 1 : i;
        const bool none = i + 1 == columns || begins_row_[next][block_of(i)];
        return none ? Word<Config>::zero() : operand_[next][block_of(i)];
    }

    // The row that leaves each block next.
    void forward_rows() {
#pragma HLS INLINE
    Blocks_Forward:
        for (int g = blocks - 1; g > 0; --g) {
#pragma HLS UNROLL
            row_[g] = row_[g - 1];
            busy_[g] = busy_[g - 1];
        }
        const bool ends = control_[0].fires && control_[0].last;
        const int last = reused_ ? last_reused : doubled_ ? Config::accumulator_rows - 1 : Config::rows - 1;
        const bool last_row = row_[0] == last;
        busy_[0] = ends || (busy_[0] && !last_row);
        row_[0] = ends ? static_cast<row_t>(0) : static_cast<row_t>(row_[0] + (reused_ ? 2 : 1));
        if (ends) {
            doubled_ = control_[0].doubled;
            reused_ = control_[0].reuses;
        }
    }

    // Weights and control one block further, operands one step nearer to theirs. Block 0 is left idle.
    void hop() {
#pragma HLS INLINE
    Blocks_Hop:
        for (int g = blocks - 1; g > 0; --g) {
#pragma HLS UNROLL
            control_[g] = control_[g - 1];
            weights_[g] = weights_[g - 1];
        }
        control_[0].fires = false;
    Columns_Hop:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
        Steps_Hop:
            for (int k = kept_of(i); k > 0; --k) {
#pragma HLS UNROLL
                operand_[i][k] = operand_[i][k - 1];
                begins_row_[i][k] = begins_row_[i][k - 1];
            }
        }
    }

    // One step nearer to the next end of a pass.
    void count_rows() {
#pragma HLS INLINE
        sends_ = sending_ > 1;
        if (sending_ != 0) {
            --sending_;
        }
    }

    // The beat that is held enters the registers of the blocks.
    void take() {
#pragma HLS INLINE
        if (!held_.there()) {
            return;
        }
        const Operands& beat = held_.beat();
        load(beat);
        if (beat.fires) {
            const Weights& weights = held_weights_.beat();
            const bool doubled = Config::accumulator_rows > Config::rows && weights.power_of_two;
            const bool reuses = Config::tap_reuse && beat.neighbours;
            const Control control = {true, beat.first, beat.last, doubled, reuses};
            const WeightMode mode = {weights.two_hot, weights.power_of_two};
            control_[0] = control;
            weights_[0] = ColumnWeights<Config>(weights.weight.row, mode);
            if (beat.last) {
                const int others = doubled ? Config::accumulator_rows - 1 : Config::rows - 1;
                sending_ = static_cast<row_t>(reuses ? Config::lanes - 1 : others);
                sends_ = doubled || Config::rows > 1;
            }
        }
    }

    // A column holds its word until a beat has another one for it.
    void load(const Operands& beat) {
#pragma HLS INLINE
    Columns_Load:
        for (int i = 0; i < columns; ++i) {
#pragma HLS UNROLL
            if (beat.mine[i]) {
                operand_[i][0] = beat.word[i];
                begins_row_[i][0] = beat.begins_row[i];
            }
        }
    }

    using Column = typename Storage::RegisterSets::template Set<accumulator_t, Config::accumulator_rows>;

    HeldBeat<Operands> held_;
    HeldBeat<Weights> held_weights_;  // of the beat that fires next
    row_t sending_;                   // steps until the end of a pass may be taken
    bool sends_;                      // whether there are such
    // Of a block: its current step
    Control control_[blocks];
    ColumnWeights<Config> weights_[blocks];
    Word<Config> operand_[columns][blocks];  // [i][k]: k steps old; kept_of(i) + 1 of them
    bool begins_row_[columns][blocks];       // the same
    // Of a column
    Column accumulator_[columns];
    Column finished_[columns];
    // Of a block: the row of the forwarder that leaves
    row_t row_[blocks];
    bool busy_[blocks];
    bool doubled_, reused_;
    accumulator_t delayed_[columns][blocks];  // [i][k]: k + 1 steps old; wait_of(i) of them
};

}  // namespace bfpga
