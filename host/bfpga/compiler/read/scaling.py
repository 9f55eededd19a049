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

from bfpga.compiler.read.graphs import nested, rename, replace_nodes, subgraphs
from bfpga.compiler.read.grids import Grid, rounded

#: Operators that a positive factor passes.
PASSING = frozenset({"Flatten", "Identity", "MaxPool", "Relu", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
#: Sums that it passes too; what a quantizer says of their results does not follow from what it says of their input.
LINEAR = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"})
PRODUCTS = ("Conv", "Gemm", "MatMul")
AFFINE = ("Add", "Sub", "Mul", "Div", "BatchNormalization")
#: The largest mantissa of the narrowest usual format.
FULL = 127.0


class _Scaling:
    """The operators, the source and the readers of each value, and the constants."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.nodes = list(model.graph.node)
        self.tensors = {item.name: item for item in model.graph.initializer}
        self.inputs = {value.name for value in model.graph.input}
        self.ends = self.inputs | {value.name for value in model.graph.output}
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

    def products(
        self, value: str, at_input: bool = False, passing: frozenset[str] = PASSING
    ) -> tuple[list[NodeProto], list[str]] | None:
        """Products that alone read a value, itself or moved, and the moved values; None if anybody else does.

        at_input: the value may be an input of the network. passing: operators between.
        """
        if (value in self.ends and not at_input) or not self.readers.get(value):
            return None
        found: list[NodeProto] = []
        moved = [value]
        for node in self.readers[value]:
            if node.op_type in passing and node.input[0] == value and value not in list(node.input)[1:]:
                further = None if any(node.output[1:]) else self.products(node.output[0], passing=passing)
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
        found = scaling.products(node.output[0], passing=PASSING | LINEAR) if factor is not None else None
        if factor is None or found is None:
            continue
        scaling.multiply_weights(found[0], factor)
        node.op_type = "Identity"
        del node.input[1:]
    return model


def fill_mantissas(model: ModelProto, grids: dict[str, Grid]) -> tuple[ModelProto, dict[str, Grid]]:
    """The model whose quantized values between layers fill mantissas, and their grids then; changes it."""
    scaling, result = _Scaling(model), dict(grids)
    scaling.ends |= rounded(grids)
    trained = any(grid.few for grid in grids.values())
    for value, grid in grids.items():
        if grid.power is not None:
            continue
        at_input = value in scaling.inputs
        found = scaling.products(value, trained and at_input)
        factor = 1 / grid.step if grid.largest < (FULL + 1.5) * grid.step else FULL / grid.largest
        if found is None or not (at_input or _multiply(scaling, value, factor)):
            continue
        name = _multiply_input(scaling, value, factor) if at_input else value
        scaling.multiply_weights(found[0], 1 / factor)
        step = 1.0 if factor == 1 / grid.step else grid.step * factor
        scaled = replace(grid, step=step, low=grid.low * factor, high=grid.high * factor)
        result |= {moved: scaled for moved in [name, *found[1][1:]] if moved in result or moved == name}
    replace_nodes(model, scaling.nodes)
    return model, result


def _multiply_input(scaling: _Scaling, value: str, factor: float) -> str:
    """Let the host multiply an input; the name of the product."""
    name = f"{value}/scaled"
    for node in scaling.nodes:
        rename(node.input, value, name)
    inputs = [value, scaling.constant(np.asarray(factor), name)]
    scaling.nodes.insert(0, helper.make_node("Mul", inputs, [name], name=f"{name}/factor"))
    return name


def _multiply(scaling: _Scaling, value: str, factor: float) -> bool:
    """Multiply ``value`` where an operator can take the factor into its weights; False where none can."""
    limits, node = [], scaling.givers.get(value)
    while node is not None and node.op_type in ("Clip", "Relu"):
        before = node.input[0]
        known = all(name in scaling.tensors for name in node.input[1:])
        if not known or before in scaling.ends or len(scaling.readers[before]) > 1:
            return False
        limits.append(node)
        node = scaling.givers.get(before)
    constants = 0 if node is None else sum(name in scaling.tensors for name in node.input)
    if node is None or node.op_type not in (*PRODUCTS, *AFFINE) or len(node.input) != constants + 1:
        return False
    for limit in limits:
        for index, bound in enumerate(limit.input[1:], 1):
            number = numpy_helper.to_array(scaling.tensors[bound]).astype(np.float64)
            limit.input[index] = scaling.constant(number * factor, limit.output[0])
    name = node.output[0]
    node.output[0] = f"{name}/unscaled"
    inputs = [node.output[0], scaling.constant(np.asarray(factor), name)]
    product = helper.make_node("Mul", inputs, [name], name=f"{name}/factor")
    scaling.nodes.insert(next(index for index, item in enumerate(scaling.nodes) if item is node) + 1, product)
    scaling.givers |= {name: product, node.output[0]: node}
    return True
