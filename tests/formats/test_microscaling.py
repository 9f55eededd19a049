"""Blocks of OCP Microscaling: Microsoft's emulation library, exact fractions, and the number types of ml_dtypes."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.errors import DataError
from bfpga.formats.block_float import encode_samples
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.microscaling import BLOCK, ELEMENTS, encode_blocks, integers, round_blocks

ANSWERS = Path(__file__).parents[1] / "data" / "microscaling" / "answers.npz"
#: Types of ml_dtypes, which newer versions of onnx bring.
TYPES = {"fp8_e5m2": "float8_e5m2", "fp8_e4m3": "float8_e4m3fn", "fp6_e3m2": "float6_e3m2fn",
         "fp6_e2m3": "float6_e2m3fn", "fp4_e2m1": "float4_e2m1fn"}  # fmt: skip
#: Numbers of all sizes that float32 has, and of about one size, with many ties.
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.integers(-512, 512).map(lambda n: n / 16),
    st.integers(-140, 120).map(lambda n: 2.0**n),
)


@pytest.mark.parametrize("block", [8, 16, 32])
@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_blocks_are_those_of_the_emulation_library(name: str, block: int) -> None:
    """72 channels: the last block of 16 and of 32 is not full."""
    with np.load(ANSWERS) as answers:
        numbers, wanted = answers["numbers"], answers[f"{name}_{block}"]
    np.testing.assert_array_equal(round_blocks(numbers, ELEMENTS[name], block, axis=1), wanted)


@settings(max_examples=drawn(200))
@given(st.lists(NUMBERS, min_size=1, max_size=12), st.sampled_from(sorted(TYPES)))
def test_floating_point_elements_are_those_of_ml_dtypes(numbers: list[float], name: str) -> None:
    """The exponent of the specification's formula in fractions; each element as the type of ml_dtypes has it."""
    ml_dtypes = pytest.importorskip("ml_dtypes", minversion="0.5")
    element, kind = ELEMENTS[name], getattr(ml_dtypes, TYPES[name])
    blocks = encode_blocks(np.array(numbers), element, block=len(numbers))
    largest = max(abs(Fraction(number)) for number in numbers)
    exponent = -127 if largest == 0 else min(max(floor_log2(largest) - element.exponent, -127), 127)
    assert blocks.exponents.item() == exponent
    top = float(ml_dtypes.finfo(kind).max)
    scaled = np.array([float(min(max(Fraction(n) / Fraction(2) ** exponent, -top), top)) for n in numbers])
    np.testing.assert_array_equal(blocks.elements[0], scaled.astype(kind).astype(np.float64))
    assert (element.highest, element.lowest) == (top, -top)


@settings(max_examples=drawn(200))
@given(st.lists(NUMBERS, min_size=1, max_size=12), st.sampled_from([2, 4, 8, 16]), st.booleans())
def test_integers_are_those_of_the_formula(numbers: list[float], bits: int, symmetric: bool) -> None:
    """Exact fractions: nearest, ties to even, saturated; the lowest integer is used or left out."""
    blocks = encode_blocks(np.array(numbers), integers(bits, symmetric), block=len(numbers))
    largest = max(abs(Fraction(number)) for number in numbers)
    exponent = -127 if largest == 0 else min(max(floor_log2(largest), -127), 127)
    low, high = -(1 << (bits - 1)) + symmetric, (1 << (bits - 1)) - 1
    step = Fraction(2) ** (exponent - bits + 2)
    wanted = [min(max(round(Fraction(number) / step), low), high) for number in numbers]
    assert blocks.exponents.item() == exponent
    assert (blocks.elements[0] * 2.0 ** (bits - 2)).tolist() == wanted


@settings(max_examples=drawn(50))
@given(st.lists(st.floats(-1000, 1000, width=32), min_size=2 * BLOCK, max_size=2 * BLOCK), st.sampled_from([4, 8]))
def test_mxint_is_block_floating_point_with_an_exponent_for_each_block(numbers: list[float], bits: int) -> None:
    """The mantissas and exponents of the kernels' format, a block taken as a sample."""
    x = np.array(numbers, np.float32)
    mantissas, exponents = encode_samples(x.reshape(2, BLOCK), BlockFormat(mantissa_bits=bits))
    blocks = encode_blocks(x, ELEMENTS[f"int{bits}"])
    np.testing.assert_array_equal(blocks.elements * 2.0 ** (bits - 2), mantissas)
    filled = x.reshape(2, BLOCK).any(axis=1)
    np.testing.assert_array_equal((blocks.exponents[:, 0] - (bits - 2))[filled], np.maximum(exponents, -128)[filled])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_has_the_blocks_of_its_own_numbers(axis: int) -> None:
    x = np.random.default_rng(1).normal(size=(20, 36, 40)).astype(np.float32)
    found = np.moveaxis(round_blocks(x, ELEMENTS["int4"], 16, axis), axis, -1)
    moved = np.moveaxis(x, axis, -1)
    parts: list[npt.NDArray[np.float32]] = []
    for start in range(0, moved.shape[-1], 16):
        largest = np.abs(moved[..., start : start + 16]).max(axis=-1, keepdims=True)
        step = 2.0 ** (np.floor(np.log2(largest)) - 2)
        parts.append(np.clip(np.rint(moved[..., start : start + 16] / step), -7, 7) * step)
    np.testing.assert_array_equal(found, np.concatenate(parts, axis=-1))


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="need finite numbers"):
        round_blocks([1.0, np.inf], ELEMENTS["int8"])


def floor_log2(value: Fraction) -> int:
    """By comparing with powers of two."""
    power = floor(np.log2(float(value))) if float(value) else -1100
    while Fraction(2) ** power > value:
        power -= 1
    while Fraction(2) ** (power + 1) <= value:
        power += 1
    return power
