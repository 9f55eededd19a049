"""Tables of functions that come with a program: which of them stay in the kernel, and where the others are brought.

If all fit they are brought once, with the resident weights. Otherwise those that most operations use stay, and the
others take turns in the last slot; what that holds when a start begins does not count, since starts may be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.functions import Function
from bfpga.contract.loaded_tables import LOADED_TABLE, table_descriptors, table_use
from bfpga.contract.program import KernelOperation, LaunchStep, Step
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS


def place_tables(setup: LaunchStep, steps: Iterable[Step], config: KernelConfig) -> None:
    """Bring the tables that operations need. Each names a function until then, the slot of its table after.

    setup: brings what stays. Before it is known which operations of a start are sent ahead.
    """
    launches = [step for step in steps if isinstance(step, LaunchStep)]
    plan = TablePlan([item for launch in launches for item in launch.operations], config)
    setup.operations.extend(plan.brought)
    for launch in launches:
        launch.operations = plan.placed(launch.operations)


class TablePlan:
    """The slots of the tables that operations need."""

    def __init__(self, operations: Sequence[KernelOperation], config: KernelConfig) -> None:
        uses = Counter(function for item in operations if (function := table_function(item)) is not None)
        used = [function for function, _ in uses.most_common()] if config.function_tables else []
        slots = config.function_tables
        stay = used if len(used) <= slots else used[: slots - 1]
        self._stay = {function: slot for slot, function in enumerate(stay)}
        self._last = slots - 1
        first = {
            function: item.layer for item in reversed(operations) if (function := table_function(item)) is not None
        }
        #: What brings the tables that stay.
        self.brought = [
            item for function, slot in self._stay.items() for item in _brings(function, slot, first[function])
        ]
        self._used = set(used)

    def placed(self, operations: Sequence[KernelOperation]) -> list[KernelOperation]:
        """The operations of a start with those that bring tables."""
        result: list[KernelOperation] = []
        held: Function | None = None
        for operation in operations:
            function = table_function(operation)
            if function is None or function not in self._used:
                result.append(operation)
                continue
            slot = self._stay.get(function, self._last)
            if function not in self._stay and function != held:
                result.extend(_brings(function, slot, operation.layer))
                held = function
            result.append(_with_slot(operation, function, slot))
        return result


def table_function(operation: KernelOperation) -> Function | None:
    """The function of an operation that names one by a table."""
    descriptor = operation.descriptor
    if descriptor.operation not in ARRAY_OPERATIONS or descriptor.function == LOADED_TABLE:
        return None
    function = Function(descriptor.function)
    return function if function.row.table is not None else None


def keep_table(source: Descriptor, target: Descriptor) -> None:
    """The table of one descriptor is that of another one, too, which names its function."""
    if source.function == LOADED_TABLE:
        target.function, target.function_argument = source.function, source.function_argument


def _brings(function: Function, slot: int, layer: str) -> Iterator[KernelOperation]:
    return (KernelOperation(layer, descriptor) for descriptor in table_descriptors(function, slot))


def _with_slot(operation: KernelOperation, function: Function, slot: int) -> KernelOperation:
    fields = {"function": LOADED_TABLE, "function_argument": table_use(function.row, slot)}
    return replace(operation, descriptor=replace(operation.descriptor, **fields))
