"""What a program decides at run time: layers of which some operations run and others are skipped, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.predicates import counted_in, predicate_of, runs
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, LaunchStep, Program
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.formats.arrays import Int64Array


@dataclass(frozen=True)
class Count:
    """A layer whose values other than zero are counted: the register, and the threshold above which it reports more."""

    register: int
    threshold: int


@dataclass(frozen=True)
class Choice:
    """A layer that is computed in one of two ways: by which register, and the work of a sample of each way."""

    register: int
    work: tuple[int, int]


class RunTimeChoices:
    """Layers of a program that are counted, and those that are computed in one of two ways, by their names."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.counts: dict[str, Count] = {}
        self.choices: dict[str, Choice] = {}
        for operation in program_operations(program) if program.config.count_registers else ():
            self._add(operation)

    def __bool__(self) -> bool:
        return bool(self.choices)

    def _add(self, operation: KernelOperation) -> None:
        descriptor, layer = operation.descriptor, operation.layer
        if register := counted_in(descriptor):
            self.counts[layer] = Count(register, descriptor.count_threshold)
        if predicate := predicate_of(descriptor):
            less, more = self.choices.get(layer, Choice(0, (0, 0))).work
            work = operation_cycles(self.program.config, descriptor)
            less, more = (less + work, more) if predicate.unless else (less, more + work)
            self.choices[layer] = Choice(predicate.register, (less, more))

    def reported(self, node: ArrayNode, tensor: BlockTensor) -> Int64Array:
        """What the register of a layer's count reports for each sample, as its bit. tensor: the layer's result."""
        count, window = self.counts[node.name], node.window
        rows, columns = window.pixels_of(0, window.output_height, 1, 0, window.output_width)
        channels = slice(node.channel_offset, node.channel_offset + node.channels)
        values = tensor.mantissa[:, rows, columns, channels]
        more: Int64Array = (np.count_nonzero(values, axis=(1, 2, 3)) > count.threshold).astype(np.int64)
        return more << count.register

    def beyond_expected(self, layer: str, reported: Int64Array) -> int:
        """Work of a layer for all samples beyond that of the way which ``Program.choices`` expects."""
        choice = self.choices[layer]
        expected = choice.work[self.program.choices >> choice.register & 1]
        return sum(choice.work[int(bits) >> choice.register & 1] - expected for bits in reported)

    def taken(self, layer: str, reported: Iterable[int]) -> tuple[bool, ...] | None:
        """For each sample whether there was more than the threshold; None of a layer that has one way."""
        choice = self.choices.get(layer)
        return None if choice is None else tuple(bool(int(bits) >> choice.register & 1) for bits in reported)


def program_operations(program: Program) -> Iterator[KernelOperation]:
    """All operations of the starts of a sample."""
    for step in program.steps:
        if isinstance(step, LaunchStep):
            yield from step.operations


def work_of(config: KernelConfig, descriptor: Descriptor, clocks: int, choices: int) -> int:
    """Clocks of an operation, none of one that is skipped. choices: what the registers report."""
    return clocks if not config.count_registers or runs(descriptor, choices) else 0
