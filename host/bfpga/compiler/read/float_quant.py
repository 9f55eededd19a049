"""Quantizers to small floating-point formats: FloatQuant of QONNX for weights, and what of them cannot be read.

A value is rounded to a mantissa of some bits at its own exponent, not below the least one, and limited. Source: the
operator descriptions of the `qonnx` package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.compiler.read.qonnx import DOMAINS, OPERATORS
from bfpga.errors import ModelError
from bfpga.formats.files import printable

Constants = Mapping[str, npt.NDArray[np.generic]]
ROUNDINGS: dict[str, np.ufunc] = {"ROUND": np.rint, "CEIL": np.ceil, "FLOOR": np.floor}
#: Types that ONNX Runtime rounds nothing to.
WEIGHTS_ONLY = tuple(getattr(TensorProto, name, -1) for name in ("FLOAT4E2M1", "FLOAT8E8M0"))


def with_float_weights(model: ModelProto, constants: Constants, path: str | Path) -> ModelProto:
    """The model whose FloatQuant operators of constants are their results; itself if it has none.

    ModelError for those of computed values, for other operators of QONNX's domains that are not known, and for
    quantizers of computed values to four bits of floating point or by blocks with constant scales.
    """
    for node in model.graph.node:
        _check(node, constants, path)
    if not any(node.op_type == "FloatQuant" for node in model.graph.node):
        return model
    result = copied(model)
    nodes = []
    for node in result.graph.node:
        if node.op_type == "FloatQuant" and node.domain in DOMAINS:
            result.graph.initializer.append(numpy_helper.from_array(_rounded(node, constants), node.output[0]))
        else:
            nodes.append(node)
    replace_nodes(result, nodes)
    return result


def _check(node: NodeProto, constants: Constants, path: str | Path) -> None:
    name = f"{path}: {node.op_type} {printable(node.name)}".rstrip()
    if node.domain in DOMAINS and node.op_type not in (*OPERATORS, "FloatQuant"):
        known = ", ".join((*OPERATORS, "FloatQuant"))
        raise ModelError(f"{name}: an operator of {node.domain} that is not known; known are {known}")
    given = attributes_of(node)
    if node.op_type == "FloatQuant":
        if not all(name in constants for name in node.input):
            raise ModelError(f"{name}: values rounded to a floating-point format must be weights; these are computed")
        if given.get("rounding_mode", b"ROUND").decode().upper() not in ROUNDINGS or not given.get("saturation", 1):
            raise ModelError(f"{name}: it must saturate, and round by {', '.join(ROUNDINGS)}")
    if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
        if _type(node, given, constants) in WEIGHTS_ONLY:
            raise ModelError(f"{name}: only weights may be of four-bit floating point; its input is computed")
        if given.get("block_size", 0) and node.input[1] in constants:
            raise ModelError(
                f"{name}: block_size {given['block_size']}: constant scales state the batch that it runs with; values "
                "that layers compute need scales for blocks that are computed too, or scales without blocks"
            )


def _type(node: NodeProto, given: Mapping[str, Any], constants: Constants) -> int:
    """The type that a QuantizeLinear states, by its attribute or its zero point; 0 for none."""
    if len(node.input) > 2 and node.input[2] in constants:
        return int(helper.np_dtype_to_tensor_dtype(constants[node.input[2]].dtype))
    return int(given.get("output_dtype", 0))


def _rounded(node: NodeProto, constants: Constants) -> npt.NDArray[np.float32]:
    values, scale, exponent_bits, mantissa_bits, bias, largest = (
        np.asarray(constants[name], np.float32) for name in node.input[:6]
    )
    mode = attributes_of(node).get("rounding_mode", b"ROUND").decode().upper()
    scaled = values / scale
    exponents = np.floor(np.log2(np.abs(scaled) + np.finfo(np.float32).tiny)) - mantissa_bits
    steps = np.exp2(np.maximum(exponents, 1 - bias - mantissa_bits))
    top = np.minimum((2 - 2.0**-mantissa_bits) * 2.0 ** (2**exponent_bits - 1 - bias), largest)
    return np.asarray(np.clip(steps * ROUNDINGS[mode](scaled / steps), -top, top) * scale, np.float32)
