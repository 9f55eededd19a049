"""What an array computes of PyTorch: which modules, functions and methods are which of its operations."""

from __future__ import annotations

import operator
from typing import Any

from bfpga.compiler.read.separable_averages import separable
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function, UnfitArgumentError
from bfpga.errors import ModelError
from bfpga.training.torch_import import Tensor, functional, fusion, fx, nn, torch

PRODUCTS = (nn.Conv1d, nn.Conv2d, nn.Linear)
NORMALIZATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
AVERAGES = (
    nn.AvgPool2d, nn.AdaptiveAvgPool2d, functional.avg_pool2d, functional.adaptive_avg_pool2d, torch.mean, "mean",
)  # fmt: skip
#: Layers of the array that keep mantissas as they are: maxima, and padding as a part of the layer after it.
READING = (
    nn.MaxPool1d, nn.MaxPool2d, functional.max_pool1d, functional.max_pool2d, nn.ZeroPad1d, nn.ZeroPad2d,
)  # fmt: skip
#: Rearrangements, of values of the host too.
MOVING = (
    nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout2d, functional.dropout, torch.flatten, torch.reshape,
    torch.permute, torch.transpose, torch.squeeze, torch.unsqueeze, "flatten", "reshape", "view", "permute",
    "transpose", "squeeze", "unsqueeze", "contiguous",
)  # fmt: skip
#: The array computes these too, but with numbers that are not repeated here.
REFUSED = (
    nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.RNN, nn.LSTM, nn.GRU, nn.AvgPool1d,
    nn.MultiheadAttention, nn.PReLU, functional.pad, functional.linear, functional.conv1d, functional.conv2d,
    operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.imul, torch.add, torch.sub,
    torch.mul, torch.matmul, torch.bmm, "add", "add_", "sub", "mul", "mul_", "matmul", "bmm",
)  # fmt: skip
#: Functions, and those of ``torch.nn.functional`` and of tensors as the modules that they are.
_PLAIN: dict[type[nn.Module], Function] = {
    nn.ReLU: Function.RELU,
    nn.LeakyReLU: Function.LEAKY_RELU,
    nn.ReLU6: Function.CLIP,
    nn.Hardtanh: Function.CLIP,
    nn.Sigmoid: Function.SIGMOID,
    nn.Tanh: Function.TANH,
    nn.Hardsigmoid: Function.HARD_SIGMOID,
    nn.Hardswish: Function.HARD_SWISH,
    nn.SiLU: Function.SILU,
    nn.GELU: Function.GELU,
    nn.Softplus: Function.SOFTPLUS,
    nn.Mish: Function.MISH,
    nn.ELU: Function.ELU,
}
_AS_MODULES: dict[Any, type[nn.Module]] = {
    **{getattr(functional, name): kind for name, kind in (
        ("relu", nn.ReLU), ("leaky_relu", nn.LeakyReLU), ("relu6", nn.ReLU6), ("hardtanh", nn.Hardtanh),
        ("sigmoid", nn.Sigmoid), ("tanh", nn.Tanh), ("hardsigmoid", nn.Hardsigmoid), ("hardswish", nn.Hardswish),
        ("silu", nn.SiLU), ("gelu", nn.GELU), ("softplus", nn.Softplus), ("mish", nn.Mish), ("elu", nn.ELU),
    )},
    torch.relu: nn.ReLU, torch.sigmoid: nn.Sigmoid, torch.tanh: nn.Tanh,
    "relu": nn.ReLU, "relu_": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh,
}  # fmt: skip
FUNCTIONS = (*_PLAIN, *_AS_MODULES)


def kind_of(node: fx.Node, traced: fx.GraphModule) -> Any:
    """What a node calls: the class of a module, a function, the name of a method; None for others."""
    if node.op == "call_module":
        return type(traced.get_submodule(str(node.target)))
    return node.target if node.op in ("call_function", "call_method") else None


def as_module(node: fx.Node, traced: fx.GraphModule) -> nn.Module:
    """The function of a node as a module."""
    if node.op == "call_module":
        return traced.get_submodule(str(node.target))
    numbers = {name: value for name, value in node.kwargs.items() if name not in ("inplace", "input")}
    return _AS_MODULES[node.target](*node.args[1:], **numbers)


def array_function(module: nn.Module, config: KernelConfig) -> Function | None:
    """The function of the array that a module is, where this array has it."""
    function, argument = _PLAIN[type(module)], 0.0
    if isinstance(module, nn.Hardtanh):  # ReLU6 is one
        if module.min_val != 0:
            return None
        argument = float(module.max_val)
    elif isinstance(module, nn.LeakyReLU):
        argument = float(module.negative_slope)
    elif (isinstance(module, nn.ELU) and module.alpha != 1) or (isinstance(module, nn.Softplus) and module.beta != 1):
        return None
    try:
        if function.row.argument is not None:
            function.row.argument.encoded(argument)
    except UnfitArgumentError:
        return None
    return function if function.key in config.known_functions else None


def average_of(node: fx.Node, traced: fx.GraphModule) -> tuple[tuple[int, int], nn.Module]:
    """The window of an average, and the module that computes it; ModelError for one that cannot be trained."""
    shape = node.all_input_nodes[0].meta["tensor_meta"].shape
    if len(shape) != 4:
        raise ModelError(f"{node.name}: averages are trained over images (samples, channels, height, width) only")
    whole = (int(shape[2]), int(shape[3]))
    if node.target in (torch.mean, "mean"):
        return whole, _mean(node)
    if node.op == "call_module":
        pool = traced.get_submodule(str(node.target))
    else:
        kind = nn.AvgPool2d if node.target is functional.avg_pool2d else nn.AdaptiveAvgPool2d
        pool = kind(*node.args[1:], **{name: value for name, value in node.kwargs.items() if name != "input"})
    if isinstance(pool, nn.AdaptiveAvgPool2d):
        if _pair(pool.output_size) != (1, 1):
            raise ModelError(f"{node.name}: an adaptive average is trained with the output size 1 only")
        return whole, pool
    if pool.ceil_mode or pool.divisor_override or (_pair(pool.padding) != (0, 0) and not pool.count_include_pad):
        raise ModelError(f"{node.name}: averages are trained without ceil_mode and divisor_override, padding counted")
    return _pair(pool.kernel_size), pool


def average_in_steps(node: fx.Node, size: tuple[int, int], pool: nn.Module) -> list[tuple[tuple[int, int], nn.Module]]:
    """The windows, and what computes them, in which an array takes an average that it separates; else the given one."""
    whole = isinstance(pool, (Mean, nn.AdaptiveAvgPool2d))
    strides = size if whole else _pair(pool.stride)
    image = node.all_input_nodes[0].meta["tensor_meta"].shape[2:]
    if _pair(getattr(pool, "padding", 0)) != (0, 0) or not separable(size, strides, image):
        return [(size, pool)]
    windows, steps = ([(pair[0], 1), (1, pair[1])] for pair in (size, strides))
    if size[0] < size[1]:
        windows, steps = windows[::-1], steps[::-1]
    second = pool if whole else nn.AvgPool2d(windows[1], steps[1])
    return [(windows[0], nn.AvgPool2d(windows[0], steps[0])), (windows[1], second)]


class Mean(nn.Module):
    """The mean over height and width; keeps: whether the axes stay."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, channels, height, width)."""
        return x.mean((2, 3), keepdim=self.keeps)


def _mean(node: fx.Node) -> nn.Module:
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keeps = bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))
    if not isinstance(axes, (tuple, list)) or sorted(int(axis) % 4 for axis in axes) != [2, 3]:
        raise ModelError(f"{node.name}: a mean is trained over height and width only")
    return Mean(keeps)


def _pair(size: Any) -> tuple[int, int]:
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


def fuse(layer: nn.Module, normalization: nn.Module) -> nn.Module:
    """A layer with the batch normalization that follows it."""
    fold: Any = fusion.fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fusion.fuse_conv_bn_eval
    result: nn.Module = fold(layer, normalization)
    return result
