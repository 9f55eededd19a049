"""Behind the units: stitching, read-out, ReLU, pooling, and the counters for the next layer (SC 3.14, 3.15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bfpga.engines.sparse_cluster.partition.geometry import Rectangle, output_size
from bfpga.engines.sparse_cluster.units.weights import SparseLayer
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.compressed.payloads import MapFormat, encode_map
from bfpga.formats.compressed.words import WordArray
from bfpga.formats.rounding import wrap

Pooling = Literal["max", "average", "sum"]


@dataclass(frozen=True)
class PoolSettings:
    """Pooling of windows that lie wholly inside; stride None: that of the size (R123)."""

    kind: Pooling
    size: tuple[int, int] = (2, 2)
    stride: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if min(self.size) < 1 or min(self.stride or (1, 1)) < 1:
            raise ConfigurationError(f"pooling of {self.size} with stride {self.stride}: 1 at least is needed")

    @property
    def steps(self) -> tuple[int, int]:
        return self.stride or self.size


def relu(values: IntArray) -> IntArray:
    """max(0, x) of every value (R121)."""
    result: IntArray = np.maximum(values, 0)
    return result


def pool(values: IntArray, settings: PoolSettings) -> Int64Array:
    """Pooled maps (..., rows, columns, channels); partial windows are dropped, averages round half up (R123)."""
    size, steps = settings.size, settings.steps
    rows, columns = (
        max(0, output_size(cells, 0, size[axis], steps[axis])) for axis, cells in enumerate(values.shape[-3:-1])
    )
    total: Int64Array | None = None
    combine = np.maximum if settings.kind == "max" else np.add
    for row in range(size[0]):
        for column in range(size[1]):
            view = values[..., row :: steps[0], column :: steps[1], :][..., :rows, :columns, :].astype(np.int64)
            total = view if total is None else combine(total, view)
    assert total is not None
    cells = size[0] * size[1]
    return (2 * total + cells) // (2 * cells) if settings.kind == "average" else total


def full_grid_window(layer: SparseLayer, height: int, width: int) -> tuple[slice, slice, Rectangle]:
    """Read-out of a full grid (E4): rows and columns of the grid that exist, and the outputs they become.

    Outputs outside the rectangle see padding only and are zero.
    """
    axes = []
    sizes = layer.output_shape(height, width)
    for axis, (before, cells) in enumerate(((layer.padding.top, height), (layer.padding.left, width))):
        offset, stride = layer.kernel[axis] - 1 - before, layer.stride[axis]
        first = max(0, -(offset // stride))
        last = max(first, min(sizes[axis], -(-(cells + layer.kernel[axis] - 1 - offset) // stride)))
        start = first * stride + offset
        axes.append(
            (slice(start, start + (last - first - 1) * stride + 1 if last > first else start, stride), first, last)
        )
    (row_slice, row0, row1), (column_slice, column0, column1) = axes
    return row_slice, column_slice, Rectangle(row0, column0, row1, column1)


def read_out(full: IntArray, layer: SparseLayer, height: int, width: int) -> Int64Array:
    """Outputs (rows, columns, kernels) of a full grid (height + kh - 1, width + kw - 1, kernels) (E4)."""
    rows, columns, place = full_grid_window(layer, height, width)
    result = np.zeros((*layer.output_shape(height, width), full.shape[2]), np.int64)
    result[place.row0 : place.row1, place.column0 : place.column1] = full[rows, columns]
    return result


def stitch_halo(pieces: Sequence[tuple[Rectangle, IntArray]], shape: tuple[int, int]) -> Int64Array:
    """The output map from the rectangles that units own (R128). pieces: place and (rows, columns, kernels)."""
    result = np.zeros((*shape, pieces[0][1].shape[2]), np.int64)
    for place, values in pieces:
        result[place.row0 : place.row1, place.column0 : place.column1] = values
    return result


def stitch_overlap_add(
    pieces: Sequence[tuple[Rectangle, IntArray]], layer: SparseLayer, height: int, width: int, bits: int
) -> Int64Array:
    """The output map from raw full grids of pieces; shared cells are summed modulo 2**bits (R129)."""
    rows, columns = height + layer.kernel[0] - 1, width + layer.kernel[1] - 1
    full = np.zeros((rows, columns, pieces[0][1].shape[2]), np.int64)
    for place, values in pieces:
        full[place.row0 : place.row0 + values.shape[0], place.column0 : place.column0 + values.shape[1]] += values
    return read_out(wrap(full, bits), layer, height, width)


def compressed_outputs(values: IntArray, fmt: MapFormat) -> list[WordArray]:
    """Payloads of an output piece (rows, columns, kernels) after requantisation, one for each kernel (R127)."""
    return [encode_map(values[:, :, kernel], fmt) for kernel in range(values.shape[2])]


@dataclass(frozen=True)
class OutputCounts:
    """Values of an output piece that are not zero: in all, of each row, of each column (R131)."""

    total: int
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]


def output_counts(values: IntArray) -> OutputCounts:
    """Counters that let the next layer be balanced; values: (rows, columns, kernels)."""
    present = np.count_nonzero(values, axis=2)
    return OutputCounts(int(present.sum()), present.sum(axis=1), present.sum(axis=0))
