"""Factors that are computed (the scale of an excitation block, gates): they take the place of a layer's weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import LeadRule, Operation
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, Program
from bfpga.contract.streams import PARAMETER_ROW
from bfpga.devices.values import Values
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.kernel.streams import pack_parameters, pack_weights
from bfpga.formats.arrays import IntArray


def factor_block(node: ArrayNode, values: Values) -> BlockTensor:
    """The factors of every sample, (samples, 1, 1, channels): the array's mantissas in the weights' symmetric range."""
    tensor, largest = values.on_array(node.factors), values.program.config.format.mantissa_max
    return BlockTensor(np.maximum(tensor.mantissa, -largest).reshape(-1, 1, 1, node.channels), tensor.exponent)


class FactorWeights:
    """Bytes of the weights of one layer's channels [m0, m1) for any factors: each factor's bytes have a known place."""

    def __init__(self, node: ArrayNode, config: KernelConfig, channels: tuple[int, int]) -> None:
        m0, m1 = channels
        self._parameters = np.frombuffer(pack_parameters(node, config, m0, m1), np.uint8)
        self._parameters = self._parameters.reshape(-1, config.weight_stream_bits // 8)
        self._rows = m1 - m0
        self._element = config.weight_container_bits // 8
        # A weight's number is found from weights of 0 and 1, bit by bit of the number.
        numbers = np.arange(1, node.channels + 1)
        found: IntArray = np.zeros(1, np.int64)
        for bit in range(int(node.channels).bit_length()):
            weights = (numbers >> bit & 1).reshape(-1, 1, 1, 1)
            packed = np.frombuffer(pack_weights(replace(node, weights=weights), config, m0, m1), np.uint8)
            found = found + (packed.astype(np.int64) << bit)
        self._places = np.flatnonzero(found)
        self._channels = found[self._places] - 1
        self._bytes = len(found)

    def packed(self, factors: IntArray, exponent: int) -> bytes:
        """What ``pack_parameters`` and ``pack_weights`` give for factors (channels,) of one exponent."""
        rows = self._parameters.copy()
        rows[: self._rows, PARAMETER_ROW["exponent"].octets] = PARAMETER_ROW["exponent"].packed([exponent])
        words = np.zeros(self._bytes, np.uint8)
        met = factors[self._channels]
        for octet in range(self._element):
            words[self._places + octet] = met >> 8 * octet & 255
        return rows.tobytes() + words.tobytes()


class Factors:
    """The layers of a program whose weights are factors: their operations with the weights of a sample."""

    def __init__(self, program: Program) -> None:
        nodes = [node for node in program.nodes if isinstance(node, ArrayNode) and node.factors]
        self._layers = {node.name: node for node in nodes}
        self._config = program.config
        self._weights: dict[tuple[str, tuple[int, int]], FactorWeights] = {}

    def filled(
        self, operations: Sequence[KernelOperation], values: Values, sample: int = 0
    ) -> list[KernelOperation]:
        """The operations of a start with the weights of a sample of ``values``, and bins for its results."""
        if not self._layers:
            return list(operations)
        blocks: dict[str, BlockTensor] = {}
        return [
            self._filled(operation, values, blocks, sample) if operation.layer in self._layers else operation
            for operation in operations
        ]

    def _filled(
        self, operation: KernelOperation, values: Values, blocks: dict[str, BlockTensor], sample: int
    ) -> KernelOperation:
        node, descriptor = self._layers[operation.layer], operation.descriptor
        follows = descriptor.lead_rule != LeadRule.LEAD and node.function.row.unit != "table"
        if operation.channels is None and (descriptor.operation not in ARRAY_OPERATIONS or not follows):
            return operation
        if node.factors not in blocks:
            blocks[node.factors] = factor_block(node, values)
        block = blocks[node.factors]
        exponent = int(block.exponent[sample])
        if descriptor.operation == Operation.WEIGHTS:
            assert operation.channels is not None
            key = node.name, operation.channels
            if key not in self._weights:
                self._weights[key] = FactorWeights(node, self._config, operation.channels)
            return replace(operation, weights=self._weights[key].packed(block.mantissa[sample, 0, 0], exponent))
        return replace(operation, descriptor=replace(descriptor, position_base=node.policy.base + exponent))
