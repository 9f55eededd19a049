"""The estimate of a sample in a stream against a run of the device by a clock that kernel and host are told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import each_once
from kernel_pairs import SMALL
from small_networks import Network, attention_network, compiled

from bfpga.contract.program import HostNode, Program
from bfpga.devices import streaming_device
from bfpga.devices.csim import CSimulation
from bfpga.devices.kernel_start import KernelResult, KernelStart
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.program import groups
from bfpga.program.cycles import ProgramCycles, program_cycles
from bfpga.program.host import SEPARATE
from bfpga.program.stream_time import stream_time

#: Seconds of a start for one sample.
ARRAY = 3.0


class Clock:
    """The time of a host that works, or waits for a kernel."""

    def __init__(self) -> None:
        self.now = 0.0


class TimedKernel:
    """A kernel of depth 2 whose starts take ``ARRAY`` a sample, one after the other, whatever the host does."""

    depth = 2

    def __init__(self, program: Program, clock: Clock) -> None:
        self.kernel, self.clock = CSimulation(program.config), clock
        self.seconds: dict[str, float] = {}
        self.pending: deque[tuple[KernelStart, float]] = deque()
        self.free = 0.0

    def begin(self, start: KernelStart) -> None:
        self.free = max(self.free, self.clock.now) + ARRAY * start.weight_repeats
        self.pending.append((start, self.free))

    def finish(self) -> KernelResult:
        start, done = self.pending.popleft()
        self.clock.now = max(self.clock.now, done)
        self.kernel.begin(start)
        return self.kernel.finish()

    def cancel(self) -> None:
        self.pending.clear()

    def close(self) -> None:
        self.kernel.close()


def head_and_tail() -> Network:
    """The host before, between and after two starts of the array."""
    network = Network(3, 6, 6)
    network.add("Sin")
    network.conv(4, 3, 3)
    network.add("Softmax", axis=1)
    network.conv(4, 4, 3)
    network.add("Cos")
    return network


def host_seconds(scale: float) -> Callable[[HostNode, int], float]:
    """For a sample, different for each node: half of it is a call's, which samples share."""

    def seconds(node: HostNode, together: int) -> float:
        return scale * (1 + len(node.name) % 3 + len(node.operators[0]) / 4) * (1 + 1 / together)

    return seconds


def measured(program: Program, host: Callable[[HostNode, int], float], inputs: dict[str, np.ndarray]) -> float:
    """Seconds by the clock of a run of the device."""
    clock = Clock()
    device = StreamingDevice(program, TimedKernel(program, clock), "timed")
    for index, function in dict(device._host).items():
        node = program.nodes[index]
        assert isinstance(node, HostNode)

        def timed(values: Any, node: HostNode = node, of: Any = function) -> Any:
            samples = max(map(len, values.values()))
            clock.now += samples * host(node, samples if set(node.operators) <= SEPARATE else 1)
            return of(values)

        device._host[index] = timed
    clock.now = 0.0
    device.run(inputs)
    return clock.now


@pytest.mark.parametrize(("network", "scale"), each_once([head_and_tail, attention_network], [0.0, 0.2, 1.0, 5.0]))
def test_a_sample_of_a_long_stream_takes_what_the_slower_of_both_takes(
    network: Callable[[], Network], scale: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few groups on either side of a turn have nothing beside them: 2 of 60."""
    monkeypatch.setattr(streaming_device, "START_SAMPLES", 2)
    monkeypatch.setattr(streaming_device, "SHORT_START_SAMPLES", 2)
    monkeypatch.setattr(groups, "START_SAMPLES", 2)
    monkeypatch.setattr(ProgramCycles, "start_seconds", lambda cycles, start, rate: ARRAY * start.times)
    net, host = network(), host_seconds(scale)
    program = compiled(net, tmp_path, config=SMALL)
    found = stream_time(program, program_cycles(program), 8.0, host)
    assert len(found.turns) > 1
    spent = measured(program, host, net.samples(120)) / 120
    assert found.seconds == pytest.approx(spent, rel=2 / 60)
    one_after_the_other = found.array + sum(turn.host for turn in found.turns)
    assert (found.seconds < one_after_the_other) == bool(scale)
