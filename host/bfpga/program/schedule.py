"""When the operations of a start run: an event model of what overlaps (docs/kernel.md).

The work of an operation is what it takes by itself (``engines.kernel.cycles``); here operations wait for each other as
the processes make them: commands are passed in the order of the program, each engine does one operation at a time,
an operation begins when what it needs is finished, and loads and stores take the memory clocks that computing leaves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Operation
from bfpga.contract.predicates import counted_in, predicate_of
from bfpga.contract.process_command import COMMANDS
from bfpga.contract.process_stream import (
    POST,
    SCRATCHPAD,
    SHALLOW,
    START_GUARD,
    STORE_CREDITS,
    WAITING_GROUPS,
    WAITING_OPERATIONS,
    WEIGHTS,
)
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.cycles import (
    COUNTED_OPERATIONS,
    WITH_PARAMETERS,
    WORD_BITS,
    drain_cycles,
    kernel_steps,
    occupied_cycles,
    on_cluster,
    operation_cycles,
    passes,
    sends_accumulators,
    skips_zeros,
    stage_turns,
    takes_accumulators,
    tensor_beats,
    turns,
    weight_reads,
)
from bfpga.engines.kernel.order import COUNTS, FILLS, LOADS, READS, RESULTS, STORES, start_counts
from bfpga.engines.skip_array.activation_cycles import first_weights, last_sums, last_unit
from bfpga.engines.skip_array.cycles import OperationEnd
from bfpga.engines.skip_array.passes import first_window
from bfpga.formats.arrays import IntArray

_FIELDS = {command.process: command.fields for command in COMMANDS}

#: Flags as numbers, which are faster.
_KEPT, _MEASURE, _STREAM = int(Flag.KEPT), int(Flag.MEASURE), int(Flag.STREAM_WEIGHTS)
#: Clocks between the end of an operation's reading of operands and the first step of one that reads its results:
#: through the array, the output stage and back into memory, and the guard of the order. This and the two below are what
#: the Verilog of small networks takes (benchmarks.verify.rtl_clocks).
RESULT_LATENCY = 80
#: Of these, what the rows of a systolic array take to leave it; those of a skip array are counted by themselves.
ARRAY_ROWS = 10
#: Clocks between the last step of an operation's reading and the first one of an operation that does not need it: its
#: passes are set and its first group of pixels is there. A GEMM's weights follow the guard of their memory, and are as
#: far ahead of the operands as their stream holds.
READ_TURN = 6
WEIGHT_TURN = START_GUARD + READ_TURN - SHALLOW
#: Clocks from the last word that an operation reads of a tensor to the last weight word that it makes.
WEIGH_LATENCY = 12
#: Clocks in which a command comes into the scratchpad, a word each, when the one before has left.
SCRATCHPAD_COMMAND_CLOCKS = len(_FIELDS[SCRATCHPAD])
#: Clocks between the last row of an operation in the output stage and the first one of the next: its pipeline drains,
#: statistics and exponent are set, then the next command comes, a word a clock, and what it sets.
POST_TURN = len(_FIELDS[POST]) + 1 + 63
#: Clocks in which the sequencer sends a descriptor: a word of 32 bits each, then the end of the command of `post`.
COMMAND_CLOCKS = DESCRIPTOR_WORDS + 1
#: Clocks in which it passes over a descriptor that is skipped, and in which it decides.
DECISION_CLOCKS = 4
#: Clocks from the last group of a store to its last beat, and from there to the end of the start: the command that ends
#: it comes into the scratchpad, then reports.
STORE_LATENCY = 12
END_CLOCKS = SCRATCHPAD_COMMAND_CLOCKS + 44
#: A store that waits gets one of so many read clocks, whatever else is read.
STORE_SHARE = 1 / 8

LOADER, STORER, COMPUTER, FILLER, READER = ENGINES = ("loader", "storer", "computer", "filler", "reader")
#: Takes words of a table as a command brings them: no operation waits for it but by the order of commands.
TABLES = "tables"
_ENGINE_OF = {
    Operation.LOAD: LOADER, Operation.STORE: STORER, Operation.WEIGHTS: FILLER, Operation.TABLE: TABLES
}  # fmt: skip
#: What each engine waits for, with the clocks from there to its begin, and what it counts when it has finished.
_RESULTS = RESULTS, RESULT_LATENCY
_WAITS = {
    LOADER: (_RESULTS, (STORES, START_GUARD)),
    STORER: ((LOADS, START_GUARD), _RESULTS),
    COMPUTER: ((LOADS, START_GUARD), _RESULTS, (STORES, START_GUARD)),
    FILLER: ((READS, START_GUARD),),
    READER: ((FILLS, START_GUARD),),
}
_COUNTS = {LOADER: LOADS, STORER: STORES, COMPUTER: RESULTS, FILLER: FILLS, READER: READS}


@dataclass(frozen=True)
class TimedOperation:
    """When an operation of a sample ran, in clocks from the start's begin; ``work``: what it takes by itself."""

    sample: int
    index: int
    begin: int
    end: int
    work: int


@dataclass(frozen=True)
class StartSchedule:
    """Clocks of a start in all, and its operations in the order of the program."""

    clocks: int
    operations: list[TimedOperation]
    #: When the output stage took the command of each operation.
    taken: Mapping[int, float]


@dataclass(slots=True)
class _Task:
    """One operation of one sample. Shares: of its clocks in which a computing operation reads and writes memory."""

    engine: str
    work: float
    waits: Sequence[int]
    multiplies: bool
    read_share: float
    write_share: float
    #: Clocks at least, after the stream that feeds it; clocks of its rows in the output stage.
    streamed: float
    rows: float
    #: Of its clocks, those in which a word of weights leaves: in the others their stream is full.
    sent_share: float = 1.0
    earlier_results: int = 0
    #: Of a skip array of activations: clocks before its first product in which its first weights come, and those at its
    #: end in which none come any more, so that those of the next operation may.
    first: float = 0.0
    last: float = 0.0
    #: Clocks after its end in which its last sums leave the array.
    tail: float = 0.0
    #: Of a skip array of weights: clocks at its begin in which its first window comes, which needs no weights.
    window: float = 0.0
    #: Whether it reads a tensor that becomes weights: it fills their memory, and `post` does not hear of it.
    weighs: bool = False
    #: Computing operations before it that have ended when it is known whether it is skipped; whether it is.
    decided_after: int = 0
    skipped: bool = False


class _Engine:
    """Does one operation after the other; the computing one takes the next while one runs."""

    __slots__ = ("done", "left", "name", "rate", "running", "taken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running: int | None = None
        #: The operation that it has taken and not begun, and the moment before which it does not.
        self.taken: tuple[int, float] | None = None
        self.done = self.left = 0.0
        #: How much of a clock's work it does in a clock.
        self.rate = 1.0


@dataclass(slots=True)
class _Clock:
    """Start and end of every task."""

    begin: dict[int, float] = field(default_factory=dict)
    end: dict[int, float] = field(default_factory=dict)


class StreamRates(NamedTuple):
    """Bytes that memory gives or takes in a clock, by stream; None: a stream is never waited for."""

    input: float | None = None
    weights: float | None = None
    output: float | None = None


def schedule(
    config: KernelConfig,
    operations: Sequence[KernelOperation],
    samples: int = 1,
    bytes_per_clock: float | StreamRates | None = None,
    needs: IntArray | None = None,
    skipped: Sequence[bool] = (),
    arrivals: Mapping[int, float] | None = None,
) -> StartSchedule:
    """Clocks of one start of ``samples`` samples, and when each operation ran.

    bytes_per_clock: what memory gives each stream; None: streams are never waited for. needs: (operations, counts) what
    every operation waits for, not wrapped; by default what ``start_counts`` finds. skipped: of every operation, whether
    it is; by default none. arrivals: by operation, the clock before which the output stage cannot begin it, because its
    exponent comes from another core.
    """
    if needs is None:
        needs = start_counts(operations, config, samples)
    rates = bytes_per_clock if isinstance(bytes_per_clock, StreamRates) else StreamRates(*[bytes_per_clock] * 3)
    return _Run(config, operations, samples, rates, needs, skipped, arrivals or {}).schedule()


def works(config: KernelConfig, operations: Sequence[KernelOperation]) -> dict[str, int]:
    """Clocks of the work of each engine in a start, by its name: ``schedule`` takes more than the longest."""
    result: dict[str, int] = {}
    for operation in operations:
        kind = operation.descriptor.operation
        name = COMPUTER if kind in COUNTED_OPERATIONS else _ENGINE_OF[Operation(kind)]
        result[name] = result.get(name, 0) + occupied_cycles(config, operation.descriptor)
    return result


class _Run:
    """The processes of one start, from event to event."""

    def __init__(
        self,
        config: KernelConfig,
        operations: Sequence[KernelOperation],
        samples: int,
        rates: StreamRates,
        needs: IntArray,
        skipped: Sequence[bool],
        arrivals: Mapping[int, float],
    ) -> None:
        self.arrivals = arrivals
        #: When the output stage took the command of each operation.
        self.taken_at: dict[int, float] = {}
        self.config, self.count, self.samples = config, len(operations), samples
        # Samples have the same operations, and what one takes is the longest to find out.
        known = {id(operation): operation.descriptor for operation in operations}
        found = {key: _task(config, descriptor, rates) for key, descriptor in known.items()}
        kinds = [found[id(operation)] for operation in operations]
        waits = needs.reshape(-1, len(COUNTS)).tolist()
        self.tasks = [_copy(kinds[index % self.count], each) for index, each in enumerate(waits)]
        results = counted = 0
        for index, task in enumerate(self.tasks):
            task.earlier_results = results
            results += task.engine == COMPUTER
            descriptor = operations[index % self.count].descriptor
            if predicate_of(descriptor) is not None:
                task.decided_after = counted
                task.skipped = bool(skipped) and skipped[index]
            if counted_in(descriptor) and not task.skipped:
                counted = results
        #: Words of weights that their stream has room for.
        self.weights_ahead = config.array.queue_words() if config.array.stores_entries else SHALLOW
        self.now = 0.0
        self.engines = {name: _Engine(name) for name in ENGINES}
        self.loader, self.storer, self.computer, self.filler, self.reader = self.every = tuple(self.engines.values())
        self.times = {name: _Clock() for name in (*ENGINES, TABLES)}
        #: Moments at which the operations of each kind had finished; when the last computing one had read.
        self.finished: list[list[float]] = [[] for _ in COUNTS]
        self.results = self.finished[RESULTS]
        self.last_read: float | None = None
        #: When the last one had read whose rows pass the output stage.
        self.last_rows: float | None = None
        self.at_scratchpad, self.at_weights, self.at_post = deque[int](), deque[int](), deque[int]()
        self.queues = {SCRATCHPAD: self.at_scratchpad, WEIGHTS: self.at_weights, POST: self.at_post}
        self.next_command = 0
        #: When the scratchpad has the whole of its next command.
        self.arrival = 0.0
        #: The last computing operation whose counts are compared, or have been.
        self.newest: int | None = None
        self.sending: float | None = None
        #: The load whose tensor the sequencer is sending.
        self.tensor: int | None = None

    def schedule(self) -> StartSchedule:
        """Run all operations."""
        while not self._done():
            while self._step():
                pass
            if self._done():
                break
            self._advance()
        ends = [end + STORE_LATENCY for end in self.times[STORER].end.values()]
        ends += [end + _PASSED for end in self.results]
        clocks = math.ceil(max([self.now, *ends])) + END_CLOCKS
        return StartSchedule(clocks, list(self._timeline()), self.taken_at)

    def _done(self) -> bool:
        if self.next_command < len(self.tasks) or self.sending is not None or any(self.queues.values()):
            return False
        return all(engine.running is None and engine.taken is None for engine in self.every)

    def _timeline(self) -> Iterator[TimedOperation]:
        for index, task in enumerate(self.tasks):
            times = self.times[task.engine]
            sample, number = divmod(index, self.count)
            begin, end = math.floor(times.begin[index]), math.ceil(times.end[index])
            yield TimedOperation(sample, number, begin, end, 0 if task.skipped else int(task.work))

    # What happens at once

    def _step(self) -> bool:
        """Whether something happened that takes no time."""
        # Few checks before a call: all this is done a hundred thousand times while a network is compiled.
        if self.sending is None and self._send():
            return True
        if (self.at_post and self._take()) or (self.at_scratchpad and self._hand(SCRATCHPAD)):
            return True
        if self.at_weights and self._hand(WEIGHTS):
            return True
        for engine in self.every:
            if engine.taken is not None and engine.running is None and self._begin(engine.name, engine.taken):
                return True
        return False

    def _send(self) -> bool:
        """The sequencer begins the next command when the tensor before it is through and the commands have room."""
        if self.next_command == len(self.tasks):
            return False
        if self.tensor is not None:
            if self._left(self.tensor) > WAITING_GROUPS:
                return False
            self.tensor = None
        if any(len(self.queues[process]) >= WAITING_OPERATIONS for process in self._listeners(self.next_command)):
            return False
        task = self.tasks[self.next_command]
        if not self._at_post(task.decided_after):
            return False
        beats = DESCRIPTOR_WORDS * WORD_BITS / self.config.stream_bits
        self.sending = beats + DECISION_CLOCKS if task.skipped else float(COMMAND_CLOCKS)
        return True

    def _left(self, load: int) -> float:
        """Groups of a load's tensor that the scratchpad has not taken."""
        if load in self.times[LOADER].end:
            return 0.0
        engine = self.engines[LOADER]
        return engine.left if engine.running == load else self.tasks[load].work

    def _listeners(self, index: int) -> Iterator[str]:
        task = self.tasks[index]
        if task.engine == TABLES:
            yield POST
        elif task.engine != FILLER:
            yield SCRATCHPAD
            if not (task.skipped or task.weighs):
                yield POST
        if task.engine == FILLER or task.weighs or (task.multiplies and not task.skipped):
            yield WEIGHTS

    def _sent(self) -> None:
        """A command is complete."""
        for process in self._listeners(self.next_command):
            self.queues[process].append(self.next_command)
        if self.tasks[self.next_command].engine == LOADER:
            self.tensor = self.next_command
        self.next_command += 1
        self.sending = None

    def _take(self) -> bool:
        """The output stage takes the next command when the results before it are through."""
        queue = self.at_post
        if not self._at_post(self.tasks[queue[0]].earlier_results) or not self._past(self.arrivals.get(queue[0], 0.0)):
            return False
        index = queue.popleft()
        self.taken_at[index] = self.now
        if self.tasks[index].engine == TABLES:
            self.times[TABLES].begin[index] = self.times[TABLES].end[index] = self.now
        return True

    def _past(self, moment: float) -> bool:
        return moment <= self.now + _NOTHING

    def _at_post(self, results: int) -> bool:
        """Whether so many computing operations have passed the output stage."""
        read = self.results
        return results == 0 or (len(read) >= results and read[results - 1] + _PASSED <= self.now + _NOTHING)

    def _hand(self, process: str) -> bool:
        """The next command of a process goes to its engine once that is done with the one before; others wait."""
        queue = self.queues[process]
        if process == SCRATCHPAD and not self._past(self.arrival):
            return False
        name = self._engine(process, queue[0])
        if name == COMPUTER and self.tasks[queue[0]].skipped:
            return self._pass(queue[0])
        if name == COMPUTER:
            return self._order(queue) or self._leave(queue)
        engine = self.engines[name]
        if engine.taken is not None or engine.running is not None:
            return False
        engine.taken = queue[0], self.now + (WEIGHT_TURN if name == READER else START_GUARD)
        self._pop(process)
        return True

    def _order(self, queue: deque[int]) -> bool:
        """The counts of a computing operation are compared as soon as the one before it has begun."""
        engine = self.engines[COMPUTER]
        if engine.taken is not None or queue[0] == self.newest:
            return False
        self.newest = queue[0]
        engine.taken = queue[0], self.now + START_GUARD
        return True

    def _pass(self, index: int) -> bool:
        """An operation that is skipped is counted when those before it have ended; nothing else waits for that."""
        computer, results = self.engines[COMPUTER], self.results
        if computer.running is not None or computer.taken is not None:
            return False
        self._pop(SCRATCHPAD)
        self.times[COMPUTER].begin[index] = self.times[COMPUTER].end[index] = self.now
        results.append(results[-1] if results else self.now)
        if self.tasks[index].multiplies:
            self.times[READER].begin[index] = self.times[READER].end[index] = self.now
            self.finished[READS].append(self.now)
        return True

    def _leave(self, queue: deque[int]) -> bool:
        """Its command stays until the results of the one before are in memory."""
        if self.newest != queue[0] or not self._at_post(self.tasks[queue[0]].earlier_results):
            return False
        self._pop(SCRATCHPAD)
        return True

    def _pop(self, process: str) -> None:
        self.queues[process].popleft()
        if process == SCRATCHPAD:
            self.arrival = self.now + SCRATCHPAD_COMMAND_CLOCKS

    def _engine(self, process: str, index: int) -> str:
        task = self.tasks[index]
        if process == WEIGHTS and task.engine == COMPUTER:
            return FILLER if task.weighs else READER
        return task.engine

    def _begin(self, name: str, taken: tuple[int, float]) -> bool:
        """An idle engine begins what it has taken, once that may."""
        engine, (index, ready) = self.engines[name], taken
        if not self._past(ready) or not self._past(self._ready(name, index)):
            return False
        engine.taken, engine.running = None, index
        engine.done, engine.left = 0.0, self._clocks(name, index)
        if name == COMPUTER and self.tasks[index].window:
            # Its first window has come while it waited for weights.
            waited = self.now - max(ready, self._operands_ready(name, index))
            engine.left -= min(self.tasks[index].window, max(0.0, waited))
        if name == COMPUTER and self.tasks[index].last:
            # Its weights are all in the array before its last passes.
            self.engines[READER].left = max(1.0, engine.left - self.tasks[index].last)
        self.times[name].begin[index] = self.now
        return True

    def _clocks(self, name: str, index: int) -> float:
        task = self.tasks[index]
        if name == READER or (name == FILLER and task.weighs):
            return math.inf  # until the operation has read its operands
        # The output stage takes rows when it has the command, and there is room for a few only before it.
        passes = name == COMPUTER and not task.weighs
        held = self.last_rows + POST_TURN + task.rows - self.now if passes and self.last_rows is not None else 0.0
        if passes and index in self.arrivals:
            held = max(held, self.arrivals[index] + task.rows - self.now)
        return max(task.work, task.streamed, held)

    def _ready(self, name: str, index: int) -> float:
        """When what an operation needs has reached memory; infinity while that is not known."""
        task, moment = self.tasks[index], self._operands_ready(name, index)
        if name == COMPUTER and task.multiplies:
            moment = max(moment, self.times[READER].begin.get(index, math.inf) + task.first)
        if name == COMPUTER and task.weighs:
            moment = max(moment, self.times[FILLER].begin.get(index, math.inf))
        return moment

    def _operands_ready(self, name: str, index: int) -> float:
        """The same but for weights."""
        task, moment = self.tasks[index], 0.0
        if name == COMPUTER and self.last_read is not None:
            moment = self.last_read + READ_TURN
        waits = task.waits
        for kind, latency in _WAITS[name]:
            needed = waits[kind]
            if needed > 0:
                finished = self.finished[kind]
                if needed > len(finished):
                    return math.inf
                moment = max(moment, finished[needed - 1] + latency)
        return moment

    # What takes time

    def _set_rates(self) -> None:
        """How much of a clock's work each engine does in a clock from now on."""
        computing = self.computer.running
        reads = writes = 0.0
        if computing is not None:
            reads, writes = self.tasks[computing].read_share, self.tasks[computing].write_share
        self.loader.rate = 1.0 - writes
        self.storer.rate, self.computer.rate = 0.0, 1.0
        if self._stores():
            self.storer.rate = max(1.0 - reads, STORE_SHARE)
            self.computer.rate = min(1.0, (1.0 - self.storer.rate) / reads) if reads else 1.0
        self.filler.rate = self._filling(computing)

    def _filling(self, computing: int | None) -> float:
        """How much of a clock a WEIGHTS gets: none while the weights of a GEMM wait for room in their stream, since one
        loop does both."""
        reader = self.reader
        if reader.running is None or reader.done < self.weights_ahead:
            return 1.0
        return self.tasks[computing].sent_share if computing == reader.running else 0.0

    def _stores(self) -> bool:
        """Whether a store is at work: its first groups wait for its exponent, which the output stage sends in order."""
        engine = self.storer
        if engine.running is None:
            return False
        return engine.done < STORE_CREDITS or self._at_post(self.tasks[engine.running].earlier_results)

    def _moments(self) -> list[float]:
        """Clocks until something may happen."""
        now = self.now
        result = [self.arrival - now]
        if self.sending is not None:
            result.append(self.sending)
        for engine in self.every:
            if engine.running is not None and engine.rate > 0:
                result.append(engine.left / engine.rate)
                if engine is self.storer:
                    result.append((STORE_CREDITS - engine.done) / engine.rate)
                elif engine is self.loader:
                    result.append((engine.left - WAITING_GROUPS) / engine.rate)
                elif engine is self.reader:
                    result.append(self.weights_ahead - engine.done)
            elif engine.taken is not None:
                index, ready = engine.taken
                result.append(max(ready, self._ready(engine.name, index)) - now)
        result += [moment + _PASSED - now for moment in self.results[-2:]]
        if self.at_post and self.at_post[0] in self.arrivals:
            result.append(self.arrivals[self.at_post[0]] - now)
        return result

    def _advance(self) -> None:
        self._set_rates()
        clocks = min([moment for moment in self._moments() if moment > _NOTHING], default=math.inf)
        assert clocks < math.inf, "no operation of the schedule may go on"
        self.now += clocks
        if self.sending is not None:
            self.sending -= clocks
            if self.sending <= _NOTHING:
                self._sent()
        for engine in self.every:
            if engine.running is not None:
                engine.done += clocks * engine.rate
                engine.left -= clocks * engine.rate
                if engine.left <= _NOTHING:
                    self._end(engine.name)

    def _end(self, name: str) -> None:
        engine = self.engines[name]
        assert engine.running is not None
        index, engine.running = engine.running, None
        self.times[name].end[index] = self.now
        if name == COMPUTER:
            self.last_read = self.now
        task = self.tasks[index]
        later = task.tail if name == COMPUTER else WEIGH_LATENCY if task.weighs else 0
        self.finished[_COUNTS[name]].append(self.now + later)
        if name == COMPUTER and not self.tasks[index].weighs:
            self.last_rows = self.results[-1]
        for other in (READER, FILLER):
            if name == COMPUTER and self.engines[other].running == index:
                self._end(other)


#: Work that rounding of rates may leave.
_NOTHING = 1e-6
#: Clocks from the end of an operation's reading to its last row in the output stage.
_PASSED = RESULT_LATENCY - START_GUARD


def _copy(task: _Task, waits: Sequence[int]) -> _Task:
    return _Task(
        task.engine, task.work, waits, task.multiplies, task.read_share, task.write_share, task.streamed, task.rows,
        task.sent_share, first=task.first, last=task.last, tail=task.tail,
        window=task.window, weighs=task.weighs,
    )  # fmt: skip


def _task(config: KernelConfig, descriptor: Descriptor, rates: StreamRates) -> _Task:
    operation, flags = descriptor.operation, descriptor.flags
    work = occupied_cycles(config, descriptor)
    without = skips_zeros(config, descriptor)
    by_entries = without and config.array.stores_entries
    skips = without and config.array.computes_runs and not config.array.reads_maps
    if skips:
        work -= first_weights(config, descriptor)  # which may come before
    computes = operation in COUNTED_OPERATIONS
    moved, rate = _weight_beats(config, descriptor) * config.weight_stream_bits / 8, rates.weights
    if operation in (Operation.LOAD, Operation.STORE):
        moved = (1 + tensor_beats(config, descriptor)) * config.stream_bits / 8
        rate = rates.input if operation == Operation.LOAD else rates.output
    limit = moved / rate if rate is not None else 0.0
    streamed = max(limit, _weight_beats(config, descriptor) if computes else 0)
    reads = writes = rows = 0.0
    if computes and work:
        count, drained = passes(config, descriptor), drain_cycles(config, descriptor)
        kept = flags & _KEPT and not takes_accumulators(descriptor)
        steps = 0 if kept else turns(descriptor) * kernel_steps(config, descriptor) * descriptor.read_slots
        beats = operation_cycles(config, descriptor) if on_cluster(config, descriptor) else count * steps
        reads = min(1.0, beats / work)
        words = drained // max(config.lanes, descriptor.write_slots)
        rows = count * words * config.lanes * stage_turns(config, descriptor)
        written = 0 if flags & _MEASURE else words * descriptor.write_slots
        if sends_accumulators(descriptor):
            written = drained
        if operation == Operation.WEIGH:
            rows = written = 0
        writes = min(1.0, count * written / work)
    engine = COMPUTER if computes else _ENGINE_OF[Operation(operation)]
    task = _Task(engine, work, (), operation in WITH_PARAMETERS, reads, writes, streamed, rows)
    task.weighs = operation == Operation.WEIGH
    if operation == Operation.GEMM and work and not flags & _KEPT:
        words = weight_reads(config, descriptor) * (config.lanes if skips else 1)
        waits = first_window(config, descriptor) if by_entries else 0
        task.sent_share = min(1.0, words / max(1, work - waits))
    if by_entries:
        end = OperationEnd(config, descriptor)
        task.work -= end.read_before
        task.window = 0 if end.read_before else first_window(config, descriptor)
        task.tail = end.last_sums + end.read_before - ARRAY_ROWS
    if skips:
        task.first, task.last = first_weights(config, descriptor), last_unit(config, descriptor)
        task.tail = last_sums(config, descriptor)
    return task


def _weight_beats(config: KernelConfig, descriptor: Descriptor) -> int:
    """Beats of the weight stream that an operation takes."""
    if descriptor.operation == Operation.WEIGHTS:
        return operation_cycles(config, descriptor)
    if descriptor.operation == Operation.GEMM and descriptor.flags & _STREAM:
        return weight_reads(config, descriptor) * config.beats_per_weight_word
    return 0
