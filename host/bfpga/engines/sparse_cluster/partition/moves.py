"""One step of the exchange: which limit moves by how far, all candidates at once (SC 4.1).

Candidates stand in a fixed order: bands from the top, limits from the left, one line back before one line forward; then
the limits between bands. The candidate with the smallest sum of squared loads moves, the first one among equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import CutGeometry
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray

#: A limit moves one line back, or one line forward.
_DIRECTIONS = np.array([-1, 1])


@dataclass(frozen=True)
class Capacity:
    """Accumulators of a unit (R155): words in each of banks = rows x columns, over which a piece's full grid is spread.

    banks: None for kh x kw, those of variant E; (1, 1) for one memory with a word for each cell of the full grid.
    """

    words: int
    kernel: tuple[int, int]
    banks: tuple[int, int] | None = None

    def words_of(self, rows: Int64Array, columns: Int64Array) -> Int64Array:
        """Words that pieces of ``rows`` x ``columns`` stored cells take (arrays that broadcast)."""
        down, across = self.banks or self.kernel
        full_rows, full_columns = rows + self.kernel[0] - 1, columns + self.kernel[1] - 1
        return -(-full_rows // down) * -(-full_columns // across)

    def holds(self, geometry: CutGeometry) -> bool:
        """Whether even all lines together fit one unit."""
        rows, columns = geometry.rows, geometry.columns
        return bool(
            self.words_of(rows.end[-1:] - rows.start[:1], columns.end[-1:] - columns.start[:1])[0] <= self.words
        )


@dataclass
class Limits:
    """rows: (bands + 1,) limits between bands; columns: (bands, pieces of a band + 1) limits inside bands."""

    rows: Int64Array
    columns: Int64Array

    @staticmethod
    def of(rows: Sequence[int], columns: Sequence[Sequence[int]]) -> Limits:
        return Limits(np.array(rows, np.int64), np.array(columns, np.int64))


class Search:
    """The limits of a partition, the table its loads come from, and the search for the next move."""

    def __init__(
        self,
        table: Int64Array,
        geometry: CutGeometry,
        limits: Limits,
        capacity: Capacity | None = None,
    ) -> None:
        self.table = table
        self.limits = limits
        self.capacity = capacity
        self._flat = self.table.ravel()
        width = self.table.shape[1]
        self._rows, self._columns = geometry.rows, geometry.columns
        self._row_start, self._row_end = geometry.rows.start * width, geometry.rows.end * width

    @property
    def total(self) -> int:
        return int(self.table[-1, -1])

    def sums(self, top: Int64Array, bottom: Int64Array, left: Int64Array, right: Int64Array) -> Int64Array:
        """Work of pieces between limits (arrays that broadcast)."""
        up, down = self._row_start[top], self._row_end[bottom]
        first, last = self._columns.start[left], self._columns.end[right]
        flat = self._flat
        result: Int64Array = flat[down + last] - flat[up + last] - flat[down + first] + flat[up + first]
        return result

    def loads(self) -> Int64Array:
        """Work of every piece (bands, pieces of a band)."""
        rows, columns = self.limits.rows, self.limits.columns
        return self.sums(rows[:-1, None], rows[1:, None], columns[:, :-1], columns[:, 1:])

    def fits(self) -> bool:
        """Whether every piece fits a unit's accumulators."""
        rows, columns = self.limits.rows, self.limits.columns
        return bool(np.all(self._fit(rows[:-1, None], rows[1:, None], columns[:, :-1], columns[:, 1:])))

    def improve(self, loads: Int64Array) -> bool:
        """Make the best move; False if none makes the sum of squared loads smaller. loads: those of now."""
        column_change, column_place = self._column_candidates(loads)
        row_change, row_place = self._row_candidates(loads)
        change = np.concatenate((column_change.ravel(), row_change.ravel()))
        if not change.size:
            return False
        best = int(change.argmin())
        if change[best] >= 0:
            return False
        if best < column_change.size:
            band, limit, _ = np.unravel_index(best, column_change.shape)
            self.limits.columns[band, limit + 1] = column_place.flat[best]
        else:
            self.limits.rows[(best - column_change.size) // 2 + 1] = row_place.flat[best - column_change.size]
        return True

    def _fit(self, top: Int64Array, bottom: Int64Array, left: Int64Array, right: Int64Array) -> BoolArray | bool:
        if self.capacity is None:
            return True
        rows = self._rows.end[bottom] - self._rows.start[top]
        columns = self._columns.end[right] - self._columns.start[left]
        result: BoolArray = self.capacity.words_of(rows, columns) <= self.capacity.words
        return result

    def _column_candidates(self, loads: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Change of the sum of squares and new place of each limit inside a band: (bands, limits, directions)."""
        limits = self.limits.columns[:, :, None]
        bands = np.arange(len(loads))[:, None, None]
        low, now, high = limits[:, :-2], limits[:, 1:-1], limits[:, 2:]
        squares = loads * loads
        before = (squares[:, :-1] + squares[:, 1:])[:, :, None]
        place = now + _DIRECTIONS
        inside = (low < place) & (place < high)
        change, fit = self._column_change(bands, low, np.where(inside, place, now), high, before)
        change = np.where(inside & fit, change, 0)
        for band, limit, direction in np.argwhere((change == 0) & inside & fit).tolist():
            change[band, limit, direction], place[band, limit, direction] = self._slide_column(
                band, limit + 1, direction, int(before[band, limit, 0])
            )
        return change, place

    def _column_change(
        self,
        bands: Int64Array,
        low: Int64Array,
        place: Int64Array,
        high: Int64Array,
        before: Int64Array | int,
    ) -> tuple[Int64Array, BoolArray | bool]:
        top, bottom = self.limits.rows[bands], self.limits.rows[bands + 1]
        left, right = self.sums(top, bottom, low, place), self.sums(top, bottom, place, high)
        fit = self._fit(top, bottom, low, place) & self._fit(top, bottom, place, high)
        return left * left + right * right - before, fit

    def _slide_column(self, band: int, limit: int, direction: int, before: int) -> tuple[int, int]:
        """Past columns that change nothing: the change and the place of the first that does; (0, 0) if none does."""
        low, now, high = self.limits.columns[band, limit - 1 : limit + 2].tolist()
        places = _beyond(now, low, high, direction)
        bounds = np.array([low]), np.array([high])
        change, fit = self._column_change(np.array([band]), bounds[0], places, bounds[1], before)
        return _first_change(change, fit, places)

    def _row_candidates(self, loads: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The same for the limits between bands: (limits, directions)."""
        rows = self.limits.rows[:, None]
        low, now, high = rows[:-2], rows[1:-1], rows[2:]
        bands = np.arange(len(now))[:, None]
        squares = (loads * loads).sum(axis=1)
        before = (squares[:-1] + squares[1:])[:, None]
        place = now + _DIRECTIONS
        inside = (low < place) & (place < high)
        change, fit = self._row_change(bands, low, np.where(inside, place, now), high, before)
        change = np.where(inside & fit, change, 0)
        for limit, direction in np.argwhere((change == 0) & inside & fit).tolist():
            change[limit, direction], place[limit, direction] = self._slide_row(limit, direction, int(before[limit, 0]))
        return change, place

    def _row_change(
        self, bands: Int64Array, low: Int64Array, place: Int64Array, high: Int64Array, before: Int64Array | int
    ) -> tuple[Int64Array, BoolArray | bool]:
        """bands: the upper of the two bands that share the limit."""
        low, place, high = low[..., None], place[..., None], high[..., None]
        upper, lower = self.limits.columns[bands], self.limits.columns[bands + 1]
        above = self.sums(low, place, upper[..., :-1], upper[..., 1:])
        below = self.sums(place, high, lower[..., :-1], lower[..., 1:])
        fit = self._fit(low, place, upper[..., :-1], upper[..., 1:]) & self._fit(
            place, high, lower[..., :-1], lower[..., 1:]
        )
        change = (above * above).sum(axis=-1) + (below * below).sum(axis=-1) - before
        return change, fit if isinstance(fit, bool) else fit.all(axis=-1)

    def _slide_row(self, limit: int, direction: int, before: int) -> tuple[int, int]:
        low, now, high = self.limits.rows[limit : limit + 3].tolist()
        places = _beyond(now, low, high, direction)
        change, fit = self._row_change(np.array([limit]), np.array([low]), places, np.array([high]), before)
        return _first_change(change, fit, places)


def summed_area_table(work: IntArray) -> Int64Array:
    """(rows + 1, columns + 1): entry (r, c) is the sum of the work above row r and left of column c."""
    table = np.zeros((work.shape[0] + 1, work.shape[1] + 1), np.int64)
    np.cumsum(work, axis=1, dtype=np.int64, out=table[1:, 1:])
    np.cumsum(table[1:, 1:], axis=0, out=table[1:, 1:])
    return table


def _beyond(now: int, low: int, high: int, direction: int) -> Int64Array:
    """Places beyond the first step in a direction (0: back, 1: forward) that leave both sides a line."""
    return np.arange(now - 2, low, -1) if direction == 0 else np.arange(now + 2, high)


def _first_change(change: Int64Array, fit: BoolArray | bool, places: Int64Array) -> tuple[int, int]:
    """The first place at which the sum of squares changes, unless a place that does not fit comes before it."""
    stops = np.flatnonzero((change != 0) | ~np.broadcast_to(fit, change.shape))
    if not len(stops):
        return 0, 0
    first = int(stops[0])
    if not np.broadcast_to(fit, change.shape)[first]:
        return 0, 0
    return int(change[first]), int(places[first])
