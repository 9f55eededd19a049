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
    values = np.asarray(scores, np.float64)
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    chances = shifted / shifted.sum(axis=1, keepdims=True)
    sample = np.arange(len(labels))
    loss = -np.log(np.maximum(chances[sample, labels], np.finfo(np.float64).tiny)).mean()
    chances[sample, labels] -= 1
    return float(loss), chances / len(labels)


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


@dataclass
class Counters:
    """Mini-batches of an epoch and iterations of the run. FP R4, R16.

    An iteration is one mini-batch forward, backward and updated. At ``limit`` iterations the run ends, and ``finished``
    is told. ConfigurationError unless both numbers are 1 or more.
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
