"""Operands that an operator cannot have, where ONNX's inference of shapes accepts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy.typing as npt
from onnx import NodeProto, TensorProto, defs, helper

from bfpga.compiler.read.graphs import attributes_of

Shape = tuple[int, ...]


class Operands:
    """What is known of the operands of a node: whole shapes with a batch of None, and names of types."""

    def __init__(
        self, node: NodeProto, shapes: Mapping[str, Shape], constants: Mapping[str, npt.NDArray[Any]],
        types: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.node, self.attributes = node, attributes_of(node)
        self._shapes, self._constants, self._types = shapes, constants, types

    def shape(self, place: int) -> tuple[int | None, ...] | None:
        """The shape of an input; None if it is left out or not known."""
        name = self.node.input[place] if place < len(self.node.input) else ""
        if name in self._constants:
            return tuple(self._constants[name].shape)
        return (None, *self._shapes[name]) if name in self._shapes else None

    def type(self, place: int) -> str | None:
        """The type of an input as schemas write it; None if it is not known."""
        name = self.node.input[place]
        if name in self._constants:
            kind: int = helper.np_dtype_to_tensor_dtype(self._constants[name].dtype)
        else:
            kind = self._types.get(name, 0)
        return f"tensor({TensorProto.DataType.Name(kind).lower()})" if kind and name else None


def problems(operands: Operands, opset: int) -> Iterator[str]:
    """What is wrong with the operands of a node of the standard domain."""
    yield from _type_problems(operands, opset)
    rule = _RULES.get(operands.node.op_type)
    if rule is not None:
        yield from rule(operands)


@cache
def _accepted(operator: str, opset: int) -> tuple[tuple[str, frozenset[str] | None, bool], ...]:
    """For each input of an operator: its type variable, the types it may have, and whether more of its kind follow."""
    try:
        schema = defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        return ()
    allowed = {item.type_param_str: frozenset(item.allowed_type_strs) for item in schema.type_constraints}
    several = defs.OpSchema.FormalParameterOption.Variadic
    return tuple((item.type_str, allowed.get(item.type_str), item.option == several) for item in schema.inputs)


def _type_problems(operands: Operands, opset: int) -> Iterator[str]:
    inputs = _accepted(operands.node.op_type, opset)
    seen: dict[str, str] = {}
    for place in range(len(operands.node.input)):
        if not inputs or (place >= len(inputs) and not inputs[-1][2]):
            return
        variable, allowed, several = inputs[min(place, len(inputs) - 1)]
        kind = operands.type(place)
        if kind is None or allowed is None:
            continue
        if kind not in allowed:
            yield f"input {operands.node.input[place]} is of type {kind}, which the operator does not take"
        elif not several and seen.setdefault(variable, kind) != kind:
            yield f"input {operands.node.input[place]} is of type {kind}, {seen[variable]} is right, as of its first"


def _convolution(operands: Operands) -> Iterator[str]:
    image, weights, bias = operands.shape(0), operands.shape(1), operands.shape(2)
    group = int(operands.attributes.get("group", 1))
    transposed = operands.node.op_type == "ConvTranspose"
    if image is None or weights is None:
        return
    if len(image) != len(weights) or len(weights) < 3:
        yield f"its weights have {len(weights)} axes, its input has {len(image)}"
        return
    if weights[0] is None or weights[1] is None:
        yield "its weights are computed from the samples, each of which would have its own"
        return
    wanted = weights[0] if transposed else weights[1] * group
    if wanted != image[1]:
        yield f"it has weights for {wanted} channels, its input has {image[1]}"
    if weights[0] % group:
        yield f"{weights[0]} channels cannot be shared by {group} groups"
    outputs = weights[1] * group if transposed else weights[0]
    if bias is not None and bias != (outputs,):
        yield f"its bias has shape {bias}, {(outputs,)} is right"
    kernel = tuple(operands.attributes.get("kernel_shape", weights[2:]))
    if kernel != weights[2:]:
        yield f"kernel_shape is {kernel}, its weights have {weights[2:]}"


def _gemm(operands: Operands) -> Iterator[str]:
    first, second, third = operands.shape(0), operands.shape(1), operands.shape(2)
    if first is None or second is None:
        return
    if len(first) != 2 or len(second) != 2:
        yield f"its operands have {len(first)} and {len(second)} axes, 2 are right"
        return
    rows, inner = first[::-1] if operands.attributes.get("transA", 0) else first
    other, columns = second[::-1] if operands.attributes.get("transB", 0) else second
    if inner is not None and other is not None and inner != other:
        yield f"its first operand has rows of {inner} values, its second operand columns of {other}"
    if third is not None and not _spreads(third, (rows, columns)):
        yield f"its third operand has shape {third}, which does not spread over {columns} columns"


def _spreads(shape: tuple[int | None, ...], target: tuple[int | None, ...]) -> bool:
    pairs = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(size in (1, None, wanted) or wanted is None for size, wanted in pairs)


def _transpose(operands: Operands) -> Iterator[str]:
    shape, perm = operands.shape(0), operands.attributes.get("perm")
    if shape is not None and perm is not None and sorted(perm) != list(range(len(shape))):
        yield f"perm is {list(perm)}, the axes 0 to {len(shape) - 1} in some order are right"


def _recurrent(operands: Operands) -> Iterator[str]:
    hidden = operands.attributes.get("hidden_size")
    if hidden is None:
        return
    directions = 2 if operands.attributes.get("direction") == b"bidirectional" else 1
    rows = _GATES[operands.node.op_type] * hidden
    wanted = {
        "weights": (1, (directions, rows, None)),
        "recurrence weights": (2, (directions, rows, hidden)),
        "biases": (3, (directions, 2 * rows)),
    }
    for name, (place, right) in wanted.items():
        shape = operands.shape(place)
        if shape is not None and not _is_shape(shape, right):
            text = ", ".join("channels of its input" if size is None else str(size) for size in right)
            yield f"its {name} have shape {shape}, ({text}) is right"


def _is_shape(shape: tuple[int | None, ...], target: tuple[int | None, ...]) -> bool:
    pairs = zip(shape, target, strict=False)
    return len(shape) == len(target) and all(size is None or wanted in (None, size) for size, wanted in pairs)


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_RULES: dict[str, Callable[[Operands], Iterator[str]]] = {
    "Conv": _convolution, "ConvTranspose": _convolution, "Gemm": _gemm, "Transpose": _transpose,
    **dict.fromkeys(_GATES, _recurrent),
}  # fmt: skip
