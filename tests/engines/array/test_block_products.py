"""Products of matrices whose exponents change along the reduction axis: exact sums. R54, BFP 2.3."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.engines.array.block_products import BlockRows, block_product


def random_rows(rng: np.random.Generator, rows: int, inner: int, block: int, bits: int, spread: int) -> BlockRows:
    top = (1 << (bits - 1)) - 1
    exponents = rng.integers(-spread, spread + 1, (rows, inner // block))
    return BlockRows(rng.integers(-top, top + 1, (rows, inner)), exponents)


def exact(first: BlockRows, second: BlockRows, row: int, column: int) -> Fraction:
    inner, blocks = first.mantissa.shape[1], first.exponent.shape[1]
    length = inner // blocks
    return sum(
        (
            Fraction(int(first.mantissa[row, k]) * int(second.mantissa[column, k]))
            * Fraction(2) ** int(first.exponent[row, k // length] + second.exponent[column, k // length])
            for k in range(inner)
        ),
        Fraction(0),
    )


@settings(deadline=None, max_examples=60)
@given(bits=st.sampled_from([4, 8, 12, 16]), spread=st.integers(0, 3), seed=st.integers(0, 2**32))
def test_sums_are_exact(bits: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (random_rows(rng, 3, 64, 16, bits, spread) for _ in range(2))
    sums, exponents = block_product(first, second)
    for row, column in np.ndindex(3, 3):
        assert Fraction(float(sums[row, column])) * Fraction(2) ** int(exponents[row, column]) == exact(
            first, second, row, column
        )


def test_sums_beyond_float64_are_refused() -> None:
    rows = BlockRows(np.full((1, 2), 127), np.array([[0, 24]]))
    with pytest.raises(ValueError, match="more than float64"):
        block_product(rows, rows)


def test_far_apart_exponents_are_refused() -> None:
    rows = BlockRows(np.array([[1, 1]]), np.array([[0, 2000]]))
    with pytest.raises(ValueError, match="more than float64"), np.errstate(all="ignore"):
        block_product(rows, rows)
