"""Copies of a tensor's pixels into another order: layers that each copy pixels at even distances.

A kernel writes runs of pixels next to each other, in every row or in every so many, and reads at any even distance. Any
order of whole pixels is a number of such copies; pixels of an image that were apart, as those of patches, take two
for each of its columns.
"""

from __future__ import annotations

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer
from bfpga.compiler.read.importer import Operator
from bfpga.contract.program import Window

#: Copies that one rearrangement may become.
MOST_COPIES = 128


def moving_layers(
    operator: Operator, source: ArrayTensor, places: IndexArray, banks: int
) -> tuple[Layer, ...] | None:  # fmt: skip
    """The layers that copy a tensor's elements, ``places`` in its memory, into another order of (height, width,
    channels); None where pixels do not stay together, or copies are too many."""
    y, x, channels = (np.asarray(axis) for axis in np.unravel_index(places, source.layout.shape))
    together = (y == y[:, :, :1]).all() and (x == x[:, :, :1]).all() and (channels == channels[:1, :1]).all()
    windows = copied_windows(y[:, :, 0], x[:, :, 0], banks) if together else None
    if windows is None:
        return None
    names = [operator.name] if len(windows) == 1 else [f"{operator.name}:{number}" for number in range(len(windows))]
    return tuple(copying_layer(name, operator, source, window, channels[0, 0], operator.outputs[0])
                 for name, window in zip(names, windows, strict=True))  # fmt: skip


def copying_layer(
    name: str, operator: Operator, source: ArrayTensor, window: Window, channels: IndexArray, output: str
) -> Layer:
    """A layer that copies some channels of the pixels that a window covers."""
    layer = Layer(name, "max", (source.name,), output, len(channels), window, operators=[operator])
    if not np.array_equal(channels, np.arange(source.channels)):
        layer.kind = "gemm"
        layer.weights = np.zeros((len(channels), 1, 1, source.channels))
        layer.weights[np.arange(len(channels)), 0, 0, channels] = 1.0
    return layer


def copied_windows(y: IndexArray, x: IndexArray, banks: int) -> list[Window] | None:
    """The windows that together give pixel (y, x) of a source for each pixel of a result, each once; None: too many.

    banks: whose multiples no step along a row may be, for all pixels of a run would lie in one of them.
    """
    open_, windows = np.ones(y.shape, bool), list[Window]()
    while open_.any():
        if len(windows) == MOST_COPIES:
            return None
        row, column = (int(place) for place in np.argwhere(open_)[0])
        window = _largest(y, x, open_, row, column, banks)
        windows.append(window)
        open_[window.pixels_of(0, window.output_height, 1, 0, window.output_width)] = False
    return windows


def _largest(y: IndexArray, x: IndexArray, open_: IndexArray, row: int, column: int, banks: int) -> Window:
    """The window of the most pixels whose first one is given: a run along the row, in every so many rows."""
    run, step = _run(y[row, column:], x[row, column:], open_[row, column:], banks)
    columns = slice(column, column + run)
    rows, spread, stride = 1, 1, 1
    for apart in range(1, len(y) - row):
        distance = int(y[row + apart, column] - y[row, column])
        fits = 1
        while distance > 0 and row + fits * apart < len(y) and _alike(
            y, x, open_, (row, row + fits * apart), columns, fits * distance
        ):
            fits += 1
        if fits > rows:
            rows, spread, stride = fits, apart, distance
    return Window(1, 1, stride, step, -int(y[row, column]), -int(x[row, column]), 1, 1, rows, run, spread, row, column)


def _run(y: IndexArray, x: IndexArray, open_: IndexArray, banks: int) -> tuple[int, int]:
    """Pixels of a row that are in one row of the source at even distances, and the distance."""
    step = int(x[1] - x[0]) if len(x) > 1 else 1
    if step < 1 or step % banks == 0:
        return 1, 1
    fits = (y == y[0]) & (x == x[0] + step * np.arange(len(x))) & open_
    run = int(np.argmin(fits)) if not fits.all() else len(fits)
    return run, step if run > 1 else 1


def _alike(
    y: IndexArray, x: IndexArray, open_: IndexArray, rows: tuple[int, int], columns: slice, distance: int
) -> bool:
    """Whether a run in two rows reads the same columns, of rows of the source at a distance."""
    first, second = rows
    return bool(
        open_[second, columns].all() and (x[second, columns] == x[first, columns]).all()
        and (y[second, columns] == y[first, columns] + distance).all()
    )  # fmt: skip
