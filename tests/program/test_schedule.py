"""The schedule of a kernel of processes: what overlaps, what waits, and never less than the work."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.process_stream import START_GUARD, WAITING_GROUPS
from bfpga.contract.program import KernelOperation, MemoryUse
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.engines.kernel.order import FILLS, LOADS, READS, RESULTS, STORES, start_counts
from bfpga.formats.block_format import BlockFormat
from bfpga.program.schedule import (
    COMMAND_CLOCKS,
    END_CLOCKS,
    POST_TURN,
    READ_TURN,
    RESULT_LATENCY,
    SCRATCHPAD_COMMAND_CLOCKS,
    STORE_LATENCY,
    WEIGHT_TURN,
    StartSchedule,
    schedule,
)

CONFIG = KernelConfig(BlockFormat(), 4, 4, 2, activation_words=64, weight_words=32, parameter_rows=16)
KINDS = {Operation.LOAD: LOADS, Operation.STORE: STORES, Operation.WEIGHTS: FILLS}
BEGIN = COMMAND_CLOCKS + START_GUARD


def load(words: tuple[int, int], pixels: int) -> KernelOperation:
    descriptor = Descriptor(Operation.LOAD, output_pixels=4 * pixels, output_width=4 * pixels)
    return KernelOperation("x", descriptor, memory=MemoryUse((), (words,)))


def store(words: tuple[int, int], pixels: int) -> KernelOperation:
    descriptor = Descriptor(Operation.STORE, output_pixels=4 * pixels, output_width=4 * pixels)
    return KernelOperation("y", descriptor, memory=MemoryUse((words,), ()))


def fill(first: int, words: int) -> KernelOperation:
    return KernelOperation("w", Descriptor(Operation.WEIGHTS, weight_base=first, weight_words=words))


def product(
    read: tuple[int, int], written: tuple[int, int], steps: int, groups: int = 1, **more: int
) -> KernelOperation:
    fields = {"output_pixels": 4 * groups, "channel_words": steps, "output_rows": 4, "groups": groups, **more}
    return KernelOperation("z", Descriptor(Operation.GEMM, **fields), memory=MemoryUse((read,), (written,)))


def times(result: StartSchedule) -> list[tuple[int, int]]:
    return [(item.begin, item.end) for item in result.operations]


def test_operations_that_need_each_other_run_one_after_the_other() -> None:
    result = schedule(CONFIG, [load((0, 4), 10), product((0, 4), (4, 8), 30, 10), store((4, 8), 20)])
    loaded = BEGIN + 10
    # The commands come meanwhile; the product's is there a guard after it was sent.
    product_begin = max(loaded, 2 * COMMAND_CLOCKS + 10) + START_GUARD
    computed = product_begin + 10 * 30
    stored = computed + RESULT_LATENCY + 20
    assert times(result)[0] == (BEGIN, loaded)
    assert abs(times(result)[1][0] - product_begin) <= 10
    begin, end = times(result)[1]
    assert end - begin == 300
    assert times(result)[2] == (end + RESULT_LATENCY, end + RESULT_LATENCY + 20)
    assert result.clocks == end + RESULT_LATENCY + 20 + STORE_LATENCY + END_CLOCKS
    assert abs(stored - times(result)[2][1]) <= 10


def test_what_is_not_needed_is_loaded_while_the_array_computes() -> None:
    operations = [product((0, 4), (4, 8), 40, 50), load((8, 12), 600), product((8, 12), (12, 16), 40, 50)]
    waiting = [operations[0], replace(operations[1], memory=None), operations[2]]
    together, apart = times(schedule(CONFIG, operations)), schedule(CONFIG, waiting).operations
    assert together[1][0] < together[0][1]
    # The reading goes on to the next operation while the results of the one before are on their way.
    assert together[2] == (together[0][1] + WEIGHT_TURN, together[0][1] + WEIGHT_TURN + 2000)
    assert apart[1].begin == apart[0].end + RESULT_LATENCY
    # The command behind a tensor is sent when the tensor is through.
    assert apart[2].begin == apart[1].end - WAITING_GROUPS + BEGIN


def test_an_operation_that_needs_nothing_is_read_behind_the_one_before() -> None:
    """Its weights come a guard of their memory later; a sum has none. What it needs, it waits for."""
    first = product((0, 4), (4, 8), 40, 20)
    total = Descriptor(Operation.SUM, output_pixels=400, output_rows=4, groups=100)
    follows = KernelOperation("s", total, memory=MemoryUse(((0, 4),), ((8, 12),)))
    for operation, turn in ((product((0, 4), (8, 12), 40, 20), WEIGHT_TURN), (follows, READ_TURN)):
        one, two = times(schedule(CONFIG, [first, operation]))
        assert two[0] == one[1] + turn
    needing = replace(follows, memory=MemoryUse(((4, 8),), ((8, 12),)))
    one, two = times(schedule(CONFIG, [first, needing]))
    assert two[0] == one[1] + RESULT_LATENCY


def test_short_operations_wait_for_the_output_stage_and_for_their_commands() -> None:
    """Passes no longer than their rows: the output stage turns to another operation once it has its command.

    Of three operations the last one's command is complete a while after the first one's results are in memory.
    """
    short = [product((0, 4), (4 * n, 4 * n + 4), 4, 30) for n in (1, 2, 3, 4)]
    ran = times(schedule(CONFIG, short))
    rows = 30 * CONFIG.rows
    for (_, last), (begin, end) in itertools.pairwise(ran):
        assert end - begin == POST_TURN + rows - (begin - last)
    tiny = [product((0, 4), (4 * n, 4 * n + 4), 4, 1) for n in (1, 2, 3)]
    one, _, three = times(schedule(CONFIG, tiny))
    assert three[0] >= one[1] + RESULT_LATENCY - START_GUARD + SCRATCHPAD_COMMAND_CLOCKS + START_GUARD


def test_a_store_beside_a_product_gets_one_read_in_eight_and_takes_it_from_the_product() -> None:
    before = product((0, 4), (4, 8), 40, 1)
    begin, end = times(schedule(CONFIG, [before, product((8, 9), (9, 10), 40, 50), store((4, 8), 60)]))[2]
    alone = times(schedule(CONFIG, [before, store((4, 8), 60)]))[1]
    assert alone[1] - alone[0] == 60
    assert end - begin == 8 * 60
    computing = times(schedule(CONFIG, [before, product((8, 9), (9, 10), 40, 50), store((4, 8), 60)]))[1]
    assert computing[1] - computing[0] == 2000 + 60


def test_weights_that_stream_last_as_long_as_their_beats() -> None:
    config = replace(CONFIG, rows=16, weight_stream_bits=64)
    streamed = product((0, 4), (4, 8), 40, 3, flags=int(Flag.STREAM_WEIGHTS))
    begin, end = times(schedule(config, [streamed]))[0]
    assert config.beats_per_weight_word == 4
    assert end - begin == 4 * 40 * 3


def test_memory_that_is_slower_than_the_streams_makes_transfers_longer() -> None:
    operations = [load((0, 4), 400), fill(0, 20)]
    fast, slow = schedule(CONFIG, operations), schedule(CONFIG, operations, bytes_per_clock=4)
    assert fast.operations[0].end - fast.operations[0].begin == 400
    assert slow.operations[0].end - slow.operations[0].begin == 802  # with the beat of the header
    assert slow.operations[1].end - slow.operations[1].begin == 2 * operation_cycles(CONFIG, operations[1].descriptor)


def test_a_start_without_operations_takes_the_clocks_of_its_end() -> None:
    assert schedule(CONFIG, []).clocks == END_CLOCKS


def part(rng: Generator, size: int) -> tuple[int, int]:
    first = int(rng.integers(0, size))
    return first, int(rng.integers(first + 1, min(size, first + 4) + 1))


def random_operations(rng: Generator) -> list[KernelOperation]:
    result = []
    for _ in range(int(rng.integers(3, 14))):
        kind, size = int(rng.integers(0, 6)), int(rng.integers(1, 120))
        if kind == 0:
            result.append(load(part(rng, 12), size))
        elif kind == 1:
            result.append(store(part(rng, 12), size))
        elif kind == 2:
            result.append(fill(int(rng.integers(0, 16)), int(rng.integers(1, 16))))
        else:
            flags = int(Flag.STREAM_WEIGHTS) if kind == 5 else 0
            fields = {"flags": flags, "weight_base": int(rng.integers(0, 16)), "write_slots": int(rng.integers(1, 4))}
            result.append(product(part(rng, 12), part(rng, 12), int(rng.integers(1, 16)), size // 8 + 1, **fields))
    return result


@pytest.mark.parametrize("seed", range(40))
def test_no_operation_begins_before_what_it_needs_and_no_engine_does_two(seed: int) -> None:
    rng = np.random.default_rng([16, seed])
    operations, samples = random_operations(rng), 3
    result = schedule(CONFIG, operations, samples)
    counts = start_counts(operations, CONFIG, samples).reshape(-1, 5)
    finished: dict[int, list[int]] = defaultdict(list)
    begun: dict[int, int] = defaultdict(int)
    busy = dict.fromkeys(range(5), 0)
    for timed, needed in zip(result.operations, counts, strict=True):
        descriptor = operations[timed.index].descriptor
        kind = KINDS.get(Operation(descriptor.operation), RESULTS)
        for other in (LOADS, RESULTS, STORES) if kind != FILLS else (READS,):
            if needed[other] > 0:
                latency = RESULT_LATENCY if other == RESULTS else START_GUARD
                assert timed.begin >= finished[other][needed[other] - 1] - 1 + (latency if other != READS else 0)
        assert timed.begin >= begun[kind] - 1, "engines work in order"
        assert timed.end - timed.begin >= timed.work - 1
        assert timed.work == operation_cycles(CONFIG, descriptor)
        finished[kind].append(timed.end)
        if descriptor.operation == Operation.GEMM:
            finished[READS].append(timed.end)
        begun[kind] = timed.end
        busy[kind] += timed.work
    assert result.clocks >= max(busy.values())
    assert result.clocks >= len(result.operations) * COMMAND_CLOCKS
    serial = [replace(operation, memory=None) for operation in operations]
    assert result.clocks <= schedule(CONFIG, serial, samples).clocks * 1.02
    work = sum(item.work for item in result.operations)
    waits = len(result.operations) * (COMMAND_CLOCKS + RESULT_LATENCY + START_GUARD)
    assert result.clocks <= 9 * work + waits
