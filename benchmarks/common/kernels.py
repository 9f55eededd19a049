"""Programs on the C simulation: the emulator counts the same clocks and gives the same bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.common.networks import Float32Array
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.runtime import open_device


def check_kernel(program: Program, sample: Mapping[str, Float32Array]) -> None:
    """The same clocks of every layer on compiled C++, and the same bits."""
    device = open_device("csim", program)
    found, expected = device.run(sample), Emulator(program).run(sample)
    device.close()
    for ours, theirs in zip(expected.layers, found.layers, strict=True):
        if ours.cycles != theirs.cycles:
            raise SystemExit(f"{ours.name}: compiled C++ counts {theirs.cycles} clocks, the emulator {ours.cycles}")
    if any(not np.array_equal(found.outputs[key], expected.outputs[key]) for key in found.outputs):
        raise SystemExit("compiled C++ and the emulator differ")
