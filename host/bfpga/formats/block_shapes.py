"""Which elements of a matrix share an exponent: an exponent table and an index map (BFP 2.3, R39-R42, R50-R55)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array, IntArray

#: Shortest run of equal exponents along the reduction that is worth its shift and add: 8 pairs of products.
SHORTEST_SEGMENT = 16
#: Shapes without sizes; the others are rows:n and tile:a,b.
_PLAIN = ("whole", "row", "column", "quarter", "diagonal")


@dataclass(frozen=True)
class BlockShape:
    """A block shape. kind: whole, row, rows, column, quarter, tile, diagonal or map.

    sizes: (n, 0) of rows:n, (a, b) of tile:a,b. table: the index map of `map`, as rows of a tuple.
    """

    kind: str = "whole"
    sizes: tuple[int, int] = (0, 0)
    table: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def parse(text: str) -> BlockShape:
        """The shape of a string such as `row`, `rows:4`, `tile:2,8`; ``ConfigurationError`` for anything else."""
        if text in _PLAIN:
            return BlockShape(text)
        if (match := re.fullmatch(r"rows:([1-9]\d*)", text)) is not None:
            return BlockShape("rows", (int(match[1]), 0))
        if (match := re.fullmatch(r"tile:([1-9]\d*),([1-9]\d*)", text)) is not None:
            return BlockShape("tile", (int(match[1]), int(match[2])))
        raise ConfigurationError(
            f"block shape '{text}' is unknown: write {', '.join(_PLAIN)}, rows:N or tile:A,B with positive sizes"
        )

    @staticmethod
    def from_map(table: npt.ArrayLike) -> BlockShape:
        """Arbitrary blocks: the exponent's number for every element, e.g. one exponent per element."""
        rows: list[list[int]] = np.asarray(table, np.int64).tolist()
        return BlockShape("map", table=tuple(tuple(row) for row in rows))

    def __str__(self) -> str:
        if self.kind == "rows":
            return f"rows:{self.sizes[0]}"
        return f"tile:{self.sizes[0]},{self.sizes[1]}" if self.kind == "tile" else self.kind

    def index(self, rows: int, columns: int) -> Int64Array:
        """Number of the exponent of every element of a (rows, columns) matrix. BFP R42."""
        if self.kind == "map":
            return self._map(rows, columns)
        r = np.arange(rows, dtype=np.int64)[:, None]
        c = np.arange(columns, dtype=np.int64)[None, :]
        first, second = self.sizes
        if self.kind == "tile":
            numbers = r // first * -(-columns // second) + c // second
        elif self.kind == "quarter":
            numbers = 2 * (r >= -(-rows // 2)) + (c >= -(-columns // 2))
        elif self.kind == "diagonal":
            numbers = (c - r) % columns
        elif self.kind == "column":
            numbers = c
        else:
            numbers = {"whole": 0 * r, "row": r, "rows": r // max(first, 1)}[self.kind]
        return np.broadcast_to(numbers, (rows, columns)).astype(np.int64)

    def _map(self, rows: int, columns: int) -> Int64Array:
        table = np.array(self.table, np.int64)
        if table.shape != (rows, columns):
            raise ConfigurationError(f"the block map has shape {table.shape}, the matrix {(rows, columns)}")
        return table

    def count(self, rows: int, columns: int) -> int:
        """Number of exponents in the table of a (rows, columns) matrix. BFP R40."""
        if self.kind == "quarter":
            return 4
        return int(self.index(rows, columns).max(initial=-1)) + 1

    def constant_along_reduction(self, rows: int, columns: int) -> bool:
        """True if every row has one exponent, so that one accumulation gives its product exactly. BFP R53."""
        index = self.index(rows, columns)
        return bool((index == index[:, :1]).all())

    def shortest_segment(self, rows: int, columns: int) -> int:
        """Length of the shortest run of equal exponents along a row. BFP R54."""
        return int(np.diff(segment_starts(self.index(rows, columns)), append=columns).min(initial=columns))

    def check_segments(self, rows: int, columns: int, shortest: int = SHORTEST_SEGMENT) -> None:
        """``ConfigurationError`` if the exponent changes too often along the reduction. BFP R55."""
        length = self.shortest_segment(rows, columns)
        if length < min(shortest, columns):
            raise ConfigurationError(
                f"block shape '{self}' changes its exponent after {length} of {columns} elements along the reduction; "
                f"at least {shortest} are needed: use larger tiles, or re-block it to 'row' on the host (reblock)"
            )

    def transposed(self, rows: int, columns: int) -> tuple[BlockShape, Int64Array]:
        """Shape of the transposed (rows, columns) matrix, and for each of its exponents the number of the old one.

        Shapes that have no name when transposed become maps. BFP R50.
        """
        first, second = self.sizes
        named = {
            "whole": BlockShape("whole"),
            "row": BlockShape("column"),
            "column": BlockShape("row"),
            "quarter": BlockShape("quarter"),
            "rows": BlockShape("tile", (max(columns, 1), first)),
            "tile": BlockShape("tile", (second, first)),
        }
        old = self.index(rows, columns).T
        shape = named.get(self.kind) or BlockShape.from_map(old)
        order = np.zeros(shape.count(columns, rows), np.int64)
        order[shape.index(columns, rows)] = old
        return shape, order


def segment_starts(index: IntArray) -> Int64Array:
    """First columns of the segments of a (rows, columns) map: a segment ends where any row's number changes."""
    if index.shape[1] == 0:
        return np.zeros(0, np.int64)
    changes = (index[:, 1:] != index[:, :-1]).any(axis=0)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))
