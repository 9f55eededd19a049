"""Gather with constant indices as what the array copies: a slice, and an axis less for a single element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.graphs import attributes_of
from bfpga.contract.configuration import KernelConfig


@dataclass(frozen=True)
class _Places:
    """Elements first, first + step, ... of an axis of a value. single: one, whose axis goes."""

    value: str
    axis: int
    first: int
    step: int
    count: int
    single: bool

    def written(self, rewriter: Rewriter, output: str) -> None:
        """Write the operators that give them."""
        whole = rewriter.shapes[self.value]
        value = self.value
        if whole[self.axis] != self.count:
            end = self.first + self.step * (self.count - 1) + 1
            bounds = [rewriter.constant(np.array([number], np.int64)) for number in
                      (self.first, end, self.axis, self.step)]  # fmt: skip
            value = rewriter.add("Slice", value, *bounds, output="" if self.single else output)
        if self.single:
            kept = [0, *whole[1 : self.axis], *whole[self.axis + 1 :]]
            rewriter.add("Reshape", value, rewriter.constant(np.array(kept, np.int64)), output=output)
        elif value == self.value:
            rewriter.add("Identity", value, output=output)


def gathered(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a Gather as a slice; False, and nothing written, where it is none."""
    shape, index = rewriter.shapes.get(node.input[0]), rewriter.constants.get(node.input[1])
    if shape is None or index is None or index.ndim > 1 or index.size == 0:
        return False
    axis = int(attributes_of(node).get("axis", 0)) % len(shape)
    if axis == 0:
        return False
    places = index.reshape(-1).astype(np.int64) % shape[axis]
    steps = set(np.diff(places).tolist()) or {1}
    if len(steps) > 1 or min(steps) < 1:
        return False
    found = _Places(node.input[0], axis, int(places[0]), int(min(steps)), len(places), index.ndim == 0)
    _of_operand(rewriter, found).written(rewriter, node.output[0])
    return True


def _of_operand(rewriter: Rewriter, places: _Places) -> _Places:
    """The same elements of an operand of the concatenation that made the value, if one has all of them."""
    maker = next((node for node in rewriter.nodes if places.value in node.output), None)
    rank = len(rewriter.shapes[places.value])
    if maker is None or maker.op_type != "Concat" or int(attributes_of(maker)["axis"]) % rank != places.axis:
        return places
    start, last = 0, places.first + places.step * (places.count - 1)
    for operand in maker.input:
        shape = rewriter.shapes.get(operand)
        if shape is None:
            return places
        if start <= places.first and last < start + shape[places.axis]:
            return _Places(operand, places.axis, places.first - start, places.step, places.count, places.single)
        start += shape[places.axis]
    return places
