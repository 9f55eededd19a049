"""Factors that are computed (the scale of an excitation block, gates): they take the place of a layer's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bfpga.contract.descriptor import LeadRule, Operation
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, Program
from bfpga.devices.values import Values
from bfpga.engines.array.streams import pack_parameters, pack_weights
from bfpga.engines.registry import COMPUTE
from bfpga.formats.block_float import encode_samples


def factor_block(node: ArrayNode, values: Values) -> BlockTensor:
    """The factors of every sample, (samples, 1, 1, channels), in the weights' symmetric range."""
    program = values.program
    symmetric = replace(program.config.format, saturation="sym")
    numbers = values.on_host(node.factors).reshape(values.samples, 1, 1, node.channels)
    return BlockTensor(*encode_samples(numbers, symmetric, program.tensors[node.factors].input_exponent))


def scaled_layers(program: Program) -> dict[str, ArrayNode]:
    """Layers whose weights are factors, by name."""
    return {node.name: node for node in program.nodes if isinstance(node, ArrayNode) and node.factors}


def with_factors(
    operations: Sequence[KernelOperation], layers: Mapping[str, ArrayNode], values: Values
) -> list[KernelOperation]:
    """The operations of a start with the weights of the one sample of ``values``, bins where its results will be."""
    filled: dict[str, ArrayNode] = {}
    return [
        _with_factors(operation, layers[operation.layer], values, filled) if operation.layer in layers else operation
        for operation in operations
    ]


def _with_factors(
    operation: KernelOperation, node: ArrayNode, values: Values, filled: dict[str, ArrayNode]
) -> KernelOperation:
    if node.name not in filled:
        block = factor_block(node, values)
        weights = block.mantissa.reshape(node.channels, 1, 1, 1)
        exponents = block.exponent.repeat(node.channels)
        filled[node.name] = replace(node, weights=weights, weight_exponents=exponents)
    layer, config = filled[node.name], values.program.config
    if operation.descriptor.operation == Operation.WEIGHTS:
        assert operation.channels is not None
        channels = operation.channels
        data = pack_parameters(layer, config, *channels) + pack_weights(layer, config, *channels)
        return replace(operation, weights=data)
    follows = operation.descriptor.lead_rule != LeadRule.LEAD and node.function.row.unit != "table"
    if operation.descriptor.operation not in COMPUTE or not follows:
        return operation
    assert layer.weight_exponents is not None
    base = node.policy.base + int(layer.weight_exponents[0])
    return replace(operation, descriptor=replace(operation.descriptor, position_base=base))
