"""What tests of compressed formats share: vectors, sparse arrays, damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from bfpga.errors import DataError

VECTORS = Path(__file__).parents[1] / "vectors"
DENSITIES = st.sampled_from([0.0, 0.02, 0.2, 0.5, 0.9, 1.0])


def vector(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return content


def vector_words(texts: list[str]) -> list[int]:
    return [int(text, 16) for text in texts]


def sparse_array(
    shape: tuple[int, ...], density: float, seed: int, value_bytes: int = 1, clustered: bool = False
) -> npt.NDArray[np.int64]:
    """Values of the whole range, zero where chance says so, or outside of a few discs."""
    rng = np.random.default_rng(seed)
    limit = 1 << (8 * value_bytes - 1)
    values = rng.integers(-limit, limit, shape)
    if not clustered:
        values[rng.random(shape) >= density] = 0
        return values
    row, column = np.mgrid[: shape[0], : shape[1]]
    distance = np.min([np.hypot(row - r, column - c) for r, c in rng.random((3, 2)) * shape], axis=0)
    values[distance > np.quantile(distance, density)] = 0
    return values


def only_data_errors(decode: Callable[[], object]) -> bool:
    """Whether damaged words decode to something; all that may be raised is ``DataError``."""
    try:
        decode()
    except DataError:
        return False
    return True
