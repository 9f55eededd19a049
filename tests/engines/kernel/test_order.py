"""What operations of a kernel of processes wait for: enough that any order of events ends alike, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.random import Generator

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Descriptor, Flag, Operation
from bfpga.contract.program import KernelOperation, MemoryUse
from bfpga.engines.kernel import order
from bfpga.engines.kernel.order import (
    COUNTS,
    FILLS,
    LOADS,
    READS,
    RESULTS,
    STORES,
    descriptor_words,
    start_counts,
)
from bfpga.formats.block_format import BlockFormat

CONFIG = KernelConfig(BlockFormat(), 4, 4, 2, activation_words=64, weight_words=32, parameter_rows=16)
WORDS, WEIGHTS, ROWS = 8, 6, 6
KINDS = {Operation.LOAD: LOADS, Operation.STORE: STORES, Operation.WEIGHTS: FILLS}


def load(first: int, last: int) -> KernelOperation:
    return KernelOperation("load", Descriptor(Operation.LOAD), memory=MemoryUse((), ((first, last),)))


def store(first: int, last: int) -> KernelOperation:
    return KernelOperation("store", Descriptor(Operation.STORE), memory=MemoryUse(((first, last),), ()))


def fill(words: tuple[int, int], rows: tuple[int, int]) -> KernelOperation:
    fields = {"weight_base": words[0], "weight_words": words[1] - words[0]}
    rest = {"parameter_base": rows[0], "parameter_rows": rows[1] - rows[0]}
    return KernelOperation("fill", Descriptor(Operation.WEIGHTS, **fields, **rest))


def product(
    read: tuple[int, int], written: tuple[int, int], words: tuple[int, int], rows: tuple[int, int], flags: int = 0
) -> KernelOperation:
    descriptor = Descriptor(Operation.GEMM, flags, weight_base=words[0], channel_words=words[1] - words[0])
    descriptor.parameter_base, descriptor.output_rows = rows[0], rows[1] - rows[0]
    return KernelOperation("product", descriptor, memory=MemoryUse((read,), (written,)))


def largest(read: tuple[int, int], written: tuple[int, int]) -> KernelOperation:
    return KernelOperation("max", Descriptor(Operation.MAX), memory=MemoryUse((read,), (written,)))


@dataclass
class Kernel:
    """Memories of tokens, and engines that work side by side as the processes do.

    A memory that is half written holds a token of nobody, and everything is read twice: where an operation begins and
    where it ends.
    """

    activations: list[object] = field(default_factory=lambda: [("old", word) for word in range(WORDS)])
    weights: list[object] = field(default_factory=lambda: [("old", word) for word in range(WEIGHTS)])
    rows: list[object] = field(default_factory=lambda: [("old", row) for row in range(ROWS)])
    done: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    stored: list[object] = field(default_factory=list)
    taken: int = 0

    def result(self) -> tuple[object, ...]:
        return tuple(self.activations), tuple(self.weights), tuple(self.rows), tuple(self.stored)


Events = Iterator[Callable[[], bool]]


def spans(memory: list[object], ranges: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
    return tuple(token for first, last in ranges for token in memory[first:last])


def write(memory: list[object], ranges: tuple[tuple[int, int], ...], token: object) -> None:
    for first, last in ranges:
        memory[first:last] = [(token, word) for word in range(first, last)]


def always() -> bool:
    return True


class Run:
    """One start with its operations' events in an order that ``rng`` chooses."""

    def __init__(self, operations: list[KernelOperation], counts: np.ndarray, rng: Generator) -> None:
        self.kernel, self.rng = Kernel(), rng
        self.counts, self.operations = counts, operations
        self.threads = [
            self._chain(list(self._kinds(Operation.LOAD)), self._load),
            self._chain(list(self._kinds(Operation.STORE)), self._store),
            self._chain(list(self._kinds(Operation.WEIGHTS)), self._fill),
            self._chain(list(self._kinds(Operation.GEMM, Operation.MAX)), self._read),
            self._chain(list(self._kinds(Operation.GEMM, Operation.MAX)), self._write),
        ]
        self.seen: dict[int, object] = {}

    def _streams(self, operation: KernelOperation) -> bool:
        kind = operation.descriptor.operation
        return kind == Operation.WEIGHTS or bool(operation.descriptor.flags & Flag.STREAM_WEIGHTS)

    def _kinds(self, *kinds: Operation) -> Iterator[int]:
        return (i for i, operation in enumerate(self.operations) if operation.descriptor.operation in kinds)

    def _may(self, index: int, *kinds: int) -> Callable[[], bool]:
        return lambda: all(self.kernel.done[kind] >= self.counts[index, kind] for kind in kinds)

    @staticmethod
    def _chain(indices: list[int], steps: Callable[[int], Events]) -> Events:
        for index in indices:
            yield from steps(index)

    def result(self) -> tuple[object, ...]:
        waiting = [(thread, next(thread, None)) for thread in self.threads]
        waiting = [(thread, ready) for thread, ready in waiting if ready is not None]
        while waiting:
            able = [number for number, (_, ready) in enumerate(waiting) if ready()]
            assert able, "no operation may go on"
            number = int(self.rng.choice(able))
            thread = waiting[number][0]
            ready = next(thread, None)
            if ready is None:
                waiting.pop(number)
            else:
                waiting[number] = thread, ready
        return self.kernel.result()

    def _memory(self, index: int) -> MemoryUse:
        memory = self.operations[index].memory
        return MemoryUse(((0, WORDS),), ((0, WORDS),)) if memory is None else memory

    def _load(self, index: int) -> Events:
        yield self._may(index, LOADS, RESULTS, STORES)
        write(self.kernel.activations, self._memory(index).writes, None)
        yield always
        write(self.kernel.activations, self._memory(index).writes, index)
        self.kernel.done[LOADS] += 1

    def _store(self, index: int) -> Events:
        yield self._may(index, LOADS, RESULTS, STORES)
        first = spans(self.kernel.activations, self._memory(index).reads)
        yield always
        self.kernel.stored.append((first, spans(self.kernel.activations, self._memory(index).reads)))
        self.kernel.done[STORES] += 1

    def _fill(self, index: int) -> Events:
        yield self._may(index, READS)
        first = self.kernel.taken
        self._filled(index, None)
        yield always
        # What it takes from the stream is its own only in the order of the stream.
        self._filled(index, (index, first, self.kernel.taken))
        self.kernel.taken += 1
        self.kernel.done[FILLS] += 1

    def _filled(self, index: int, token: object) -> None:
        descriptor = self.operations[index].descriptor
        write(self.kernel.weights, (order.weight_range(descriptor),), token)
        write(self.kernel.rows, (order.parameter_range(descriptor),), token)

    def _operands(self, index: int) -> object:
        descriptor, kernel = self.operations[index].descriptor, self.kernel
        seen: tuple[object, ...] = spans(kernel.activations, self._memory(index).reads)
        if descriptor.operation == Operation.GEMM:
            seen += spans(kernel.weights, (order.weight_range(descriptor),))
            seen += spans(kernel.rows, (order.parameter_range(descriptor),))
        return seen + ((kernel.taken,) if descriptor.flags & Flag.STREAM_WEIGHTS else ())

    def _read(self, index: int) -> Events:
        multiplies = self.operations[index].descriptor.operation == Operation.GEMM
        yield self._may(index, LOADS, RESULTS, STORES, *([FILLS] if multiplies else []))
        first = self._operands(index)
        self.seen[index] = None
        yield always
        self.seen[index] = hash((index, first, self._operands(index)))
        if self._streams(self.operations[index]):
            self.kernel.taken += 1
        if multiplies:
            self.kernel.done[READS] += 1

    def _write(self, index: int) -> Events:
        use = self._memory(index)
        apart = not any(a < d and c < b for a, b in use.reads for c, d in use.writes)
        yield lambda: index in self.seen and (apart or self.seen[index] is not None)
        write(self.kernel.activations, self._memory(index).writes, None)
        yield lambda: self.seen[index] is not None
        write(self.kernel.activations, self._memory(index).writes, self.seen[index])
        self.kernel.done[RESULTS] += 1


def serial(operations: list[KernelOperation]) -> tuple[object, ...]:
    """The result of one operation after the other."""
    before = np.zeros((len(operations), len(COUNTS)), int)
    done = [0] * len(COUNTS)
    for index, operation in enumerate(operations):
        before[index] = done
        kind = operation.descriptor.operation
        done[KINDS.get(Operation(kind), RESULTS)] += 1
        done[READS] += kind == Operation.GEMM
    return Run(operations, before, np.random.default_rng(0)).result()


def part(rng: Generator, size: int) -> tuple[int, int]:
    first = int(rng.integers(0, size))
    return first, int(rng.integers(first + 1, min(size, first + 4) + 1))


def random_operations(rng: Generator) -> list[KernelOperation]:
    """Up to 14 operations on small memories, so that most of them conflict with some."""
    result = []
    for _ in range(int(rng.integers(2, 15))):
        kind = int(rng.integers(0, 7))
        if kind == 0:
            result.append(load(*part(rng, WORDS)))
        elif kind == 1:
            result.append(store(*part(rng, WORDS)))
        elif kind == 2:
            result.append(fill(part(rng, WEIGHTS), part(rng, ROWS)))
        elif kind == 3:
            result.append(largest(part(rng, WORDS), part(rng, WORDS)))
        else:
            flags = int(Flag.STREAM_WEIGHTS) if kind == 6 else 0
            words = part(rng, WEIGHTS)
            result.append(product(part(rng, WORDS), part(rng, WORDS), words, part(rng, ROWS), flags))
    if rng.integers(0, 4) == 0:
        result[int(rng.integers(0, len(result)))].memory = None
    return result


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_events_that_keeps_the_counts_ends_as_one_after_the_other(seed: int) -> None:
    rng = np.random.default_rng([14, seed])
    operations = random_operations(rng)
    counts, expected = start_counts(operations, CONFIG)[0], serial(operations)
    for _ in range(25):
        assert Run(operations, counts, rng).result() == expected


NEEDED = [
    ("after_loads", 1, [load(0, 4), store(3, 5)]),
    ("after_loads", 1, [load(0, 4), largest((2, 3), (6, 8))]),
    ("after_loads", 1, [load(0, 4), largest((6, 8), (2, 3))]),
    ("after_results", 1, [largest((0, 2), (2, 4)), store(3, 4)]),
    ("after_results", 1, [largest((0, 2), (2, 4)), load(1, 2)]),
    ("after_results", 1, [largest((0, 2), (2, 4)), load(2, 3)]),
    ("after_results", 1, [largest((0, 2), (2, 4)), largest((3, 4), (5, 6))]),
    ("after_stores", 1, [store(0, 2), load(1, 2)]),
    ("after_stores", 1, [store(0, 2), largest((4, 5), (0, 1))]),
    ("after_fills", 1, [fill((0, 3), (0, 1)), product((0, 1), (1, 2), (2, 4), (3, 4))]),
    ("after_fills", 1, [fill((0, 3), (0, 2)), product((0, 1), (1, 2), (4, 5), (1, 4))]),
    ("after_fills", 1, [fill((0, 3), (0, 1)), product((0, 1), (1, 2), (4, 5), (3, 4), int(Flag.STREAM_WEIGHTS))]),
    ("after_reads", 1, [product((0, 1), (1, 2), (2, 4), (3, 4)), fill((3, 4), (0, 1))]),
    ("after_reads", 1, [product((0, 1), (1, 2), (2, 4), (3, 4)), fill((0, 1), (3, 5))]),
    ("after_reads", 1, [product((0, 1), (1, 2), (2, 4), (3, 4), int(Flag.STREAM_WEIGHTS)), fill((5, 6), (0, 1))]),
]


@pytest.mark.parametrize(("name", "index", "operations"), NEEDED)
def test_without_one_count_some_order_of_events_ends_otherwise(
    name: str, index: int, operations: list[KernelOperation]
) -> None:
    counts, rng = start_counts(operations, CONFIG)[0], np.random.default_rng(14)
    kind = COUNTS.index(name)
    assert counts[index, kind] == 1
    assert counts.sum() == 1
    counts[index, kind] = 0
    expected = serial(operations)
    assert any(Run(operations, counts, rng).result() != expected for _ in range(200))


def test_operations_on_other_words_wait_for_nothing() -> None:
    operations = [
        load(0, 2), largest((2, 3), (3, 4)), store(4, 5), load(5, 6), fill((0, 2), (0, 1)),
        product((6, 7), (7, 8), (2, 3), (1, 2)), largest((0, 1), (3, 4)), largest((2, 3), (2, 3)),
    ]  # fmt: skip
    counts = start_counts(operations, CONFIG)[0]
    # Only the maximum of what was loaded waits: results over operands and results before them are in order anyway.
    assert counts.tolist() == [[0] * 5] * 6 + [[1, 0, 0, 0, 0]] + [[0] * 5]


def test_nothing_is_read_behind_kept_sums_before_they_are_written() -> None:
    """Their parameters come before the weights of what follows, with which the array would stop (docs/kernel.md)."""
    first, kept = product((4, 5), (6, 7), (0, 1), (0, 1)), product((0, 1), (1, 2), (0, 1), (0, 1), int(Flag.KEPT))
    behind, later = (product((word, word + 1), (word + 2, word + 3), (0, 1), (0, 1)) for word in (8, 12))
    counts = start_counts([first, kept, behind, later], CONFIG)[0]
    assert counts[:, RESULTS].tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize("seed", range(12))
def test_samples_of_a_start_are_one_long_list_of_operations(seed: int) -> None:
    operations = random_operations(np.random.default_rng([15, seed]))
    many = start_counts(operations, CONFIG, 7)
    assert many.reshape(-1, len(COUNTS)).tolist() == start_counts(operations * 7, CONFIG)[0].tolist()


def test_counts_stay_near_what_is_done_so_that_they_may_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = [load(0, 2), largest((0, 2), (2, 4)), store(2, 4), load(6, 8)]
    samples = 3 * order.RECENT
    counts = start_counts(operations, CONFIG, samples)
    done = np.arange(samples)[:, None] * np.array([2, 1, 1]) + np.array([1, 1, 1])  # before the last operation
    assert ((done - counts[:, 3, :3] <= order.RECENT) & (counts[:, 3, :3] <= done)).all()
    assert counts[-1, 1, LOADS] == 2 * samples - 1
    assert order.wrapped(counts).max() < 1 << order.COUNT_BITS
    monkeypatch.setattr(order, "RECENT", 3)
    few = [load(0, 1), load(2, 3), load(4, 5), load(0, 1), load(2, 3), store(6, 7)]
    assert start_counts(few, CONFIG)[0, -1].tolist() == [2, 0, 0, 0, 0]


def test_descriptors_hold_the_counts() -> None:
    operations = [load(0, 4), largest((2, 3), (6, 8)), store(6, 8)]
    words = descriptor_words(operations, CONFIG)
    assert words[:, order.COUNT_WORDS].tolist() == start_counts(operations, CONFIG)[0].tolist()
    assert words[:, order.COUNT_WORDS].any()
    assert words.shape == (3, DESCRIPTOR_WORDS)
    assert [FIELDS[word] for word in order.COUNT_WORDS] == list(COUNTS)
    assert descriptor_words([], CONFIG).shape == (0, DESCRIPTOR_WORDS)
    assert start_counts([], CONFIG, 3).shape[1:] == (0, len(COUNTS))
