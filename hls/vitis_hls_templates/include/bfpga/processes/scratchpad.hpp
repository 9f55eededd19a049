// The scratchpad: the activation banks and all that moves through them, in one pipelined loop.
//
// A step reads one vector of words - operands of a pass, or a group of a store - and writes one - a run of results, or
// a group of a load; all reads precede all writes. Operations come as commands; each waits until what it needs has
// ended (scratchpad/order.hpp), so loads, stores and a computing operation go on at the same time, and the next
// computing operation is read while results of the one before are awaited (scratchpad/engines.hpp).
#pragma once
#include "bfpga/contract/commands.hpp"
#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/operand_words.hpp"
#include "bfpga/processes/scratchpad/added.hpp"
#include "bfpga/processes/scratchpad/engines.hpp"
#include "bfpga/processes/scratchpad/reader.hpp"
#include "bfpga/processes/scratchpad/transfer.hpp"
#include "bfpga/processes/scratchpad/writer.hpp"
#include "bfpga/processes/wires.hpp"

namespace bfpga {

// What goes to the process of rows where there is one (processes/rows/ports.hpp).
template <class Config>
class RowOperands;

template <class Config, class Storage>
class ScratchpadProcess {
    using T = ScratchpadTypes<Config>;
    using Takes = typename ComputingEngine<Config>::Takes;

   public:
    ScratchpadProcess() {
#pragma HLS ARRAY_PARTITION variable=incoming_ complete dim=0
    }

    // One start. `trace.finished(index, work)` receives every operation; the index counts the commands of the start.
    template <class Trace>
    void run(stream<command_t>& commands, stream<wire_t<GroupBeat<Config>>>& loads,
             stream<wire_t<OperandBeat<Config>>>& operands, stream<wire_t<VectorBeat<Config>>>& vectors,
             stream<wire_t<ResultBeat<Config>>>& results, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, stream<command_t>& reports, Trace& trace) {
#pragma HLS INLINE
        NoWindows windows;
        run(commands, loads, operands, vectors, results, stored, credits, windows, reports, trace);
    }

    // `windows`: credits of a skip array, one for each chunk of a window that it has left.
    template <class Windows, class Trace>
    void run(stream<command_t>& commands, stream<wire_t<GroupBeat<Config>>>& loads,
             stream<wire_t<OperandBeat<Config>>>& operands, stream<wire_t<VectorBeat<Config>>>& vectors,
             stream<wire_t<ResultBeat<Config>>>& results, stream<wire_t<GroupBeat<Config>>>& stored,
             stream<bool>& credits, Windows& windows, stream<command_t>& reports, Trace& trace) {
#pragma HLS INLINE
        NoOperands skip_operands;
        run(commands, loads, operands, skip_operands, vectors, results, stored, credits, windows, reports, trace);
    }

    // `skip_operands`: to the skip array, in a kernel with both arrays.
    template <class Operands, class Windows, class Trace>
    void run(stream<command_t>& commands, stream<wire_t<GroupBeat<Config>>>& loads,
             stream<wire_t<OperandBeat<Config>>>& operands, Operands& skip_operands,
             stream<wire_t<VectorBeat<Config>>>& vectors, stream<wire_t<ResultBeat<Config>>>& results,
             stream<wire_t<GroupBeat<Config>>>& stored, stream<bool>& credits, Windows& windows,
             stream<command_t>& reports, Trace& trace) {
#pragma HLS INLINE
        clear();
        bool running = true;
        PipelinedLoop loop("Scratchpad");
    Scratchpad:
        do {
// II=1: one read and one write per bank and cycle, reads first. Carried are counters with registered ends, walks of one
// addition, and flags; addresses and the ways to and from the banks are not carried.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=64 max=1048576
            loop.iteration();
            running = !ended_;
            access(operands, skip_operands, vectors, stored);
            advance(loads, results, credits, windows, trace);
            receive(commands);
        } while (running);
        loop.ended();
        operands.write(to_wire(stop_beat()));
        send(stop_beat(), skip_operands);
        reports.write(static_cast<command_t>(low_bits<32>(work_)));
    }

   private:
    // For each of the parts whether it moves.
    struct Moves {
        bool computes, loads, stores;
    };

    void clear() {
#pragma HLS INLINE
        computer_.clear();
        loader_.clear();
        storer_.clear();
        reader_.clear();
        added_.clear();
        writer_.clear();
        load_.clear();
        store_.clear();
        finished_.clear();
        free_ = true;
        skipped_ = false;
        skips_next_ = false;
        skips_ = false;
        word_ = 0;
        complete_ = false;
        known_ = false;
        last_ = false;
        idle_ = false;
        ended_ = false;
        heard_ = 0;
        work_ = 0;
    }

    // Reads and writes that the issue registers request.
    template <class Operands>
    void access(stream<wire_t<OperandBeat<Config>>>& operands, Operands& skip_operands,
                stream<wire_t<VectorBeat<Config>>>& vectors, stream<wire_t<GroupBeat<Config>>>& stored) {
#pragma HLS INLINE
        PortRequest<Config> request[T::ports];
#pragma HLS ARRAY_PARTITION variable=request complete dim=0
        Word<Config> word[T::ports];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
        bool mine[Config::columns];
#pragma HLS ARRAY_PARTITION variable=mine complete dim=0
        RunWrite<Config> write;
        const bool reads = reader_.issue().valid;
        const bool stores = store_.issued();
        select_requests(reads, stores, request, mine);
        select_write(write);
        banks_.step(request, word, !reads || reader_.counts(), write);
        if (stores) {
            stored.write(to_wire(GroupBeat<Config>::of(word)));
        }
        if (reads && reader_.rows()) {
            send_rows(word, skip_operands);
        } else if (reads && reader_.weighs()) {
            send_weights(word, skip_operands);
        } else if (added_.issued() || (reads && reader_.vector())) {
            send_vector(word, request, mine, vectors);
        }
        if (reads && !reader_.vector()) {
            const OperandBeat<Config> beat = operand_beat(word, mine);
            const bool skips = Config::dense_beside && reader_.chunks().chunked();
            if (skips) {
                send(beat, skip_operands);
            } else {
                operands.write(to_wire(beat));
            }
        }
    }

    void select_requests(bool reads, bool stores, PortRequest<Config> (&request)[T::ports],
                         bool (&mine)[Config::columns]) const {
#pragma HLS INLINE
        PortRequest<Config> group[T::ports];
#pragma HLS ARRAY_PARTITION variable=group complete dim=0
        reader_.requests(request, mine);
        store_.requests(group);
    Ports_Choose:
        for (int i = 0; i < T::ports; ++i) {
#pragma HLS UNROLL
            const bool in_group = i < Config::transfer_pixels;
            request[i].active =
                stores ? in_group && group[i].active : reads && i < Config::columns && request[i].active;
            // Ports that a store does not use keep an address that is never read.
            if (i >= Config::columns || (stores && in_group)) {
                request[i].place = group[i].place;
            }
        }
        if (added_.issued()) {
            added_.requests(request);
        }
    }

    void select_write(RunWrite<Config>& write) const {
#pragma HLS INLINE
        const bool results = writer_.writes();
        writer_.write(write);
        if (!results) {
            load_.write(write);
        }
        write.enable = results || load_.waits();
    }

    static void send(const OperandBeat<Config>&, NoOperands&) {}

    static void send(const OperandBeat<Config>& beat, stream<wire_t<OperandBeat<Config>>>& operands) {
#pragma HLS INLINE
        operands.write(to_wire(beat));
    }

    // The process of rows gets words, and none to stop.
    static void send(const OperandBeat<Config>&, RowOperands<Config>&) {}

    template <class Others>
    static void send_rows(const Word<Config> (&)[T::ports], Others&) {}

    static void send_rows(const Word<Config> (&word)[T::ports], RowOperands<Config>& rows) {
#pragma HLS INLINE
        rows.send(word);
    }

    // Where tensors become weights, their words go beside what else does.
    template <class Others>
    static void send(const OperandBeat<Config>& beat, WithOperandWords<Config, Others>& beside) {
#pragma HLS INLINE
        send(beat, beside.others);
    }

    template <class Others>
    static void send_rows(const Word<Config> (&word)[T::ports], WithOperandWords<Config, Others>& beside) {
#pragma HLS INLINE
        send_rows(word, beside.others);
    }

    template <class Others>
    static void send_weights(const Word<Config> (&)[T::ports], Others&) {}

    template <class Others>
    static void send_weights(const Word<Config> (&word)[T::ports], WithOperandWords<Config, Others>& beside) {
#pragma HLS INLINE
        beside.send_weights(word);
    }

    OperandBeat<Config> operand_beat(const Word<Config> (&word)[T::ports], const bool (&mine)[Config::columns]) const {
#pragma HLS INLINE
        OperandBeat<Config> beat;
    Columns_Operands:
        for (int c = 0; c < Config::columns; ++c) {
#pragma HLS UNROLL
            beat.word[c] = word[c];
            beat.mine[c] = mine[c];
            beat.begins_row[c] = reader_.begins_row(c);
        }
        beat.neighbours = reader_.neighbours();
        beat.fires = reader_.issue().fires;
        beat.first = reader_.issue().first;
        beat.last = reader_.issue().last;
        reader_.chunks().mark(beat);
        beat.stop = false;
        return beat;
    }

    // Words of a tensor that is added are complete.
    void send_vector(const Word<Config> (&word)[T::ports], const PortRequest<Config> (&request)[T::ports],
                     const bool (&mine)[Config::columns], stream<wire_t<VectorBeat<Config>>>& vectors) const {
#pragma HLS INLINE
        VectorBeat<Config> beat;
    Columns_Vector:
        for (int c = 0; c < Config::columns; ++c) {
#pragma HLS UNROLL
            beat.word[c] = word[c];
            beat.mine[c] = mine[c] || added_.issued();
            beat.present[c] = request[c].active;
        }
        beat.fires = reader_.issue().fires || added_.issued();
        vectors.write(to_wire(beat));
    }

    static OperandBeat<Config> stop_beat() {
#pragma HLS INLINE
        OperandBeat<Config> beat;
    Columns_Stop:
        for (int c = 0; c < Config::columns; ++c) {
#pragma HLS UNROLL
            beat.word[c] = Word<Config>::zero();
            beat.mine[c] = false;
            beat.begins_row[c] = false;
        }
        beat.neighbours = false;
        beat.fires = false;
        beat.first = false;
        beat.last = false;
        beat.opens = false;
        beat.closes = false;
        beat.single = false;
        beat.slides = false;
        beat.apart = false;
        beat.leaves = false;
        beat.stop = true;
        return beat;
    }

    // One step of every part. Registers hold what begins, ends and is handed over in a cycle.
    template <class Windows, class Trace>
    void advance(stream<wire_t<GroupBeat<Config>>>& loads, stream<wire_t<ResultBeat<Config>>>& results,
                 stream<bool>& credits, Windows& windows, Trace& trace) {
#pragma HLS INLINE
        const bool left = reader_.chunks().hears(windows);
        const Moves moves = {computer_.begins(), loader_.begins(), storer_.begins()};
        const bool reading = reader_.running(), adding = added_.running();
        const bool read = computer_.read_ends(reading | adding);
        const Moves ends = {computer_.ends(writer_.running()), loader_.ends(load_.running()),
                            storer_.ends(store_.running())};
        const Moves free = {computer_.idle(), loader_.free(), storer_.free()};
        const Takes takes = computer_.takes(known_ && next_.computes, reader_.walked());
        const bool idle = free.computes && free.loads && free.stores && store_.idle() && reader_.chunks().left_all();
        const bool writes = writer_.writes();
        const bool waits = load_.waits();
        const bool loaded = waits & !writes;
        const bool forced = store_.forced();
        const bool adds = added_.wants() & !forced;
        const bool may = Config::residual_adds ? free_ : !forced;
        const bool wants = store_.wants();
        const bool reads = reader_.goes(may);
        const bool goes = wants & !(reads | adds);
        const bool added = writer_.adds_returned();
        const bool returned = writer_.returned();
        writer_.step(results, reader_.asks(may), computer_.writer_starts());
        load_.step(loads, writes, moves.loads);
        const bool begun = reader_.begun();
        const bool computed =
            reader_.step(may, returned, left, added_.lets(begun), computer_.walk_starts(), moves.computes);
        added_.step(adds, added, begun, moves.computes);
        store_.step(goes, credits, moves.stores);
        const bool takes_port = added_.wants();
        const bool forces = store_.forced();
        free_ = !(takes_port | forces);
        computer_.step(finished_, takes, read, ends.computes, computed, heard_, trace);
        loader_.step(finished_, moves.loads, ends.loads, loaded, trace);
        storer_.step(finished_, moves.stores, ends.stores, goes, trace);
        const uint_t<2> steps = static_cast<uint_t<2>>((computed ? 1 : 0) + (loaded ? 1 : 0) + (goes ? 1 : 0));
        work_ = static_cast<uint_t<32>>(work_ + steps);
        FinishedOperations::add(finished_.results, ends.computes || skips_);
        FinishedOperations::add(finished_.loads, ends.loads);
        FinishedOperations::add(finished_.stores, ends.stores);
        // No command follows the last one, so the flags may lag.
        ended_ = last_ && idle_;
        idle_ = idle;
        dispatch(free, takes, trace);
    }

    // A complete command goes to the part that executes it, if that one is free; the part is known a cycle after the
    // command is complete. That of a computing operation stays until the last of its parts has taken it. A skipped one
    // counts like the others: when all before it have ended.
    template <class Trace>
    void dispatch(const Moves& free, const Takes& takes, Trace& trace) {
#pragma HLS INLINE
        const Descriptor next = incoming();
        const Operation operation = static_cast<Operation>(next.operation);
        const bool loads = known_ && next_.loads && free.loads;
        const bool stores = known_ && next_.stores && free.stores;
        if (loads) {
            loader_.take(next, heard_);
            load_.take(next);
        }
        if (stores) {
            storer_.take(next, heard_);
            store_.take(next);
        }
        if (takes.order) {
            computer_.order(next);
        }
        if (takes.walk) {
            reader_.take_walk(next);
        }
        if (takes.reader) {
            reader_.take_passes(next);
            added_.take(next);
        }
        if (takes.writer) {
            writer_.take(next);
        }
        skips_ = known_ && skips_next_ && free.computes;
        if (skips_) {
            trace.finished(static_cast<int>(heard_), 0);
        }
        taken_ = loads || stores || takes.writer || skips_;
        if (taken_) {
            ++heard_;
        }
        last_ = known_ && !next_.computes && !next_.loads && !next_.stores && !skips_next_;
        next_.computes = computes_here(operation) && !skipped_;
        next_.loads = operation == Operation::Load && !skipped_;
        next_.stores = operation == Operation::Store && !skipped_;
        skips_next_ = skipped_;
        known_ = complete_ && !taken_;
        // An operation waits only for earlier ones: no other could complete it.
        simulation_check(!known_ || progresses(), "a descriptor",
                         "waits for operations behind it; descriptors that use the activation memory so far:",
                         static_cast<long long>(heard_));
    }

    // Whether one of the parts works, may begin, or has nothing to do at all.
    bool progresses() const {
#pragma HLS INLINE
        const bool waits = computer_.waits(finished_) || loader_.waits(finished_) || storer_.waits(finished_);
        const bool works = computer_.works(finished_) || loader_.works(finished_) || storer_.works(finished_);
        return works || !waits;
    }

    static bool computes_here(Operation operation) {
#pragma HLS INLINE
        const bool rows = Config::row_columns > 0 && operation == Operation::Rows;
        const bool weighs = Config::operand_weights && operation == Operation::Weigh;
        return operation == Operation::Gemm || operation == Operation::Max || operation == Operation::Sum || rows ||
               weighs;
    }

    // One word of the next command. The words shift until each is at its index.
    void receive(stream<command_t>& commands) {
#pragma HLS INLINE
        command_t word = 0;
        if (complete_) {
            complete_ = !taken_;
            return;
        }
        if (!commands.read_nb(word)) {
            return;
        }
    Words_Shift:
        for (int k = 0; k < ScratchpadCommand::words - 1; ++k) {
#pragma HLS UNROLL
            incoming_[k] = incoming_[k + 1];
        }
        incoming_[ScratchpadCommand::words - 1] = static_cast<int32_t>(word);
        skipped_ = Config::count_registers > 0 && word_ == 0 && word == ProcessLimits::skipped;
        complete_ = skipped_ || word_ == ScratchpadCommand::words - 1;
        word_ = complete_ ? static_cast<uint_t<7>>(0) : static_cast<uint_t<7>>(word_ + 1);
    }

    // The command that has come in.
    Descriptor incoming() const {
#pragma HLS INLINE
        Descriptor descriptor;
    Words_Place:
        for (int k = 0; k < ScratchpadCommand::words; ++k) {
#pragma HLS UNROLL
            ScratchpadCommand::set(descriptor, k, incoming_[k]);
        }
        descriptor.operation = static_cast<int32_t>(static_cast<uint_t<operation_bits>>(descriptor.operation));
        return descriptor;
    }

    ScratchpadBanks<Config, typename Storage::ScratchpadPorts> banks_;
    // Computing operations, loads, stores: their order, and the parts that execute them
    ComputingEngine<Config> computer_;
    TransferEngine<Config> loader_, storer_;
    OperandReader<Config> reader_;
    AddedReader<Config> added_;
    ResultWriter<Config> writer_;
    LoadWriter<Config> load_;
    StoreReader<Config> store_;
    bool free_;  // neither of what goes before operands has the port
    FinishedOperations finished_;
    // The command that comes in
    int32_t incoming_[ScratchpadCommand::words];
    uint_t<7> word_;
    bool complete_, known_, taken_, last_, idle_, ended_;
    bool skipped_, skips_next_, skips_;  // it is one of an operation that is skipped, and counted in this cycle
    Moves next_;                         // who executes it, if it is known
    int32_t heard_;
    uint_t<32> work_;
};

}  // namespace bfpga
