"""Exact accumulators: any geometry, any size of sum. R3, R46, R47, R53, R57, R74, R81."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from array_layers import WIDE, gemm
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import load_vectors, shift

from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.kernel.accumulators import Block, accumulator_function, activation_products
from bfpga.engines.kernel.products import EXACT_FLOAT32, EXACT_FLOAT64, certified_product, exact_type
from bfpga.formats.block_format import BlockFormat

FMT = BlockFormat(mantissa_bits=8)


def plain_convolution(x: np.ndarray, node: ArrayNode) -> np.ndarray:
    """(height, width, channels) -> (pixels, outputs), term by term in Python integers."""
    w, window = node.weights, node.window
    outputs, inputs = node.channels // node.groups, w.shape[3]
    acc = np.zeros((window.output_height, window.output_width, node.channels), object)
    for oy, ox, m in np.ndindex(acc.shape):
        for ky, kx, c in np.ndindex(w.shape[1:]):
            y = oy * window.stride_y - window.pad_top + ky * window.dilation_y
            column = ox * window.stride_x - window.pad_left + kx * window.dilation_x
            if 0 <= y < x.shape[0] and 0 <= column < x.shape[1]:
                acc[oy, ox, m] += int(w[m, ky, kx, c]) * int(x[y, column, m // outputs * inputs + c])
    return acc.reshape(-1, node.channels)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[ArrayNode, np.ndarray]:
    """Small layers of every geometry, windows beyond each border included, with an input of two samples."""
    size = st.integers(1, 6)
    number = st.integers(1, 3)
    height, width = draw(size), draw(size)
    groups, inputs, outputs = draw(number), draw(number), draw(number)
    kernel = draw(number), draw(number)
    window = Window(
        *kernel, draw(number), draw(number), draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(number),
        draw(number), draw(st.integers(1, 4)), draw(st.integers(1, 4)),
    )  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    weights = rng.integers(-127, 128, (groups * outputs, *kernel, inputs))
    x = rng.integers(-127, 128, (2, height, width, groups * inputs)).astype(np.int8)
    return gemm(weights, window, groups=groups), x


@settings(deadline=None, max_examples=drawn(150))
@given(convolutions())
def test_products_equal_plain_integers_for_any_geometry(case: tuple[ArrayNode, np.ndarray]) -> None:
    """R3, R53, R81, R82."""
    node, x = case
    acc, exponent = accumulator_function(node, FMT)([Block(x, np.array([-3, 2]))])
    assert exponent.tolist() == [-3, 2]
    for sample in range(2):
        assert (acc[sample] == plain_convolution(x[sample], node)).all()


@pytest.mark.parametrize("inner", [1, 9, 10, 129])
def test_products_of_odd_and_even_length(inner: int) -> None:
    """R52, R74."""
    rng = np.random.default_rng(inner)
    w, x = rng.integers(-127, 128, (17, inner)), rng.integers(-127, 128, (3, 1, 1, inner))
    acc, _ = accumulator_function(gemm(w), FMT)([Block(x.astype(np.int8), np.zeros(3))])
    assert (acc[:, 0] == x[:, 0, 0] @ w.T).all()


@settings(deadline=None, max_examples=drawn(60))
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
    dilation=st.integers(1, 2),
    seed=st.integers(0, 2**32),
)
def test_maximum_ignores_what_lies_outside(
    kernel: tuple[int, int], stride: int, pad: int, dilation: int, seed: int
) -> None:
    window = Window(*kernel, stride, stride, pad, pad, dilation, dilation, 3, 2)
    node = ArrayNode("pool", "max", ("x",), "y", 2, window)
    x = np.random.default_rng(seed).integers(-127, 0, (1, 5, 4, 2)).astype(np.int8)
    acc, _ = accumulator_function(node, FMT)([Block(x, np.zeros(1))])
    for oy, ox, c in product(range(3), range(2), range(2)):
        seen = [
            int(x[0, oy * stride - pad + ky * dilation, ox * stride - pad + kx * dilation, c])
            for ky, kx in np.ndindex(kernel)
            if 0 <= oy * stride - pad + ky * dilation < 5 and 0 <= ox * stride - pad + kx * dilation < 4
        ]
        assert acc[0, oy * 2 + ox, c] == max(seen, default=-128)


@pytest.mark.parametrize("rounding", ["trunc", "tozero", "half_up", "half_away", "rne"])
@pytest.mark.parametrize("negate", [False, True])
def test_sums_align_to_the_larger_exponent(rounding: str, negate: bool) -> None:
    """R46, R47, R73."""
    fmt = BlockFormat(rounding=rounding)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-127, 128, (2, 3, 2, 2, 5)).astype(np.int8)
    exponents = np.array([[0, 3, -40], [2, 0, 0]])
    node = ArrayNode("add", "sum", ("a", "b"), "y", 5, Window(output_height=2, output_width=2), negate_second=negate)
    acc, e_acc = accumulator_function(node, fmt)([Block(a, exponents[0]), Block(b, exponents[1])])
    assert e_acc.tolist() == [2, 3, 0]
    for sample in range(3):
        terms = [
            [shift(int(v), int(e_acc[sample] - e[sample]), rounding) for v in m[sample].ravel()]
            for m, e in ((a, exponents[0]), (b, exponents[1]))
        ]
        assert acc[sample].ravel().tolist() == [p - q if negate else p + q for p, q in zip(*terms, strict=True)]


def test_the_worked_example_of_the_specification() -> None:
    """R57, R62: C = W I of bfp_systolic.json, columns of I are pixels."""
    case = load_vectors("bfp_systolic.json")
    x = np.array(case["I"]).T.reshape(1, 1, 3, 3)
    node = gemm(case["W"], Window(output_width=3))
    acc, _ = accumulator_function(node, WIDE.format)([Block(x, np.zeros(1))])
    assert (acc[0].T + np.array(case["bias"])[:, None] == np.array(case["C"])).all()


@pytest.mark.parametrize("bound", [EXACT_FLOAT32, EXACT_FLOAT64])
def test_sums_that_reach_the_certificate_exactly_are_exact(bound: int) -> None:
    """R3, R81: the largest sum the certificate admits, odd partial sums on the way, and one beyond it."""
    largest = 1 << (12 if bound == EXACT_FLOAT32 else 26)
    rows = bound // largest
    matrix = np.array([[rows - 1], [1]])
    product_at = certified_product(matrix, largest)
    beyond = certified_product(matrix + np.array([[1], [0]]), largest)
    assert product_at.whole
    assert product_at.dtype == (np.float32 if bound == EXACT_FLOAT32 else np.float64)
    assert exact_type(bound) == product_at.dtype
    assert not beyond.whole or beyond.dtype != product_at.dtype
    for x in ([largest, largest], [largest, -largest], [largest - 1, largest], [largest - 1, 1]):
        operand = np.array([x], np.int64)
        assert int(product_at(operand)[0, 0]) == (rows - 1) * x[0] + x[1]
        assert int(beyond(operand)[0, 0]) == rows * x[0] + x[1]


def test_sums_beyond_float64_are_cut_into_exact_pieces() -> None:
    """R3: three pieces whose total needs more than 53 bits."""
    matrix = np.full((3, 1), (1 << 26) - 1)
    product_of = certified_product(matrix, 1 << 26)
    assert len(product_of.parts) > 1
    x = np.array([[(1 << 26) - 1, (1 << 26) - 3, (1 << 26) - 5]])
    assert int(product_of(x)[0, 0]) == sum(int(v) for v in x[0]) * ((1 << 26) - 1)


def test_a_product_no_type_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="no floating point type holds"):
        certified_product(np.array([[1 << 40]]), 1 << 20)


@pytest.mark.parametrize("bits", [8, 16, 18])
def test_products_of_activations_equal_plain_integers(bits: int) -> None:
    """R82: attention."""
    fmt = BlockFormat(mantissa_bits=bits)
    rng = np.random.default_rng(bits)
    top = fmt.mantissa_max
    first, second = rng.integers(-top, top + 1, (4, 5, 1, 7)), rng.integers(-top, top + 1, (4, 1, 3, 7))
    acc, exponent = activation_products(7, fmt)([Block(first, np.arange(4)), Block(second, np.full(4, -2))])
    assert (acc == np.einsum("npk,nmk->npm", first[:, :, 0], second[:, 0])).all()
    assert exponent.tolist() == [-2, -1, 0, 1]
