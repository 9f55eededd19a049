"""Rows as tests of the process `rows` take them, and what its operations are in floating point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from bfpga.formats.arrays import Float64Array, Int64Array

#: The largest mantissa.
TOP = 127
Draw = Callable[[np.random.Generator, int, int], Float64Array]


def _outliers(rng: np.random.Generator, rows: int, channels: int) -> Float64Array:
    values = rng.normal(0, TOP / 40, (rows, channels))
    values[np.arange(rows), rng.integers(0, channels, rows)] = TOP * rng.choice([-1, 1], rows)
    return values


def _constant(rng: np.random.Generator, rows: int, channels: int) -> Float64Array:
    return np.repeat(rng.integers(-TOP, TOP + 1, (rows, 1)), channels, axis=1).astype(np.float64)


def _one_differs(rng: np.random.Generator, rows: int, channels: int) -> Float64Array:
    values = _constant(rng, rows, channels)
    values[:, channels // 2] += rng.choice([-1, 1])
    return values


#: Distributions of the elements of rows.
KINDS: dict[str, Draw] = {
    "normal": lambda rng, rows, channels: rng.normal(0, TOP / 4, (rows, channels)),
    "uniform": lambda rng, rows, channels: rng.uniform(-TOP, TOP, (rows, channels)),
    "laplace": lambda rng, rows, channels: rng.laplace(0, TOP / 12, (rows, channels)),
    "shifted": lambda rng, rows, channels: rng.normal(TOP / 2, TOP / 30, (rows, channels)),
    "extremes": lambda rng, rows, channels: rng.choice([-TOP, TOP], (rows, channels)).astype(np.float64),
    "near constant": lambda rng, rows, channels: _constant(rng, rows, channels) + rng.integers(0, 2, (rows, channels)),
    "outliers": _outliers,
    "constant": _constant,
    "one differs": _one_differs,
}


@dataclass(frozen=True)
class Rows:
    """Mantissas (rows, channels), and what else they come with: random numbers of their own."""

    x: Int64Array
    rng: np.random.Generator

    @property
    def channels(self) -> int:
        return self.x.shape[1]


def drawn_rows(kind: str, rng: np.random.Generator, rows: int, channels: int) -> Int64Array:
    """Mantissas of a distribution."""
    return np.clip(np.rint(KINDS[kind](rng, rows, channels)), -TOP, TOP).astype(np.int64)


@st.composite
def some_rows(draw: st.DrawFn, count: int = 24) -> Rows:
    """Rows of any distribution and length; lengths around powers of two, where widths end, more often."""
    lengths = st.one_of(st.integers(1, 1024), st.sampled_from([1, 2, 3, 8, 32, 127, 128, 129, 384, 513, 1023, 1024]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Rows(drawn_rows(draw(st.sampled_from(sorted(KINDS))), rng, count, draw(lengths)), rng)


def float_softmax(x: Int64Array, exponent: int) -> Float64Array:
    powers = np.exp(np.ldexp((x - x.max(axis=1, keepdims=True)).astype(np.float64), exponent))
    result: Float64Array = powers / powers.sum(axis=1, keepdims=True)
    return result


def float_normalized(x: Int64Array, exponent: int, epsilon: float, centred: bool) -> Float64Array:
    """Without scale and shift."""
    values = np.ldexp(x.astype(np.float64), exponent)
    values = values - (values.mean(axis=1, keepdims=True) if centred else 0.0)
    result: Float64Array = values / np.sqrt((values**2).mean(axis=1, keepdims=True) + epsilon)
    return result
