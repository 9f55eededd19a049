"""The best weights of a layer with some of them zero, and what the next one would cost: least squares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.formats.arrays import BoolArray, FloatArray

#: Steps in which weights go; after each the others are set anew.
STEPS = 8
#: How much the former weights count against the samples: a share of each input's power, and of their mean.
DAMPING, LEAST = 1e-3, 1e-7


@dataclass(frozen=True)
class Squares:
    """Sums over samples for a layer that shall turn rows x (inputs) into rows y (outputs).

    power: of products of inputs, (inputs, inputs); wanted: of products of inputs and results, (inputs, outputs).
    """

    power: FloatArray
    wanted: FloatArray

    @classmethod
    def none(cls, inputs: int, outputs: int) -> Squares:
        """Sums over nothing."""
        return cls(np.zeros((inputs, inputs)), np.zeros((inputs, outputs)))

    def add(self, x: FloatArray, y: FloatArray) -> None:
        """Add rows."""
        self.power[...] += x.T @ x
        self.wanted[...] += x.T @ y

    def damped(self, weights: FloatArray) -> Squares:
        """Sums that pull every weight a little to what it was; inputs that never say anything leave it there."""
        diagonal = np.diag(self.power)
        pull = DAMPING * diagonal + (LEAST * float(diagonal.mean()) or 1.0)
        return Squares(self.power + np.diag(pull), self.wanted + pull[:, None] * weights)

    def best(self, kept: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The best weights (inputs, outputs) that are zero but where ``kept``; how much the squared error of its output
        grows without each of them, the others being set anew (Hassibi and Stork, 1993)."""
        weights, added = np.zeros(kept.shape), np.zeros(kept.shape)
        alike: dict[bytes, list[int]] = {}
        for output in range(kept.shape[1]):
            alike.setdefault(kept[:, output].tobytes(), []).append(output)
        for outputs in alike.values():
            inputs = np.flatnonzero(kept[:, outputs[0]])
            place = np.ix_(inputs, np.array(outputs))
            inverse = np.linalg.inv(self.power[np.ix_(inputs, inputs)])
            weights[place] = inverse @ self.wanted[place]
            added[place] = np.square(weights[place]) / np.diag(inverse)[:, None]
        return weights, added


#: Which weights stay, (inputs, outputs), by what they are worth and the share that goes.
Choose = Callable[[FloatArray, float], BoolArray]


def pruned_squares(squares: Squares, weights: FloatArray, sparsity: float, choose: Choose) -> FloatArray:
    """Weights (inputs, outputs) of which a share is zero, with a small squared error."""
    shares = [1 - (1 - sparsity) ** (step / STEPS) for step in range(1, STEPS + 1)]
    return list(pruned_stepwise(squares, weights, shares, choose))[-1]


def pruned_stepwise(
    squares: Squares, weights: FloatArray, shares: Sequence[float], choose: Choose
) -> Iterator[FloatArray]:
    """Weights (inputs, outputs) after each of the rising ``shares`` of zeros: those go whose absence costs least."""
    damped = squares.damped(weights)
    _, added = damped.best(np.ones(weights.shape, np.bool_))
    for share in shares:
        found, added = damped.best(choose(np.sqrt(added), share))
        yield found
