"""The histogram of a kernel's collector, read through STOREs that bring one word of it each. FP R49.

The collector keeps what a pass has counted until the next pass begins, so it is read behind the last operation of the
pass that a rule looks at, in a start of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import TELLS_STATISTICS, Descriptor, Flag, LeadRule, Operation, Policy
from bfpga.contract.program import BlockTensor, KernelOperation, Transfer
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.output.collector import PositionHistogram, histogram_of_words, told_words

_LAYER = "statistics"
#: Policies that learn from the statistics of results as they leave.
_LEARNING_FROM_RESULTS = (Policy.ROLLING_MAX, Policy.FEEDBACK)


def ends_of_passes(operations: Iterable[KernelOperation]) -> set[int]:
    """Identities of the operations behind which the collector holds all that a layer's rule looks at.

    It looks at what the last pass that measures has seen, and with policies that learn from results at these.
    """
    ends: dict[str, list[KernelOperation]] = {}
    for operation in operations:
        descriptor = operation.descriptor
        if descriptor.operation not in ARRAY_OPERATIONS or descriptor.lead_rule == LeadRule.LEAD:
            continue
        if descriptor.policy in _LEARNING_FROM_RESULTS:
            if descriptor.flags & Flag.LAST:  # more than one where counts choose between two ways
                ends.setdefault(operation.layer, []).append(operation)
        elif descriptor.flags & Flag.MEASURE:
            ends[operation.layer] = [operation]
    return {id(operation) for found in ends.values() for operation in found}


@lru_cache(maxsize=8)
def _reading_operations(config: KernelConfig) -> tuple[KernelOperation, ...]:
    """A start that reads the collector of a kernel, a STORE of one pixel for each word; tensors have their numbers."""
    count = told_words(config.position_bins)
    return tuple(_reading(number, number == count - 1) for number in range(count))


def _reading(number: int, last: bool) -> KernelOperation:
    flags = int(TELLS_STATISTICS) | (int(Flag.END_PACKET) if last else 0)
    store = Descriptor(operation=int(Operation.STORE), flags=flags, input_slot=number, output_pixels=1)
    return KernelOperation(_LAYER, store, Transfer(str(number), 0, 1))


def read_histogram(run_operations: Callable[..., Any], config: KernelConfig) -> PositionHistogram:
    """What the collector of a kernel holds. run_operations: of the kernel."""
    told = {
        str(number): BlockTensor(np.zeros((1, 1, 1, config.lanes), np.int32), np.zeros(1, np.int32))
        for number in range(told_words(config.position_bins))
    }
    run_operations(_reading_operations(config), told)
    return histogram_of_words([int(tensor.exponent[0]) for tensor in told.values()])


def cut_behind(operations: Sequence[KernelOperation], ends: Collection[int]) -> list[list[KernelOperation]]:
    """The operations cut behind those of ``ends``, by identity."""
    parts: list[list[KernelOperation]] = [[]]
    for operation in operations:
        parts[-1].append(operation)
        if id(operation) in ends:
            parts.append([])
    return [part for part in parts if part]
