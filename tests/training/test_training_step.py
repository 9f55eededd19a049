"""Training in emulation: a step of gradient descent whose every matrix product is block floating point (R83)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bfpga.data import load_samples
from bfpga.formats.block_float import decode, encode, requantize_block
from bfpga.formats.block_format import BlockFormat

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
DIGITS = load_samples(EXAMPLES / "digits_test.npz")
RATE = 0.2


class Arithmetic:
    """Matrix products in float64, or exact products of mantissas requantized by the policy `max` (R19, R24, R83)."""

    def __init__(self, mantissa_bits: int | None) -> None:
        self.format = None if mantissa_bits is None else BlockFormat(mantissa_bits=mantissa_bits)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self.format is None:
            return a @ b
        left, right = encode(a, self.format), encode(b, self.format)
        accumulators = left.mantissa.astype(np.int64) @ right.mantissa.astype(np.int64)
        exponent = int(np.ravel(left.exponent)[0]) + int(np.ravel(right.exponent)[0])
        result = requantize_block(accumulators, exponent, self.format)
        return decode(result.mantissa, result.exponent)


class Network:
    """64-32-10 with ReLU and softmax; weights are updated in place."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        rng = np.random.default_rng(0)
        self.product = arithmetic.product
        self.first = rng.normal(0, 0.2, (64, 32))
        self.second = rng.normal(0, 0.2, (32, 10))

    def probabilities(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.maximum(self.product(x, self.first), 0)
        scores = self.product(hidden, self.second)
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, shifted / shifted.sum(axis=1, keepdims=True)

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        _, probabilities = self.probabilities(x)
        return float(-np.log(probabilities[np.arange(len(y)), y]).mean())

    def step(self, x: np.ndarray, y: np.ndarray) -> None:
        hidden, gradient = self.probabilities(x)
        gradient = (gradient - np.eye(10)[y]) / len(y)
        backward = self.product(gradient, self.second.T) * (hidden > 0)
        self.second -= RATE * self.product(hidden.T, gradient)
        self.first -= RATE * self.product(x.T, backward)


def data() -> tuple[np.ndarray, np.ndarray]:
    assert DIGITS.y is not None
    return DIGITS.x.reshape(-1, 64).astype(np.float64), DIGITS.y.astype(np.int64)


@pytest.mark.parametrize(("bits", "tolerance"), [(16, 1e-3), (8, 0.1)])
def test_one_step_updates_the_weights_as_float_does(bits: int, tolerance: float) -> None:
    """R83: forward, backward and update; the error of an update is that of its formats."""
    x, y = data()
    exact, block = Network(Arithmetic(None)), Network(Arithmetic(bits))
    before = exact.first.copy()
    exact.step(x, y)
    block.step(x, y)
    update = exact.first - before
    assert np.linalg.norm(block.first - exact.first) < tolerance * np.linalg.norm(update)
    assert not np.array_equal(block.first, before)


def test_steps_lower_the_loss_to_that_of_float() -> None:
    """R83: node values are updated in place, step after step."""
    x, y = data()
    exact, block = Network(Arithmetic(None)), Network(Arithmetic(16))
    start = block.loss(x, y)
    for _ in range(60):
        exact.step(x, y)
        block.step(x, y)
    assert block.loss(x, y) < 0.6 * start
    assert block.loss(x, y) == pytest.approx(exact.loss(x, y), rel=0.02)
