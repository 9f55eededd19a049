"""What of an ONNX network learns: constants as parameters, in the layouts of ONNX and of the layers (FP R4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bfpga.compiler.read.importer import Graph, Operator
from bfpga.formats.arrays import FloatArray
from bfpga.training.layers import Parameter

Layout = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Learned:
    """A constant of the network as a parameter. inward: from the layout of ONNX to the parameter's; outward: back."""

    parameter: Parameter
    inward: Layout
    outward: Layout


class LearnedConstants:
    """The constants of a graph, and which of them are parameters."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.learned: dict[str, Learned] = {}

    def learn(self, name: str, parameter: Parameter, inward: Layout, outward: Layout) -> None:
        """Note that a constant is a parameter; UntrainableError where it is one already."""
        if name in self.learned:
            raise UntrainableError(f"the constant {name} is used twice and cannot be trained")
        self.learned[name] = Learned(parameter, inward, outward)

    def constant(self, name: str) -> FloatArray:
        """A constant of the graph."""
        return self.graph.constants[name].astype(np.float64)

    def reads_samples(self, operator: Operator) -> bool:
        """Whether the gradients of an operator's input are unused."""
        return operator.inputs[0] in self.graph.inputs


class UntrainableError(Exception):
    """An operator in a form that has no backward here."""
