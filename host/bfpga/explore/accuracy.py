"""How much of a network's accuracy a program loses: the emulator's answers against those of the float network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt

from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.data import InputSamples
from bfpga.devices.reference import FloatNetwork, cosines
from bfpga.runtime import run

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Judge:
    """Judges programs of one network on the same samples.

    Where labels are known, by top-1 accuracy; else, where the output has scores of classes, by how often the best one
    is the float network's; else by the cosine between outputs. ``loss`` is in points of a percent of that.
    """

    network: Network
    samples: InputSamples

    @cached_property
    def reference(self) -> Array:
        """Outputs of the float network, a row a sample."""
        network = FloatNetwork(self.network, quantized=True)
        outputs = network.run(self.samples.inputs)[network.outputs[0]]
        return outputs.reshape(len(outputs), -1)

    @cached_property
    def labels(self) -> Array | None:
        """Labels of the samples, where every one of them has a score."""
        y, scores = self.samples.y, self.reference.shape[1]
        return None if y is None or scores < 2 or y.min() < 0 or y.max() >= scores else y

    @property
    def measure(self) -> str:
        """What is compared, in words."""
        if self.reference.shape[1] < 2:
            return "cosine with the float network"
        return "top-1 accuracy" if self.labels is not None else "agreement with the float network"

    @cached_property
    def float_accuracy(self) -> float:
        """Percent that the float network reaches."""
        return 100.0 if self.labels is None else self._hits(self.reference, self.labels)

    @property
    def step(self) -> float:
        """Points that one sample is worth."""
        return 100.0 / len(self.reference)

    def accuracy(self, program: Program) -> float:
        """Percent that a program reaches on the emulator."""
        outputs = next(iter(run(program, self.samples.inputs).outputs.values()))
        found = outputs.reshape(len(self.reference), -1)
        if self.reference.shape[1] < 2:
            return 100.0 * float(cosines(self.reference, found).mean())
        return self._hits(found, self.reference.argmax(1) if self.labels is None else self.labels)

    @staticmethod
    def _hits(scores: Array, wanted: Array) -> float:
        return 100.0 * float((scores.argmax(1) == wanted).mean())
