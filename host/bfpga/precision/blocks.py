"""What blocks with exponents of their own would give a network, which no kernel computes yet.

The float network is run with the operands of its products rounded: values with one exponent for a tensor, found on
calibration samples as the compiler finds it, or with one for a block of channels of each pixel or token; weights with
one for a row, or for a block of a row. Sums, functions and biases stay in float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.numbers.calibrate import BIN_SHIFT, BINS, Histogram, best_exponent
from bfpga.compiler.read.graphs import attributes_of, copied, rename, replace_nodes
from bfpga.compiler.read.microscaling import written_out
from bfpga.compiler.read.network import Network
from bfpga.data import InputSamples
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError
from bfpga.formats.block_float import decode, encode_rows
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.microscaling import integers, round_blocks
from bfpga.precision.judge import Judge, Score
from bfpga.runtime import compile as compile_program
from bfpga.runtime import run

Samples = Mapping[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float32]
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
#: Samples that the float network computes at once.
BATCH = 64


@dataclass(frozen=True)
class Numbers:
    """How operands are rounded: to ``bits``, with an exponent for each block of this many channels; 0: for all."""

    bits: int
    values: int = 0
    weights: int = 0

    @property
    def text(self) -> str:
        values = f"for {self.values} channels of a value" if self.values else "for a tensor"
        return f"{values}, for {self.weights or 'a row'} of weights"


@dataclass(frozen=True)
class Row:
    """What a network keeps with some numbers. exponents: for what there is one, in words."""

    bits: int
    exponents: str
    score: Score
    sqnr_db: float


@dataclass(frozen=True)
class Study:
    """All numbers of a network. rounded: values and weights that are rounded."""

    judge: Judge
    rows: list[Row]
    values: int
    weights: int


def study(
    network: Network,
    accelerator: Accelerator,
    samples: InputSamples,
    calibration: Samples,
    block: int,
) -> Study:
    """The network on the accelerator by the emulator, and with each of the numbers of ``compared``.

    ModelError for a network without products.
    """
    products = Products(network)
    judge = Judge(network, samples.inputs, samples.y)
    program = compile_program(network, accelerator, calibration)
    outputs = run(program, judge.inputs, "emulator").outputs
    bits = accelerator.config.format.mantissa_bits
    rows = [Row(bits, f"as {accelerator.name} computes", judge.score_of(outputs), judge.sqnr_db(outputs))]
    histograms = products.histograms(calibration)
    for numbers in compared(block):
        outputs = products.outputs(products.rounded(numbers, histograms), judge.inputs)
        rows.append(Row(numbers.bits, numbers.text, judge.score_of(outputs), judge.sqnr_db(outputs)))
    return Study(judge, rows, len(products.values), len(products.weights))


def compared(block: int) -> list[Numbers]:
    """Without blocks, with blocks of values, with both; of 8 and of 4 bits."""
    return [Numbers(bits, *blocks) for bits in (8, 4) for blocks in ((0, 0), (block, 0), (block, block))]


@dataclass(frozen=True)
class Weights:
    """A constant operand. rows, depth: the axis of outputs, and that along which products are added."""

    name: str
    rows: int
    depth: int


class Products:
    """The products of a network and their operands: computed values by name, each with the axis of its channels."""

    def __init__(self, network: Network) -> None:
        graph = network.graph()
        self.network, self.model, self.shapes = network, graph.model, graph.shapes
        self.constants = graph.constants
        self.values: dict[str, int] = {}
        self.weights: list[Weights] = []
        for node in self.model.graph.node:
            if node.op_type in PRODUCTS:
                self._add(node)
        if not self.values:
            raise ModelError(f"{network.path}: no product of the network ({', '.join(PRODUCTS)}) can be rounded")

    def _add(self, node: NodeProto) -> None:
        for name, (rows, depth) in zip(node.input[:2], self._axes(node), strict=True):
            if name in self.constants and self.constants[name].ndim > 1:
                self.weights.append(Weights(name, rows, depth))
            elif name in self.shapes:
                rank = len(self.shapes[name]) + 1
                if depth % rank:
                    self.values.setdefault(name, depth % rank)

    def _axes(self, node: NodeProto) -> list[tuple[int, int]]:
        """Of both operands the axis of rows, and that along which products are added."""
        given = attributes_of(node)
        if node.op_type == "MatMul":
            return [(-2, -1), (-1, -2)]
        if node.op_type == "Gemm":
            return [(0, 1), (0, 1) if given.get("transB", 0) else (1, 0)]
        return [(0, 1), (0, 1) if node.op_type == "Conv" else (1, 0)]

    def histograms(self, calibration: Samples) -> dict[str, Histogram]:
        """Magnitudes of all values on samples."""
        counts = {name: np.zeros(BINS, np.int64) for name in self.values}
        peaks: dict[str, list[Floats]] = {name: [] for name in self.values}
        for found in self._runs(self.model, calibration, list(self.values)):
            for name in self.values:
                magnitudes = np.abs(np.ascontiguousarray(found[name], np.float32))
                counts[name] += np.bincount(magnitudes.view(np.uint32).ravel() >> BIN_SHIFT, minlength=BINS)
                peaks[name].append(magnitudes.reshape(len(magnitudes), -1).max(axis=1))
        return {name: Histogram(counts[name], np.concatenate(peaks[name]).astype(np.float64)) for name in self.values}

    def outputs(self, model: ModelProto, inputs: Samples) -> dict[str, Floats]:
        """Outputs of a model for all samples."""
        parts = list(self._runs(model, inputs, []))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _runs(self, model: ModelProto, inputs: Samples, values: Sequence[str]) -> Iterator[dict[str, Floats]]:
        floats = FloatNetwork(Network(self.network.path, model, model), values)
        for start in range(0, min(map(len, inputs.values())), BATCH):
            batch = {name: x[start : start + BATCH] for name, x in inputs.items()}
            yield {**floats.run(batch), **{name: batch[name] for name in values if name in batch}}

    def rounded(self, numbers: Numbers, histograms: Mapping[str, Histogram]) -> ModelProto:
        """The network with operands rounded: a value for all that read it."""
        result = copied(self.model)
        givers = {name for node in result.graph.node for name in node.output}
        before: list[NodeProto] = []
        after: dict[str, list[NodeProto]] = {}
        for name, axis in self.values.items():
            nodes = self._rounding(result, name, axis, numbers, histograms[name])
            if name in givers:
                after[name] = nodes
            else:
                before += nodes
        nodes = list(before)
        for node in result.graph.node:
            for name in self.values:
                rename(node.input, name, _rounded_name(name))
            nodes.append(node)
            for name in node.output:
                nodes += after.get(name, [])
        replace_nodes(result, nodes)
        for item in result.graph.initializer:
            for weights in self.weights:
                if item.name == weights.name:
                    item.CopyFrom(numpy_helper.from_array(self._weights(weights, numbers), item.name))
        return result

    def _rounding(
        self, model: ModelProto, name: str, axis: int, numbers: Numbers, histogram: Histogram
    ) -> list[NodeProto]:
        output, element = _rounded_name(name), integers(numbers.bits)
        if numbers.values:
            return written_out(model, name, output, (1, *self.shapes[name]), element, numbers.values, axis)
        form = BlockFormat(mantissa_bits=numbers.bits)
        step, limit = 2.0 ** best_exponent(histogram, form), float(form.mantissa_max)
        names = [f"{output}/{part}" for part in ("step", "low", "high", "scaled", "whole", "limited")]
        for constant, value in zip(names, (step, -limit, limit), strict=False):
            model.graph.initializer.append(numpy_helper.from_array(np.float32(value), constant))
        return [
            helper.make_node("Div", [name, names[0]], [names[3]], names[3]),
            helper.make_node("Round", [names[3]], [names[4]], names[4]),
            helper.make_node("Clip", [names[4], names[1], names[2]], [names[5]], names[5]),
            helper.make_node("Mul", [names[5], names[0]], [output], output),
        ]

    def _weights(self, weights: Weights, numbers: Numbers) -> Floats:
        """Rounded weights; rows of fewer channels than a block have one exponent: a block of one would cost as many."""
        values = np.asarray(self.constants[weights.name], np.float32)
        if numbers.weights and values.shape[weights.depth] >= numbers.weights:
            return round_blocks(values, integers(numbers.bits), numbers.weights, weights.depth)
        rows = np.moveaxis(values, weights.rows, 0)
        found = decode(*encode_rows(rows, BlockFormat(mantissa_bits=numbers.bits)))
        return np.ascontiguousarray(np.moveaxis(found, 0, weights.rows), np.float32)


def _rounded_name(name: str) -> str:
    return f"{name}/rounded"
