"""Products of two activations (attention): the second operand takes the place of the weights, matrix by matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import BlockTensor, MatMulNode, MatMulStep, Program, Tile
from bfpga.formats.block_float import decode, encode_samples

HostArray = npt.NDArray[Any]


class MatMulOperands(NamedTuple):
    """Operands of every matrix of a batch in block floating point, one exponent a matrix, sample by sample.

    first: (matrices, rows, 1, inner); second: (matrices, 1, columns, inner) in the weights' symmetric range.
    """

    first: BlockTensor
    second: BlockTensor


def encode_operands(node: MatMulNode, first: HostArray, second: HostArray, program: Program) -> MatMulOperands:
    """Encode host values: first (samples, ..., rows, inner), second (samples, ..., inner, columns)."""
    fmt, specs = program.config.format, [program.tensors[name] for name in node.inputs]
    rows = first.reshape(-1, node.rows, 1, node.inner)
    columns = second.reshape(-1, node.inner, node.columns).transpose(0, 2, 1)[:, None]
    symmetric = replace(fmt, saturation="sym")
    return MatMulOperands(
        BlockTensor(*encode_samples(rows, fmt, specs[0].input_exponent)),
        BlockTensor(*encode_samples(columns, symmetric, specs[1].input_exponent)),
    )


def matrix_tiles(program: Program, index: int, node: MatMulNode) -> list[Tile]:
    """Order in which the schedule computes one matrix of ``nodes[index]``; none: the whole at once."""
    tiles: list[Tile] = []
    for step in program.steps:
        if not isinstance(step, MatMulStep) or step.node != index:
            continue
        y0 = y1 = 0
        for operation in step.operations:
            if operation.descriptor.operation == Operation.LOAD and operation.transfer is not None:
                y0, y1 = operation.transfer.y0, operation.transfer.y1
            elif operation.descriptor.operation == Operation.GEMM and not operation.descriptor.flags & Flag.MEASURE:
                m0 = tiles[-1].m1 % node.columns if tiles else 0
                tiles.append(Tile(y0, y1, m0, m0 + operation.descriptor.output_rows))
    return tiles


def decode_product(node: MatMulNode, product: BlockTensor, program: Program) -> HostArray:
    """Matrices (samples * batch, rows, 1, columns) as the host value (samples, *onnx_shape) float32."""
    shape = program.tensors[node.output].onnx_shape or (node.batch, node.rows, node.columns)
    return decode(product.mantissa, product.exponent).astype(np.float32, copy=False).reshape(-1, *shape)
