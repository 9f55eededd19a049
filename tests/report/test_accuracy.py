"""Accuracy of a report: intervals, confusion, who is right."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.report.accuracy import MOST_CLASSES, Changes, Share, accuracy_of


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_are_those_of_wilson(hits: int, of: int, low: float, high: float) -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    assert Share(hits, of).interval == pytest.approx((low, high), abs=5e-5)


def test_no_samples_tell_nothing() -> None:
    assert Share(0, 0).interval == (0.0, 1.0)


def test_confusion_and_changes() -> None:
    labels = np.array([0, 0, 1, 2, 2])
    found, wanted = np.array([0, 1, 1, 2, 0]), np.array([0, 0, 1, 1, 0])
    scores = np.eye(3, dtype=np.float32)
    accuracy = accuracy_of(scores[found], labels, scores[wanted], "float", 0.5)
    assert accuracy.correct == Share(3, 5)
    assert accuracy.reference_correct == Share(3, 5)
    assert accuracy.agreement == Share(3, 5)
    assert accuracy.changes == Changes(both=2, gained=1, lost=1, neither=1)
    assert accuracy.confusion is not None
    assert accuracy.confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert accuracy.reference_confusion is not None
    assert accuracy.reference_confusion.tolist() == [[2, 0, 0], [0, 1, 0], [1, 1, 0]]


def test_too_many_classes_have_no_confusion_and_no_labels_no_accuracy() -> None:
    scores = np.zeros((2, MOST_CLASSES + 1), np.float32)
    assert accuracy_of(scores, np.array([0, 1])).confusion is None
    assert accuracy_of(scores, np.array([0, 1])).correct == Share(1, 2)
    assert accuracy_of(scores, None).correct is None
