"""The vectors of the sparse cluster's specification."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from unit_words import outputs_of

from bfpga.engines.sparse_cluster.partition.geometry import Padding

FOLDER = Path(__file__).parents[1] / "vectors"


@cache
def load_vector(name: str) -> dict[str, Any]:
    """One file; the same object every time, so leave it as it is."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def mask_of(vector: dict[str, Any]) -> np.ndarray:
    """The mask (rows, columns) of a balancing vector: rows of bits, or words whose bit 0 is column 0."""
    if "mask" in vector["input"]:
        return np.array(vector["input"]["mask"], bool)
    words = vector["input"]["mask_rows_hex"]
    return np.array([[int(word, 16) >> column & 1 for column in range(4 * len(word))] for word in words], bool)


def check_outputs(full: np.ndarray, kernel: np.ndarray, vector: dict[str, Any]) -> None:
    """Whether the outputs of a vector are those of a full grid (1, rows, columns)."""
    config, expected = vector["config"], np.array(vector["expected"]["out"])
    rows, columns = kernel.shape
    found = outputs_of(full, (rows, columns), Padding(*config["pad"]), tuple(config["stride"]), expected.shape)
    np.testing.assert_array_equal(found[0], expected)
