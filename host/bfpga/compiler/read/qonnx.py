"""Quantizers of QONNX (Brevitas, FINN) in standard operators, with the bits that their definition gives.

Quant: round(clip(x / scale + zero point)), times scale again. BipolarQuant: the sign, times scale. Trunc: as Quant,
with the lowest bits dropped. Sources: the operator descriptions of the `qonnx` package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Domains of these operators, in the order of their history.
DOMAINS = ("finn.custom_op.general", "onnx.brevitas", "qonnx.custom_op.general")
#: Domain of operators whose channels are last.
CHANNELS_LAST = "qonnx.custom_op.channels_last"
OPERATORS = ("Quant", "IntQuant", "BipolarQuant", "Trunc")
#: Rounding modes, in standard operators from a value; the first two are the same.
ROUNDINGS: dict[str, tuple[str, ...]] = {
    "ROUND": ("Round",), "HALF_EVEN": ("Round",), "CEIL": ("Ceil",), "FLOOR": ("Floor",),
    "DOWN": ("Floor", "sign"), "UP": ("Ceil", "sign"), "HALF_UP": ("+Floor", "sign"), "HALF_DOWN": ("-Ceil", "sign"),
}  # fmt: skip
#: Widest integers of a quantizer: of biases, whose steps float32 no longer resolves.
MOST_BITS = 64

Constants = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Quantizer:
    """The numbers of one quantizer. divided: by how much a Trunc divides; 1 for others. low, high: of its integers."""

    kind: str
    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.float32]
    low: float
    high: float
    rounding: str = "ROUND"
    divided: float = 1.0
    output_scale: npt.NDArray[np.float32] | None = None
    bits: float = 0.0


def is_quantizer(node: NodeProto) -> bool:
    return node.op_type in OPERATORS and node.domain in DOMAINS


def quantizer_of(node: NodeProto, constants: Constants, path: str | Path) -> Quantizer:
    """The numbers of a quantizer; ModelError for some that are computed, and for what QONNX does not define."""

    def refused(reason: str) -> ModelError:
        return ModelError(f"{path}: quantizer {printable(node.name) or node.op_type} ({node.op_type}): {reason}")

    missing = [name for name in node.input[1:] if name not in constants]
    if missing:
        raise refused(f"{printable(missing[0])} is computed; scale, zero point and bits must be constants")
    wanted = {"BipolarQuant": (2,), "Trunc": (5, 6)}.get(node.op_type, (4,))
    if len(node.input) not in wanted:
        raise refused(f"it has {len(node.input)} inputs; {' or '.join(map(str, wanted))} are needed")
    numbers = [np.asarray(constants[name], np.float32) for name in node.input[1:]]
    scale = numbers[0]
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise refused("its scale is not a positive number")
    if node.op_type == "BipolarQuant":
        return Quantizer("bipolar", scale, np.zeros((), np.float32), -1, 1)
    given = attributes_of(node)
    rounding = given.get("rounding_mode", b"FLOOR" if node.op_type == "Trunc" else b"ROUND").decode().upper()
    if rounding not in ROUNDINGS:
        raise refused(f"rounding_mode {printable(rounding)} is unknown; known are {', '.join(ROUNDINGS)}")
    bits = float(numbers[-1].reshape(-1)[0]) if numbers[-1].size else 0.0
    if not 1 <= bits <= MOST_BITS or not (numbers[-1] == bits).all():
        raise refused(f"it has {bits:g} bits; 1 to {MOST_BITS}, the same for all values, are possible")
    signed, narrow = bool(given.get("signed", 1)), bool(given.get("narrow", node.op_type != "Trunc"))
    low = -(2.0 ** (bits - 1)) + narrow if signed else 0.0
    high = 2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1 - narrow
    if node.op_type != "Trunc":
        if bits == 1 and signed:
            return Quantizer("bipolar", scale, numbers[1], -1, 1)
        return Quantizer("uniform", scale, numbers[1], low, high, rounding)
    if len(numbers) == 4:
        divided = 2.0 ** (float(numbers[2].reshape(-1)[0]) - bits)
        return Quantizer("truncated", scale, numbers[1], -np.inf, np.inf, rounding, divided, bits=bits)
    divided = 2.0 ** float(np.round(np.log2(float(numbers[3].max()) / float(scale.max()))))
    return Quantizer("truncated", scale, numbers[1], low, high, rounding, divided, numbers[3])


def in_standard_operators(
    model: ModelProto, constants: Constants, path: str | Path, weights_only: bool = False
) -> ModelProto:
    """The model with each quantizer of QONNX written out; the model itself if it has none.

    weights_only: leave those whose input is computed.
    """
    chosen = [
        is_quantizer(node) and (node.input[0] in constants or not weights_only) for node in model.graph.node
    ]
    if not any(chosen):
        return model
    result = copied(model)
    nodes: list[NodeProto] = []
    for node, written in zip(model.graph.node, chosen, strict=True):
        if written:
            nodes += _written_out(node, quantizer_of(node, constants, path), result, constants.get(node.input[0]))
        else:
            nodes.append(node)
    replace_nodes(result, nodes)
    return result


def limited_integers(model: ModelProto, constants: Constants, path: str | Path) -> list[str]:
    """A note for weights that are stored as integers, and which their quantizers therefore limit for the most part."""
    found = []
    for node in filter(is_quantizer, model.graph.node):
        weights = constants.get(node.input[0])
        if weights is None or weights.dtype.kind not in "iu":
            continue
        quantizer = quantizer_of(node, constants, path)
        steps = weights.astype(np.float64) / quantizer.scale + quantizer.zero_point
        if np.mean((steps < quantizer.low - 1) | (steps > quantizer.high + 1)) > 0.25:
            found.append(printable(node.output[0]))
    if not found:
        return []
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [
        f"{found[0]}{others}: a quantizer of weights reads integers and limits many of them, as if whoever wrote the "
        "file had not multiplied them by its scale; they are taken as QONNX defines it"
    ]


def _written_out(
    node: NodeProto, quantizer: Quantizer, model: ModelProto, weights: npt.NDArray[np.generic] | None
) -> list[NodeProto]:
    """weights: what it quantizes, where that is a constant; of whatever type (bytes represent integers)."""
    nodes: list[NodeProto] = []
    base = node.output[0]

    def constant(value: Any, kind: type = np.float32) -> str:
        name = f"{base}/number{len(model.graph.initializer)}"
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(kind: str, *inputs: str) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"{base}/step{len(nodes)}"], name=f"{base}/{kind}{len(nodes)}"))
        return str(nodes[-1].output[0])

    plain = weights is None or weights.dtype == np.float32
    x, scale = node.input[0] if plain else constant(weights), quantizer.scale
    if quantizer.kind == "bipolar":
        shifted = add("Add", add("Div", x, constant(scale)), constant(quantizer.zero_point))
        positive = add("Not", add("Less", shifted, constant(0)))
        y = add("Where", positive, constant(1), constant(-1))
        zero_point, output_scale = quantizer.zero_point, scale
    else:
        y = add("Add", add("Div", x, constant(scale)), constant(quantizer.zero_point))
        zero_point, output_scale = quantizer.zero_point, scale
        if quantizer.kind == "truncated":
            y = add("Div", add("Round", y), constant(quantizer.divided))
        if np.isfinite(quantizer.low):
            y = add("Clip", y, constant(quantizer.low), constant(quantizer.high))
        y = _rounded(y, quantizer.rounding, add, constant)
        if quantizer.output_scale is not None:
            zero_point, output_scale = zero_point / np.float32(quantizer.divided), quantizer.output_scale
    add("Mul", add("Sub", y, constant(zero_point)), constant(output_scale))
    nodes[-1].output[0] = node.output[0]
    return nodes


def _rounded(y: str, mode: str, add: Callable[..., str], constant: Callable[..., str]) -> str:
    """Rounding in standard operators; those that treat both signs alike round the magnitude."""
    kind, *signed = ROUNDINGS[mode]
    magnitude = add("Abs", y) if signed else y
    if kind[0] in "+-":
        magnitude = add("Add", magnitude, constant(0.5 if kind[0] == "+" else -0.5))
    result = add(kind.lstrip("+-"), magnitude)
    return add("Mul", add("Sign", y), result) if signed else result
