"""Transposed convolutions for kernels that write whole runs of pixels: the phases along a row become channels.

Columns ``phase + stride * q`` of the result read the input around column q, whatever the phase, so the phases are
further channels of column q: a convolution along the rows whose kernel has the taps of all phases, zeros where a phase
has none. What remains is to interleave the channels of a phase with the columns of the others, which moves values only
and is the host's. Phases along a column need nothing of this: they are written to rows of their own (``interleaved``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.lower.interleaved import transposed_pads
from bfpga.compiler.read.graphs import attributes_of
from bfpga.contract.configuration import KernelConfig

Floats = npt.NDArray[np.float32]
#: Operators on each value or channel alone that a layer computes with its products.
TAKEN_UP = ("BatchNormalization", "Relu", "Clip", "Sigmoid", "Tanh")


@dataclass(frozen=True)
class Taps:
    """Taps along a row: phase p, tap t reads input column q + offsets[p][t], if the phase has the tap.

    first, last: the smallest and the largest column of the common kernel, as offsets.
    """

    offsets: tuple[dict[int, int], ...]
    first: int
    last: int

    def kernel(self, weights: Floats) -> Floats:
        """Weights (inputs, outputs, height, width) as (inputs, phases, outputs, height, last - first + 1)."""
        inputs, outputs, height, _ = weights.shape
        result = np.zeros((inputs, len(self.offsets), outputs, height, self.last - self.first + 1), np.float32)
        for phase, taps in enumerate(self.offsets):
            for tap, offset in taps.items():
                # A transposed convolution reads its input backwards.
                result[:, phase, :, :, self.last - offset] = weights[..., tap]
        return result


def taps_of(kernel: int, stride: int, dilation: int, pad: int, short: int) -> Taps:
    """The taps of all phases of one axis of a transposed convolution.

    short: by how many columns the input is shorter than the result of a phase; the kernel reaches these at least.
    """
    offsets = tuple(
        {
            tap: (phase + pad - tap * dilation) // stride
            for tap in range(kernel)
            if (phase + pad - tap * dilation) % stride == 0
        }
        for phase in range(stride)
    )
    used = [offset for taps in offsets for offset in taps.values()]
    return Taps(offsets, min(*used, 0, -short), max(*used, 0))


def phases_as_channels(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a transposed convolution with a stride along its rows; False where it needs or allows no other form."""
    attributes, weights = attributes_of(node), rewriter.constants.get(node.input[1])
    source, target = (rewriter.shapes.get(name, ())[1:] for name in (node.input[0], node.output[0]))
    if weights is None or not len(source) == len(target) == 3:
        return False
    strides, dilations = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    has_bias = len(node.input) > 2 and bool(node.input[2])
    if strides[1] == 1 or target[2] % strides[1] or (has_bias and node.input[2] not in rewriter.constants):
        return False
    kernel = (int(weights.shape[2]), int(weights.shape[3]))
    top, left = transposed_pads(attributes, 2, source[1:], target[1:], kernel)
    width = target[2] // strides[1]
    taps = taps_of(kernel[1], strides[1], dilations[1], left, width - source[2])
    right = source[2] - taps.first - width
    stacked = taps.kernel(weights.astype(np.float32))
    inputs, groups = [node.input[0]], int(attributes.get("group", 1))
    inputs.append(rewriter.constant(stacked.reshape(len(weights), -1, *stacked.shape[3:])))
    if has_bias:
        inputs.append(rewriter.constant(_by_phase(rewriter.constants[node.input[2]], strides[1], groups)))
    value = rewriter.add(
        "ConvTranspose", *inputs, group=groups, strides=[strides[0], 1], dilations=[dilations[0], 1],
        **_rows(strides[0], dilations[0], top, (source[1], target[1]), kernel[0], (taps.last, right)),
    )  # fmt: skip
    last = node
    for last in _following(rewriter, node):
        value = _on_phases(rewriter, last, value, strides[1], groups)
    shape = np.array([0, groups, strides[1], target[0] // groups, target[1], width], np.int64)
    apart = rewriter.add("Reshape", value, rewriter.constant(shape))
    interleaved = rewriter.add("Transpose", apart, perm=[0, 1, 3, 4, 5, 2])
    rewriter.add("Reshape", interleaved, rewriter.constant(np.array([0, *target], np.int64)), output=last.output[0])
    return True


def _following(rewriter: Rewriter, node: NodeProto) -> list[NodeProto]:
    """Operators after another, each its only reader, that its layer may absorb; they act on each value alone."""
    found: list[NodeProto] = []
    given = {output.name for output in rewriter.model.graph.output}
    while True:
        value = (found or [node])[-1].output[0]
        readers = [other for other in rewriter.model.graph.node if value in other.input]
        if value in given or len(readers) != 1 or readers[0].op_type not in TAKEN_UP:
            return found
        (reader,) = readers
        constants = [name for name in reader.input[1:] if name]
        if reader.input[0] != value or len(reader.output) > 1 or set(constants) - set(rewriter.constants):
            return found
        found.append(reader)


def _on_phases(rewriter: Rewriter, node: NodeProto, value: str, phases: int, groups: int) -> str:
    """One of these operators, under its own name, on the phases that are still channels; the name of its result."""
    constants = list(node.input[1:])
    if node.op_type == "BatchNormalization":
        constants = [rewriter.constant(_by_phase(rewriter.constants[name], phases, groups)) for name in constants]
    result = rewriter.add(node.op_type, value, *constants, **attributes_of(node))
    rewriter.nodes[-1].name = node.name
    return result


def _by_phase(values: Floats, phases: int, groups: int) -> Floats:
    """Numbers of each output channel (channels,) for the channels of all phases, group by group."""
    return np.repeat(values.reshape(groups, 1, -1), phases, axis=1).reshape(-1)


def _rows(
    stride: int, dilation: int, top: int, sizes: tuple[int, int], kernel: int, columns: tuple[int, int]
) -> dict[str, Any]:
    """Padding of all sides as attributes, with rows added below where the result is larger than its input reaches."""
    below = stride * (sizes[0] - 1) + (kernel - 1) * dilation + 1 - top - sizes[1]
    pads = {"pads": [top, columns[0], max(below, 0), columns[1]]}
    return {**pads, "output_padding": [-below, 0]} if below < 0 else pads
