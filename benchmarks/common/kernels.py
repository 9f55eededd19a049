"""Programs on the C simulation: what the compiled kernel counts for every operation, and that the emulator agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.common.networks import Float32Array
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import BlockTensor, KernelOperation, Program
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.registry import COMPUTE
from bfpga.runtime import open_device


class RecordedKernel:
    """A C simulation that adds up the work of its computing operations."""

    def __init__(self, kernel: CSimulation) -> None:
        self.kernel = kernel
        self.computing: dict[str, int] = {}

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        """One start; see ``CSimulation.run_operations``."""
        result = self.kernel.run_operations(operations, tensors, sample, clear_policies)
        for operation, cycles in zip(operations, result.operation_cycles or [], strict=True):
            if Operation(operation.descriptor.operation) in COMPUTE:
                self.computing[operation.layer] = self.computing.get(operation.layer, 0) + cycles
        return result

    def close(self) -> None:
        """Free the kernel."""
        self.kernel.close()


def recorded_device(program: Program) -> tuple[KernelDevice, RecordedKernel]:
    """The program on a C simulation of its own, and the record of its computing operations by layer."""
    kernel = RecordedKernel(CSimulation(program.config))
    return KernelDevice(program, kernel, "csim"), kernel


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
