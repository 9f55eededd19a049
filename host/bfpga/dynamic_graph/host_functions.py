"""Operations in numpy, for what the array cannot do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bfpga.contract.functions import Function
from bfpga.contract.program import Window
from bfpga.dynamic_graph.windows import columns_of
from bfpga.errors import DataError
from bfpga.formats.arrays import FloatArray

#: Functions that an operation may end with.
NAMES = tuple(function.key for function in Function if function != Function.NONE)


def named_function(function: str | tuple[str, float]) -> tuple[Function, float]:
    """A function by its name, and its argument (0 if it takes none); DataError for a name that is unknown."""
    name, argument = function if isinstance(function, tuple) else (function, None)
    if name not in NAMES:
        raise DataError(f"function {name!r} is unknown; known are {', '.join(NAMES)}")
    found = Function.named(name)
    usual = found.row.argument.usual if found.row.argument is not None else 0.0
    return found, usual if argument is None else float(argument)


def host_convolution(
    x: FloatArray, weights: FloatArray, bias: FloatArray | None, window: Window, groups: int
) -> FloatArray:
    """Images (N, channels, height, width), weights (outputs, channels / groups, rows, columns)."""
    outputs, inner = weights.shape[:2]
    columns = columns_of(x.transpose(0, 2, 3, 1), window)
    split = columns.reshape(len(columns), -1, groups, inner)
    kernels = weights.reshape(groups, outputs // groups, inner, -1)
    result = np.einsum("ptgi,goit->pgo", split, kernels, optimize=True).reshape(len(columns), outputs)
    return _images(result if bias is None else result + bias, len(x), window)


def host_pool(x: FloatArray, window: Window, reduce: Callable[..., FloatArray], outside: float) -> FloatArray:
    """Windows of images (N, channels, height, width) reduced, with the value ``outside`` beyond their edges."""
    columns = columns_of(x.transpose(0, 2, 3, 1), window, outside)
    return _images(reduce(columns, axis=(1, 2)), len(x), window)


def _images(pixels: FloatArray, count: int, window: Window) -> FloatArray:
    shape = (count, window.output_height, window.output_width, pixels.shape[-1])
    return pixels.reshape(shape).transpose(0, 3, 1, 2)
