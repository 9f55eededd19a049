"""Random words of room in the streams between processes: from what they need on no start may wait for ever.

With fewer words a start may; then it ends with the name of every process and what it waits for, never with other bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_streams
from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import Mismatch, first_mismatch
from bfpga.devices.csim import MOST_STAGES, CSimulation, pipelined_loops
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import DeviceError
from bfpga.verify.check import random_inputs
from bfpga.verify.random_network import random_program

Generator = np.random.Generator
#: Samples of a run: their operations overlap in one start.
SAMPLES = 3
#: Begin of what a kernel says whose processes wait in a circle.
CIRCLE = "the processes of the kernel wait for each other: "


def sufficient_depths(rng: Generator, config: KernelConfig) -> dict[str, int]:
    """A depth for each stream: the stated one, a little more, that of its FIFO, or up to four times as much."""
    result = {}
    for stream in process_streams(config):
        least, most = stream.depth, 4 * stream.depth
        drawn = (least, least, least + int(rng.integers(1, 8)), stream.fifo_words, int(rng.integers(least, most + 1)))
        result[stream.name] = drawn[int(rng.integers(len(drawn)))]
    return result


def scarce_depth(rng: Generator, config: KernelConfig) -> dict[str, int]:
    """One stream with fewer words than it needs; the others have what they need."""
    streams = process_streams(config)
    stream = streams[int(rng.integers(len(streams)))]
    return {stream.name: int(rng.choice([1, 2, stream.depth // 4, stream.depth // 2, stream.depth - 1]))}


def needed_depths(rng: Generator, config: KernelConfig) -> dict[str, int]:
    """All streams with the words that they need and no more, but that some have a few more in half of the draws."""
    more = 3 * int(rng.integers(2))
    return {stream.name: stream.needed + int(rng.integers(more + 1)) for stream in process_streams(config)}


def any_stages(rng: Generator) -> dict[str, int]:
    """Stages of pipelined loops, which are all alike or some of each, up to many more than a pipeline has; or none."""
    most = int(rng.choice([0, 5, 40, 200, MOST_STAGES]))
    alone = {loop: int(rng.integers(most + 1)) for loop in sorted(pipelined_loops())} if rng.random() < 0.7 else {}
    return {"": most, **alone}


class DepthTrial:
    """A random network on a simulated kernel, with any depths of its streams, beside the emulator's result."""

    def __init__(self, rng: Generator, kernel: CSimulation) -> None:
        self.program: Program = random_program(rng, kernel.config)
        self.inputs = random_inputs(rng, self.program, SAMPLES)
        self.expected: DeviceResult = Emulator(self.program, NUMPY).run(self.inputs)
        self._kernel = kernel
        self._device = StreamingDevice(self.program, kernel, "csim")

    def run(
        self, depths: Mapping[str, int], order: int = 0, stages: Mapping[str, int] | None = None, pauses: int = 0
    ) -> Mismatch | str | None:
        """None if all is as the emulator has it, the first difference, or what the processes wait for in a circle.

        order, pauses: seeds of an order of the processes and of pauses of the streams, 0 for none; stages: of loops.
        DeviceError for any other stop.
        """
        self._kernel.disturb(order)
        self._kernel.pause(pauses or order)
        self._kernel.stall(stages=stages or {})
        self._kernel.hold(depths)
        try:
            self._device.reset()
            return first_mismatch(self.program, self.expected, self._device.run(self.inputs))
        except DeviceError as error:
            if CIRCLE not in str(error):
                raise
            return str(error).split(CIRCLE)[1]
