"""As much of PyTorch's public interface as attaching a module needs, in numpy, for machines without PyTorch.

Modules keep PyTorch's protocol: a call goes to ``forward`` of the instance, children are found by attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np


class Tensor:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def to(self, other: Tensor) -> Tensor:
        return Tensor(self.values.astype(other.values.dtype))

    def numpy(self) -> np.ndarray:
        return self.values


class Module:
    def __init__(self) -> None:
        self.training = True

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    def forward(self, x: Any) -> Any:
        raise NotImplementedError

    def eval(self) -> Module:
        for _, module in self.named_modules():
            module.training = False
        return self

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in vars(self).items():
            if isinstance(child, Module):
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name)


class Linear(Module):
    def __init__(self, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
        super().__init__()
        self.weight = Tensor(weight)
        self.bias = None if bias is None else Tensor(bias)

    def forward(self, x: Tensor) -> Tensor:
        return Tensor(x.values @ self.weight.values.T + (0 if self.bias is None else self.bias.values))


class Conv2d(Module):
    def __init__(self, weight: np.ndarray, padding: Any = (0, 0), padding_mode: str = "zeros") -> None:
        super().__init__()
        self.weight, self.bias = Tensor(weight), None
        self.kernel_size = weight.shape[2:]
        self.stride, self.dilation, self.groups = (1, 1), (1, 1), 1
        self.padding, self.padding_mode = padding, padding_mode

    def forward(self, x: Tensor) -> Tensor:
        raise AssertionError("a convolution that no test leaves to PyTorch")


def stand_in() -> ModuleType:
    """The module `torch`."""
    torch, nn = ModuleType("torch"), ModuleType("torch.nn")
    nn.Module, nn.Linear, nn.Conv2d = Module, Linear, Conv2d  # type: ignore[attr-defined]
    torch.nn, torch.from_numpy = nn, Tensor  # type: ignore[attr-defined]
    return torch
