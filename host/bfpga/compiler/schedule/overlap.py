"""The order of a start's operations in a kernel of processes: weights are loaded while layers before theirs compute.

Commands reach the engines in the order of the program, and one that has to wait stops those behind it. So WEIGHTS move
forward, at most to where the memory that they fill is free, and only as far as the one before them is through by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation
from bfpga.engines.array.cycles import ARRAY_OPERATIONS, operation_cycles
from bfpga.engines.array.order import READS, start_counts
from bfpga.program.schedule import RESULT_LATENCY, schedule

#: Samples of the start by which two orders are compared: one begins while the other ends.
COMPARED_SAMPLES = 2


def overlapped(operations: list[KernelOperation], config: SystolicConfig) -> list[KernelOperation]:
    """The operations of a start in an order of the same results that takes no longer."""
    if config.kernel == "loop" or not any(_fills(operation) for operation in operations):
        return operations
    moved = _Forward(operations, config).order()
    clocks = [schedule(config, order, COMPARED_SAMPLES).clocks for order in (operations, moved)]
    return moved if clocks[1] < clocks[0] else operations


def _fills(operation: KernelOperation) -> bool:
    return operation.descriptor.operation == Operation.WEIGHTS


class _Forward:
    """WEIGHTS between the computing operations of a start, as early as they can begin."""

    def __init__(self, operations: Sequence[KernelOperation], config: SystolicConfig) -> None:
        self.operations, self.config = operations, config
        #: Places behind computing operations, and the clocks up to there; place 0: before all operations.
        self.places, self.clocks = [0], [0]
        #: Place behind each GEMM; what no GEMM has read is free from the begin on.
        self.behind_reads = [0]
        for index, operation in enumerate(operations):
            if operation.descriptor.operation not in ARRAY_OPERATIONS:
                continue
            self.places.append(index + 1)
            self.clocks.append(
                self.clocks[-1] + operation_cycles(config, operation.descriptor) + RESULT_LATENCY
            )
            if operation.descriptor.operation == Operation.GEMM:
                self.behind_reads.append(len(self.places) - 1)

    def order(self) -> list[KernelOperation]:
        """The operations; nothing but WEIGHTS has moved, and these are in their order still."""
        inserted: dict[int, list[KernelOperation]] = {}
        needs = start_counts(self.operations, self.config)[0]
        free = place = 0
        for index, operation in enumerate(self.operations):
            if not _fills(operation):
                continue
            last = max(number for number, behind in enumerate(self.places) if behind <= index)
            earliest = max(place, self.behind_reads[needs[index][READS]])
            # Behind the operation during which the fill before it ends: the commands of others never wait for it.
            place = next((n for n in range(earliest, last) if self.clocks[n] >= free), max(earliest, last))
            begin = max(free, self.clocks[max(place - 1, 0)], self.clocks[self.behind_reads[needs[index][READS]]])
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
