"""Modules of PyTorch that compute in floating point what an array computes: exponents, weights, functions, rounding.

Gradients pass through every rounding as if it were not there, and are zero where a mantissa saturates. In float64 the
results are the array's, to the last bit, as long as no accumulator saturates; float32 may round a sum that float64
holds exactly, which can move a mantissa by one.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bfpga.compiler.numbers.quantize import quantize_product
from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.functions import ACTIVATION_EXPONENT, GRID_BITS, TABLE_STEPS, Table
from bfpga.errors import ModelError
from bfpga.formats.block_format import BlockFormat, Rounding
from bfpga.training.torch_import import Tensor, functional, nn, torch

#: Exponents that calibration tries below the one that the largest value needs.
TRIED = 3
#: ONNX domain of the quantizer that carries an exponent to the compiler.
QUANTIZER = "qonnx.custom_op.general::Quant"


@dataclass(frozen=True)
class Numbers:
    """The numbers of an array that training repeats. dynamic: exponents follow each sample; method: of weight rows."""

    config: KernelConfig
    weight_format: WeightFormat
    dynamic: bool
    method: str = "mse"

    @property
    def format(self) -> BlockFormat:
        """Of activations."""
        return self.config.format


class _Replaced(torch.autograd.Function):
    """Values in the place of others, whose gradient passes."""

    @staticmethod
    def forward(context: Any, x: Tensor, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def replaced(x: Tensor, values: Tensor) -> Tensor:
    """``values``, with the gradient of x."""
    result: Tensor = _Replaced.apply(x, values)
    return result


def rounded(x: Tensor, rounding: Rounding) -> Tensor:
    """Whole numbers by a rounding mode of the array."""
    if rounding == "rne":
        return torch.round(x)
    if rounding == "tozero":
        return torch.trunc(x)
    if rounding == "trunc":
        return torch.floor(x)
    if rounding == "half_up":
        return torch.floor(x) + (x - torch.floor(x) >= 0.5)
    whole = torch.trunc(x)
    return whole + torch.sign(x) * ((x - whole).abs() >= 0.5)


def power(exponent: Tensor, like: Tensor) -> Tensor:
    """2**exponent in the type of a tensor."""
    return torch.exp2(exponent.to(torch.float64)).to(like.dtype)


class _Mantissas(torch.autograd.Function):
    """Mantissas of a format times a step; the gradient passes where they do not saturate."""

    @staticmethod
    def forward(context: Any, x: Tensor, step: Tensor, form: BlockFormat) -> Tensor:
        mantissa = rounded(x / step, form.rounding)
        limited = mantissa.clamp(form.mantissa_min, form.mantissa_max)
        context.save_for_backward(limited != mantissa)
        return limited.mul_(step)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.masked_fill(context.saved_tensors[0], 0), None, None


class Quantizer(nn.Module):
    """Activations as mantissas with one shared exponent: of each sample's largest value, or one that calibration chose.

    ``exponent`` is the chosen one; ``used`` those of the last pass: one, or one for each sample.
    """

    exponent: Tensor

    def __init__(self, form: BlockFormat, dynamic: bool) -> None:
        super().__init__()
        self.form, self.dynamic, self.calibrated = form, dynamic, dynamic
        self.register_buffer("exponent", torch.zeros((), dtype=torch.int64))
        self.used: Tensor = self.exponent

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, ...)."""
        if not self.calibrated:
            self.exponent.fill_(self._best(x.detach()))
            self.calibrated = True
        self.used = self._of_samples(x.detach()) if self.dynamic else self.exponent
        result: Tensor = _Mantissas.apply(x, power(self.used_by(x), x), self.form)
        return result

    def used_by(self, x: Tensor) -> Tensor:
        """``used`` such that it broadcasts to values (samples, ...)."""
        return self.used.reshape(-1, *(1,) * (x.ndim - 1))

    def _of_samples(self, x: Tensor) -> Tensor:
        """(samples,)"""
        largest = x.abs().reshape(len(x), -1).amax(dim=1) if x.numel() else x.new_zeros(len(x))
        return self._reaching(largest)

    def _reaching(self, largest: Tensor) -> Tensor:
        """The exponents at which magnitudes occupy the highest bit of the mantissa (BFP equation 4)."""
        fraction, exponent = torch.frexp(largest)
        lead = exponent.to(torch.int64) - 1
        if self.form.log == "ceil":
            lead = lead + (fraction > 0.5)
        low, high = self.form.exponent_min, self.form.exponent_max
        return torch.where(largest > 0, (lead - (self.form.mantissa_bits - 2)).clamp(low, high), low)

    def _best(self, x: Tensor) -> int:
        """The exponent of least squared error; large values may saturate."""
        if not x.any():
            return 0
        top = self._reaching(x.abs().max())
        tried = [top - less for less in range(TRIED)]
        values = (_Mantissas.apply(x, power(exponent, x), self.form) for exponent in tried)
        errors = [float(((value - x) ** 2).sum()) for value in values]
        return max(int(tried[int(np.argmin(errors))]), self.form.exponent_min)


class _Marked(torch.autograd.Function):
    """A quantizer of an ONNX file, whose step is a power of two: the compiler takes it for the exponent."""

    @staticmethod
    def forward(context: Any, x: Tensor, exponent: int, bits: int, narrow: int) -> Tensor:
        return x.clone()

    @staticmethod
    def symbolic(graph: Any, x: Any, exponent: int, bits: int, narrow: int) -> Any:
        """Of the exporter."""
        numbers = [graph.op("Constant", value_t=torch.tensor(value)) for value in (2.0**exponent, 0.0, float(bits))]
        marked = graph.op(QUANTIZER, x, *numbers, signed_i=1, narrow_i=narrow, rounding_mode_s="ROUND")
        marked.setType(x.type())
        return marked


class Marker(nn.Module):
    """Takes a quantizer's place in a file; changes no value."""

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        form = quantizer.form
        self.numbers = int(quantizer.exponent), form.mantissa_bits, int(form.saturation == "sym")

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, ...)."""
        marked: Tensor = _Marked.apply(x, *self.numbers)
        return marked


class Product(nn.Module):
    """A convolution or fully connected layer with the array's weights and biases; it learns those of ``layer``."""

    def __init__(self, layer: Any, source: Quantizer, numbers: Numbers) -> None:
        super().__init__()
        if getattr(layer, "padding_mode", "zeros") != "zeros":
            raise ModelError(f"{type(layer).__name__} pads by {layer.padding_mode}: the array pads with zeros")
        self.layer, self.numbers = layer, numbers
        self._source = [source]  # in a list: it is no part of this module

    def forward(self, x: Tensor) -> Tensor:
        """x: what the source gave."""
        layer = self.layer
        weights, exponents, bias = self._integers(1 if self.training else 2)
        values, source = replaced(layer.weight, weights), self._source[0]
        if bias is None:
            return self._products(x, values, None)
        if not source.dynamic:
            return self._products(x, values, self._aligned(bias, source.exponent + exponents, layer.bias))
        y = self._products(x, values, None)
        fits = [1] * y.ndim
        fits[-1 if isinstance(layer, nn.Linear) else 1] = -1
        units = source.used_by(y) + exponents.reshape(fits)
        return y + self._aligned(bias.reshape(fits), units, layer.bias.reshape(fits))

    def _aligned(self, bias: Tensor, units: Tensor, learnt: Tensor) -> Tensor:
        """Biases rounded to the accumulator's units, whose exponents are given."""
        unit = power(units, bias)
        aligned = rounded(bias / unit, self.numbers.format.rounding) * unit
        return replaced(learnt.expand_as(aligned), aligned)

    def _products(self, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        layer = self.layer
        if isinstance(layer, nn.Linear):
            return functional.linear(x, weights, bias)
        convolve: Any = functional.conv1d if weights.ndim == 3 else functional.conv2d
        result: Tensor = convolve(x, weights, bias, layer.stride, layer.padding, layer.dilation, layer.groups)
        return result

    def _integers(self, times: int = 2) -> tuple[Tensor, Tensor, Tensor | None]:
        """The values of the weights, the exponents of their rows, the values of the biases.

        times: that weights are rounded; the compiler reads rounded ones, whose rows may be finer.
        """
        numbers, weight = self.numbers, self.layer.weight
        values = weight.detach().double().cpu().numpy().reshape(len(weight), -1)
        bias = None if self.layer.bias is None else self.layer.bias.detach().double().cpu().numpy()
        source = self._source[0]
        known = None if source.dynamic else int(source.exponent)
        for _ in range(times):
            rows, integers = quantize_product(
                values, bias, numbers.config, known, numbers.method, numbers.weight_format
            )
            values = np.ldexp(rows.mantissas.astype(np.float64), rows.exponents[:, None])
        if integers is not None:
            bias = np.ldexp(integers[0].astype(np.float64), integers[1])
        weights = torch.from_numpy(values.reshape(weight.shape)).to(weight)
        exponents = torch.from_numpy(rows.exponents.astype(np.int64)).to(weight.device)
        return weights, exponents, None if bias is None else torch.from_numpy(bias).to(weight)

    def plain(self) -> nn.Module:
        """The layer with the weights that the array has."""
        layer: nn.Module = deepcopy(self.layer)
        with torch.no_grad():
            layer.weight.copy_(self._integers()[0])
        return layer


class Average(nn.Module):
    """Means over windows, whose one weight is a number of the array; size: of the window."""

    def __init__(self, size: tuple[int, int], pool: nn.Module, numbers: Numbers) -> None:
        super().__init__()
        self.pool, self.size = pool, size
        share = np.full((1, size[0] * size[1]), 1 / (size[0] * size[1]))
        rows, _ = quantize_product(share, None, numbers.config, None, numbers.method, numbers.weight_format)
        self.weight = float(np.ldexp(float(rows.mantissas[0, 0]), int(rows.exponents[0])))

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, channels, height, width)."""
        pool, size = self.pool, self.size
        stride, padding = getattr(pool, "stride", size), getattr(pool, "padding", 0)
        means = functional.avg_pool2d(x, size, stride, padding, divisor_override=1) * self.weight
        return means if getattr(pool, "keeps", True) else means.flatten(1)

    def plain(self) -> nn.Module:
        """The pooling layer."""
        return self.pool


class Sum(nn.Module):
    """The sum of two values in units of the larger of their exponents (BFP R46)."""

    def __init__(self, first: Quantizer, second: Quantizer, form: BlockFormat) -> None:
        super().__init__()
        self._sources, self._rounding = [first, second], form.rounding

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a, b: of one shape."""
        exponents = [source.used_by(a) for source in self._sources]
        larger = torch.maximum(*exponents)
        unit = power(larger, a)
        first, second = (
            x if torch.equal(own, larger) else replaced(x, rounded(x.detach() / unit, self._rounding) * unit)
            for x, own in zip((a, b), exponents, strict=True)
        )
        return first + second

    def plain(self) -> nn.Module:
        """A sum."""
        return PlainSum()


class PlainSum(nn.Module):
    """The sum of two values."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a, b: of one shape."""
        return a + b


class TableFunction(nn.Module):
    """A function by the array's table; its gradient is the function's own."""

    points: Tensor

    def __init__(self, table: Table, function: nn.Module) -> None:
        super().__init__()
        self.table, self.function = table, function
        self.register_buffer("points", torch.tensor(table.points, dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: of any shape."""
        smooth = self.function(x)
        return replaced(smooth, self._values(x.detach().double()).to(x.dtype))

    def _values(self, x: Tensor) -> Tensor:
        """As ``engines.output.functions`` computes it."""
        table, unit = self.table, 2.0**ACTIVATION_EXPONENT
        number = self._interpolated(x) * unit
        if table.holds == "value":
            return number
        positive = x.clamp(min=0)
        return positive - number if table.holds == "below_relu" else torch.round(positive / unit) * unit + number

    def _interpolated(self, x: Tensor) -> Tensor:
        table, points = self.table, self.points.double()
        limit, size = table.limit << GRID_BITS, (table.width << GRID_BITS) // TABLE_STEPS
        argument = torch.round(x * 2.0**GRID_BITS).clamp(-limit, limit)
        offset = argument + limit if table.symmetry == "none" else argument.abs()
        step = torch.floor(offset / size).long()
        start, end = points[step], points[(step + 1).clamp(max=TABLE_STEPS)]
        result = start + torch.round((end - start) * (offset - step * size) / size)
        return torch.where(argument < 0, -result, result) if table.symmetry == "odd" else result

    def plain(self) -> nn.Module:
        """The function."""
        return self.function
