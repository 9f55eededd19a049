"""LOADs prefetched during long operations: while a tensor comes, the sequencer sends no command.

So a LOAD stalls the operation after it, whether that one needs the tensor or not. Where memory has room for what is
loaded while something else is computed, the LOAD follows the command of an operation that takes longer than it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS, occupied_cycles, operation_cycles
from bfpga.engines.kernel.order import any_overlap


def prefetched_loads(operations: Sequence[KernelOperation], config: KernelConfig) -> list[KernelOperation]:
    """The operations of a start with every LOAD after one that takes longer, where there is one.

    Its memory is free before that begins, and no operation needs it before that has begun. LOADs stay in order.
    """
    kinds = [operation.descriptor.operation for operation in operations]
    free = [
        occupied_cycles(config, item.descriptor) if kind in ARRAY_OPERATIONS else 0
        for item, kind in zip(operations, kinds, strict=True)
    ]
    following: dict[int, list[KernelOperation]] = {}
    place = -1  # of the LOAD before, which follows the operation of this index
    for index, operation in enumerate(operations):
        if kinds[index] != Operation.LOAD:
            continue
        work = operation_cycles(config, operation.descriptor)
        users = [number for number, item in enumerate(operations) if _conflicts(operation, item) and number != index]
        first = max([number + 1 for number in users if number < index], default=0)
        last = min([number for number in users if number > index], default=len(operations))
        hosts = [number for number in range(max(first, place), last) if kinds[number] in ARRAY_OPERATIONS]
        if hosts:
            place = next((host for host in hosts if free[host] >= work), max(hosts, key=lambda host: free[host]))
            free[place] -= work
        else:
            place = max(place, index)
        following.setdefault(place, []).append(operation)
    result: list[KernelOperation] = []
    for index, operation in enumerate(operations):
        if kinds[index] != Operation.LOAD:
            result.append(operation)
        result += following.get(index, [])
    return result


def _conflicts(load: KernelOperation, other: KernelOperation) -> bool:
    """Whether an operation uses words or the exponent of what a LOAD brings, or of what was there before."""
    ours, theirs = load.descriptor, other.descriptor
    if theirs.operation in (Operation.LOAD, Operation.WEIGHTS):
        return False
    if load.memory is None or other.memory is None:
        return True
    if ours.output_slot in (theirs.input_slot, theirs.second_slot, theirs.output_slot):
        return True
    return any_overlap(load.memory.writes, (*other.memory.reads, *other.memory.writes))
