"""Starts that stop where the input ends too early, and what the next one gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from stream_depths import DepthTrial

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_streams
from bfpga.contract.program import Program
from bfpga.devices.csim import CSimulation
from bfpga.devices.kernel_start import KernelResult, Octets
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import DeviceError


class CutSimulation(CSimulation):
    """A kernel whose next start lacks the end of its input."""

    cut_input = 0.0

    def run_packet(
        self, descriptors: int, packet: Octets, weights: Octets = b"", capacity: int = 0, clear_policies: bool = False
    ) -> KernelResult:
        packet = packet[: len(packet) - int(self.cut_input * len(packet)) // 16 * 16]
        self.cut_input = 0.0
        return super().run_packet(descriptors, packet, weights, capacity, clear_policies)


def stopped_starts(config: KernelConfig, seeds: range, concerns: Callable[[Program], bool]) -> int:
    """How many starts of random networks stopped; after each, a whole one has to give the emulator's bits.

    concerns: of which networks.
    """
    stopped = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kernel = CutSimulation(config)
        trial = DepthTrial(rng, kernel)
        if not concerns(trial.program):
            continue
        needed = {item.name: item.needed for item in process_streams(config)}
        device = StreamingDevice(trial.program, kernel, "csim")
        kernel.cut_input = float(rng.uniform(0.05, 0.9))
        try:
            device.run(trial.inputs)
        except DeviceError:
            stopped += 1
        device.reset()
        assert trial.run(needed, int(rng.integers(1, 1 << 60))) is None
    return stopped
