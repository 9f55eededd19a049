"""Which interval a floating point number is in: a binary search, or for many float32 a table of their upper halves.

The bits of a float32 are monotone in its value. The upper 16 of them choose a bucket of neighbouring numbers; a table
gives the number of bounds below the bucket, and the few bounds inside it are compared one by one. The result is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Fewer numbers than this are found by binary search: a table costs as much as 50 000 searches.
_TABLE_PAYS = 1 << 15
#: Buckets with more bounds inside than this make the table slower than a search.
_INSIDE_LIMIT = 8


class _HalfTable:
    """Bounds by the upper half of a float32: how many are below a bucket, and those inside it."""

    def __init__(self, bounds: npt.NDArray[np.float32]) -> None:
        # Little-endian bytes: the lower half comes first. The magnitude grows with the bits whatever the sign.
        upper = np.arange(1 << 16, dtype=np.uint32) << 16
        nearest_zero, farthest = upper.view(np.float32), (upper | 0xFFFF).view(np.float32)
        # One bucket begins with infinity and goes on with no numbers.
        farthest = np.where(np.isinf(nearest_zero), nearest_zero, farthest)
        numbers = ~np.isnan(nearest_zero)
        positive = upper < 1 << 31
        lowest = np.where(positive, nearest_zero, farthest)[numbers]
        highest = np.where(positive, farthest, nearest_zero)[numbers]
        self.below = np.zeros(1 << 16, np.uint16)
        self.below[numbers] = np.searchsorted(bounds, lowest, "left")
        above = np.zeros(1 << 16, np.int64)
        above[numbers] = np.searchsorted(bounds, highest, "left")
        inside = np.where(numbers, above - self.below, 0)
        self.depth = int(inside.max())
        padded = np.append(bounds, np.float32(np.inf))
        steps = range(min(self.depth, _INSIDE_LIMIT))
        self.inside = [
            np.where(inside > step, padded[np.minimum(self.below + np.int64(step), bounds.size)], np.float32(np.inf))
            for step in steps
        ]

    def __call__(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
        """values: C-contiguous."""
        key = values.view("<u2")[..., 1::2]
        result: npt.NDArray[np.uint16] = self.below[key]
        for bound in self.inside:
            result += values > bound[key]
        return result


class IntervalSearch:
    """Numbers of bounds below values. bounds: ascending, float32 or float64, less than 2**16 of them."""

    def __init__(self, bounds: npt.NDArray[Any]) -> None:
        self._bounds = bounds
        self._table: _HalfTable | None = None
        self._seen = 0

    def __call__(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
        """For each value of the bounds' type (any shape, no NaN), how many bounds are smaller."""
        if values.dtype == np.float32:
            self._seen += values.size
            if self._seen > _TABLE_PAYS and self._table is None:
                self._table = _HalfTable(self._bounds)
            if self._table is not None and self._table.depth <= _INSIDE_LIMIT:
                return self._table(np.ascontiguousarray(values))
        return np.searchsorted(self._bounds, values, "left").astype(np.uint16)
