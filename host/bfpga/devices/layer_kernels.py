"""A program layer by layer, each exponent found by the layer's own data or given by the caller (FP 3.7, 4.3).

A layer is a start of the kernel; activations and kept accumulators stay on it from start to start. Accumulators that
its memory does not hold are stored in one start and loaded in the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bfpga.contract.descriptor import Descriptor, Flag, LeadRule, Operation, Policy
from bfpga.contract.program import (
    ArrayNode,
    BlockTensor,
    HostNode,
    KernelOperation,
    LaunchStep,
    Program,
    Transfer,
    own_weights,
)
from bfpga.devices.host import host_function
from bfpga.devices.host_batches import HostFunction
from bfpga.devices.kernel_device import Kernel, make_available
from bfpga.devices.values import HostArray, Values
from bfpga.engines.kernel.accumulators import Accumulate, Accumulated, Block, accumulator_function
from bfpga.engines.kernel.arithmetic import LayerEngine
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.errors import ProgramError
from bfpga.formats.arrays import Int64Array
from bfpga.program.cycles import operation_clocks
from bfpga.program.moved_accumulators import of_word_tensors, parts_by_host, word_tensors

#: What the STORE is called that reads an exponent back.
_EXPONENT = "exponent"


@dataclass(frozen=True)
class LayerRun:
    """What a layer's start gave: the exponent of its results, the clocks of its work, and those that a counter outside
    the kernel measured, where there is one."""

    exponent: int
    clocks: int
    measured: int | None = None

    @property
    def taken(self) -> int:
        """Clocks as exactly as they are known."""
        return self.clocks if self.measured is None else self.measured


class LayerMachine(Protocol):
    """A kernel, real or emulated, with one program whose layers are started one by one."""

    @property
    def program(self) -> Program: ...

    def begin(self, inputs: Mapping[str, BlockTensor]) -> None:
        """Take one sample: tensors by name, (1, height, width, channels)."""
        ...

    def run(self, index: int, exponent: int | None = None) -> LayerRun:
        """Run the next layer; or the last one again. exponent: of its results; by its policy if None."""
        ...

    def accumulators(self, index: int) -> Int64Array:
        """What the last layer kept by the host, (rows, width, channels). FP R43."""
        ...

    def give(self, index: int, accumulators: Int64Array) -> None:
        """The accumulators, of its last rows, that the next layer takes from another kernel."""
        ...

    def outputs(self) -> dict[str, HostArray]:
        """The program's outputs by name (1, ...), after the last layer."""
        ...

    def close(self) -> None:
        """Release the kernel."""
        ...


class LayerStarts:
    """The operations of a program as one start for each layer.

    ProgramError for a program with host operators between its layers, or with products of two activations.
    """

    def __init__(self, program: Program) -> None:
        self.nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
        others = program.nodes[len(self.nodes) :]
        if any(map(own_weights, self.nodes)):
            raise ProgramError(
                f"program {program.name}: its layers cannot run one by one, because some of their weights are computed"
            )
        if not all(isinstance(node, HostNode) for node in others):
            raise ProgramError(
                f"program {program.name}: its layers cannot run one by one, because the host computes between them; "
                "operators of the host may only follow the last layer"
            )
        self.following = [node for node in others if isinstance(node, HostNode)]
        self._operations: list[list[KernelOperation]] = [[] for _ in self.nodes]
        number = {node.name: index for index, node in enumerate(self.nodes)}
        for step in program.steps:
            # What is loaded ahead, while a layer before computes, goes to the layer that reads it.
            for operation in step.operations if isinstance(step, LaunchStep) else ():
                self._operations[number[operation.layer]].append(operation)
        #: Accumulators of each layer that the host keeps for another kernel, or gets from one.
        self.moved = parts_by_host(program)

    def found(self, index: int) -> list[KernelOperation]:
        """A layer whose policy finds the exponent; it is read back with the first word of the results."""
        node, operations = self.nodes[index], self._operations[index]
        stored = any(_stores(operation, node.output) for operation in operations)
        return one_packet([*operations] if stored else [*operations, _exponent_store(node, operations)])

    def with_exponent(self, index: int, exponent: int) -> list[KernelOperation]:
        """The same layer without its measurements, its results with a given exponent; inherited ones stay."""
        operations = [
            item
            for item in self._operations[index]
            if not item.descriptor.flags & Flag.MEASURE and not any(_stores(item, name) for name in self.moved[index])
        ]
        fields = {"policy": int(Policy.STATIC), "output_exponent": exponent, "lead_rule": int(LeadRule.LEAD)}
        return one_packet(
            [
                replace(item, descriptor=replace(item.descriptor, **fields))
                if item.descriptor.operation in ARRAY_OPERATIONS
                else item
                for item in operations
            ]
        )

    def of(self, index: int, exponent: int | None) -> list[KernelOperation]:
        return self.found(index) if exponent is None else self.with_exponent(index, exponent)


def one_packet(operations: Sequence[KernelOperation]) -> list[KernelOperation]:
    """Operations as a start of their own: its last STORE, and no other one, ends the packet."""
    result = list(operations)
    stores = [index for index, item in enumerate(result) if item.descriptor.operation == Operation.STORE]
    for index in stores:
        descriptor = result[index].descriptor
        flags = descriptor.flags & ~int(Flag.END_PACKET) | (int(Flag.END_PACKET) if index == stores[-1] else 0)
        result[index] = replace(result[index], descriptor=replace(descriptor, flags=flags))
    return result


def complete_inputs(operations: Sequence[KernelOperation]) -> list[list[KernelOperation]]:
    """Operations as starts that load nothing that they store: what a start reads is there when it begins."""
    starts: list[list[KernelOperation]] = [[]]
    for operation in operations:
        loaded = operation.transfer if operation.descriptor.operation == Operation.LOAD else None
        if loaded is not None and any(_stores(before, loaded.tensor) for before in starts[-1]):
            starts.append([])
        starts[-1].append(operation)
    return [one_packet(start) for start in starts]


def _stores(operation: KernelOperation, tensor: str) -> bool:
    transfer = operation.transfer
    return operation.descriptor.operation == Operation.STORE and transfer is not None and transfer.tensor == tensor


def _exponent_store(node: ArrayNode, operations: Sequence[KernelOperation]) -> KernelOperation:
    """STORE of one word of what the layer's last operation wrote: the header before it is the exponent."""
    done = [item.descriptor for item in operations if item.descriptor.operation in ARRAY_OPERATIONS][-1]
    store = Descriptor(
        operation=int(Operation.STORE), input_slot=done.output_slot, output_pixels=1, output_width=1,
        input_pixel_words=1, input_word=done.output_word, input_bank=done.output_bank,
    )  # fmt: skip
    return KernelOperation(node.name, store, Transfer(_EXPONENT, 0, 1))


class _Layers:
    """What both machines share: one sample's values, and operators of the host after the last layer."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.starts = LayerStarts(program)
        self._host: list[HostFunction] = [host_function(node) for node in self.starts.following]

    def begin(self, inputs: Mapping[str, BlockTensor]) -> None:
        """See ``LayerMachine.begin``."""
        shapes = {name: np.zeros((1, *shape), np.float32) for name, shape in self.program.inputs.items()}
        self.values = Values(self.program, shapes)
        self.values.array.update(inputs)

    def outputs(self) -> dict[str, HostArray]:
        """See ``LayerMachine.outputs``."""
        for node, function in zip(self.starts.following, self._host, strict=True):
            self.values.host.update(function({name: self.values.on_host(name) for name in node.inputs}))
        return self.values.outputs()


class EmulatedLayers(_Layers):
    """The emulator layer by layer; clocks from the cycle model."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        config = program.config
        self._registers = PolicyRegisters(config.policy_slots, config.format)
        #: Nodes of its own: their policies are replaced by given exponents.
        self._nodes = [replace(node) for node in self.starts.nodes]
        self._engines = [
            LayerEngine(node, config, self._registers, self._accumulate(index))
            for index, node in enumerate(self._nodes)
        ]

    def _accumulate(self, index: int) -> Accumulate:
        """A layer's accumulators: those that were given in place of its own ones, and noted if another kernel gets
        them."""
        node, moved = self.starts.nodes[index], self.starts.moved[index]
        accumulate = accumulator_function(node, self.program.config.format)
        if not moved:
            return accumulate

        def moving(inputs: Sequence[Block]) -> Accumulated:
            acc, exponent = accumulate(inputs)
            rows = acc.reshape(node.window.output_height, node.window.output_width, -1)
            if node.policy.policy == Policy.STATIC:
                given = self._moved.pop(index)
                rows[-len(given) :] = given
            else:
                self._moved[index] = np.array(rows, np.int64)
            return Accumulated(rows.reshape(acc.shape), exponent)

        return moving

    def begin(self, inputs: Mapping[str, BlockTensor]) -> None:
        """See ``LayerMachine.begin``."""
        super().begin(inputs)
        self._moved: dict[int, Int64Array] = {}

    def accumulators(self, index: int) -> Int64Array:
        """See ``LayerMachine.accumulators``."""
        return self._moved[index]

    def give(self, index: int, accumulators: Int64Array) -> None:
        """See ``LayerMachine.give``."""
        self._moved[index] = accumulators

    def run(self, index: int, exponent: int | None = None) -> LayerRun:
        """See ``LayerMachine.run``."""
        node, given = self._nodes[index], self.starts.nodes[index].policy
        node.policy = given if exponent is None else replace(given, policy=Policy.STATIC, exponent=exponent)
        blocks = [Block(tensor.mantissa, tensor.exponent) for tensor in map(self.values.on_array, node.inputs)]
        result, _ = self._engines[index].run(blocks)
        self.values.array[node.output] = BlockTensor(*result)
        clocks = sum(operation_clocks(self.program.config, item) for item in self.starts.of(index, exponent))
        return LayerRun(int(result.exponent[0]), clocks)

    def close(self) -> None:
        """Nothing is held open."""


class KernelLayers(_Layers):
    """A kernel layer by layer; clocks as it counted them. Resident weights are loaded when it is made, and again after
    an error."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        super().__init__(program)
        self.kernel = kernel
        self._loaded = False
        self._load()

    def _load(self) -> None:
        if not self._loaded:
            self.kernel.run_operations(self.program.setup.operations, {}, clear_policies=True)
            self._loaded = True

    def begin(self, inputs: Mapping[str, BlockTensor]) -> None:
        """See ``LayerMachine.begin``."""
        self._load()
        super().begin(inputs)

    def run(self, index: int, exponent: int | None = None) -> LayerRun:
        """See ``LayerMachine.run``; DeviceError if the kernel fails."""
        operations = self.starts.of(index, exponent)
        scratch = BlockTensor(np.zeros((1, 1, 1, self.program.config.lanes), np.int32), np.zeros(1, np.int32))
        self.values.array[_EXPONENT] = scratch
        make_available([item for item in operations if item.transfer != Transfer(_EXPONENT, 0, 1)], self.values)
        self._loaded = False
        results = [self.kernel.run_operations(start, self.values.array) for start in complete_inputs(operations)]
        self._loaded = True
        if exponent is None:
            output = self.starts.nodes[index].output
            stored = any(_stores(operation, output) for operation in operations)
            exponent = int((self.values.array[output] if stored else scratch).exponent[0])
        counted = [result.measured.clocks for result in results if result.measured is not None]
        return LayerRun(exponent, sum(result.cycles for result in results), sum(counted) if counted else None)

    def accumulators(self, index: int) -> Int64Array:
        """See ``LayerMachine.accumulators``."""
        node, moved = self.starts.nodes[index], self.starts.moved[index]
        return of_word_tensors(self.values.array, node, moved, self.program.config)

    def give(self, index: int, accumulators: Int64Array) -> None:
        """See ``LayerMachine.give``."""
        self.values.array.update(word_tensors(accumulators, self.starts.moved[index], self.program.config))

    def close(self) -> None:
        """Release the kernel."""
        self.kernel.close()
