"""The vectors of the sparse cluster's specification."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

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
