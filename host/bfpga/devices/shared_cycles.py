"""Clocks of single operations where a kernel tells only how many it took in all, as a board does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from bfpga.contract.program import KernelOperation
from bfpga.devices.kernel_start import KernelResult
from bfpga.program.cycles import depends_on_data


def shared_cycles(result: KernelResult, operations: Sequence[KernelOperation], model: Sequence[int]) -> KernelResult:
    """The result with clocks of every operation: counted where the kernel tells them, else those of the model.

    model: clocks that each operation should take. What operations whose clocks depend on data took is what the others
    leave of the total; several share it in proportion to their expected clocks. Without such operations the last one
    bears a difference from the model: the total stays true, and a comparison with the emulator shows it.
    """
    if result.operation_cycles is not None or not model:
        return replace(result, operation_cycles=result.operation_cycles or [])
    open_ended = [index for index, operation in enumerate(operations) if depends_on_data(operation)]
    bearers = open_ended or [len(model) - 1]
    cycles = list(model)
    remainder = result.cycles - sum(model) + sum(model[index] for index in bearers)
    for index, share in zip(bearers, _shares(remainder, [model[index] for index in bearers]), strict=True):
        cycles[index] = share
    layers = {operations[index].layer for index in open_ended}
    return replace(result, operation_cycles=cycles, cycles_shared=len(layers) > 1)


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole parts in proportion to ``weights``; the last one has all if these are 0."""
    if not any(weights):
        return [*[0] * (len(weights) - 1), total]
    bounds = accumulate(weights, initial=0)
    return [total * after // sum(weights) - total * before // sum(weights) for before, after in pairwise(bounds)]
