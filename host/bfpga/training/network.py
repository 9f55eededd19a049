"""An ONNX network that learns: its operators forward and backward, its constants as parameters (FP R4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bfpga.compiler.read.importer import Graph, Operator
from bfpga.errors import ModelError
from bfpga.formats.arrays import Float32Array, FloatArray
from bfpga.training import operators as ops
from bfpga.training.builders import BUILDERS
from bfpga.training.layers import Parameter
from bfpga.training.learned import Learned, LearnedConstants, UntrainableError
from bfpga.training.products import FloatProducts, Products


@dataclass(frozen=True)
class Step:
    """One operator with the values that it reads and the one that it makes."""

    layer: ops.Trained
    inputs: tuple[str, ...]
    output: str


class LearningNetwork:
    """A network up to its scores (the values before a softmax at its end), and what of it learns.

    Learned are the weights and biases of convolutions (ordinary and depthwise), fully connected layers, and constants
    that are added. Values are float32, parameters float64.
    """

    def __init__(self, graph: Graph, path: str, products: Products | None = None) -> None:
        """path: for messages. ModelError for operators that it cannot take back."""
        self.graph = graph
        self.products: Products = products or FloatProducts(np.float32)
        self.scores = score_value(graph)
        self._constants = LearnedConstants(graph)
        self.learned: dict[str, Learned] = self._constants.learned
        needed = _needed(graph, self.scores)
        unknown = sorted({item.type for item in needed if item.type not in BUILDERS})
        if unknown:
            raise ModelError(
                f"{path}: {' and '.join(unknown)} cannot be trained; --epochs 0 prunes without fine-tuning"
            )
        try:
            self.steps = [self._step(item) for item in needed]
        except UntrainableError as error:
            raise ModelError(f"{path}: {error}; --epochs 0 prunes without fine-tuning") from None

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return [item.parameter for item in self.learned.values()]

    def forward(self, inputs: Mapping[str, FloatArray]) -> FloatArray:
        """Scores (samples, classes) of a batch."""
        values = {name: ops.last_channels(np.asarray(x, np.float32)) for name, x in inputs.items()}
        for step in self.steps:
            values[step.output] = step.layer.forward(self.products, *(values[name] for name in step.inputs))
        scores = ops.first_channels(values[self.scores])
        self._shape = scores.shape
        return scores.reshape(len(scores), -1)

    def backward(self, gradient: FloatArray) -> None:
        """Add the gradients of all parameters; ``gradient``: of the scores of the last ``forward``."""
        start = ops.last_channels(np.asarray(gradient, np.float32).reshape(self._shape))
        gradients: dict[str, FloatArray] = {self.scores: start}
        for step in reversed(self.steps):
            found = step.layer.backward(self.products, gradients.pop(step.output))
            for name, part in zip(step.inputs, found if isinstance(found, tuple) else (found,), strict=True):
                if part is not None:
                    gradients[name] = gradients[name] + part if name in gradients else part

    def constants(self) -> dict[str, Float32Array]:
        """The learned constants in the layout of ONNX."""
        return {name: np.asarray(item.outward(item.parameter.value), np.float32) for name, item in self.learned.items()}

    def load(self, constants: Mapping[str, FloatArray]) -> None:
        """Take constants in the layout of ONNX."""
        for name, values in constants.items():
            item = self.learned[name]
            item.parameter.value = np.array(item.inward(values), np.float64)

    def _step(self, operator: Operator) -> Step:
        layer = BUILDERS[operator.type](self._constants, operator)
        inputs = tuple(name for name in operator.inputs if name and name not in self.graph.constants)
        return Step(layer, inputs, operator.outputs[0])


def score_value(graph: Graph) -> str:
    """The first output, or what its softmax reads."""
    made = {name: operator for operator in graph.operators for name in operator.outputs}
    last = made.get(graph.outputs[0])
    return last.inputs[0] if last is not None and last.type == "Softmax" else graph.outputs[0]


def _needed(graph: Graph, value: str) -> list[Operator]:
    """The operators that a value depends on, in their order."""
    wanted, found = {value}, []
    for operator in reversed(graph.operators):
        if wanted & set(operator.outputs):
            wanted |= set(operator.uses)
            found.append(operator)
    return found[::-1]
