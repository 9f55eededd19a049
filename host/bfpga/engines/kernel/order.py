"""What each operation of a start must wait for: hazards between operations as counts.

The processes of a kernel work at the same time (docs/kernel.md). Loads are in order among themselves, so are
stores, weight transfers and computing operations; an operation of one kind waits for the last earlier one of each other
kind whose words conflict with its own. What it waits for is a number of finished operations of the start, modulo 2**16.
Exponents and policy slots need no counts: one process handles them in the order of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Descriptor, Flag, Operation, word_of
from bfpga.contract.program import KernelOperation, MemoryUse
from bfpga.engines.kernel.cycles import COUNTED_OPERATIONS, WITH_PARAMETERS, multiplies_tensors
from bfpga.engines.kernel.records import record_sizes
from bfpga.formats.arrays import IntArray

#: Fields that hold the order, in the order of the counts here.
COUNTS = ("after_loads", "after_results", "after_stores", "after_fills", "after_reads")
#: Their places in a descriptor, and the kind of operation that each counts.
COUNT_WORDS = [FIELDS.index(name) for name in COUNTS]
COUNT_BITS = 16
#: A count trails the operations before it by at most this many, so that the comparison of counts that wrap around is
#: right. So many operations of a kind are never on their way at once: nothing waits for it.
RECENT = 1 << 14
_RECORD_WORDS = word_of("told_words")

#: Flags as numbers: the compiler asks for them ten thousand times, and enumerations are slow.
_KEPT, _STREAM, _NO_WEIGHTS = int(Flag.KEPT), int(Flag.STREAM_WEIGHTS), int(Flag.STREAM_WEIGHTS | Flag.KEPT)

LOADS, RESULTS, STORES, FILLS, READS = range(len(COUNTS))
#: Operations that fill the weight memory.
FILLING = (Operation.WEIGHTS, Operation.WEIGH)
Range = tuple[int, int]


def any_overlap(some: Iterable[Range], others: Sequence[Range]) -> bool:
    """Whether a range of words of one set has a word of a range of the other."""
    return any(first < other_end and other < end for first, end in some for other, other_end in others)


def weight_range(descriptor: Descriptor) -> Range:
    """Weight words that a WEIGHTS or a WEIGH fills, or a GEMM reads; none of a GEMM that takes them elsewhere."""
    if descriptor.operation in FILLING:
        return descriptor.weight_base, descriptor.weight_base + descriptor.weight_words
    if descriptor.flags & _NO_WEIGHTS or descriptor.operation == Operation.ROWS:
        return descriptor.weight_base, descriptor.weight_base
    if descriptor.entry_words:
        return descriptor.weight_base, descriptor.weight_base + descriptor.entry_words
    if descriptor.weight_block_step and not descriptor.weight_tap_step:  # of a tile
        return descriptor.weight_base, descriptor.weight_base + descriptor.blocks * descriptor.weight_block_step
    taps = descriptor.kernel_height * descriptor.kernel_width
    last = (taps - 1) * descriptor.weight_tap_step + (descriptor.blocks - 1) * descriptor.weight_block_step
    return descriptor.weight_base, descriptor.weight_base + last + descriptor.channel_words


def parameter_range(descriptor: Descriptor) -> Range:
    """Parameter rows that a WEIGHTS fills or a GEMM reads; of a product of tensors nothing is done with them."""
    if descriptor.operation == Operation.WEIGH or multiplies_tensors(descriptor):
        return descriptor.parameter_base, descriptor.parameter_base
    rows = descriptor.parameter_rows if descriptor.operation == Operation.WEIGHTS else descriptor.output_rows
    return descriptor.parameter_base, descriptor.parameter_base + rows


class _Users:
    """Which words of a memory operations of one kind have used in one way; the same few ranges come again and again."""

    def __init__(self) -> None:
        #: The last operation that used a range, in the order of these.
        self._last: dict[Range, int] = {}

    def use(self, ranges: Iterable[Range], number: int) -> None:
        for words in ranges:
            if words[0] < words[1]:
                self._last.pop(words, None)  # ranges stay in the order of their last use
                self._last[words] = number

    def last(self, ranges: Iterable[Range]) -> int:
        """The last operation that used a word of the ranges; 0: none."""
        return max((self._last_in(start, end) for start, end in ranges if start < end), default=0)

    def _last_in(self, start: int, end: int) -> int:
        for (first, last), number in reversed(self._last.items()):
            if first < end and start < last:
                return number
        return 0


class _Start:
    """Operations of one start, one after the other."""

    def __init__(self, config: KernelConfig) -> None:
        words = config.activation_words
        self._everything = MemoryUse(((0, words),), ((0, words),))
        self._loaded, self._written, self._stored, self._read = (_Users() for _ in range(4))
        self._filled, self._fetched, self._filled_rows, self._fetched_rows = (_Users() for _ in range(4))
        self._streamed = 0
        self._kept = 0
        #: Operations of each kind so far.
        self.done = [0] * len(COUNTS)

    def counts(self, operation: KernelOperation) -> list[int]:
        """What the next operation waits for: numbers of operations by kind, 0 for those it does not wait for."""
        descriptor, use = operation.descriptor, operation.memory or self._everything
        result = [0] * len(COUNTS)
        if descriptor.operation == Operation.LOAD:
            result[RESULTS] = max(self._written.last(use.writes), self._read.last(use.writes))
            result[STORES] = self._stored.last(use.writes)
            self._loaded.use(use.writes, self._next(LOADS))
        elif descriptor.operation == Operation.STORE:
            result[LOADS], result[RESULTS] = self._loaded.last(use.reads), self._written.last(use.reads)
            self._stored.use(use.reads, self._next(STORES))
        elif descriptor.operation == Operation.WEIGHTS:
            self._fill(descriptor, result)
        elif descriptor.operation in COUNTED_OPERATIONS:
            result[LOADS] = max(self._loaded.last(use.reads), self._loaded.last(use.writes))
            # Results are written in order, and after all reads of operations before it: only what it reads matters.
            # After kept sums and rows nothing is read: `weights` sends their parameters before the weights of what
            # follows, and for these the array would wait with sums that the output stage needs before it takes the
            # parameters.
            result[RESULTS] = max(self._written.last(use.reads), self._kept)
            result[STORES] = self._stored.last(use.writes)
            number = self._next(RESULTS)
            apart = descriptor.flags & _KEPT or descriptor.operation == Operation.ROWS
            self._kept = number if apart else self._kept
            self._read.use(use.reads, number)
            self._written.use(use.writes, number)
            if descriptor.operation in WITH_PARAMETERS:
                self._multiply(descriptor, result)
            elif descriptor.operation == Operation.WEIGH:
                self._fill(descriptor, result)
        return result

    def _next(self, kind: int) -> int:
        self.done[kind] += 1
        return self.done[kind]

    def _fill(self, descriptor: Descriptor, result: list[int]) -> None:
        words, rows = [weight_range(descriptor)], [parameter_range(descriptor)]
        streamed = self._streamed if descriptor.operation == Operation.WEIGHTS else 0
        result[READS] = max(self._fetched.last(words), self._fetched_rows.last(rows), streamed)
        number = self._next(FILLS)
        self._filled.use(words, number)
        self._filled_rows.use(rows, number)

    def _multiply(self, descriptor: Descriptor, result: list[int]) -> None:
        words, rows = [weight_range(descriptor)], [parameter_range(descriptor)]
        streams = bool(descriptor.flags & _STREAM)
        result[FILLS] = self.done[FILLS] if streams else max(self._filled.last(words), self._filled_rows.last(rows))
        number = self._next(READS)
        self._fetched.use(words, number)
        self._fetched_rows.use(rows, number)
        if streams:  # what follows on the weight stream belongs to operations after this one
            self._streamed = number


@dataclass(frozen=True)
class SampleRow:
    """The operations of a start of many samples as equal rows, as they follow each other on the input stream.

    order: operations of a row by their index in the program; those in ``previous`` belong to the previous sample. So
    the first loads of a sample are sent, and done, while the previous sample is computed. The first row lacks those in
    ``previous``, and a row of these alone ends the start.
    """

    order: list[int]
    previous: slice = field(default_factory=lambda: slice(0, 0))

    @staticmethod
    def of(operations: Sequence[KernelOperation], ahead: int = 0) -> SampleRow:
        """ahead: the operation of a sample before which the next sample's first loads are sent; 0: after all."""
        if ahead == 0:
            return SampleRow(list(range(len(operations))))
        kinds = [operation.descriptor.operation for operation in operations]
        computing = next(index for index, kind in enumerate(kinds) if kind in COUNTED_OPERATIONS)
        head = [index for index in range(computing) if kinds[index] == Operation.LOAD]
        rest = [index for index in range(len(operations)) if index not in head]
        previous = [index for index in rest if index >= ahead]
        order = [*head, *previous, *(index for index in rest if index < ahead)]
        return SampleRow(order, slice(len(head), len(head) + len(previous)))

    @property
    def extra_rows(self) -> int:
        """Rows beyond one a sample."""
        return int(self.previous.stop > self.previous.start)

    def walk(self, samples: int) -> Iterator[tuple[int, int]]:
        """(row, place in it) of every operation of a start, in order."""
        places = range(len(self.order))
        previous = places[self.previous]
        for row in range(samples + self.extra_rows):
            if row == samples:
                yield from ((row, place) for place in previous)
            else:
                yield from ((row, place) for place in places if row > 0 or place not in previous)

    def sent(self, samples: int) -> Iterator[tuple[int, int]]:
        """(operation by its index in the program, sample) of every operation of a start, in order."""
        previous = range(len(self.order))[self.previous]
        for row, place in self.walk(samples):
            yield self.order[place], row - 1 if place in previous else row


def in_stream(operations: Sequence[KernelOperation], samples: int, ahead: int = 0) -> list[KernelOperation]:
    """All operations of a start in the order of the input stream."""
    row = SampleRow.of(operations, ahead)
    return [operations[row.order[place]] for _, place in row.walk(samples)]


def start_counts(
    operations: Sequence[KernelOperation], config: KernelConfig, samples: int = 1, row: SampleRow | None = None
) -> IntArray:
    """(rows, operations, counts): what every operation of a start of ``samples`` samples waits for, not wrapped.

    row: the order of operations, that of the program by default, and one row a sample. Every row holds the same
    operations, and what one waits for is in its own row or in the one before; so rows but the first and the last are
    each a whole sample later than the one before.
    """
    row = row or SampleRow.of(operations)
    analysed = min(samples, 2 + 2 * row.extra_rows)
    start = _Start(config)
    shape = (analysed + row.extra_rows, len(row.order), len(COUNTS))
    needed, before = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for number, place in row.walk(analysed):
        before[number, place] = start.done
        needed[number, place] = start.counts(operations[row.order[place]])
    if samples > analysed and operations:
        period = np.array(start.done) // analysed
        more = samples - analysed
        return np.maximum(_repeated(needed, more, period, row), _repeated(before, more, period, row) - RECENT)
    return np.maximum(needed, before - RECENT)


def repeated_row(
    operations: Sequence[KernelOperation], config: KernelConfig, row: SampleRow
) -> tuple[IntArray, IntArray] | None:
    """(operations, counts) of a row of any number of rows, as if it were the first one, and what each later row adds.

    Both wrapped. What an operation waits for in the row before has no place there: such a number is before the first
    operation, which has always ended. None where rows differ in more: a LOAD in ``row.previous`` gives the first row's
    loads other numbers, and the last row has no loads of its own for which it could wait.
    """
    analysed = 2 + 2 * row.extra_rows
    start = _Start(config)
    needed, before = (np.zeros((len(row.order), len(COUNTS)), np.int64) for _ in range(2))
    for number, place in row.walk(analysed):
        before_one, needed_one = list(start.done), start.counts(operations[row.order[place]])
        if number == analysed - 1:
            before[place], needed[place] = before_one, needed_one
    period = np.array(start.done) // analysed
    previous = [operations[index] for index in row.order[row.previous]]
    waits_in_row = needed[row.previous, LOADS].max(initial=0) > (analysed - 1) * period[LOADS]
    if waits_in_row or any(item.descriptor.operation == Operation.LOAD for item in previous):
        return None
    counts = np.maximum(np.where(needed > 0, needed, before - RECENT), before - RECENT)
    return wrapped(counts - (analysed - 1) * period), wrapped(period)


def _repeated(counts: IntArray, more: int, period: IntArray, row: SampleRow) -> IntArray:
    """Counts of ``more`` samples inserted after the last whole row; 0 stays 0, which waits for nothing."""
    last = len(counts) - 1 - row.extra_rows
    later = np.arange(1, more + 1)[:, None, None] * period
    whole = np.where(counts[last] > 0, counts[last] + later, 0)
    end = counts[last + 1 :]
    result: IntArray = np.concatenate([counts[: last + 1], whole, np.where(end > 0, end + more * period, 0)])
    return result


def wrapped(counts: IntArray) -> IntArray:
    """Counts as descriptors hold them."""
    return counts & ((1 << COUNT_BITS) - 1)


def descriptor_words(
    operations: Sequence[KernelOperation], config: KernelConfig, sizes: Sequence[int] | None = None
) -> IntArray:
    """(operations, DESCRIPTOR_WORDS) words of the descriptors of one start, with what each waits for and emits.

    sizes: of every operation, where it is not that of ``record_sizes``.
    """
    words = np.zeros((len(operations), DESCRIPTOR_WORDS), np.int32)
    sizes = record_sizes(operations, config) if sizes is None else sizes
    for row, operation, records in zip(words, operations, sizes, strict=True):
        row[:] = operation.descriptor.to_words()
        row[_RECORD_WORDS] = records
    if operations:
        words[:, COUNT_WORDS] = wrapped(start_counts(operations, config)[0])
    return words
