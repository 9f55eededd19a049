"""How units of variant A go through the weights of a kernel: in serpentine order, a tap a cycle (SC R84).

A walk begins at the first tap with a weight and ends at the last tap of all. Taps without a weight between these take
their cycle, since the window of sums passes them; the window leaves in four cycles, which a walk has at least.
"""

from __future__ import annotations

import numpy as np

from bfpga.contract.arrays.sparse_cluster import WINDOW_CLOCKS
from bfpga.formats.arrays import BoolArray, Int64Array


def serpentine(rows: int, columns: int) -> Int64Array:
    """The taps (rows * columns,) of a kernel in the order of a walk: a row to the right, the next one to the left."""
    taps = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    taps[1::2] = taps[1::2, ::-1]
    return taps.reshape(-1)


def walk_clocks(used: BoolArray) -> Int64Array:
    """Cycles of each kernel (...); used: which taps of the unit's largest kernel have a weight (..., rows, columns)."""
    rows, columns = used.shape[-2:]
    walked = used.reshape(*used.shape[:-2], -1)[..., serpentine(rows, columns)]
    remaining = np.where(walked.any(axis=-1), rows * columns - walked.argmax(axis=-1), 0)
    return np.maximum(remaining, WINDOW_CLOCKS).astype(np.int64)


def walked_steps(used: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Steps of each channel's list, and their cycles (channels,); used: (kernels, rows, columns, channels).

    Kernel 0 has the first place and a list two at least: where these have no weight is a pause.
    """
    weighted = used.any(axis=(1, 2))
    pauses = (~weighted[0]).astype(np.int64) + ~weighted[1:].any(axis=0)
    clocks = np.where(weighted, walk_clocks(np.moveaxis(used, 3, 1)), 0).sum(axis=0)
    return weighted.sum(axis=0) + pauses, clocks + WINDOW_CLOCKS * pauses
