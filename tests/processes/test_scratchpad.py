"""processes/scratchpad.hpp against a memory of numpy: operands of random layers, where results land, what overlaps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from scratchpad_runs import Layers, Outcome, ScheduleError, check, run, strict_order

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.devices.csim import Integers
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.formats.shift_format import ShiftFormat

_SMALL = KernelConfig(columns=3, rows=4, lanes=2, activation_words=1024, stream_bits=64)
#: The pads of tests/cpp/scratchpad.cpp: the same numbers.
PADS = (
    _SMALL,
    replace(_SMALL, columns=12, rows=8, lanes=4),
    replace(_SMALL, columns=6, shift=with_zero(ShiftFormat()), shift_columns=2),
    replace(_SMALL, columns=1, rows=2, lanes=1, stream_bits=32),
    replace(_SMALL, columns=5, multiplier="shift", shift=with_zero(ShiftFormat())),
)


@pytest.mark.parametrize(
    ("integers", "pad", "hardware"),
    [("ap_int", 0, True), ("exact", 0, True), *itertools.product(["native"], range(len(PADS)), [False, True])],
)
def test_layers_read_and_write_what_they_must(pad: int, integers: Integers, hardware: bool) -> None:
    for seed in range(12 if integers == "native" else 3):
        layers = Layers.of(PADS[pad], seed)
        for _ in range(4):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, hardware)
        check(outcome, layers.program, layers.model)


@pytest.mark.parametrize("rarely", [0, 6])
@pytest.mark.parametrize("pad", [0, 1, 2])
def test_kept_and_measured_passes(pad: int, rarely: int) -> None:
    """MEASURE: operands, no results; KEPT: results, no operands. Both keep to their counts and their work."""
    layers = Layers.of(PADS[pad], 3)
    source, target = layers.program.tensor(4, 5, 3), layers.program.tensor(4, 5, 9, 7)
    layers.load(source)
    measured = layers.compute(Operation.GEMM, source, target, flags=int(Flag.MEASURE | Flag.KEEP))
    kept = layers.compute(Operation.GEMM, source, target, flags=int(Flag.KEPT), channel_words=1)
    layers.store(target)
    strict_order(layers.program)
    assert not measured.flags & Flag.KEPT
    assert kept.read_slots == 1
    check(run(pad, "native", layers.program, layers.model, rarely), layers.program, layers.model)


def test_loads_and_stores_go_on_beside_a_computing_operation() -> None:
    """A load and a store without anything to wait for end before the long operation that began before them."""
    layers = Layers.of(PADS[1], 4)
    program = layers.program
    source, target = program.tensor(9, 9, 8), program.tensor(9, 9, 64)
    other, loaded = program.tensor(10, 14, 4, 15), program.tensor(4, 9, 4)
    layers.load(other)
    layers.load(source)
    layers.compute(Operation.GEMM, source, target, kernel_height=3, kernel_width=3, pad_y=1, pad_x=1)
    layers.load(loaded)
    layers.store(other)
    layers.store(target)
    layers.store(loaded)
    for number, waits in ((2, (2, 0)), (4, (1, 0)), (5, (0, 1)), (6, (3, 0))):
        d = program.operations[number].descriptor
        d.after_loads, d.after_results = waits
    outcome = run(1, "native", program, layers.model, 0)
    check(outcome, program, layers.model)
    ends = [index for index, _ in outcome.finished]
    assert ends.index(3) < ends.index(2)
    assert ends.index(4) < ends.index(2)
    assert 55 < outcome.most_stored <= 64


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_an_operation_is_read_while_the_results_of_the_one_before_are_awaited(integers: Integers) -> None:
    """Two layers of one input: the second is read though nothing of the first has come back, unless it says it waits.

    A third one, which reads what the first has written, waits for it whatever else is under way.
    """
    layers = Layers.of(PADS[0], 6)
    source = layers.program.tensor(3, 4, 3)
    first, second, third = (layers.program.tensor(3, 4, channels) for channels in (4, 3, 5))
    layers.load(source)
    layers.compute(Operation.GEMM, source, first)
    results = len(layers.model.results)
    layers.compute(Operation.GEMM, source, second)
    operands = len(layers.model.operands)
    layers.compute(Operation.GEMM, first, third)
    layers.store(third)
    second_step, third_step = (item.descriptor for item in layers.program.operations[2:4])
    strict_order(layers.program)
    second_step.after_results = 0
    third_step.after_results = 1
    assert results <= 16, "fewer passes than may be awaited"

    def outcome(held: int) -> Outcome:
        return run(0, integers, layers.program, layers.model, 2, integers == "exact", (0, held))

    check(outcome(operands), layers.program, layers.model)
    second_step.after_results = 1
    with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
        outcome(operands)
    second_step.after_results = 0
    with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
        outcome(operands + 1)


@pytest.mark.parametrize("rarely", [0, 3, 6])
@pytest.mark.parametrize("pad", [0, 2, 4])
def test_layers_that_wait_for_what_they_read_alone(pad: int, rarely: int) -> None:
    """All results of a start have words of their own; the order is the least that their reading needs."""
    layers = Layers.of(PADS[pad], 7 + rarely)
    rng, program = layers.model.rng, layers.program
    source = program.tensor(4, 5, 3)
    layers.load(source)
    written, order = [(source, 0)], [(0, 0, 0)]
    for number in range(1, 13):
        place, after = written[rng.integers(len(written))]
        target = program.tensor(4, 5, int(rng.integers(1, 8)))
        operation = (Operation.GEMM, Operation.GEMM, Operation.MAX)[rng.integers(3)]
        flags = int(Flag.TWO_HOT) if operation == Operation.GEMM and PADS[pad].multiplier == "shift" else 0
        if operation == Operation.MAX:
            target = program.tensor(4, 5, place.channels)
        layers.compute(operation, place, target, flags=flags)
        written.append((target, number))
        order.append((1, after, 0))
    for place, after in written[1:]:
        layers.store(place)
        order.append((0, after, 0))
    for operation_, (loads, results, stores) in zip(program.operations, order, strict=True):
        d = operation_.descriptor
        d.after_loads, d.after_results, d.after_stores = loads, results, stores
    check(run(pad, "native", program, layers.model, rarely), program, layers.model)


def test_an_operation_waits_as_long_for_results_that_are_there_when_its_command_is_taken() -> None:
    """Operations of many lengths: one ends in the clock in which the one that reads its result is taken."""
    for width in range(20, 40):
        layers = Layers.of(PADS[0], width)
        source, between, target = (layers.program.tensor(1, columns, 1) for columns in (width, 1, 1))
        layers.load(source)
        layers.compute(Operation.GEMM, source, between, kernel_width=width)
        layers.compute(Operation.GEMM, between, target)
        strict_order(layers.program)
        held = 0, width
        check(run(0, "native", layers.program, layers.model, 0, True, held), layers.program, layers.model)


def test_an_operation_that_does_not_wait_breaks_the_waiver() -> None:
    """The maximum reads words that the load beside it has just written."""
    layers = Layers.of(PADS[0], 5)
    source, target = layers.program.tensor(12, 12, 6), layers.program.tensor(1, 12, 6)
    layers.load(source)
    layers.compute(Operation.MAX, source, target, kernel_height=12)
    with pytest.raises(ScheduleError, match=r"iteration \d+ of loop `Scratchpad` reads word \d+ of memory `cell`"):
        run(0, "native", layers.program, layers.model, 6, True)
    layers.program.operations[1].descriptor.after_loads = 1
    check(run(0, "native", layers.program, layers.model, 6, True), layers.program, layers.model)
