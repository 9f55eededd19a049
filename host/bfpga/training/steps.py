"""What the host does between two passes: the loss, the update of the weights, counters of the run (FP R4, R16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray
from bfpga.training.layers import Parameter


def cross_entropy(scores: FloatArray, labels: npt.NDArray[np.integer[Any]]) -> tuple[float, FloatArray]:
    """Mean loss of scores (samples, classes), and its gradient."""
    targets = np.zeros(np.shape(scores))
    targets[np.arange(len(labels)), labels] = 1
    return soft_cross_entropy(scores, targets)


def soft_cross_entropy(scores: FloatArray, targets: FloatArray) -> tuple[float, FloatArray]:
    """Mean loss of scores (samples, classes) where each sample is of every class to a share, and its gradient.

    targets: (samples, classes), each row adds up to 1.
    """
    chances = softmax(scores)
    loss = -(targets * np.log(np.maximum(chances, np.finfo(np.float64).tiny))).sum(axis=1).mean()
    return float(loss), (chances - targets) / len(targets)


def softmax(scores: FloatArray) -> FloatArray:
    """Probabilities of classes from scores (samples, classes)."""
    values = np.asarray(scores, np.float64)
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


class Momentum:
    """Gradient descent with momentum on the master weights.

    largest_norm: of all gradients together; larger ones are made shorter, as recurrent networks need it.
    """

    def __init__(
        self, parameters: Sequence[Parameter], rate: float, momentum: float = 0.9, largest_norm: float = np.inf
    ) -> None:
        self.parameters = list(parameters)
        self.largest_norm = largest_norm
        self.rate = rate
        self.momentum = momentum
        self._speeds = [np.zeros_like(parameter.value) for parameter in self.parameters]

    def update(self) -> None:
        """Move every parameter against its gradient, and start gradients over."""
        norm = np.sqrt(sum(float(np.square(parameter.gradient).sum()) for parameter in self.parameters))
        rate = self.rate * min(1.0, self.largest_norm / norm) if norm > 0 else self.rate
        for parameter, speed in zip(self.parameters, self._speeds, strict=True):
            speed *= self.momentum
            speed -= rate * parameter.gradient
            parameter.value = parameter.value + speed
            parameter.gradient[...] = 0


class RelativeAdam:
    """Adam (Kingma and Ba, 2015) whose steps are shares of a parameter's size, as in Adafactor (Shazeer and Stern,
    2018): one rate suits every layer, whatever the scale of its inputs.

    ``rate``: share of the root mean square that a parameter had at the start; the caller may change it.
    """

    def __init__(self, parameters: Sequence[Parameter], rate: float, smallest: float = 1e-3) -> None:
        """smallest: what parameters count for that are nearly zero."""
        self.parameters, self.rate = list(parameters), rate
        self._scales = [max(float(np.sqrt(np.square(item.value).mean())), smallest) for item in self.parameters]
        self._means = [np.zeros_like(item.value) for item in self.parameters]
        self._squares = [np.zeros_like(item.value) for item in self.parameters]
        self._updates = 0

    def update(self) -> None:
        """Move every parameter against its gradient, and start gradients over."""
        self._updates += 1
        for item, scale, mean, square in zip(
            self.parameters, self._scales, self._means, self._squares, strict=True
        ):
            mean += 0.1 * (item.gradient - mean)
            square += 0.001 * (np.square(item.gradient) - square)
            first, second = mean / (1 - 0.9**self._updates), square / (1 - 0.999**self._updates)
            item.value = item.value - self.rate * scale * first / (np.sqrt(second) + 1e-12)
            item.gradient[...] = 0


@dataclass
class Counters:
    """Mini-batches of an epoch and iterations of the run. FP R4, R16.

    An iteration is one mini-batch forward, backward and updated. At ``limit`` iterations the run ends, and ``finished``
    is called. ConfigurationError unless both numbers are 1 or more.
    """

    mini_batches: int
    limit: int
    finished: Callable[[int], None] | None = None
    iteration: int = field(default=0, init=False)
    mini_batch: int = field(default=0, init=False)
    epoch: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name in ("mini_batches", "limit"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; 1 or more are needed")

    def run(self) -> Iterator[int]:
        """The number of the mini-batch of each iteration, until the limit."""
        while self.iteration < self.limit:
            yield self.mini_batch
            self.iteration += 1
            self.mini_batch += 1
            if self.mini_batch == self.mini_batches:
                self.mini_batch, self.epoch = 0, self.epoch + 1
        if self.finished is not None:
            self.finished(self.iteration)
