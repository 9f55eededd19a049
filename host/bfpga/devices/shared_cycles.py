"""Clocks of single operations where a kernel reports only how many it took in all, as a board does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bfpga.devices.kernel_start import KernelResult


def shared_cycles(result: KernelResult, model: Sequence[int]) -> KernelResult:
    """The result with clocks of every operation: counted where the kernel reports them, else those of the model.

    model: clocks that each operation should take. The last one bears a difference from the model: the total stays true,
    and a comparison with the emulator shows it.
    """
    if result.operation_cycles is not None or not model:
        return replace(result, operation_cycles=result.operation_cycles or [])
    return replace(result, operation_cycles=[*model[:-1], result.cycles - sum(model[:-1])])
