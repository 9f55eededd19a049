"""Fully connected layers of an average over a whole map, as averages of what the layer gives for every pixel.

Both are linear, so their order is free. A layer with few outputs leaves less to average, and reads many pixels at once
where it had one: that suits an array that multiplies all pixels of a pass at a time and reads a channel of one pixel as
long as of all. Zero weights stay zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.compiler.read.separable_averages import separable_window
from bfpga.formats.arrays import Float32Array

#: Inputs of a layer for each of its outputs, at least.
FEWER = 4
VIEWS = ("Flatten", "Reshape", "Squeeze")


@dataclass(frozen=True)
class _Found:
    """An average, what follows up to the layer, and the layer with its bias. weights: (outputs, inputs)."""

    average: NodeProto
    between: tuple[NodeProto, ...]
    layer: tuple[NodeProto, ...]
    weights: Float32Array
    bias: Float32Array


class LateAverages:
    """Finds and changes them in a model. shapes: of its values by name, batch axis first, for a batch of one."""

    def __init__(self, model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.model, self.shapes = model, shapes
        self.constants: Mapping[str, TensorProto] = {item.name: item for item in model.graph.initializer}
        self.given = {output.name for output in model.graph.output}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in model.graph.node:
            for name in set(node.input):
                self.readers.setdefault(name, []).append(node)

    def changed(self) -> ModelProto:
        """The model with averages after the layers that read them; itself if there are none."""
        found = [item for node in self.model.graph.node if (item := self._found(node)) is not None]
        if not found:
            return self.model
        result = copied(self.model)
        gone = {node.output[0] for item in found for node in (item.average, *item.between, *item.layer)}
        moved = {item.layer[-1].output[0]: item for item in found}
        nodes: list[NodeProto] = []
        for node in self.model.graph.node:
            name = node.output[0] if node.output else ""
            if name in moved:
                nodes += self._steps(result, moved[name])
            elif name not in gone:
                nodes.append(node)
        replace_nodes(result, nodes)
        return result

    def _found(self, average: NodeProto) -> _Found | None:
        window = separable_window(average, self.shapes)
        if window is None or window != self.shapes[average.input[0]][2:]:
            return None
        between: list[NodeProto] = []
        node = self._only_reader(average)
        while node is not None and node.op_type in VIEWS and len(self.shapes.get(node.output[0], ())) <= 4:
            between.append(node)
            node = self._only_reader(node)
        if node is None or self.shapes.get(node.input[0]) != (1, self.shapes[average.input[0]][1]):
            return None
        weights = self._weights(node)
        if weights is None or weights.shape[1] < FEWER * weights.shape[0]:
            return None
        bias = np.zeros(len(weights), np.float32)
        if len(node.input) > 2 and node.input[2]:
            given = self._constant(node.input[2])
            return None if given is None else self._whole(average, between, (node,), weights, bias + given)
        adds = self._only_reader(node)
        if adds is not None and adds.op_type == "Add":
            other = adds.input[1] if adds.input[0] == node.output[0] else adds.input[0]
            given = self._constant(other)
            if given is not None and given.size in (1, len(weights)):
                return self._whole(average, between, (node, adds), weights, bias + given.reshape(-1))
        return self._whole(average, between, (node,), weights, bias)

    def _whole(
        self, average: NodeProto, between: list[NodeProto], layer: tuple[NodeProto, ...], weights: Float32Array,
        bias: Float32Array,
    ) -> _Found | None:  # fmt: skip
        if bias.shape != (len(weights),):
            return None
        return _Found(average, tuple(between), layer, weights, bias)

    def _only_reader(self, node: NodeProto) -> NodeProto | None:
        readers = self.readers.get(node.output[0], [])
        return readers[0] if len(readers) == 1 and node.output[0] not in self.given else None

    def _constant(self, name: str) -> Float32Array | None:
        item = self.constants.get(name)
        return None if item is None else np.asarray(numpy_helper.to_array(item), np.float32)

    def _weights(self, node: NodeProto) -> Float32Array | None:
        """Constant weights of a fully connected layer, (outputs, inputs)."""
        if node.op_type not in ("Gemm", "MatMul"):
            return None
        weights, values = self._constant(node.input[1]), attributes_of(node)
        plain = values.get("alpha", 1) == values.get("beta", 1) == 1 and not values.get("transA", 0)
        if weights is None or weights.ndim != 2 or not plain:
            return None
        return weights if values.get("transB", 0) else np.ascontiguousarray(weights.T)

    def _steps(self, model: ModelProto, found: _Found) -> list[NodeProto]:
        """The layer at every pixel, the average of what it gives, and that as a vector under the name of before."""
        layer, target = found.layer[0], found.layer[-1].output[0]
        pixels, mean = f"{target}/pixels", f"{target}/mean"
        constants = f"{target}/weights", f"{target}/bias"
        values = found.weights[:, :, None, None], found.bias
        for name, value in zip(constants, values, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(value, name))
        window = list(self.shapes[found.average.input[0]][2:])
        sizes = {"kernel_shape": window, "strides": window}
        return [
            helper.make_node("Conv", [found.average.input[0], *constants], [pixels], layer.name, kernel_shape=[1, 1]),
            helper.make_node("AveragePool", [pixels], [mean], found.average.name, **sizes),
            helper.make_node("Flatten", [mean], [target], f"{target}/vector", axis=1),
        ]
