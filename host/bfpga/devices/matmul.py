"""Products of two activations (attention): the second operand takes the place of the weights, matrix by matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.formats.block_float import decode, encode_samples
from bfpga.network.program import BlockTensor, MatMulNode, Program

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


def decode_product(node: MatMulNode, product: BlockTensor, program: Program) -> HostArray:
    """Matrices (samples * batch, rows, 1, columns) as the host value (samples, *onnx_shape) float32."""
    shape = program.tensors[node.output].onnx_shape or (node.batch, node.rows, node.columns)
    return decode(product.mantissa, product.exponent).astype(np.float32, copy=False).reshape(-1, *shape)
