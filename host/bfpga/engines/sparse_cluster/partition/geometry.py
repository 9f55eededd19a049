"""Cutting a feature map into rectangles: which stored cells a piece reads, and cutting by size alone.

A map is cut at *lines*. In overlap-add mode the lines are those of the input map and pieces do not overlap; in halo
mode they are those of the output map, and a piece reads the cells its outputs need (SC 2.6, E4 inverted).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array


class Rectangle(NamedTuple):
    """Cells [row0, row1) x [column0, column1)."""

    row0: int
    column0: int
    row1: int
    column1: int

    @property
    def rows(self) -> int:
        return self.row1 - self.row0

    @property
    def columns(self) -> int:
        return self.column1 - self.column0

    @property
    def area(self) -> int:
        return self.rows * self.columns


class Padding(NamedTuple):
    """Virtual zeros around a map: they move the read-out window and are never stored (SC R35)."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


NO_PADDING = Padding()


@dataclass(frozen=True)
class LineMap:
    """One axis: the piece that owns lines [a, b) reads the cells [start[a], end[b]).

    Arrays hold one entry a limit; middle: the cell at which a limit lies in proportion. cells: size of the whole map.
    """

    start: Int64Array
    end: Int64Array
    middle: Int64Array
    cells: int

    @property
    def lines(self) -> int:
        return len(self.start) - 1

    @property
    def covered(self) -> int:
        """Cells between the first and the last limit; 1 at least, where padding makes more outputs than cells."""
        return max(1, int(self.middle[-1] - self.middle[0]))

    def part(self, first: int, last: int) -> LineMap:
        """Lines [first, last) alone; they still read the cells of the whole map."""
        limits = slice(first, last + 1)
        return LineMap(self.start[limits], self.end[limits], self.middle[limits], self.cells)


@dataclass(frozen=True)
class CutGeometry:
    """Both axes of a map that is cut: rows and columns."""

    rows: LineMap
    columns: LineMap

    @property
    def shape(self) -> tuple[int, int]:
        """Lines that are cut: of the input map (overlap-add) or of the output map (halo)."""
        return self.rows.lines, self.columns.lines

    @property
    def map_shape(self) -> tuple[int, int]:
        """Rows and columns of the input map."""
        return self.rows.cells, self.columns.cells

    @property
    def area(self) -> int:
        """Input cells that are cut."""
        return self.rows.covered * self.columns.covered

    def part(self, fold: Rectangle) -> CutGeometry:
        """The lines of one fold alone."""
        return CutGeometry(self.rows.part(fold.row0, fold.row1), self.columns.part(fold.column0, fold.column1))

    def stored(self, piece: Rectangle) -> Rectangle:
        """Input cells that a piece reads, halo included, clipped to the map (R29)."""
        return Rectangle(
            int(self.rows.start[piece.row0]),
            int(self.columns.start[piece.column0]),
            int(self.rows.end[piece.row1]),
            int(self.columns.end[piece.column1]),
        )


def overlap_add_geometry(height: int, width: int) -> CutGeometry:
    """Pieces of input cells that do not overlap; their results share border cells, which are summed (R30)."""
    limits = (np.arange(size + 1) for size in (height, width))
    rows, columns = (LineMap(limit, limit, limit, len(limit) - 1) for limit in limits)
    return CutGeometry(rows, columns)


def output_size(cells: int, padding: int, kernel: int, stride: int) -> int:
    """Output lines of one axis (E5); ``padding`` is that of both sides together."""
    return (cells + padding - kernel) // stride + 1


def halo_geometry(
    height: int,
    width: int,
    kernel: tuple[int, int],
    padding: Padding = NO_PADDING,
    stride: tuple[int, int] = (1, 1),
) -> CutGeometry:
    """Pieces own outputs; a piece reads rows [r0*sr - pt, (r1-1)*sr - pt + kh), columns likewise (R29)."""
    return CutGeometry(
        _halo_lines(height, padding.top, padding.bottom, kernel[0], stride[0]),
        _halo_lines(width, padding.left, padding.right, kernel[1], stride[1]),
    )


def shared_halo_geometry(height: int, width: int, kernel: tuple[int, int]) -> CutGeometry:
    """Pieces own outputs, and limits are lines of the map: the form of a kernel with halo (sparse_cluster/halo.hpp).

    Line l of the map stands for line l + (kernel - 1) // 2 of the full grid, which needs kernel // 2 cells before l and
    (kernel - 1) // 2 behind it. So it is known without padding and stride which cells a piece reads, and pieces at the
    border of the map have half of a halo.
    """
    return CutGeometry(_shared_lines(height, kernel[0]), _shared_lines(width, kernel[1]))


def _shared_lines(cells: int, kernel: int) -> LineMap:
    limits = np.arange(cells + 1)
    start, end = np.maximum(limits - kernel // 2, 0), np.minimum(limits + (kernel - 1) // 2, cells)
    return LineMap(start, end, limits, cells)


def _halo_lines(cells: int, before: int, after: int, kernel: int, stride: int) -> LineMap:
    lines = output_size(cells, before + after, kernel, stride)
    if lines < 1:
        raise ConfigurationError(
            f"a kernel of {kernel} lines does not fit a map of {cells} lines with {before + after} lines of padding"
        )
    limits = np.arange(lines + 1)
    start = np.clip(limits * stride - before, 0, cells)
    end = np.clip((limits - 1) * stride - before + kernel, 0, cells)
    return LineMap(start, end, limits * cells // lines, cells)


def folds(height: int, width: int, limit: tuple[int, int]) -> list[Rectangle]:
    """A map above ``limit`` (rows, columns) cut by size, not by content, in raster order (R148)."""
    if min(limit) < 1:
        raise ConfigurationError(f"the limit of a fold is {limit[0]} x {limit[1]}; 1 x 1 at least is needed")
    return [
        Rectangle(row, column, min(row + limit[0], height), min(column + limit[1], width))
        for row in range(0, height, limit[0])
        for column in range(0, width, limit[1])
    ]
