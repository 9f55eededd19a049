"""The operations of a define-by-run session: what a program calls, and which of them the array computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.dynamic_graph import requests
from bfpga.dynamic_graph.array import EagerArray
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.calls import Activation
from bfpga.dynamic_graph.host_functions import ARGUMENTS, host_convolution, host_function, host_pool
from bfpga.dynamic_graph.requests import NotOnArrayError, Request
from bfpga.dynamic_graph.session import Operand, Session, accelerator_of, session_options
from bfpga.dynamic_graph.windows import Pair, pair, window_of
from bfpga.engines.descriptor import Function
from bfpga.engines.flows import Flow
from bfpga.errors import DataError
from bfpga.network.options import FormatChoice, RuleName

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

FloatArray = npt.NDArray[np.floating[Any]]
#: A function by name, with its argument where it takes one: ("leaky_relu", slope), ("clip", upper bound).
FunctionName = str | tuple[str, float] | None


def eager(
    accelerator: str | Path | Accelerator = "pynq_z2_dense",
    device: str = "emulator",
    *,
    rule: RuleName | None = None,
    flow: Flow | None = None,
    sample: int = 8,
    rate: int = 12,
    margin: int = 0,
    formats: FormatChoice = "auto",
) -> EagerRun:
    """Open a device for operations that are called one by one (FP 4.1).

    accelerator: a name, a YAML file, or loaded. device: as ``bfpga.open_device`` takes it. rule, flow, sample, rate,
    margin: how an operation finds the exponent of its result, see ``network.options.LayerOptions``; rule and flow
    default to the specification's (rate, two_pass_sampled), on accelerators without ``position_bins`` to lead and
    two_pass. formats: of float weights. DeviceError if the device cannot be opened, ConfigurationError for an unknown
    accelerator or for options it cannot follow.
    """
    described = accelerator_of(accelerator)
    return EagerRun(described, device, session_options(described, rule, flow, sample, rate, margin, formats))


class EagerRun(Session):
    """A session with its operations. Arrays may be of this session or of numpy; results are arrays of this session."""

    # Products

    def matmul(self, x: Operand, weights: Operand) -> EagerArray:
        """The product of numpy.matmul. numpy's ``weights`` get an exponent a column, an array of the session is taken
        as it is; a product of stacks of matrices has one exponent for all. FP R3, R27.
        """
        shape = np.shape(weights) if not isinstance(weights, EagerArray) else weights.shape
        if len(shape) == 1:
            column = self.matmul(
                x, weights.reshape(-1, 1) if isinstance(weights, EagerArray) else np.reshape(weights, (-1, 1))
            )
            return column.reshape(column.shape[:-1])
        if len(shape) > 2:
            return self._products(x, weights)
        return self._product("matmul", x, weights, None, None)

    def linear(
        self, x: Operand, weights: Operand, bias: Operand | None = None, function: FunctionName = None
    ) -> EagerArray:
        """function(x @ weights + bias) as one operation with one exponent: x (..., K), weights (K, M), bias (M,)."""
        return self._product("linear", x, weights, bias, function)

    def _product(
        self, name: str, x: Operand, weights: Operand, bias: Operand | None, function: FunctionName
    ) -> EagerArray:
        left, (right, exact) = self.array(x), self._weights(weights, f"{name}: weights")
        requests.check_product(left.shape, right.shape, name)
        if right.ndim != 2:
            raise DataError(f"{name}: weights have shape {right.shape}; (K, M) is needed")
        offsets = self._bias(bias, right.shape[1], name)

        def request(activation: Activation) -> Request:
            return requests.product(name, left.block, right, offsets, activation)

        def plain() -> FloatArray:
            return left.numpy() @ right + (0.0 if offsets is None else offsets)

        return self._fused(name, request, plain, [left, *_arrays(weights, bias)], exact, function)

    def _products(self, x: Operand, weights: Operand) -> EagerArray:
        left, (right, exact) = self.array(x), self._weights(weights, "matmul: the second operand")
        requests.check_product(left.shape, right.shape, "matmul")
        try:
            lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:
            raise DataError(f"matmul: leading axes of {left.shape} and {right.shape} do not go together") from None
        first = np.broadcast_to(left.mantissa, (*lead, *left.shape[-2:])).reshape(-1, *left.shape[-2:])
        second = np.broadcast_to(right, (*lead, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
        request = requests.products("matmul", ArrayBlock(first, left.exponent), second)
        result = self._on_array(
            "matmul", lambda: request, lambda: np.matmul(first * np.exp2(left.exponent), second),
            [left, *_arrays(weights)], exact,
        )  # fmt: skip
        return result.reshape(*lead, *result.shape[-2:])

    def conv2d(
        self,
        x: Operand,
        weights: Operand,
        bias: Operand | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        function: FunctionName = None,
    ) -> EagerArray:
        """Convolution of images (N, channels, height, width) with weights (outputs, channels / groups, rows, columns).

        The batch is one block. DataError for shapes that do not go together.
        """
        left, (right, exact) = self.array(x), self._weights(weights, "conv2d: weights")
        if left.ndim != 4 or right.ndim != 4 or left.shape[1] != right.shape[1] * groups or len(right) % groups:
            raise DataError(
                f"conv2d: images {left.shape} and weights {right.shape} in {groups} groups do not go together; images "
                "are (N, channels, height, width), weights (outputs, channels / groups, rows, columns)"
            )
        offsets = self._bias(bias, len(right), "conv2d")
        window = window_of(left.shape[2:], right.shape[2:], stride, padding, dilation, "conv2d")

        def request(activation: Activation) -> Request:
            return requests.convolution(left.block, right, offsets, window, groups, activation, self.config)

        def plain() -> FloatArray:
            return host_convolution(left.numpy(), right, offsets, window, groups)

        return self._fused("conv2d", request, plain, [left, *_arrays(weights, bias)], exact, function)

    def _weights(self, weights: Operand, what: str) -> tuple[FloatArray, bool]:
        """Weights as floats, and whether they are mantissas of a block and must not be rounded again."""
        if isinstance(weights, EagerArray):
            return self.array(weights).numpy().astype(np.float64), True
        values = np.asarray(weights)
        if values.dtype == object or not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
            raise DataError(f"{what} have type {values.dtype}; real numbers are needed")
        if values.size == 0 or not np.isfinite(values).all():
            raise DataError(f"{what} of shape {values.shape} are empty or not finite")
        return values.astype(np.float64), False

    def _bias(self, bias: Operand | None, outputs: int, name: str) -> FloatArray | None:
        if bias is None:
            return None
        values, _ = self._weights(bias, f"{name}: the bias")
        if values.shape != (outputs,):
            raise DataError(f"{name}: the bias has shape {values.shape}; ({outputs},) is needed")
        return values

    # Sums

    def add(self, x: Operand, y: Operand) -> EagerArray:
        """x + y with numpy's broadcasting; operands are aligned to the larger exponent."""
        return self._sum("add", x, y, False)

    def subtract(self, x: Operand, y: Operand) -> EagerArray:
        """x - y, as ``add``."""
        return self._sum("subtract", x, y, True)

    def _sum(self, name: str, x: Operand, y: Operand, negative: bool) -> EagerArray:
        operands = [self.array(x), self.array(y)]
        try:
            shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        except ValueError:
            raise DataError(f"{name}: shapes {operands[0].shape} and {operands[1].shape} do not go together") from None
        blocks = [ArrayBlock(np.broadcast_to(item.mantissa, shape), item.exponent) for item in operands]
        return self.execute(requests.elementwise(name, blocks, Activation(), negative), operands)

    def multiply(self, x: Operand, y: Operand) -> Any:
        """x * y. By a number on the array, by a power of two or by booleans without any; of two arrays by numpy."""
        arrays = _arrays(x, y)
        first, second = (x, y) if isinstance(x, EagerArray) else (y, x)
        if isinstance(first, EagerArray) and not isinstance(second, EagerArray):
            values = np.asarray(second)
            if values.dtype == np.bool_:
                mask = values
                return self.on_host("multiply", lambda: _masked(self, first, mask), arrays, "a selection")
            if values.ndim == 0:
                return self._scale(first, float(values))
        return self.on_host(
            "multiply", lambda: np.multiply(np.asarray(x), np.asarray(y)), arrays, "a product of two arrays"
        )

    def _scale(self, x: EagerArray, factor: float) -> EagerArray:
        mantissa, power = np.frexp(factor)
        exponent = x.exponent + int(power) - 1
        form = self.config.format
        if mantissa == 0.5 and form.exponent_min <= exponent <= form.exponent_max:
            return self.wrap(ArrayBlock(x.mantissa, exponent))
        if not np.isfinite(factor):
            raise DataError(f"multiply: {factor} is not finite")
        return self._on_array(
            "multiply", lambda: requests.scaled(x.block, factor), lambda: x.numpy() * np.float32(factor), [x], False
        )

    # Functions

    def relu(self, x: Operand) -> EagerArray:
        """max(x, 0)."""
        return self._function(x, "relu")

    def leaky_relu(self, x: Operand, slope: float = 0.125) -> EagerArray:
        """x where it is positive, else slope * x; slopes that are powers of two are for the array."""
        return self._function(x, ("leaky_relu", slope))

    def sigmoid(self, x: Operand) -> EagerArray:
        """The logistic function, from the array's table."""
        return self._function(x, "sigmoid")

    def tanh(self, x: Operand) -> EagerArray:
        """The hyperbolic tangent, from the array's table."""
        return self._function(x, "tanh")

    def clip(self, x: Operand, low: float = 0.0, high: float = np.inf) -> EagerArray:
        """x between two bounds; the array clips from 0 on."""
        operand = self.array(x)
        return self._on_array(
            "clip",
            lambda: self._elementwise("clip", operand, requests.clip_activation(low, high)),
            lambda: np.clip(operand.numpy(), low, high),
            [operand],
        )

    def _function(self, x: Operand, function: str | tuple[str, float]) -> EagerArray:
        operand, (name, argument) = self.array(x), named_function(function)
        return self._on_array(
            name,
            lambda: self._elementwise(name, operand, self._activation(function)),
            lambda: host_function(name, argument)(operand.numpy()),
            [operand],
        )

    def _elementwise(self, name: str, x: EagerArray, activation: Activation) -> Request:
        return requests.elementwise(name, [x.block], requests.checked_activation(activation, self.config))

    def _activation(self, function: FunctionName) -> Activation:
        """The function unit's setting; NotOnArrayError for a slope or bound it cannot have."""
        if function is None:
            return Activation()
        name, argument = named_function(function)
        if name == "clip":
            activation = requests.clip_activation(0.0, argument)
        elif name == "leaky_relu":
            activation = Activation(Function.LEAKY_RELU, float(requests.leaky_shift(argument)))
        else:
            activation = Activation(Function[name.upper()])
        return requests.checked_activation(activation, self.config)

    # Pooling

    def max_pool2d(self, x: Operand, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """Maxima of windows of images (N, channels, height, width); the exponent stays. FP R35."""
        operand, size = self._images(x, "max_pool2d"), pair(kernel, "kernel", 1)
        window = window_of(operand.shape[2:], size, stride or kernel, padding, 1, "max_pool2d")
        return self._on_array(
            "max_pool2d",
            lambda: requests.max_pool(operand.block, window, self.config),
            lambda: host_pool(operand.numpy(), window, np.max, -np.inf),
            [operand],
        )

    def average_pool2d(self, x: Operand, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """Means of windows of images (N, channels, height, width); what lies outside counts as zeros."""
        operand, size = self._images(x, "average_pool2d"), pair(kernel, "kernel", 1)
        window = window_of(operand.shape[2:], size, stride or kernel, padding, 1, "average_pool2d")
        return self._on_array(
            "average_pool2d",
            lambda: requests.average_pool(operand.block, window, self.config),
            lambda: host_pool(operand.numpy(), window, np.mean, 0.0),
            [operand],
        )

    def _images(self, x: Operand, name: str) -> EagerArray:
        operand = self.array(x)
        if operand.ndim != 4:
            raise DataError(f"{name}: shape {operand.shape}; images are (N, channels, height, width)")
        return operand

    # Array or host

    def _fused(
        self,
        name: str,
        request: Callable[[Activation], Request],
        plain: Callable[[], FloatArray],
        operands: list[EagerArray],
        exact: bool,
        function: FunctionName,
    ) -> EagerArray:
        """An operation that ends with a function; one that the array does not have is an operation of its own."""
        try:
            activation = self._activation(function)
        except NotOnArrayError:
            assert function is not None
            return self._function(self._fused(name, request, plain, operands, exact, None), function)
        return self._on_array(name, lambda: request(activation), plain, operands, exact)

    def _on_array(
        self,
        name: str,
        request: Callable[[], Request],
        plain: Callable[[], FloatArray],
        operands: list[EagerArray],
        exact: bool = False,
    ) -> EagerArray:
        """Compute a request on the device, or ``plain`` with numpy where the array cannot."""
        try:
            if exact and "linear" not in self.config.weight_formats:
                raise NotOnArrayError("shift units multiply with weights that are powers of two only")
            made = request()
        except NotOnArrayError as reason:
            result: EagerArray = self.on_host(name, plain, operands, str(reason))
            return result
        return self.execute(made, operands, exact)

    def apply(self, function: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        """One of numpy's functions element by element."""
        if function is np.multiply or function is np.matmul or function is np.add or function is np.subtract:
            return getattr(self, function.__name__)(*inputs)
        if function is np.tanh:
            return self.tanh(inputs[0])
        if function is np.negative:
            return self._scale(inputs[0], -1.0)
        if (
            function in (np.divide, np.true_divide)
            and np.ndim(inputs[1]) == 0
            and not isinstance(inputs[1], EagerArray)
        ):
            return self._scale(inputs[0], 1.0 / float(inputs[1]))
        if (
            function is np.maximum
            and len(numbers := [item for item in inputs if not isinstance(item, EagerArray)]) == 1
        ):
            if np.ndim(numbers[0]) == 0 and not numbers[0]:
                return self.relu(_arrays(*inputs)[0])
        values = [item.numpy() if isinstance(item, EagerArray) else item for item in inputs]
        return self.on_host(function.__name__, lambda: function(*values), _arrays(*inputs), "numpy's")


def _arrays(*operands: Any) -> list[EagerArray]:
    return [operand for operand in operands if isinstance(operand, EagerArray)]


def _masked(run: EagerRun, x: EagerArray, mask: npt.NDArray[np.bool_]) -> EagerArray:
    """The values where ``mask`` is true, zeros elsewhere; nothing is rounded."""
    return run.wrap(ArrayBlock(np.where(mask, x.mantissa, 0).astype(x.mantissa.dtype), x.exponent))


def named_function(function: str | tuple[str, float]) -> tuple[str, float]:
    """Name and argument of a function; DataError for a name that is unknown."""
    name, argument = function if isinstance(function, tuple) else (function, None)
    if name not in ARGUMENTS:
        raise DataError(f"function {name!r} is unknown; known are {', '.join(ARGUMENTS)}")
    return name, ARGUMENTS[name] if argument is None else float(argument)
