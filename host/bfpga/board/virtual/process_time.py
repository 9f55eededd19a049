"""What a start of a kernel takes: its schedule, from the descriptors that the kernel was sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Operation
from bfpga.contract.predicates import predicate_of
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.cycles import COUNTED_OPERATIONS, WITH_PARAMETERS, tensor_beats
from bfpga.engines.kernel.order import COUNT_BITS, COUNTS, FILLS, LOADS, READS, RESULTS, STORES
from bfpga.formats.arrays import IntArray
from bfpga.program.schedule import StreamRates, schedule
from bfpga.program.streamed_exponents import awaiting_operations, telling_operations

_WORD_BYTES = 4
_COUNTED = {Operation.LOAD: LOADS, Operation.STORE: STORES, Operation.WEIGHTS: FILLS} | dict.fromkeys(
    COUNTED_OPERATIONS, RESULTS
)
#: Operations of a kernel; nothing waits for a TABLE.
_KNOWN = (*_COUNTED, Operation.TABLE)


def read_descriptors(packet: bytes | bytearray, config: KernelConfig) -> Iterator[Descriptor]:
    """The descriptors of an input stream, without the tensors between them.

    A packet that lost beats on its way may say anything: it ends where there is no operation of the kernel.
    """
    beat, place = config.stream_bits // 8, 0
    length = -(-DESCRIPTOR_WORDS * _WORD_BYTES // beat) * beat
    while place + length <= len(packet):
        descriptor = Descriptor.from_words(np.frombuffer(packet, "<i4", DESCRIPTOR_WORDS, place))
        if descriptor.operation not in _KNOWN:
            return
        yield descriptor
        place += length
        if descriptor.operation == Operation.LOAD:
            place += (1 + tensor_beats(config, descriptor)) * beat


def received_counts(descriptors: Sequence[Descriptor]) -> IntArray:
    """(operations, counts): what operations wait for, as their descriptors give it, not wrapped."""
    mask, done = (1 << COUNT_BITS) - 1, [0] * len(COUNTS)
    result = []
    for item in descriptors:
        awaited = item.after_loads, item.after_results, item.after_stores, item.after_fills, item.after_reads
        result.append([max(count - ((count - wanted) & mask), 0) for count, wanted in zip(done, awaited, strict=True)])
        kind = Operation(item.operation)
        if kind in _COUNTED:
            done[_COUNTED[kind]] += 1
        done[READS] += kind in WITH_PARAMETERS
        done[FILLS] += kind is Operation.WEIGH
    return np.array(result, np.int64).reshape(-1, len(COUNTS))


@dataclass(frozen=True)
class ProcessTime:
    """Clocks of a start, those of them that streams cost, and what each stream alone would cost."""

    clocks: int
    waits: int
    stream_waits: tuple[int, ...]

    def followed_by(self, half: ProcessTime, more: int, between: int) -> ProcessTime:
        """Of a start of ``more`` samples more than this one, which has ``between`` samples more than ``half``."""

        def extended(whole: int, part: int) -> int:
            return whole + math.ceil(more * (whole - part) / between)

        waits = (extended(*each) for each in zip(self.stream_waits, half.stream_waits, strict=True))
        return ProcessTime(extended(self.clocks, half.clocks), extended(self.waits, half.waits), tuple(waits))


def process_time(
    config: KernelConfig,
    descriptors: Sequence[Descriptor],
    clocks_a_beat: Sequence[float],
    begin: int,
    interval: float = 1.0,
    works: Sequence[int] = (),
    opening: int = 0,
    arrivals: Sequence[float] = (),
) -> ProcessTime:
    """What a start takes. clocks_a_beat: of input, weights and output; begin: clocks to the first beat of the input.

    opening: beats of the input before its first operation.
    interval: clocks that the hardware takes for each clock of the schedule. works: of every operation; one with a
    predicate and no work was skipped. arrivals: when the exponents that the start awaits came from the core before.
    """
    skipped = [predicate_of(item) is not None and not work for item, work in zip(descriptors, works, strict=False)]
    operations = [KernelOperation("", descriptor) for descriptor in descriptors]
    needs = received_counts(descriptors)
    widths = config.stream_bits // 8, config.weight_stream_bits // 8, config.stream_bits // 8
    rates = [None if clocks <= 1 else width / clocks for width, clocks in zip(widths, clocks_a_beat, strict=True)]

    come = dict(zip(awaiting_operations(descriptors), arrivals, strict=False)) if arrivals else {}

    def clocks(given: StreamRates) -> int:
        return schedule(config, operations, 1, given, needs, skipped if any(skipped) else (), come).clocks

    free = clocks(StreamRates())
    alone = [0 if rate is None else clocks(StreamRates()._replace(**{name: rate})) - free
             for name, rate in zip(StreamRates._fields, rates, strict=True)]  # fmt: skip
    first = math.ceil(opening * max(1.0, clocks_a_beat[0]))
    begin += first - opening
    waits = begin + (clocks(StreamRates(*rates)) - free if any(rates) else 0)
    return ProcessTime(math.ceil(free * interval) + opening + waits, waits, (begin + alone[0], *alone[1:]))


def told_times(
    config: KernelConfig, descriptors: Sequence[Descriptor], begin: int, arrivals: Sequence[float] = ()
) -> list[float]:
    """When a start tells each of its exponents, in clocks from its begin; parameters as for ``process_time``.

    The next core's start is taken to begin with this one: a host begins both within some microseconds.
    """
    operations = [KernelOperation("", descriptor) for descriptor in descriptors]
    come = dict(zip(awaiting_operations(descriptors), arrivals, strict=False))
    taken = schedule(config, operations, 1, None, received_counts(descriptors), (), come).taken
    return [begin + taken[index] for index in telling_operations(descriptors)]
