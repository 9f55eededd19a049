"""numpy's functions on arrays of a session: which of them the array computes, and all the others by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bfpga.dynamic_graph.array import EagerArray, Operations

#: Functions that only move the elements of their first argument.
REARRANGING = frozenset(
    {
        np.reshape, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.broadcast_to, np.flip,
        np.roll, np.tile, np.repeat, np.ravel, np.take, np.take_along_axis, np.rot90, np.atleast_1d, np.atleast_2d,
    }
)  # fmt: skip

#: Functions that only look at an array's shape.
INSPECTING = frozenset({np.shape, np.ndim, np.size})


def apply_ufunc(
    run: Operations, function: np.ufunc, kind: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """A function element by element, or a product of matrices; kind: `__call__` or a method such as `reduce`.

    TypeError for a result that should go into an array that exists.
    """
    if options.get("out") is not None:
        raise TypeError("arrays in block floating point are not changed in place: take the result instead")
    if kind != "__call__":
        return with_numpy(run, f"{function.__name__}.{kind}", getattr(function, kind), inputs, options)
    method = None if options else _METHODS.get(function)
    if method is not None:
        return method(run, *inputs)
    if function is np.divide and isinstance(inputs[0], EagerArray) and is_number(inputs[1]) and inputs[1] != 0:
        return run.scale(inputs[0], 1.0 / float(inputs[1]))
    if function is np.maximum and any(is_number(item) and item == 0 for item in inputs):
        return run.relu(next(item for item in inputs if isinstance(item, EagerArray)))
    return with_numpy(run, function.__name__, function, inputs, options)


def apply_function(
    run: Operations, function: Callable[..., Any], inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """A function of whole arrays."""
    first = inputs[0] if inputs else None
    if function in INSPECTING and isinstance(first, EagerArray):
        return function(first.mantissa, *inputs[1:], **options)
    if function in REARRANGING and isinstance(first, EagerArray):
        return run.rearranged(first, lambda mantissa: function(mantissa, *inputs[1:], **options))
    return with_numpy(run, function.__name__, function, inputs, options)


def with_numpy(
    run: Operations, name: str, function: Callable[..., Any], inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """A function of the values of arrays, wherever they are among the arguments."""
    found: list[EagerArray] = []
    values = _values(tuple(inputs), found)
    keywords = {key: _values(value, found) for key, value in options.items()}
    return run.on_host(name, lambda: function(*values, **keywords), found, "left to numpy")


def is_number(item: Any) -> bool:
    """Whether an operand is one number of Python or numpy."""
    return not isinstance(item, EagerArray) and np.ndim(item) == 0


def _values(item: Any, found: list[EagerArray]) -> Any:
    """Arguments with arrays replaced by their values; ``found`` gets the arrays."""
    if isinstance(item, EagerArray):
        found.append(item)
        return item.numpy()
    if isinstance(item, (tuple, list)):
        return type(item)(_values(part, found) for part in item)
    return item


_METHODS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: lambda run, x, y: run.add(x, y),
    np.subtract: lambda run, x, y: run.subtract(x, y),
    np.multiply: lambda run, x, y: run.multiply(x, y),
    np.matmul: lambda run, x, y: run.matmul(x, y),
    np.negative: lambda run, x: run.scale(x, -1.0),
    np.positive: lambda run, x: x,
    np.tanh: lambda run, x: run.tanh(x),
}
