"""The schedule of an operation for any weights: descriptors once for its shapes, bytes of weights whenever they change.

A training step multiplies with other weights every time. The schedule is made with placeholders in the weights' stead
that mark which tile belongs there; real weights take their places.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.table_plan import keep_table, place_tables
from bfpga.compiler.schedule.weight_plan import NodeWeights, WeightTile, plan_weights, setup_launch, weights_operation
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, KernelOperation, TensorSpec
from bfpga.dynamic_graph.calls import RESULT
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.kernel.descriptors import output_stage
from bfpga.engines.kernel.streams import pack_weights
from bfpga.program.cycles import operation_clocks

#: Bytes of a placeholder: the tile's number.
_MARK = 4
#: Where a parameter row has its exponent, which numbers the tile.
_ROW_EXPONENT = slice(4, 6)

Refill = Callable[[KernelOperation], KernelOperation]


@dataclass(eq=False)
class CallSchedule:
    """Kernel operations of a layer with placeholders for weights.

    node: the layer they were made for. setup: loads the resident weights; starts: the kernel starts that follow.
    """

    node: ArrayNode
    config: KernelConfig
    tensors: dict[str, TensorSpec]
    plan: NodeWeights
    setup: list[KernelOperation]
    starts: list[list[KernelOperation]]

    @cached_property
    def brings_tables(self) -> bool:
        """Whether its function is by a table that is loaded."""
        return any(operation.descriptor.operation == Operation.TABLE for operation in self.setup)

    @cached_property
    def setup_clocks(self) -> int:
        """Clocks of loading the resident weights."""
        return sum(operation_clocks(self.config, operation) for operation in self.setup)

    @cached_property
    def clocks(self) -> int:
        """Clocks of the starts."""
        return sum(operation_clocks(self.config, operation) for start in self.starts for operation in start)

    def bind(self, node: ArrayNode) -> CompiledCall:
        """The operations with the weights of ``node``, a layer of the same shapes."""
        policy = replace(self.node.policy, base=node.policy.base)
        return CompiledCall(replace(node, policy=policy, tiles=self.node.tiles), self)

    def filled(self, node: ArrayNode, operations: list[KernelOperation]) -> list[KernelOperation]:
        """Operations of the schedule with the weights and numbers of a node."""
        refill = self._refill(node)
        return [refill(operation) for operation in operations]

    def _refill(self, node: ArrayNode) -> Refill:
        plan = NodeWeights(self.plan.mode, self.plan.tiles)

        def refill(operation: KernelOperation) -> KernelOperation:
            if operation.descriptor.operation == Operation.WEIGHTS:
                tile = plan.tiles[int(np.frombuffer(operation.weights[_ROW_EXPONENT], "<i2")[0])]
                return weights_operation(node, plan, tile, self.config)
            if operation.descriptor.operation not in ARRAY_OPERATIONS:
                return operation
            descriptor = copy(operation.descriptor)
            output_stage(node, descriptor)
            keep_table(operation.descriptor, descriptor)
            return replace(operation, descriptor=descriptor, weights=self._streamed(node, plan, operation.weights))

        return refill

    def _streamed(self, node: ArrayNode, plan: NodeWeights, marks: bytes) -> bytes:
        """Weights that come with an operation, as often as its placeholder does."""
        if not marks:
            return b""
        tile = plan.tiles[int.from_bytes(marks[:_MARK], "little")]
        key = (tile.m0, tile.m1)
        if key not in plan.packed:
            plan.packed[key] = pack_weights(node, self.config, *key)
        return plan.packed[key] * (len(marks) // _MARK)


@dataclass(eq=False)
class CompiledCall:
    """An operation ready to run; two objects are the same only if they are one.

    Weights are packed when a kernel first asks for them; the emulator never does.
    """

    node: ArrayNode
    schedule: CallSchedule

    @property
    def takes_weights(self) -> bool:
        """Whether the operation puts weights or a table of its own into the kernel's memories."""
        return self.node.kind == "gemm" or self.schedule.brings_tables

    @cached_property
    def setup(self) -> list[KernelOperation]:
        """Loads the resident weights."""
        return self.schedule.filled(self.node, self.schedule.setup)

    @cached_property
    def starts(self) -> list[list[KernelOperation]]:
        """The kernel starts that follow, in order."""
        return [self.schedule.filled(self.node, start) for start in self.schedule.starts]


def schedule_call(node: ArrayNode, tensors: dict[str, TensorSpec], config: KernelConfig) -> CallSchedule:
    """The schedule of a layer. ModelError if the memories cannot hold even a part of it."""
    marked = node.unscheduled()
    plans = plan_weights([marked], config)
    plan = plans[marked.name]
    if marked.weight_exponents is not None:
        marked.weight_exponents = _tile_numbers(plan.tiles, marked.channels)
        plan.packed = {(tile.m0, tile.m1): number.to_bytes(_MARK, "little") for number, tile in enumerate(plan.tiles)}
    steps = Scheduler(config, tensors, [marked], plans, {RESULT}).run()
    setup = setup_launch([marked], plans, config)
    place_tables(setup, steps, config)
    return CallSchedule(marked, config, tensors, plan, setup.operations, [step.operations for step in steps])


def _tile_numbers(tiles: list[WeightTile], channels: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    numbers = np.zeros(channels, np.int32)
    for number, tile in enumerate(tiles):
        numbers[tile.m0 : tile.m1] = number
    return numbers
