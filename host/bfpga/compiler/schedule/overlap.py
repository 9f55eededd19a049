"""The order of a start's operations: weights are loaded while layers before theirs compute.

Commands reach the engines in the order of the program, and one that has to wait blocks those after it. So WEIGHTS move
forward, at most to where the memory that they fill is free, and only as far as the one before them is through by then.
Branches are put into the order that waits less (``branches.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bfpga.compiler.schedule.branches import branches_first
from bfpga.compiler.schedule.held_weights import SharedMemory, held_weights
from bfpga.compiler.schedule.prefetched_loads import prefetched_loads
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.cycles import COUNTED_OPERATIONS, WITH_PARAMETERS, occupied_cycles, operation_cycles
from bfpga.engines.kernel.order import READS, in_stream, start_counts
from bfpga.program.schedule import RESULT_LATENCY, schedule

#: Samples of the start by which two orders are compared: one begins while the other ends.
COMPARED_SAMPLES = 2
#: Places of a sample that are tried for the loads of the next one, all over its computing operations.
TRIED_PLACES = 32


def overlapped(
    operations: list[KernelOperation], config: KernelConfig, shared: SharedMemory | None = None
) -> list[KernelOperation]:
    """The operations of a start in an order of the same results that takes no longer.

    shared: where pieces of weights may get other places, so that they stay; None: they have those that they have.
    """
    operations = _branches(operations, config)
    orders = [operations, *(order for order in ways(operations, config, shared) if order is not operations)]
    if len(orders) == 1:
        return operations
    return min(orders, key=lambda order: schedule(config, order, COMPARED_SAMPLES).clocks)


def _branches(operations: list[KernelOperation], config: KernelConfig) -> list[KernelOperation]:
    """The operations with branches in the order that takes fewer cycles."""
    found = branches_first(operations)
    if all(one is other for one, other in zip(operations, found, strict=True)):
        return operations
    orders = (operations, found)
    return min(orders, key=lambda order: schedule(config, forward(order, config), COMPARED_SAMPLES).clocks)


def start_clocks(config: KernelConfig, operations: list[KernelOperation], shared: SharedMemory | None = None) -> int:
    """Cycles of one start, with all that overlaps. shared: as for ``overlapped``."""
    return schedule(config, usual_way(operations, config, shared)).clocks if operations else 0


def usual_way(
    operations: list[KernelOperation], config: KernelConfig, shared: SharedMemory | None
) -> list[KernelOperation]:
    """The operations of a start with WEIGHTS moved forward; shared: in the one of ``ways`` that is mostly the best."""
    if shared is None:
        return forward(operations, config)
    prefetched = prefetched_loads(operations, config)
    return forward(next(held_weights(prefetched, shared), prefetched), config)


def ways(
    operations: list[KernelOperation], config: KernelConfig, shared: SharedMemory | None
) -> Iterator[list[KernelOperation]]:
    """The operations with WEIGHTS moved forward; shared: and with pieces of weights that stay, LOADs prefetched."""
    yield forward(operations, config)
    if shared is None:
        return
    for order in (operations, prefetched_loads(operations, config)):
        yield forward(order, config)
        for held in held_weights(order, shared):
            yield forward(held, config)


def forward(operations: list[KernelOperation], config: KernelConfig) -> list[KernelOperation]:
    """The operations with WEIGHTS moved forward; they themselves if there is nothing to move."""
    if not any(_fills(operation) for operation in operations):
        return operations
    return _Forward(operations, config).order()


def _fills(operation: KernelOperation) -> bool:
    return operation.descriptor.operation == Operation.WEIGHTS


class _Forward:
    """WEIGHTS between the computing operations of a start, as early as they can begin."""

    def __init__(self, operations: Sequence[KernelOperation], config: KernelConfig) -> None:
        self.operations, self.config = operations, config
        #: Places after computing operations, and the cycles up to there; place 0: before all operations.
        self.places, self.clocks = [0], [0]
        #: Place after each GEMM; what no GEMM has read is free from the begin on.
        self.after_gemm = [0]
        for index, operation in enumerate(operations):
            if operation.descriptor.operation not in COUNTED_OPERATIONS:
                continue
            self.places.append(index + 1)
            self.clocks.append(
                self.clocks[-1] + occupied_cycles(config, operation.descriptor) + RESULT_LATENCY
            )
            if operation.descriptor.operation in WITH_PARAMETERS:
                self.after_gemm.append(len(self.places) - 1)

    def order(self) -> list[KernelOperation]:
        """The operations; nothing but WEIGHTS has moved, and these are in their order still."""
        inserted: dict[int, list[KernelOperation]] = {}
        needs = start_counts(self.operations, self.config)[0]
        free = place = 0
        for index, operation in enumerate(self.operations):
            if not _fills(operation):
                continue
            last = max(number for number, position in enumerate(self.places) if position <= index)
            earliest = max(place, self.after_gemm[needs[index][READS]])
            # After the operation during which the fill before it ends: no other command waits for it.
            place = next((n for n in range(earliest, last) if self.clocks[n] >= free), max(earliest, last))
            begin = max(free, self.clocks[max(place - 1, 0)], self.clocks[self.after_gemm[needs[index][READS]]])
            free = begin + operation_cycles(self.config, operation.descriptor)
            inserted.setdefault(self.places[place] if place < last else index, []).append(operation)
        return self._merged(inserted)

    def _merged(self, inserted: dict[int, list[KernelOperation]]) -> list[KernelOperation]:
        result: list[KernelOperation] = []
        for index, operation in enumerate(self.operations):
            result += inserted.get(index, [])
            if not _fills(operation):
                result.append(operation)
        return result


def ahead(operations: Sequence[KernelOperation], config: KernelConfig) -> int:
    """Before which operation of a sample the loads that the next one begins with are sent: ``LaunchStep.ahead``.

    They are sent in the place that makes a start of several samples shortest, before the sample's last store, and where
    nothing after them uses what they overwrite.
    """
    computing = [index for index, item in enumerate(operations) if item.descriptor.operation in COUNTED_OPERATIONS]
    stores = [index for index, item in enumerate(operations) if item.descriptor.operation == Operation.STORE]
    if not computing or not stores:
        return 0
    if all(item.descriptor.operation != Operation.LOAD for item in operations[: computing[0]]):
        return 0
    allowed = first_place(operations, computing[0])
    possible = [index + 1 for index in computing if allowed <= index + 1 <= stores[-1]]
    places = [0, *possible[:: -(-len(possible) // TRIED_PLACES) or 1]]
    return min(places, key=lambda place: schedule(config, in_stream(operations, COMPARED_SAMPLES + 1, place)).clocks)


def first_place(operations: Sequence[KernelOperation], computing: int) -> int:
    """The place after the last operation that uses words or exponent registers of the loads before ``computing``."""
    loads = [item for item in operations[:computing] if item.descriptor.operation == Operation.LOAD]
    slots = {item.descriptor.output_slot for item in loads}
    written = [words for item in loads if item.memory is not None for words in item.memory.writes]
    last = len(operations)
    for last in range(len(operations), 0, -1):
        item = operations[last - 1]
        if _fills(item):
            continue
        descriptor, memory = item.descriptor, item.memory
        if memory is None or slots & {descriptor.input_slot, descriptor.second_slot, descriptor.output_slot}:
            break
        if any(a < d and c < b for a, b in written for c, d in (*memory.reads, *memory.writes)):
            break
    return last
