"""A compiled kernel beside the reference of ``reference_array``: both execute the same starts and must agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from array_programs import Program
from bfpga.devices.csim import CSimulation, Integers
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.configuration import BlockFormat, SystolicConfig
from bfpga.network.program import BlockTensor
from reference_array import ReferenceKernel

#: Optimisation does not pay for kernels that run for milliseconds.
QUICK = ("-O0",)
SMALL = SystolicConfig(columns=3, rows=4, lanes=2, activation_words=256, weight_words=256, parameter_rows=64)


def small(**changes: object) -> SystolicConfig:
    """A small array with some fields changed; fields of the format are given by their own names."""
    names = set(BlockFormat.__dataclass_fields__) & set(changes)
    form = replace(SMALL.format, **{name: changes.pop(name) for name in names})
    return replace(SMALL, format=form, **changes)


class KernelPair:
    """Runs programs on both and compares tensors, exponents, clocks, counters and status bits."""

    def __init__(self, config: SystolicConfig, integers: Integers = "native", flags: Sequence[str] = QUICK) -> None:
        self.reference = ReferenceKernel(config)
        self.kernel = CSimulation(config, integers, flags=flags)

    def run(self, program: Program, tensors: dict[str, BlockTensor]) -> KernelResult:
        """One start; ``tensors`` receives what the kernel stored."""
        expected = {name: BlockTensor(t.mantissa.copy(), t.exponent.copy()) for name, t in tensors.items()}
        self.reference.run(program.operations, expected)
        result = self.kernel.run_operations(program.operations, tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(tensor.exponent, expected[name].exponent, f"exponent of {name}")
            np.testing.assert_array_equal(tensor.mantissa, expected[name].mantissa, f"mantissas of {name}")
        assert result.operation_cycles == self.reference.cycles
        assert result.cycles == sum(self.reference.cycles)
        counted = (result.overflow, result.underflow, result.status)
        assert counted == (self.reference.overflow, self.reference.underflow, int(self.reference.status))
        return result

