"""Accuracy with what its number of samples leaves uncertain, and which classes are taken for which."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

#: Confidence of the intervals.
CONFIDENCE = 0.95
#: Classes up to which all pairs are counted; of more, a matrix could not be read.
MOST_CLASSES = 40


@dataclass(frozen=True)
class Share:
    """``hits`` of ``of`` samples, and the Wilson interval of the true share."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Lowest and highest share that explain the hits at ``CONFIDENCE`` (E. B. Wilson, JASA 22, 1927)."""
        if not self.of:
            return 0.0, 1.0
        z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
        scale = 1 + z * z / self.of
        middle = (self.value + z * z / (2 * self.of)) / scale
        reach = z * sqrt(self.value * (1 - self.value) / self.of + z * z / (4 * self.of**2)) / scale
        return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True)
class Changes:
    """Samples by who is right: both, the accelerator alone, the reference alone, none."""

    both: int
    gained: int
    lost: int
    neither: int

    @property
    def difference(self) -> float:
        """Share of samples by which the reference is right more often."""
        return (self.lost - self.gained) / max(self.both + self.gained + self.lost + self.neither, 1)

    @property
    def difference_interval(self) -> tuple[float, float]:
        """Lowest and highest ``difference`` that explain these samples at ``CONFIDENCE``.

        Both are asked the same samples, so those alone count on which they differ (Agresti and Min, Statistics in
        Medicine 24, 2005: a normal interval with half a sample added to every kind).
        """
        of = self.both + self.gained + self.lost + self.neither + 2
        middle, differing = (self.lost - self.gained) / of, (self.lost + self.gained + 1) / of
        reach = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * sqrt(max(differing - middle**2, 0.0) / of)
        return max(-1.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True)
class Accuracy:
    """How often the largest output has the label's index; figures are None where they were not measured.

    reference: what is compared with, such as float. confusion: (label, found) counts; of the reference too.
    """

    samples: int
    reference: str
    correct: Share | None = None
    reference_correct: Share | None = None
    agreement: Share | None = None
    cosine: float | None = None
    changes: Changes | None = None
    confusion: npt.NDArray[np.int64] | None = None
    reference_confusion: npt.NDArray[np.int64] | None = None


def accuracy_of(
    outputs: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[Any] | None,
    reference_outputs: npt.NDArray[np.floating[Any]] | None = None,
    reference: str = "float",
    cosine: float | None = None,
) -> Accuracy:
    """Accuracy from scores (samples, ...); labels: (samples,), None where there are none."""
    found = _largest(outputs)
    wanted = None if reference_outputs is None else _largest(reference_outputs)
    samples, classes = len(found), outputs[:1].size
    agreement = None if wanted is None else Share(int(np.count_nonzero(found == wanted)), samples)
    if labels is None:
        return Accuracy(samples, reference, agreement=agreement, cosine=cosine)
    index: npt.NDArray[np.int64] = labels.reshape(-1).astype(np.int64)
    right = found == index
    counted = classes <= MOST_CLASSES
    return Accuracy(
        samples,
        reference,
        Share(int(right.sum()), samples),
        None if wanted is None else Share(int(np.count_nonzero(wanted == index)), samples),
        agreement,
        cosine,
        None if wanted is None else _changes(right, wanted == index),
        confusion(index, found, classes) if counted else None,
        confusion(index, wanted, classes) if counted and wanted is not None else None,
    )


def confusion(labels: npt.NDArray[np.int64], found: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.int64]:
    """(classes, classes): samples by label and by largest output."""
    return np.bincount(labels * classes + found, minlength=classes * classes).reshape(classes, classes)


def _changes(right: npt.NDArray[np.bool_], reference: npt.NDArray[np.bool_]) -> Changes:
    return Changes(
        int(np.count_nonzero(right & reference)), int(np.count_nonzero(right & ~reference)),
        int(np.count_nonzero(~right & reference)), int(np.count_nonzero(~right & ~reference)),
    )  # fmt: skip


def _largest(scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int64]:
    largest: npt.NDArray[np.int64] = scores.reshape(len(scores), -1).argmax(axis=1)
    return largest
