"""Common ONNX operators in numpy, for hosts without ONNX Runtime. Batch axis first; float32 as ONNX computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.devices.onnx_reader import ELEMENT_TYPES, ReadNode, read_model
from bfpga.errors import ProgramError

HostArray = npt.NDArray[Any]
Operator = Callable[..., HostArray]
#: Attributes of an operator.
Attributes = Mapping[str, Any]


def _softmax(attributes: Attributes, x: HostArray) -> HostArray:
    axis = attributes.get("axis", -1)
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axis, keepdims=True))


def _reshape(attributes: Attributes, x: HostArray, shape: HostArray) -> HostArray:
    sizes = [int(size) for size in shape]
    if not attributes.get("allowzero", 0):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(attributes: Attributes, x: HostArray) -> HostArray:
    axis = attributes.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _transpose(attributes: Attributes, x: HostArray) -> HostArray:
    return x.transpose(attributes.get("perm") or None)


def _axes(attributes: Attributes, axes: HostArray | None) -> tuple[int, ...] | None:
    listed = attributes.get("axes") if axes is None else axes
    return None if listed is None else tuple(int(axis) for axis in np.atleast_1d(listed))


def _reduce_mean(attributes: Attributes, x: HostArray, axes: HostArray | None = None) -> HostArray:
    return np.asarray(x.mean(axis=_axes(attributes, axes), keepdims=bool(attributes.get("keepdims", 1)), dtype=x.dtype))


def _reduce_sum(attributes: Attributes, x: HostArray, axes: HostArray | None = None) -> HostArray:
    return np.asarray(x.sum(axis=_axes(attributes, axes), keepdims=bool(attributes.get("keepdims", 1)), dtype=x.dtype))


def _unsqueeze(attributes: Attributes, x: HostArray, axes: HostArray | None = None) -> HostArray:
    return np.expand_dims(x, _axes(attributes, axes) or ())


def _squeeze(attributes: Attributes, x: HostArray, axes: HostArray | None = None) -> HostArray:
    return x.squeeze(_axes(attributes, axes))


def _gemm(attributes: Attributes, a: HostArray, b: HostArray, c: HostArray | None = None) -> HostArray:
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    result = np.float32(attributes.get("alpha", 1.0)) * (a @ b)
    return result if c is None else result + np.float32(attributes.get("beta", 1.0)) * c


def _clip(
    attributes: Attributes, x: HostArray, low: HostArray | None = None, high: HostArray | None = None
) -> HostArray:
    low = attributes.get("min") if low is None else low
    high = attributes.get("max") if high is None else high
    return x if low is None and high is None else np.clip(x, low, high)


def _erf(attributes: Attributes, x: HostArray) -> HostArray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float32])(x))


def _where(attributes: Attributes, choose: HostArray, a: HostArray, b: HostArray) -> HostArray:
    return np.where(choose, a, b)


def _shape(attributes: Attributes, x: HostArray) -> HostArray:
    return np.array(x.shape, np.int64)


def _divide(a: HostArray, b: HostArray) -> HostArray:
    if np.issubdtype(np.asarray(a).dtype, np.integer):
        return np.asarray(np.trunc(np.true_divide(a, b)), np.asarray(a).dtype)
    return np.asarray(np.true_divide(a, b))


def _plain(function: Callable[..., Any]) -> Operator:
    """An operator without attributes."""
    return lambda attributes, *inputs: np.asarray(function(*inputs))


def _leaky_relu(attributes: Attributes, x: HostArray) -> HostArray:
    return np.where(x < 0, np.float32(attributes.get("alpha", 0.01)) * x, x)


OPERATORS: dict[str, Operator] = {
    "Add": _plain(np.add),
    "Cast": lambda attributes, x: x.astype(ELEMENT_TYPES[attributes["to"]]),
    "Clip": _clip,
    "Concat": lambda attributes, *inputs: np.concatenate(inputs, axis=attributes["axis"]),
    "Constant": lambda attributes: np.asarray(next(iter(attributes.values()))),
    "Div": _plain(_divide),
    "Dropout": lambda attributes, x, *ignored: x,
    "Erf": _erf,
    "Exp": _plain(np.exp),
    "Flatten": _flatten,
    "Gather": lambda attributes, x, index: np.take(x, index, axis=attributes.get("axis", 0)),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda attributes, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=x.dtype),
    "Identity": lambda attributes, x: x,
    "LeakyRelu": _leaky_relu,
    "MatMul": _plain(np.matmul),
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "Pow": lambda attributes, x, y: np.power(x, y).astype(x.dtype),
    "ReduceMean": _reduce_mean,
    "ReduceSum": _reduce_sum,
    "Relu": _plain(lambda x: np.maximum(x, 0)),
    "Reshape": _reshape,
    "Round": _plain(np.rint),
    "Shape": _shape,
    "Sigmoid": _plain(lambda x: 1 / (1 + np.exp(-x))),
    "Softmax": _softmax,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(np.subtract),
    "Tanh": _plain(np.tanh),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}


def compile_model(model: bytes, name: str) -> Callable[[Mapping[str, HostArray]], dict[str, HostArray]]:
    """A function that runs the model on values by name. ProgramError names operators that numpy does not have here."""
    graph = read_model(model)
    missing = sorted({node.type for node in graph.nodes} - set(OPERATORS))
    if missing:
        raise ProgramError(
            f"host node {name} needs the operator {missing[0]}, which exists with ONNX Runtime only: "
            f"install onnxruntime, or change the network. Without it there are: {', '.join(sorted(OPERATORS))}"
        )

    def run(values: Mapping[str, HostArray]) -> dict[str, HostArray]:
        known = {**graph.constants, **{key: value for key, value in values.items() if key in graph.inputs}}
        for node in graph.nodes:
            known[node.outputs[0]] = _apply(node, known)
        return {output: known[output] for output in graph.outputs}

    return run


def _apply(node: ReadNode, known: Mapping[str, HostArray]) -> HostArray:
    inputs = [known[name] if name else None for name in node.inputs]
    return OPERATORS[node.type](node.attributes, *inputs)
