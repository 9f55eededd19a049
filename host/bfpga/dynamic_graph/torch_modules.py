"""PyTorch modules whose linear layers and convolutions run on a session's device, while PyTorch runs the rest.

Only names of PyTorch's public interface are used, and PyTorch is imported when a module is attached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.dynamic_graph.array import Operations
from bfpga.errors import DataError, ToolError

Forward = Callable[[Any], Any]


@contextmanager
def attached(run: Operations, module: Any) -> Iterator[Mapping[str, str]]:
    """Within the `with` block every nn.Linear and nn.Conv2d of ``module`` computes on the device (FP R4, forward only).

    Yields the names of such layers that are left to PyTorch, with the reason. ToolError without PyTorch; DataError for
    what is not a module, and for one that trains: results carry no gradient.
    """
    torch = _import_torch()
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"attach: a {type(module).__name__} is no torch.nn.Module")
    if module.training:
        raise DataError("attach: the module is in training mode, and results carry no gradient: call module.eval()")
    replaced, left = [], {}
    for name, layer in module.named_modules():
        if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d)):
            reason = _unfit(layer, torch)
            if reason:
                left[name] = reason
            else:
                replaced.append(layer)
    for layer in replaced:
        layer.forward = _forward(run, layer, torch)
    try:
        yield left
    finally:
        for layer in replaced:
            del layer.forward  # the class has it still


def _import_torch() -> Any:
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        raise ToolError("attach needs PyTorch, which is not installed: pip install torch") from None


def _unfit(layer: Any, torch: Any) -> str:
    """Why a layer is left to PyTorch; empty if it is not."""
    if "forward" in vars(layer):
        return "its forward was replaced already"
    if isinstance(layer, torch.nn.Linear):
        return ""
    if layer.padding_mode != "zeros":
        return f"it pads with {layer.padding_mode}, not with zeros"
    return "" if _padding(layer) is not None else "it pads one side more than the other"


def _padding(layer: Any) -> tuple[int, int] | None:
    """Padding of a convolution on both sides of an axis; None where the sides differ."""
    if layer.padding == "valid":
        return 0, 0
    if layer.padding != "same":
        vertical, horizontal = layer.padding
        return int(vertical), int(horizontal)
    total = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
    return None if total[0] % 2 or total[1] % 2 else (total[0] // 2, total[1] // 2)


def _forward(run: Operations, layer: Any, torch: Any) -> Forward:
    """What the layer computes, on the device; parameters are read at every call, and packed again if they changed."""

    def linear(x: Any) -> Any:
        weights, bias = _parameters(layer)
        return _tensor(run.linear(_numbers(x), weights.T, bias), x, torch)

    def convolution(x: Any) -> Any:
        weights, bias = _parameters(layer)
        images = _numbers(x)
        batch = images.reshape(-1, *images.shape[-3:])  # an image may come without a batch
        result = run.conv2d(batch, weights, bias, layer.stride, _padding(layer) or 0, layer.dilation, layer.groups)
        return _tensor(result.reshape(*images.shape[:-3], *result.shape[1:]), x, torch)

    return linear if isinstance(layer, torch.nn.Linear) else convolution


def _parameters(layer: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Weights and bias of a layer."""
    return _numbers(layer.weight), None if layer.bias is None else _numbers(layer.bias)


def _numbers(tensor: Any) -> npt.NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(result: Any, like: Any, torch: Any) -> Any:
    """A result as a tensor of the type and on the device of the layer's input."""
    return torch.from_numpy(np.ascontiguousarray(result)).to(like)
