"""The operations of a define-by-run session: what a program calls, and which of them the array computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.options import FormatChoice, RuleName
from bfpga.contract.flows import Flow
from bfpga.dynamic_graph import requests
from bfpga.dynamic_graph.array import EagerArray
from bfpga.dynamic_graph.blocks import ArrayBlock, encode_block
from bfpga.dynamic_graph.calls import Activation
from bfpga.dynamic_graph.host_functions import host_convolution, host_pool, named_function
from bfpga.dynamic_graph.numpy_functions import apply_function, apply_ufunc
from bfpga.dynamic_graph.records import OperationRecord, Report
from bfpga.dynamic_graph.requests import Request
from bfpga.dynamic_graph.session import PositionOptions, Session, accelerator_of
from bfpga.dynamic_graph.torch_modules import attached
from bfpga.dynamic_graph.windows import Pair, window_of
from bfpga.engines.positions.sample_schedule import SampleSchedule
from bfpga.errors import DataError
from bfpga.formats.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

#: Arrays of the session, or numbers that become one.
Operand = EagerArray | npt.ArrayLike
#: A function by name, with its argument where it takes one: ("leaky_relu", slope), ("clip", upper bound).
FunctionName = str | tuple[str, float] | None


def eager(
    accelerator: str | Path | Accelerator = "pynq_z2_dense",
    device: str = "emulator",
    *,
    rule: RuleName | None = None,
    flow: Flow | None = None,
    sample: int | SampleSchedule = 8,
    rate: int = 12,
    margin: int = 0,
    formats: FormatChoice = "auto",
    histograms: bool = False,
) -> EagerRun:
    """Open a device for operations that are called one by one (FP 4.1, R16).

    accelerator: a name, a YAML file, or loaded. device: as ``bfpga.open_device`` takes it. rule, flow, sample, rate,
    margin: how an operation finds the exponent of its result, see ``PositionOptions``. formats: of float weights.
    histograms: records of a kernel have what its collector counted, for further starts. DeviceError if the device
    cannot be opened, ConfigurationError for an unknown accelerator or for options it cannot follow.
    """
    options = PositionOptions(rule, flow, sample, rate, margin)
    return EagerRun(Session(accelerator_of(accelerator), device, options, formats, histograms))


class EagerRun:
    """Operations on an open device; a context manager. Operands are arrays of the session or of numpy.

    Every operation raises DataError for operands that do not go together, ModelError where the accelerator's memories
    cannot hold a part of it, and DeviceError if the device fails or is closed.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.config = session.config

    def __enter__(self) -> EagerRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the device; arrays keep their values."""
        self.session.close()

    @property
    def device(self) -> str:
        """Name of the device."""
        return self.session.device

    @property
    def trace(self) -> list[OperationRecord]:
        """A record of every operation, in order (FP R49)."""
        return self.session.trace

    def finish_iteration(self, accuracy: float | None = None) -> None:
        """Count an iteration, with the accuracy it reached if that was measured: a ``SampleSchedule`` follows it.

        FP R31, R32.
        """
        self.session.finish_iteration(accuracy)

    def report(self) -> Report:
        """The operations so far and their sums."""
        return self.session.report()

    def attach(self, module: Any) -> AbstractContextManager[Mapping[str, str]]:
        """A `with` block in which a PyTorch module's linear layers and convolutions compute on the device.

        See ``torch_modules.attached``.
        """
        return attached(self, module)

    # Arrays

    def array(self, values: Operand) -> EagerArray:
        """Numbers of any shape as one block; an array of this session as it is.

        DataError for what is empty, not finite, no number, or an array of another session.
        """
        if not isinstance(values, EagerArray):
            return self.wrap(encode_block(values, self.config.format, "the array"))
        if values.run is not self:
            raise DataError("the array belongs to another session; read it with numpy.asarray first")
        return values

    def wrap(self, block: ArrayBlock) -> EagerArray:
        """A block as an array of this session."""
        return EagerArray(self, block)

    def rearranged(self, x: EagerArray, rearrange: Callable[[IntArray], IntArray]) -> EagerArray:
        """The array with its mantissas at other places; nothing is computed, and the exponent stays."""
        return self.wrap(ArrayBlock(rearrange(x.mantissa), x.exponent))

    def numpy_ufunc(self, function: np.ufunc, kind: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What numpy asks arrays for that are operands of its universal functions and of operators."""
        return apply_ufunc(self, function, kind, inputs, options)

    def numpy_function(self, function: Callable[..., Any], inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What numpy asks arrays for that are arguments of its other functions."""
        return apply_function(self, function, inputs, options)

    # Products

    def matmul(self, x: Operand, weights: Operand) -> EagerArray:
        """The product of numpy.matmul; stacks of matrices give one block. FP R3, R27.

        Numbers of numpy as ``weights`` get an exponent a column, arrays of the session are taken as they are.
        """
        right, exact = self._weights(weights, "matmul: the second operand")
        left = self.array(x)
        operands = [left, *_arrays(weights)]
        requests.check_product(left.shape, right.shape, "matmul")
        if right.ndim == 1:
            column = self._product("matmul", left, right[:, None], None, None, operands, exact)
            return column.reshape(column.shape[:-1])
        if right.ndim == 2:
            return self._product("matmul", left, right, None, None, operands, exact)
        return self._on_array(
            "matmul",
            lambda: requests.products(left.block, right),
            lambda: np.matmul(left.numpy(), right),
            operands,
            exact,
        )

    def linear(
        self, x: Operand, weights: Operand, bias: Operand | None = None, function: FunctionName = None
    ) -> EagerArray:
        """function(x @ weights + bias) as one operation with one exponent: x (..., K), weights (K, M), bias (M,)."""
        right, exact = self._weights(weights, "linear: weights")
        left = self.array(x)
        requests.check_product(left.shape, right.shape, "linear")
        if right.ndim != 2:
            raise DataError(f"linear: weights have shape {right.shape}; (K, M) is needed")
        offsets = self._bias(bias, right.shape[1], "linear")
        return self._product("linear", left, right, offsets, function, [left, *_arrays(weights, bias)], exact)

    def _product(
        self,
        name: str,
        x: EagerArray,
        weights: FloatArray,
        bias: FloatArray | None,
        function: FunctionName,
        operands: list[EagerArray],
        exact: bool,
    ) -> EagerArray:
        return self._fused(
            name,
            lambda activation: requests.product(name, x.block, weights, bias, activation),
            lambda: x.numpy() @ weights + (0.0 if bias is None else bias),
            operands,
            exact,
            function,
        )

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

        The batch is one block.
        """
        left, (right, exact) = self.array(x), self._weights(weights, "conv2d: weights")
        requests.check_convolution(left.shape, right.shape, groups)
        offsets = self._bias(bias, len(right), "conv2d")
        window = window_of(left.shape, right.shape[2:], stride, padding, dilation, "conv2d")
        return self._fused(
            "conv2d",
            lambda activation: requests.convolution(
                left.block, right, offsets, window, groups, activation, self.config
            ),
            lambda: host_convolution(left.numpy(), right, offsets, window, groups),
            [left, *_arrays(weights, bias)],
            exact,
            function,
        )

    def _weights(self, weights: Operand, what: str) -> tuple[FloatArray, bool]:
        """Weights as floats, and whether they are mantissas of a block and must not be rounded again."""
        if isinstance(weights, EagerArray):
            return self.array(weights).numpy().astype(np.float64), True
        values = np.asarray(weights)
        if values.dtype == object or not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
            raise DataError(f"{what}: type {values.dtype}; real numbers are needed")
        if values.size == 0 or not np.isfinite(values).all():
            raise DataError(f"{what}: shape {values.shape}, empty or not finite")
        return values.astype(np.float64), False

    def _bias(self, bias: Operand | None, outputs: int, name: str) -> FloatArray | None:
        if bias is None:
            return None
        values, _ = self._weights(bias, f"{name}: the bias")
        if values.shape != (outputs,):
            raise DataError(f"{name}: the bias has shape {values.shape}; ({outputs},) is needed")
        return values

    # Element by element

    def add(self, x: Operand, y: Operand) -> EagerArray:
        """x + y with numpy's broadcasting; operands are aligned to the larger exponent."""
        return self._sum("add", x, y)

    def subtract(self, x: Operand, y: Operand) -> EagerArray:
        """x - y, as ``add``."""
        return self._sum("subtract", x, y)

    def _sum(self, name: str, x: Operand, y: Operand) -> EagerArray:
        operands = [self.array(x), self.array(y)]
        request = requests.addition(name, *(operand.block for operand in operands))
        return self._execute(request, operands)

    def multiply(self, x: Operand, y: Operand) -> EagerArray:
        """x * y: by a number ``scale``, by numbers of numpy for the last axis ``affine``, by booleans a selection.

        A product of two arrays is left to numpy.
        """
        left, right = (x, y) if isinstance(x, EagerArray) else (y, x)
        array, factor = self.array(left), np.asarray(right)
        if not isinstance(right, EagerArray) and factor.ndim == 0 and factor.dtype != np.bool_:
            return self.scale(array, float(factor))
        if factor.dtype == np.bool_:
            return self.rearranged(array, lambda mantissa: np.where(factor, mantissa, mantissa.dtype.type(0)))
        if not isinstance(right, EagerArray) and array.ndim and factor.shape == array.shape[-1:]:
            return self._affine("multiply", array, factor, None, -1, None)
        reason = "the array adds products, it has none element by element"
        result: EagerArray = self.on_host("multiply", lambda: array.numpy() * factor, _arrays(x, y), reason)
        return result

    def scale(self, x: Operand, factor: float) -> EagerArray:
        """x times a number; a power of two only changes the exponent."""
        operand = self.array(x)
        if not np.isfinite(factor):
            raise DataError(f"multiply: the factor is {factor}; a finite number is needed")
        mantissa, power = np.frexp(factor)
        exponent, form = operand.exponent + int(power) - 1, self.config.format
        if mantissa == 0.5 and form.exponent_min <= exponent <= form.exponent_max:
            return self.wrap(ArrayBlock(operand.mantissa, exponent))
        return self._execute(requests.scaling(operand.block, factor), [operand])

    def affine(
        self,
        x: Operand,
        scale: npt.ArrayLike,
        shift: npt.ArrayLike | None = None,
        axis: int = -1,
        function: FunctionName = None,
    ) -> EagerArray:
        """function(x * scale + shift) with a number for each index of an axis: a product for each channel. FP R3."""
        return self._affine("affine", self.array(x), scale, shift, axis, function)

    def batch_norm(
        self,
        x: Operand,
        mean: npt.ArrayLike,
        variance: npt.ArrayLike,
        gain: npt.ArrayLike = 1.0,
        offset: npt.ArrayLike = 0.0,
        epsilon: float = 1e-5,
        function: FunctionName = None,
    ) -> EagerArray:
        """Normalization of (N, channels, ...) by numbers for each channel, as ``affine`` over axis 1. FP R3."""
        scale = np.asarray(gain, np.float64) / np.sqrt(np.asarray(variance, np.float64) + epsilon)
        shift = np.asarray(offset, np.float64) - np.asarray(mean, np.float64) * scale
        return self._affine("batch_norm", self.array(x), scale, shift, 1, function)

    def _affine(
        self,
        name: str,
        x: EagerArray,
        scale: npt.ArrayLike,
        shift: npt.ArrayLike | None,
        axis: int,
        function: FunctionName,
    ) -> EagerArray:
        factors, _ = self._weights(scale, f"{name}: the scale")
        offsets = None if shift is None else self._weights(shift, f"{name}: the shift")[0]
        requests.check_channels(x.shape, axis, name, scale=factors, shift=offsets)
        wide = (-1, *(1,) * (x.ndim - 1 - axis % x.ndim))
        return self._fused(
            name,
            lambda activation: requests.affine(name, x.block, factors, offsets, axis, activation),
            lambda: x.numpy() * factors.reshape(wide) + (0.0 if offsets is None else offsets.reshape(wide)),
            [x],
            False,
            function,
        )

    def relu(self, x: Operand) -> EagerArray:
        """max(x, 0)."""
        return self.function(x, "relu")

    def leaky_relu(self, x: Operand, slope: float = 0.125) -> EagerArray:
        """x where it is positive, else slope * x; slopes that are powers of two are for the array."""
        return self.function(x, ("leaky_relu", slope))

    def sigmoid(self, x: Operand) -> EagerArray:
        """The logistic function, from the array's table."""
        return self.function(x, "sigmoid")

    def tanh(self, x: Operand) -> EagerArray:
        """The hyperbolic tangent, from the array's table."""
        return self.function(x, "tanh")

    def clip(self, x: Operand, low: float = 0.0, high: float = np.inf) -> EagerArray:
        """x between two bounds; the array clips from 0 on."""
        if low == 0 and high > 0:
            return self.function(x, "relu" if np.isinf(high) else ("clip", high))
        operand = self.array(x)
        reason = f"bounds {low:g} and {high:g}: the array clips from 0 on"
        result: EagerArray = self.on_host("clip", lambda: np.clip(operand.numpy(), low, high), [operand], reason)
        return result

    def function(self, x: Operand, function: str | tuple[str, float]) -> EagerArray:
        """A function by its name in accelerator files, with its argument if it takes one: ("leaky_relu", 0.25)."""
        operand, (found, argument) = self.array(x), named_function(function)
        return self._on_array(
            found.key,
            lambda: requests.function(found.key, operand.block, requests.activation_of(function, self.config)),
            lambda: found.row.plain(operand.numpy(), argument),
            [operand],
        )

    # Pooling

    def max_pool2d(self, x: Operand, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """Maxima of windows of images (N, channels, height, width); the exponent stays. FP R35."""
        operand = self.array(x)
        window = window_of(operand.shape, kernel, stride or kernel, padding, 1, "max_pool2d")
        return self._on_array(
            "max_pool2d",
            lambda: requests.max_pool(operand.block, window, self.config),
            lambda: host_pool(operand.numpy(), window, np.max, -np.inf),
            [operand],
        )

    def average_pool2d(self, x: Operand, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """Means of windows of images (N, channels, height, width); what is outside counts as zeros."""
        operand = self.array(x)
        window = window_of(operand.shape, kernel, stride or kernel, padding, 1, "average_pool2d")
        return self._on_array(
            "average_pool2d",
            lambda: requests.average_pool(operand.block, window, self.config),
            lambda: host_pool(operand.numpy(), window, np.mean, 0.0),
            [operand],
        )

    # Array or host

    def on_host(self, name: str, compute: Callable[[], Any], operands: Sequence[EagerArray], reason: str) -> Any:
        """What numpy computes from the values of arrays; arrays of floats among the results come back as blocks.

        DataError for results that are not finite.
        """
        begun = perf_counter()
        with np.errstate(all="ignore"):  # what is not finite is refused where it becomes a block
            result = self._from_host(name, compute())
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        exponent = first.exponent if isinstance(first, EagerArray) else None
        blocks = [operand.block for operand in operands]
        self.session.note_host(name, blocks, np.shape(first), exponent, perf_counter() - begun, reason)
        return result

    def _from_host(self, name: str, result: Any) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(self._from_host(name, item) for item in result)
        if isinstance(result, np.ndarray) and result.ndim and np.issubdtype(result.dtype, np.floating) and result.size:
            return self.wrap(encode_block(result, self.config.format, f"the result of {name}"))
        return result

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
        if function is None:
            return self._on_array(name, lambda: request(Activation()), plain, operands, exact)
        try:
            activation = requests.activation_of(function, self.config)
        except NotOnArrayError:
            return self.function(self._fused(name, request, plain, operands, exact, None), function)
        if exact and not self._multiplies_exactly():
            return self.function(self._fused(name, request, plain, operands, exact, None), function)
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
            if exact and not self._multiplies_exactly():
                raise NotOnArrayError("shift units multiply with weights that are powers of two only")
            made = request()
        except NotOnArrayError as reason:
            result: EagerArray = self.on_host(name, plain, operands, str(reason))
            return result
        return self._execute(made, operands, exact)

    def _multiplies_exactly(self) -> bool:
        """Whether the array takes mantissas of activations as weights."""
        return "linear" in self.config.weight_formats

    def _execute(self, request: Request, operands: Sequence[EagerArray], exact: bool = False) -> EagerArray:
        return self.wrap(self.session.compute(request, [operand.block for operand in operands], exact))


def _arrays(*operands: Any) -> list[EagerArray]:
    return [operand for operand in operands if isinstance(operand, EagerArray)]
