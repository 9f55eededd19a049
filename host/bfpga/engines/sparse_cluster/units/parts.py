"""Kernels larger than a cluster's, as sub-kernels with offsets whose results add up to the whole (SC R7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import Padding, Rectangle, folds
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster
from bfpga.engines.sparse_cluster.units.configuration import SparseClusterConfig
from bfpga.engines.sparse_cluster.units.weights import SparseLayer
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.rounding import wrap


@dataclass(frozen=True)
class LayerPart:
    """A sub-kernel as a layer of its own on the input cells that it meets.

    offset: its first row and column in the whole kernel. cells: input cells; those in front of them or behind them meet
    other sub-kernels only. layer: its padding makes the outputs those of the whole layer.
    """

    offset: tuple[int, int]
    cells: Rectangle
    layer: SparseLayer


def layer_parts(layer: SparseLayer, largest: tuple[int, int], shape: tuple[int, int]) -> list[LayerPart]:
    """The sub-kernels of at most ``largest`` rows and columns, in raster order; shape: rows, columns of the input.

    Sub-kernels that meet padding alone are left out: they add nothing.
    """
    parts = []
    for place in folds(*layer.kernel, largest):
        axes = [
            _axis(layer, axis, shape[axis], first, size)
            for axis, first, size in ((0, place.row0, place.rows), (1, place.column0, place.columns))
        ]
        (row0, row1, top, bottom), (column0, column1, left, right) = axes
        if row1 > row0 and column1 > column0:
            weights = layer.weights[:, place.row0 : place.row1, place.column0 : place.column1]
            part = SparseLayer(weights, Padding(top, bottom, left, right), layer.stride, layer.groups)
            parts.append(LayerPart((place.row0, place.column0), Rectangle(row0, column0, row1, column1), part))
    return parts


def _axis(layer: SparseLayer, axis: int, cells: int, first: int, size: int) -> tuple[int, int, int, int]:
    """Along one axis: first and last cell that lines [first, first + size) of the kernel meet, padding around them."""
    padding = layer.padding[2 * axis]
    outputs = layer.output_shape(cells, cells)[axis]
    start = first - padding
    end = start + (outputs - 1) * layer.stride[axis] + size
    inside = max(start, 0), min(end, cells)
    return *inside, inside[0] - start, end - inside[1]


class SplitCluster:
    """A layer whose kernel exceeds the cluster's, sub-kernel by sub-kernel (R7).

    ``ConfigurationError`` if the sums of the whole kernel may leave the accumulator.
    """

    def __init__(self, layer: SparseLayer, config: SparseClusterConfig) -> None:
        config.check_sums(layer.kernel, layer.weights.shape[3])
        self.layer = layer
        self.config = config

    def parts(self, shape: tuple[int, int]) -> list[LayerPart]:
        """The sub-kernels for an input of so many rows and columns."""
        return layer_parts(self.layer, self.config.largest_kernel, shape)

    def run(self, x: IntArray) -> Int64Array:
        """Sums (samples, output rows, output columns, kernels) of images (samples, rows, columns, channels)."""
        outputs = self.layer.output_shape(x.shape[1], x.shape[2])
        total = np.zeros((len(x), *outputs, len(self.layer.weights)), np.int64)
        for part in self.parts((x.shape[1], x.shape[2])):
            cells = part.cells
            total += SparseCluster(part.layer, self.config).run(
                x[:, cells.row0 : cells.row1, cells.column0 : cells.column1]
            )
        return wrap(total, self.config.accumulator_bits)

    def cycles(self, image: IntArray) -> int:
        """Clocks of one image (rows, columns, channels): the sub-kernels follow each other."""
        total = 0
        for part in self.parts((image.shape[0], image.shape[1])):
            cells = part.cells
            own = image[cells.row0 : cells.row1, cells.column0 : cells.column1]
            total += SparseCluster(part.layer, self.config).cycles(own).cycles
        return total
