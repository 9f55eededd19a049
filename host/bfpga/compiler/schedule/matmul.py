"""Products of two activations: the second operand is sent as weights, one kernel start for each matrix."""

from __future__ import annotations

import numpy as np

from bfpga.compiler.schedule.node_operations import load_operation, store_operation
from bfpga.compiler.schedule.weight_plan import NodeWeights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation, Policy
from bfpga.contract.program import (
    ArrayNode,
    KernelOperation,
    MatMulNode,
    MatMulStep,
    TensorSpec,
    Tile,
    Window,
)
from bfpga.engines.kernel.descriptors import (
    compute_descriptor,
    computed_use,
    weights_descriptor,
)
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.regions import ActivationMemory
from bfpga.engines.skip_array.activations import order_is_seen
from bfpga.errors import ModelError
from bfpga.formats.arrays import IntArray


def matmul_reserve(nodes: list[MatMulNode], config: KernelConfig) -> tuple[int, int]:
    """Weight words and parameter rows to keep free: the largest second operand, at most half of the memory."""
    words = rows = 0
    for node in nodes:
        block = -(-node.inner // config.lanes)
        blocks = -(-node.columns // config.rows)
        words = max(words, max(block, min(block * blocks, config.weight_words // 2)))
        rows = max(rows, max(config.rows, min(blocks * config.rows, config.parameter_rows // 2)))
    return words, rows


def product_node(node: MatMulNode, mantissas: IntArray | None = None, exponent: int = 0) -> ArrayNode:
    """One matrix of the product as a fully connected layer over its rows.

    mantissas: (inner, columns) of the second operand, zeros if left out; exponent: theirs.
    """
    values = np.zeros((node.inner, node.columns), np.int32) if mantissas is None else mantissas
    weights = np.ascontiguousarray(values.T).reshape(node.columns, 1, 1, node.inner)
    return ArrayNode(
        node.name, "gemm", (node.inputs[0],), node.output, node.columns, Window(output_height=node.rows),
        weights=weights, weight_exponents=np.full(node.columns, exponent, np.int32), policy=node.policy,
    )


def matmul_step(index: int, node: MatMulNode, config: KernelConfig, plans: dict[str, NodeWeights]) -> MatMulStep:
    """Operations of one matrix: LOAD, WEIGHTS, GEMM, STORE; strips of rows and tiles of columns where needed."""
    resident = [tile for plan in plans.values() if plan.mode == "resident" for tile in plan.tiles]
    word = max((tile.weight_base + tile.words for tile in resident), default=0)
    row = max((tile.parameter_base + tile.rows for tile in resident), default=0)
    return MatMulStep(index, _Product(node, config, word, row).operations())


class _Product:
    def __init__(self, node: MatMulNode, config: KernelConfig, word: int, row: int) -> None:
        self.node, self.config, self.word, self.row = node, config, word, row
        self.array = product_node(node)
        self.spec = TensorSpec(node.inputs[0], node.rows, 1, node.inner)
        block = -(-node.inner // config.lanes)
        blocks = min((config.weight_words - word) // block, (config.parameter_rows - row) // config.rows)
        blocks = min(blocks, 1) if order_is_seen(self.array, config) else blocks
        width = blocks * config.rows
        if width == 0:
            raise ModelError(f"{node.name}: no weight memory is left for its second operand of {block} words a block")
        self.tiles = [(m, min(m + width, node.columns)) for m in range(0, node.columns, width)]
        self.block = block
        self.strip = self._strip_rows()

    def _strip_rows(self) -> int:
        for parts in range(1, self.node.rows + 1):
            rows = -(-self.node.rows // parts)
            memory = ActivationMemory(self.config)
            first = memory.place("a", (0, rows), 1, 1, self.node.inner)
            if first and memory.place("b", (0, rows), 1, 1, self.node.columns):
                return rows
        raise ModelError(f"{self.node.name}: one row of its operands does not fit the activation memory")

    def operations(self) -> list[KernelOperation]:
        """Measure first where the policy requires it, then compute."""
        result: list[KernelOperation] = []
        policy = self.node.policy
        if len(self.tiles) == 1:
            result.append(self._weights(*self.tiles[0]))
        predicted = policy.policy not in (Policy.STATIC, Policy.MAX)
        if policy.policy == Policy.MAX or (predicted and not policy.preset):
            result += self._phase(Flag.MEASURE, predicted)
        result += self._phase(Flag.NONE, False)
        stores = [operation for operation in result if operation.descriptor.operation == Operation.STORE]
        stores[-1].descriptor.flags |= int(Flag.END_PACKET)
        return result

    def _weights(self, m0: int, m1: int) -> KernelOperation:
        blocks = -(-(m1 - m0) // self.config.rows)
        rows = blocks * self.config.rows
        return KernelOperation(self.node.name, weights_descriptor(self.word, blocks * self.block, self.row, rows))

    def _phase(self, flags: Flag, first_only: bool) -> list[KernelOperation]:
        name, node, config = self.node.name, self.node, self.config
        result: list[KernelOperation] = []
        for y0 in range(0, node.rows, self.strip):
            y1 = min(y0 + self.strip, node.rows)
            memory = ActivationMemory(config)
            source = memory.place(node.inputs[0], (y0, y1), 1, 1, node.inner)
            target = memory.place(node.output, (y0, y1), 1, 1, node.columns)
            assert source is not None
            assert target is not None
            result.append(load_operation(config, name, source))
            for m0, m1 in self.tiles:
                if len(self.tiles) > 1:
                    result.append(self._weights(m0, m1))
                place = Placement(
                    self.array, self.spec, [source], target, Tile(y0, y1, m0, m1), self.word, self.row, flags=flags
                )
                used = computed_use(config, place)
                result.append(KernelOperation(name, compute_descriptor(config, place), memory=used))
            if not flags & Flag.MEASURE:
                result.append(store_operation(config, name, target))
        products = [operation for operation in result if operation.descriptor.operation == Operation.GEMM]
        products[0].descriptor.flags |= int(Flag.FIRST)
        if not flags & Flag.MEASURE:
            products[-1].descriptor.flags |= int(Flag.LAST)
        for operation in result:
            operation.first_only = first_only
        return result
