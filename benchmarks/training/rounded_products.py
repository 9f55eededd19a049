"""Modules of PyTorch whose products take rounded operands: with one exponent for a tensor, or one for a block of it.

No kernel computes blocks; this is what `bfpga research blocks` rounds, as something that learns. Gradients pass through
every rounding as if it were not there.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bfpga.formats.block_format import BlockFormat
from bfpga.training.fake_quantizers import TRIED, Quantizer, power, replaced


@dataclass(frozen=True)
class Numbers:
    """How operands are rounded: bits of each; channels that share an exponent, 0: all of a tensor, of a row of weights.

    image_bits: of the network's input, the values of the first product.
    dynamic: an exponent of a tensor is each sample's own, as of kernels with policy ``max``.
    """

    value_bits: int
    weight_bits: int
    image_bits: int
    values: int = 0
    weights: int = 0
    dynamic: bool = False


class MatMul(nn.Module):
    """The product of two values."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a: (..., rows, depth); b: (..., depth, columns)."""
        return a @ b


class BlockQuantizer(nn.Module):
    """Values with an exponent for each block of ``size`` neighbours along an axis: its largest one's highest bit."""

    def __init__(self, form: BlockFormat, size: int, axis: int) -> None:
        super().__init__()
        self.form, self.size, self.axis = form, size, axis

    def forward(self, x: Tensor) -> Tensor:
        """x: of any shape that has the axis."""
        return replaced(x, rounded_blocks(x.detach(), self.form, self.size, self.axis))


def rounded_blocks(x: Tensor, form: BlockFormat, size: int, axis: int) -> Tensor:
    """What blocks keep of x: mantissas to nearest even that saturate, as `formats/microscaling.py` has them."""
    moved = x.movedim(axis, -1)
    length = moved.shape[-1]
    size = min(size, length)
    parts = functional.pad(moved, (0, -length % size)).unflatten(-1, (-1, size))
    step = power(highest(parts.abs().amax(dim=-1, keepdim=True)) - (form.mantissa_bits - 2), x)
    limit = form.mantissa_max
    return (torch.round(parts / step).clamp(-limit, limit) * step).flatten(-2)[..., :length].movedim(-1, axis)


def highest(largest: Tensor) -> Tensor:
    """The exponents of magnitudes' highest bits; small ones of zeros."""
    return torch.where(largest > 0, torch.frexp(largest)[1] - 1, -60)


def rounded_rows(weights: Tensor, form: BlockFormat) -> Tensor:
    """Weights (rows, ...) with the exponent for each row that has the least squared error."""
    rows = weights.flatten(1)
    top = highest(rows.abs().amax(dim=1, keepdim=True)) - (form.mantissa_bits - 2)
    found, least = rows, torch.full_like(rows[:, :1], torch.inf)
    for less in range(TRIED):
        step = power(top - less, rows)
        values = torch.round(rows / step).clamp(form.mantissa_min, form.mantissa_max) * step
        error = ((values - rows) ** 2).sum(dim=1, keepdim=True)
        found, least = torch.where(error < least, values, found), torch.minimum(error, least)
    return found.reshape(weights.shape)


class RoundedProduct(nn.Module):
    """A convolution, a fully connected layer or a ``MatMul`` with rounded operands; biases stay as they are."""

    def __init__(self, product: nn.Module, numbers: Numbers, bits: int) -> None:
        super().__init__()
        self.product, self.numbers = product, numbers
        form = BlockFormat(mantissa_bits=bits)
        depths = {nn.Conv2d: [1], nn.Linear: [-1], MatMul: [-1, -2]}[type(product)]
        self.values = nn.ModuleList(
            BlockQuantizer(form, numbers.values, axis) if numbers.values else Quantizer(form, numbers.dynamic)
            for axis in depths
        )

    def forward(self, *operands: Tensor) -> Tensor:
        """operands: those of the product."""
        x = [rounding(operand) for rounding, operand in zip(self.values, operands, strict=True)]
        product: Any = self.product
        if isinstance(product, MatMul):
            return product(*x)
        weights = replaced(product.weight, self.rounded_weights())
        if isinstance(product, nn.Linear):
            return functional.linear(x[0], weights, product.bias)
        return functional.conv2d(x[0], weights, product.bias, product.stride, product.padding, 1, product.groups)

    def rounded_weights(self) -> Tensor:
        """Those of fewer input channels than a block have one exponent a row: a block of one would cost as many."""
        numbers, product = self.numbers, self.product
        assert isinstance(product, nn.Conv2d | nn.Linear)
        weights, form = product.weight.detach(), BlockFormat(mantissa_bits=numbers.weight_bits)
        if numbers.weights and weights.shape[1] >= numbers.weights:
            return rounded_blocks(weights, form, numbers.weights, 1)
        return rounded_rows(weights, form)


def with_rounded_products(network: nn.Module, numbers: Numbers) -> nn.Module:
    """A copy of a network whose products are rounded."""
    result = deepcopy(network)
    bits = numbers.image_bits
    for name, child in list(result.named_modules()):
        if isinstance(child, nn.Conv2d | nn.Linear | MatMul):
            owner, _, last = name.rpartition(".")
            setattr(result.get_submodule(owner), last, RoundedProduct(child, numbers, bits))
            bits = numbers.value_bits
    return result
