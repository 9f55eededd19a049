"""Factors between the layers of a quantized network, moved into weights, so that quantized values fill the mantissas.

The values of an int8 quantizer are -128 to 127 times a scale that is rarely a power of two. Where only products with
weights read them, the layer that gives them can multiply by any factor and those weights can divide by it: with one
over the scale the mantissas become the very integers of the quantized network; wider integers fill the mantissas.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import nested, replace_nodes, subgraphs
from bfpga.compiler.read.grids import Grid

#: Operators that a positive factor passes.
PASSING = frozenset({"Flatten", "Identity", "MaxPool", "Relu", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
PRODUCTS = ("Conv", "Gemm", "MatMul")
AFFINE = ("Add", "Sub", "Mul", "Div", "BatchNormalization")
#: The largest mantissa of the narrowest usual format.
FULL = 127.0


class _Scaling:
    """The operators, who gives and who reads each value, and the constants."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.nodes = list(model.graph.node)
        self.tensors = {item.name: item for item in model.graph.initializer}
        self.ends = {value.name for value in (*model.graph.input, *model.graph.output)}
        self.givers = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(node)
        inner = [child for node in self.nodes for graph in subgraphs(node) for child in nested(graph.node)]
        self.ends |= {name for child in inner for name in child.input}

    def scalar(self, name: str) -> float | None:
        """A constant of one positive number."""
        if name not in self.tensors:
            return None
        values = numpy_helper.to_array(self.tensors[name])
        positive = values.size == 1 and values.dtype == np.float32 and values.min() > 0
        return float(values.reshape(())) if positive else None

    def products(self, value: str) -> tuple[list[NodeProto], list[str]] | None:
        """Products that alone read a value, itself or moved, and the moved values; None if anybody else does."""
        if value in self.ends or not self.readers.get(value):
            return None
        found: list[NodeProto] = []
        moved = [value]
        for node in self.readers[value]:
            if node.op_type in PASSING and node.input[0] == value and value not in list(node.input)[1:]:
                further = None if any(node.output[1:]) else self.products(node.output[0])
                if further is None:
                    return None
                found, moved = found + further[0], moved + further[1]
            elif node.op_type in PRODUCTS and node.input[0] == value and node.input[1] in self.tensors:
                found.append(node)
            else:
                return None
        return found, moved

    def constant(self, values: npt.NDArray[np.float64], base: str) -> str:
        name = f"{base}/scaled{len(self.model.graph.initializer)}"
        tensor = numpy_helper.from_array(np.asarray(values, np.float32), name)
        self.model.graph.initializer.append(tensor)
        self.tensors[name] = tensor
        return name

    def multiply_weights(self, nodes: Iterable[NodeProto], factor: float) -> None:
        for node in nodes:
            weights = numpy_helper.to_array(self.tensors[node.input[1]]).astype(np.float64)
            node.input[1] = self.constant(weights * factor, node.output[0])


def fold_factors(model: ModelProto) -> ModelProto:
    """The model whose factors in front of products are part of their weights; changes it."""
    scaling = _Scaling(model)
    for node in scaling.nodes:
        factor = scaling.scalar(node.input[1]) if node.op_type == "Mul" else None
        found = scaling.products(node.output[0]) if factor is not None else None
        if factor is None or found is None:
            continue
        scaling.multiply_weights(found[0], factor)
        node.op_type = "Identity"
        del node.input[1:]
    return model


def fill_mantissas(model: ModelProto, grids: dict[str, Grid]) -> tuple[ModelProto, dict[str, Grid]]:
    """The model whose quantized values between layers fill mantissas, and their grids then; changes it."""
    scaling, result = _Scaling(model), dict(grids)
    for value, grid in grids.items():
        if grid.power is not None or value not in scaling.givers:
            continue
        found, source = scaling.products(value), _source(scaling, value)
        if found is None or source is None:
            continue
        factor = min(1 / grid.step, FULL / grid.largest) if grid.largest / grid.step > FULL + 1 else 1 / grid.step
        _multiply(scaling, source, value, factor)
        scaling.multiply_weights(found[0], 1 / factor)
        whole = round(grid.step * factor, 6)
        scaled = Grid(whole if whole == 1 else grid.step * factor, grid.low * factor, grid.high * factor)
        result |= {name: replace(scaled) for name in found[1] if name in result or name == value}
    replace_nodes(model, scaling.nodes)
    return model, result


def _source(scaling: _Scaling, value: str) -> NodeProto | None:
    """The operator whose weights can take a factor of ``value``; None if there is none."""
    node = scaling.givers.get(value)
    while node is not None and node.op_type in ("Clip", "Relu"):
        if node.op_type == "Clip" and not all(name in scaling.tensors for name in node.input[1:]):
            return None
        before = node.input[0]
        if before in scaling.ends or len(scaling.readers[before]) > 1:
            return None
        node = scaling.givers.get(before)
    if node is None or len(node.input) < 2:
        return None
    constants = sum(name in scaling.tensors for name in node.input)
    computed = len(node.input) - constants
    return node if node.op_type in (*PRODUCTS, *AFFINE) and computed == 1 else None


def _multiply(scaling: _Scaling, source: NodeProto, value: str, factor: float) -> None:
    """Multiply what ``source`` gives, and the limits on the way to ``value``."""
    name = source.output[0]
    if name != value:
        reader = scaling.readers[name][0]
        while True:
            if reader.op_type == "Clip":
                for index, bound in enumerate(reader.input[1:], 1):
                    number = numpy_helper.to_array(scaling.tensors[bound]).astype(np.float64)
                    reader.input[index] = scaling.constant(number * factor, reader.output[0])
            if reader.output[0] == value:
                break
            reader = scaling.readers[reader.output[0]][0]
    source.output[0] = f"{name}/unscaled"
    product = helper.make_node(
        "Mul", [source.output[0], scaling.constant(np.asarray(factor), name)], [name], name=f"{name}/factor"
    )
    scaling.nodes.insert(next(i for i, node in enumerate(scaling.nodes) if node is source) + 1, product)
    scaling.givers[name] = product
    scaling.givers[source.output[0]] = source
