"""What a program loses against the float network on samples: points that users ask for, and noise that sees more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.data import class_labels
from bfpga.devices.reference import float_outputs, sqnr_db
from bfpga.program.cycles import program_cycles
from bfpga.runtime import BATCH, run

Array = npt.NDArray[Any]
Metric = Literal["accuracy", "agreement", "noise"]
#: What a lost point is, by metric.
METRICS: dict[Metric, str] = {
    "accuracy": "accuracy below float's, in points",
    "agreement": "samples with another class than float's, in percent",
    "noise": "energy of the outputs' errors, in percent of the outputs'",
}

#: The result of a program, by metric; lost points are what it has less than float.
MEASURES: dict[Metric, str] = {
    "accuracy": "top-1 accuracy",
    "agreement": "agreement with the float network",
    "noise": "energy of the outputs without that of their errors",
}

#: Share of the changed classes that may be lost points: float is wrong too for many samples whose class is easily
#: changed, and some gain. It is about what the worst of twenty draws of calibration samples cost (docs/accuracy.md).
LOST_OF_CHANGED = 0.25
#: Sums of class probabilities are 1 as closely as this; smaller probabilities than the least count as that.
CLOSE, LEAST = 0.05, 1e-6


@dataclass(frozen=True)
class Score:
    """What a program loses on samples.

    lost: points of the metric. noise: mean divergence of the class probabilities from float's; of outputs that are no
    classes the energy of their errors over their own. changed: share of samples whose class is not float's, of which
    points are a difference. cycles: of one sample.
    """

    lost: float
    noise: float
    changed: float
    cycles: int
    samples: int

    @property
    def risk(self) -> float:
        """Points that changed classes may cost on other samples, however lucky these here were; at least ``lost``."""
        return max(self.lost, 100.0 * LOST_OF_CHANGED * self.changed)

    @property
    def spread(self) -> float:
        """Points that the loss on other samples may differ by: one standard deviation, from the changed classes."""
        return 100.0 * float(np.sqrt(self.changed / self.samples))


class Judge:
    """Judges programs of one network on samples; the float network runs once.

    The metric follows from what is known: ``accuracy`` with labels that are classes of the outputs; without,
    ``agreement`` of the class with float's; ``noise`` where the outputs are no classes: a single number, or as many as
    the inputs, which they reconstruct.
    """

    def __init__(self, network: Network, inputs: Mapping[str, Array], labels: Array | None = None) -> None:
        self.inputs = dict(inputs)
        self.samples = min(len(values) for values in inputs.values())
        self._name, outputs = next(iter(float_outputs(network, self.inputs, BATCH)[0].items()))
        self._wanted = _flat(outputs)
        self.labels = class_labels(labels, self._wanted.shape[1])
        self.metric: Metric = self._metric()
        self._probabilities = None if self.metric == "noise" else _probabilities(self._wanted)

    def _metric(self) -> Metric:
        if self.labels is not None:
            return "accuracy"
        scores = self._wanted.shape[1]
        reconstructs = any(scores == values[0].size for values in self.inputs.values())
        return "noise" if scores < 2 or reconstructs else "agreement"

    @property
    def reached(self) -> float:
        """Percent that the float network reaches: right classes; of what is compared with itself all."""
        if self.metric != "accuracy":
            return 100.0
        return 100.0 * float(np.mean(self._wanted.argmax(axis=1) == self.labels))

    @property
    def step(self) -> float:
        """Points that one sample is worth, where classes are counted."""
        return 0.0 if self.metric == "noise" else 100.0 / self.samples

    def score(self, program: Program) -> Score:
        """What a program loses, by the emulator."""
        outputs = run(program, self.inputs, "emulator").outputs
        return self.score_of(outputs, program_cycles(program).schedule)

    def score_of(self, outputs: Mapping[str, Array], cycles: int = 0) -> Score:
        """What outputs lose that something computed for the samples."""
        found = _flat(outputs[self._name])
        noise = self._noise(found)
        ours, theirs = found.argmax(axis=1), self._wanted.argmax(axis=1)
        changed = float(np.mean(ours != theirs)) if self.metric != "noise" else 0.0
        lost = self._lost(ours, theirs, noise, changed)
        return Score(lost, noise, changed, cycles, self.samples)

    def sqnr_db(self, outputs: Mapping[str, Array]) -> float:
        """Ratio of the float outputs to their errors in decibels."""
        return sqnr_db(self._wanted, _flat(outputs[self._name]))

    def _noise(self, found: Array) -> float:
        wanted = self._probabilities
        if wanted is not None:
            return float(np.mean((wanted * np.log(wanted / _probabilities(found))).sum(axis=1)))
        energy = float(np.square(self._wanted, dtype=np.float64).sum())
        error = float(np.square(found.astype(np.float64) - self._wanted).sum())
        return error / energy if energy else float(error > 0)

    def _lost(self, ours: Array, theirs: Array, noise: float, changed: float) -> float:
        if self.metric == "accuracy":
            # Counts, so that no rounding of two means decides.
            return 100.0 * int((theirs == self.labels).sum() - (ours == self.labels).sum()) / self.samples
        return 100.0 * (changed if self.metric == "agreement" else noise)


def _probabilities(scores: Array) -> Array:
    """Class probabilities (samples, classes): the outputs where they are such already, else their softmax."""
    values = scores.astype(np.float64)
    if values.min() < 0 or np.abs(values.sum(axis=1) - 1).max() > CLOSE:
        values = np.exp(values - values.max(axis=1, keepdims=True))
    values = np.maximum(values, LEAST)
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def decibel(before: float, after: float) -> float:
    """By how much an energy fell; infinite if nothing is left of it."""
    if after <= 0:
        return float("inf") if before > 0 else 0.0
    return 10 * float(np.log10(before / after)) if before > 0 else float("-inf")
