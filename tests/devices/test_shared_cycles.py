"""Clocks of operations where a kernel tells its total alone."""

from __future__ import annotations

from dataclasses import replace

from bfpga.devices.kernel_start import KernelResult
from bfpga.devices.shared_cycles import shared_cycles


def test_clocks_of_operations_add_up_to_what_the_kernel_counted() -> None:
    """A difference from the model stays with the last operation, where it is seen."""
    result = KernelResult(b"", 105, None, 0, 0, 0)
    assert shared_cycles(result, [60, 40]).operation_cycles == [60, 45]
    assert shared_cycles(result, []).operation_cycles == []
    counted = replace(result, operation_cycles=[50, 55])
    assert shared_cycles(counted, [60, 40]) == counted
