"""Seeded maps for the benchmarks of the sparse engines: where values are not zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
KINDS = ("uniform", "gradient", "object")


def map_of(kind: str, rows: int, columns: int, density: float, generator: np.random.Generator) -> BoolArray:
    """A map (rows, columns) of about ``density``: the same everywhere, rising to the right, or around one object."""
    draw = generator.random((rows, columns))
    if kind == "uniform":
        return draw < density
    if kind == "gradient":
        return draw < np.linspace(0, 2 * density, columns)
    y, x = np.mgrid[0:rows, 0:columns]
    bell = np.exp(-((np.hypot(y - 0.4 * rows, x - 0.35 * columns) / (0.25 * rows)) ** 2))
    return draw < np.clip(bell * density / bell.mean(), 0, 1)
