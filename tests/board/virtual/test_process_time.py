"""Clocks of a kernel: the counter of a virtual board against the schedule, and what is reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pynq")

from kernel_pairs import SMALL
from small_networks import compiled, residual_network

from bfpga.board.virtual.clock_counter import FIRST_BEAT_CLOCKS
from bfpga.board.virtual.process_time import read_descriptors, received_counts
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.measured_clocks import UNEXPLAINED_SHARE, MeasuredClocks
from bfpga.devices.values import Values
from bfpga.engines.kernel.order import in_stream, start_counts
from bfpga.errors import ClockWarning
from bfpga.program.packets import SamplePackets
from bfpga.program.schedule import schedule
from bfpga.program.start_clocks import FOLLOWED_SAMPLES, start_clocks
from bfpga.verify.virtual_boards import VirtualBoards

pytestmark = pytest.mark.board
#: The kernel of other tests.
SAMPLES = 24


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return replace(compiled(residual_network(), tmp_path_factory.mktemp("residual"), SMALL), digest="0" * 64)


@pytest.fixture(scope="module")
def boards() -> Iterator[VirtualBoards]:
    result = VirtualBoards()
    yield result
    result.close()


def start_of(program: Program) -> LaunchStep:
    (step,) = (step for step in program.steps if isinstance(step, LaunchStep))
    return step


def run(boards: VirtualBoards, program: Program, *faults: Any) -> tuple[MeasuredClocks, list[str]]:
    """What was measured of the samples, and the warnings of the run; the values are those of the emulator."""
    device: Any = boards.open(program)
    inputs = residual_network().samples(SAMPLES)
    device.run({name: value[:1] for name, value in inputs.items()})  # loads the weights
    device.streaming._board.target.board.faults.inject(*faults)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = device.run(inputs)
    expected = Emulator(program).run(inputs)
    assert all(np.array_equal(result.outputs[name], value) for name, value in expected.outputs.items())
    assert result.measured.counted == result.cycles == expected.cycles, "the register holds the work"
    return result.measured, [str(item.message) for item in caught if item.category is ClockWarning]


def test_overlapped_samples_take_their_schedule_within_three_percent(boards: VirtualBoards, program: Program) -> None:
    """The board has seen descriptors alone: what waits for what is in their counts."""
    measured, warned = run(boards, program)
    assert measured.waits == FIRST_BEAT_CLOCKS * measured.starts
    assert abs(measured.clocks - measured.waits - measured.scheduled) <= 0.005 * measured.scheduled
    assert measured.clocks <= (1 + UNEXPLAINED_SHARE) * measured.scheduled
    assert measured.scheduled != measured.counted
    assert warned == []


def test_clocks_of_many_samples_follow_from_a_few(program: Program) -> None:
    step = start_of(program)
    for samples in (1, FOLLOWED_SAMPLES, 24):
        exact = schedule(SMALL, in_stream(step.operations, samples, step.ahead)).clocks
        assert abs(start_clocks(SMALL, step.operations, samples, step.ahead) - exact) <= 0.002 * exact


def test_descriptors_of_a_stream_tell_what_operations_wait_for(program: Program) -> None:
    step, samples = start_of(program), 5
    values = Values(program, residual_network().samples(samples))
    for operation in step.operations:
        if operation.descriptor.operation == Operation.LOAD and operation.transfer is not None:
            values.on_array(operation.transfer.tensor)
    packets = SamplePackets(step.operations, SMALL, step.ahead)
    packet = packets.pack(values.array, 0, samples).tobytes()
    descriptors = list(read_descriptors(packet, SMALL))
    assert len(descriptors) == samples * len(step.operations)
    expected = start_counts([step.operations[index] for index in packets.sent(samples)], SMALL).reshape(-1, 5)
    found = received_counts(descriptors)
    np.testing.assert_array_equal(np.where(expected > 0, found, 0), expected)
    assert list(read_descriptors(packet[: 4 * DESCRIPTOR_WORDS - 1], SMALL)) == []
    load = replace(descriptors[0], operation=int(Operation.LOAD), after_loads=0)
    assert received_counts([load] * 66_000 + [replace(load, after_loads=65_990 & 0xFFFF)])[-1][0] == 65_990
