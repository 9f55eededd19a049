"""The C simulation of a program, with the clocks that the compiled kernel counted for every operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bfpga.contract.descriptor import Operation
from bfpga.contract.program import BlockTensor, KernelOperation, Program
from bfpga.devices.csim import CSimulation
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.array.cycles import fetch_cycles
from bfpga.engines.registry import COMPUTE


class RecordedKernel:
    """A C simulation that adds up what its computing operations took, without the fetch of their descriptors."""

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
        fetch = fetch_cycles(self.kernel.config)
        for operation, cycles in zip(operations, result.operation_cycles or [], strict=True):
            if Operation(operation.descriptor.operation) in COMPUTE:
                self.computing[operation.layer] = self.computing.get(operation.layer, 0) + cycles - fetch
        return result

    def close(self) -> None:
        """Free the kernel."""
        self.kernel.close()


def recorded_device(program: Program) -> tuple[KernelDevice, RecordedKernel]:
    """The program on a C simulation of its own, and the record of its computing operations by layer."""
    kernel = RecordedKernel(CSimulation(program.config))
    return KernelDevice(program, kernel, "csim"), kernel
