"""Operations in numpy, for what the array cannot do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bfpga.contract.program import Window
from bfpga.dynamic_graph.windows import columns_of
from bfpga.errors import DataError
from bfpga.formats.arrays import FloatArray

#: Functions that an operation may end with, and the argument of those that take one where none is given.
ARGUMENTS = {"relu": 0.0, "leaky_relu": 0.125, "sigmoid": 0.0, "tanh": 0.0, "clip": 6.0}


def named_function(function: str | tuple[str, float]) -> tuple[str, float]:
    """Name and argument of a function; DataError for a name that is unknown."""
    name, argument = function if isinstance(function, tuple) else (function, None)
    if name not in ARGUMENTS:
        raise DataError(f"function {name!r} is unknown; known are {', '.join(ARGUMENTS)}")
    return name, ARGUMENTS[name] if argument is None else float(argument)


def host_function(name: str, argument: float) -> Callable[[FloatArray], FloatArray]:
    """One of ``ARGUMENTS`` by its name; argument: slope of leaky ReLU, upper bound of clip."""
    functions: dict[str, Callable[[FloatArray], FloatArray]] = {
        "relu": lambda x: np.maximum(x, 0),
        "leaky_relu": lambda x: np.where(x > 0, x, x * np.float32(argument)),
        "sigmoid": lambda x: 0.5 * (np.tanh(0.5 * x) + 1),
        "tanh": np.tanh,
        "clip": lambda x: np.clip(x, 0, argument),
    }
    return functions[name]


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
