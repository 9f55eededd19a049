"""Operations that are skipped by a count (contract/predicates.py): the sequencer clock by clock, starts by hand.

Random networks with two ways for their layers are in tests/verify, on every device; both ways of these give equal bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from array_programs import Place, Program, empty
from cpp_units import library
from skip_arrays import SKIPS

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.commands import SKIPPED, commands
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Operation
from bfpga.contract.predicates import MOST_REGISTERS, Predicate, count, counted_in, predicate_of, run_by, runs
from bfpga.contract.program import BlockTensor
from bfpga.contract.streams import COUNT_WORD
from bfpga.devices.csim import CSimulation
from bfpga.program.schedule import schedule

#: Clocks of a descriptor's words, and of deciding what becomes of it.
WORDS, DECIDES = DESCRIPTOR_WORDS, 2


class _Run(ctypes.Structure):
    _fields_ = (
        ("words", ctypes.c_void_p), ("descriptors", ctypes.c_int32), ("counts", ctypes.c_void_p),
        ("counted", ctypes.c_int32), ("after", ctypes.c_int32), ("clocks", ctypes.c_void_p),
        ("commands", ctypes.c_void_p), ("lengths", ctypes.c_int32 * 4),
    )  # fmt: skip


def descriptor(
    operation: Operation = Operation.GEMM, register: int = 0, unless: bool = False, counts: int = 0
) -> Descriptor:
    """An operation that runs by a register, or unless, and counts in one."""
    result = Descriptor(operation=operation, groups=1, after_results=7)
    if register:
        run_by(result, Predicate(register, unless))
    if counts:
        count(result, counts, 5)
    return result


def sequenced(
    descriptors: Sequence[Descriptor], counts: Sequence[tuple[int, bool]] = (), bits: int = 64, after: int = 1
) -> tuple[list[int], list[list[int]]]:
    """Clocks between the first beats of descriptors, and the words of scratchpad, weights, post and store."""
    words = np.concatenate([item.to_words() for item in descriptors]).astype(np.int32)
    places = COUNT_WORD["more"].first, COUNT_WORD["number"].first
    told = np.array([more << places[0] | number << places[1] for number, more in counts], np.int32)
    beats = WORDS * 32 // bits
    clocks, sent = np.zeros(beats * len(descriptors), np.int32), np.zeros(WORDS * 5 * len(descriptors), np.int32)
    run = _Run(words.ctypes.data, len(descriptors), told.ctypes.data, len(told), after, clocks.ctypes.data,
               sent.ctypes.data)  # fmt: skip
    library("sequencer", "native").run_sequencer(ctypes.byref(run), bits)
    ends = np.cumsum(run.lengths)
    parts = [sent[end - length : end].tolist() for end, length in zip(ends, run.lengths, strict=True)]
    return np.diff(clocks[::beats]).tolist(), parts


def words_of(process: str, item: Descriptor) -> list[int]:
    """The command that a process hears of an operation, in a kernel of the unit's configuration."""
    config = replace(SKIPS, array=SystolicArray(), count_registers=0)
    command = next(each for each in commands(config) if each.process == process)
    return item.to_words()[list(command.words)].tolist() if item.operation in command.operations else []


@pytest.mark.parametrize("bits", [64, 128])
def test_an_operation_that_is_skipped_costs_the_clocks_of_its_beats(bits: int) -> None:
    """Issue 16, item 3: whoever counts it hears one word of it; what follows is as it was."""
    skipped, runs_, last = descriptor(register=3), descriptor(register=3, unless=True), descriptor()
    between, (scratchpad, weights, post, store) = sequenced([skipped, runs_, last], bits=bits)
    assert between[0] <= WORDS * 32 // bits + DECIDES + 2 < WORDS
    assert between[1] <= WORDS + DECIDES + 2  # and the exponent of `post`
    for process, sent in (("scratchpad", scratchpad), ("weights", weights)):
        expected = [SKIPPED, *words_of(process, runs_), *words_of(process, last)]
        assert sent[: len(expected)] == expected
        assert not any(sent[len(expected) :])  # the start ends
    assert post[1:][: len(words_of("post", runs_))] == words_of("post", runs_)
    assert not any(store)


def test_the_decision_waits_for_all_counts_before_it() -> None:
    """And for none where nothing is decided."""
    counts, decides = descriptor(counts=2), descriptor(register=2)
    for more in (False, True):
        between, parts = sequenced([counts, decides, descriptor()], [(2, more)], after=500)
        assert 490 < between[0] + between[1] < 500 + 2 * WORDS
        assert (SKIPPED in parts[0]) is not more
    between, _ = sequenced([counts, descriptor(), descriptor()], [(2, True)], after=500)
    assert between[1] <= WORDS + DECIDES + 2


def test_a_count_that_comes_while_another_one_is_asked_for_leaves_one_to_wait_for() -> None:
    """Whatever the clocks between the two: the decision is that of the last count."""
    counts, decides = descriptor(counts=2), descriptor(register=2)
    for after in range(1, 3 * WORDS):
        _, parts = sequenced([counts, counts, decides, descriptor()], [(2, True), (2, False)], after=after)
        assert SKIPPED in parts[0], after


def test_registers_keep_what_they_tell_and_stores_pass_it_on() -> None:
    """Bits of the registers lie above the operation in the first word that `store` hears."""
    told = [(2, True), (15, True), (2, False)]
    counting = [descriptor(counts=number) for number, _ in told]
    store = descriptor(Operation.STORE)
    _, parts = sequenced([*counting, descriptor(register=15, unless=True), store], told)
    assert parts[3][0] == Operation.STORE | 1 << 15 << 8
    assert parts[0].count(SKIPPED) == 1


@pytest.fixture(scope="module")
def kernel() -> CSimulation:
    """The kernel that random verification uses too."""
    return CSimulation(SKIPS, "native", "random", "0" * 64)


def copied(threshold: int, unless: bool = False, first: bool = True) -> tuple[Program, list[Place]]:
    """y = x, counted in two operations of a layer; z = y if that has more values, else what was loaded; then w = z."""
    program = Program(SKIPS)
    x, y, z, w = places = [program.tensor(4, 4, 2) for _ in range(4)]
    program.load("x", x)
    program.load("z", z)
    for begins in (True, False):
        item = program.compute(Operation.SUM, x, y, flags=int(Flag.COPY_EXPONENT), dilation_y=0, dilation_x=0)
        item.flags |= int(Flag.FIRST) if begins or not first else 0
        count(item, 4, threshold)
    item = program.compute(Operation.SUM, y, z, flags=int(Flag.COPY_EXPONENT), dilation_y=0, dilation_x=0)
    run_by(item, Predicate(4, unless))
    program.compute(Operation.SUM, z, w, flags=int(Flag.COPY_EXPONENT), dilation_y=0, dilation_x=0)
    program.store("w", w)
    return program, places


@pytest.mark.parametrize("unless", [False, True])
@pytest.mark.parametrize("threshold", [0, 21, 22, 32])
def test_pieces_of_a_layer_count_together_and_an_operation_runs_or_leaves_memory_as_it_is(
    kernel: CSimulation, threshold: int, unless: bool
) -> None:
    """SC R10, SC R131: 11 of x's values are not zero, counted twice. What waits for what is right either way, in any
    order."""
    rng = np.random.default_rng(0)
    for seed, first in ((0, True), (1, True), (2, False)):
        program, places = copied(threshold, unless, first)
        x = np.zeros((1, 4, 4, 2), np.int32)
        x.reshape(-1)[rng.permutation(32)[:11]] = rng.integers(1, 100, 11)
        z = rng.integers(1, 100, x.shape).astype(np.int32)
        tensors = {"x": BlockTensor(x, np.zeros(1, np.int32)), "z": BlockTensor(z, np.zeros(1, np.int32)),
                   "w": empty(places[3])}  # fmt: skip
        kernel.disturb(seed)
        result = kernel.run_operations(program.operations, tensors)
        kernel.disturb(0)
        more = (22 if first else 11) > threshold
        ran = more is not unless
        np.testing.assert_array_equal(tensors["w"].mantissa, x if ran else z)
        assert result.operation_cycles is not None
        assert (result.operation_cycles[4] > 0) is ran
        assert result.choices == (int(more) << 4,)


def test_the_schedule_leaves_out_what_is_skipped() -> None:
    operations = copied(0)[0].operations
    ran, skipped = (schedule(SKIPS, operations, skipped=[index == 4 and left for index in range(len(operations))])
                    for left in (False, True))  # fmt: skip
    assert skipped.operations[4].work == 0 < ran.operations[4].work
    assert skipped.clocks < ran.clocks


def test_flags_hold_the_numbers_of_registers_beside_the_others() -> None:
    item = descriptor(register=MOST_REGISTERS, unless=True, counts=1)
    item.flags |= int(Flag.BIAS | Flag.WIDE)
    again = Descriptor.from_words(item.to_words())
    assert again == item
    assert (counted_in(again), again.count_threshold) == (1, 5)
    assert predicate_of(again) == Predicate(MOST_REGISTERS, True)
    assert runs(again, 0)
    assert not runs(again, 1 << MOST_REGISTERS)
    assert runs(descriptor(), 0)


def test_only_what_computes_with_weights_at_hand_is_skipped() -> None:
    with pytest.raises(ValueError, match="only computing operations"):
        descriptor(Operation.LOAD, register=1)
    with pytest.raises(ValueError, match="no count register 16"):
        descriptor(register=16)
    with pytest.raises(ValueError, match="cannot come with the stream"):
        run_by(Descriptor(operation=Operation.GEMM, flags=int(Flag.STREAM_WEIGHTS)), Predicate(1))


@pytest.mark.parametrize(
    ("count", "needed"),
    [(0, 0), (0, 1), (7, 8), (7, 9), (65_535, 65_536), (65_536, 65_535), (65_540, 65_541), (70_000, 65_530)],
)
def test_operations_are_counted_beyond_the_bits_of_their_counters(count: int, needed: int) -> None:
    """Modulo 2**16: a start of many operations goes on when the counters of those that have ended begin anew."""
    unit = library("sequencer", "native")
    assert unit.unit_reached(count, needed) == (3 if count >= needed else 0) | (4 if count + 1 >= needed else 0)
