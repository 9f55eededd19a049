"""What a program keeps in a kernel's memories from start to start, and the same program at another place of them.

Weights, parameters and tables are written once and stay while nobody writes there. So programs that have places apart
take turns on one kernel without bringing them again. Descriptors name places from the first word on; what a program
computes does not depend on where that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.functions import TABLE_STEPS
from bfpga.contract.loaded_tables import FIELD_OF_ADDRESS, LOADED_TABLE, TABLE_USE
from bfpga.contract.program import HostStep, KernelOperation, LaunchStep, Program, Step
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS, WITH_PARAMETERS
from bfpga.engines.kernel.order import FILLING, Range, any_overlap, parameter_range, weight_range
from bfpga.program.limits import starts

_NOWHERE = (0, 0)
_SLOT = TABLE_USE["slot"]


@dataclass(frozen=True)
class Room:
    """Weight words, parameter rows and function tables that a program writes or reads: first, and after the last."""

    words: Range = _NOWHERE
    rows: Range = _NOWHERE
    tables: Range = _NOWHERE

    @property
    def runs(self) -> tuple[Range, Range, Range]:
        """One of each memory."""
        return self.words, self.rows, self.tables

    def meets(self, other: Room) -> bool:
        """Whether one of the memories has a place that belongs to both."""
        return any(any_overlap([mine], [theirs]) for mine, theirs in zip(self.runs, other.runs, strict=True))


def room_of(program: Program) -> Room:
    """The room of a program, from the lowest place that it uses to the highest."""
    runs: tuple[list[Range], ...] = ([], [], [])
    for operation in chain.from_iterable(operations for _, operations in starts(program)):
        for found, run in zip(runs, _places(operation.descriptor), strict=True):
            if run is not None:
                found.append(run)
    return Room(*(_hull(found) for found in runs))


def apart(programs: Sequence[Program]) -> list[Program]:
    """The programs with rooms apart as far as the memories of their kernel allow, the smallest first.

    One that finds no room beside those before it stays where it was compiled to be.
    """
    config = programs[0].config
    sizes = config.weight_words, config.parameter_rows, config.function_tables
    rooms = [room_of(program) for program in programs]
    result, free = list(programs), [0, 0, 0]
    for index in sorted(range(len(programs)), key=lambda index: rooms[index].words[1] - rooms[index].words[0]):
        runs = rooms[index].runs
        ends = [first + run[1] - run[0] for first, run in zip(free, runs, strict=True)]
        if all(end <= size for end, size in zip(ends, sizes, strict=True)):
            by = [first - run[0] if run[0] < run[1] else 0 for first, run in zip(free, runs, strict=True)]
            result[index], free = _moved(programs[index], *by), ends
    return result


def _places(descriptor: Descriptor) -> tuple[Range | None, Range | None, Range | None]:
    """The words, rows and tables of an operation; an empty run is a place that it names without using it."""
    words = rows = tables = None
    if descriptor.operation in (*FILLING, *WITH_PARAMETERS):
        words, rows = weight_range(descriptor), parameter_range(descriptor)
    if descriptor.operation == Operation.TABLE:
        slot = getattr(descriptor, FIELD_OF_ADDRESS) // TABLE_STEPS
        tables = slot, slot + 1
    elif _reads_table(descriptor):
        slot = descriptor.function_argument >> _SLOT.first & (1 << _SLOT.bits) - 1
        tables = slot, slot + 1
    return words, rows, tables


def _reads_table(descriptor: Descriptor) -> bool:
    return descriptor.operation in ARRAY_OPERATIONS and descriptor.function == LOADED_TABLE


def _hull(runs: Sequence[Range]) -> Range:
    return (min(run[0] for run in runs), max(run[1] for run in runs)) if runs else _NOWHERE


def _moved(program: Program, words: int, rows: int, tables: int) -> Program:
    """The program so many words, rows and tables further on."""

    def operation(item: KernelOperation) -> KernelOperation:
        return replace(item, descriptor=_at(item.descriptor, words, rows, tables))

    def step(item: Step) -> Step:
        if isinstance(item, HostStep):
            return item
        return replace(item, operations=[operation(one) for one in item.operations])

    setup = LaunchStep([operation(item) for item in program.setup.operations])
    return replace(program, setup=setup, steps=[step(item) for item in program.steps])


def _at(descriptor: Descriptor, words: int, rows: int, tables: int) -> Descriptor:
    changed: dict[str, int] = {}
    if descriptor.operation in (*FILLING, *WITH_PARAMETERS):
        changed["weight_base"] = descriptor.weight_base + words
        changed["parameter_base"] = descriptor.parameter_base + rows
    if descriptor.operation == Operation.TABLE:
        changed[FIELD_OF_ADDRESS] = getattr(descriptor, FIELD_OF_ADDRESS) + tables * TABLE_STEPS
    elif _reads_table(descriptor):
        changed["function_argument"] = descriptor.function_argument + (tables << _SLOT.first)
    return replace(descriptor, **changed)
