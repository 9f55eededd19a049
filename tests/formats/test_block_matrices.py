"""Block shapes, arithmetic and the memory format of matrices (BFP 2.3, 2.4, R20, R39-R55)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import load_vectors, round_fraction, saturate, shift, vector_format
from strategies import FORMATS

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats import block_arithmetic as arithmetic
from bfpga.formats.block_float import decode
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.block_shapes import BlockShape
from bfpga.formats.packing import pack_matrix, unpack_matrix

SHAPES = load_vectors("bfp_shapes.json")
MATRIX = np.array(SHAPES["matrix"])
NAMES = ["whole", "row", "rows:3", "column", "quarter", "tile:2,3", "diagonal"]


def vector_shape(case: dict[str, Any]) -> BlockShape:
    if case["shape"] == "element":  # one exponent per element is a map
        return BlockShape.from_map(np.arange(case["rows"] * case["cols"]).reshape(case["rows"], case["cols"]))
    sizes = ":" + ",".join(map(str, case["tile"])) if case["shape"] == "tile" else ""
    return BlockShape.parse(case["shape"] + sizes)


@pytest.mark.parametrize("case", SHAPES["shapes"], ids=lambda case: case["shape"])
def test_shape_vectors(case: dict[str, Any]) -> None:
    """R40, R42: index maps, exponents and mantissas of every shape."""
    shape = vector_shape(case)
    assert shape.index(4, 5).tolist() == case["exp_index"]
    assert shape.count(4, 5) == len(case["exponents"])
    matrix = arithmetic.encode_matrix(MATRIX, BlockFormat(8), shape)
    assert matrix.exponent.tolist() == case["exponents"]
    assert matrix.mantissa.tolist() == case["mantissas"]
    assert np.abs(arithmetic.decode_matrix(matrix) - MATRIX).max() == case["max_abs_error"]


def test_groups_of_rows_share_an_exponent() -> None:
    """BFP 2.3 rows:n"""
    assert BlockShape.parse("rows:2").index(5, 2).tolist() == [[0, 0], [0, 0], [1, 1], [1, 1], [2, 2]]


@pytest.mark.parametrize("text", NAMES)
def test_shape_strings_round_trip(text: str) -> None:
    assert str(BlockShape.parse(text)) == text


@pytest.mark.parametrize("text", ["rows", "rows:0", "tile:2", "tile:0,1", "diagonals", "map", ""])
def test_unknown_shapes_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ConfigurationError, match="rows:N or tile:A,B"):
        BlockShape.parse(text)


def test_only_row_shapes_are_constant_along_the_reduction() -> None:
    """R53"""
    constant = {name: BlockShape.parse(name).constant_along_reduction(6, 7) for name in NAMES}
    assert [name for name, value in constant.items() if value] == ["whole", "row", "rows:3"]
    assert BlockShape.from_map([[0, 0], [1, 1]]).constant_along_reduction(2, 2)
    assert not BlockShape.from_map([[0, 0], [1, 0]]).constant_along_reduction(2, 2)


def test_short_segments_are_refused_with_a_way_out() -> None:
    """R55"""
    BlockShape.parse("tile:4,16").check_segments(8, 64)
    BlockShape.parse("row").check_segments(8, 4)
    BlockShape.parse("quarter").check_segments(8, 32)
    for name in ("column", "diagonal", "tile:4,8"):
        with pytest.raises(ConfigurationError, match=r"row.*reblock"):
            BlockShape.parse(name).check_segments(8, 64)


def test_map_must_have_the_matrix_shape() -> None:
    with pytest.raises(ConfigurationError, match=r"\(1, 2\).*\(2, 1\)"):
        BlockShape.from_map([[0, 1]]).index(2, 1)


@pytest.mark.parametrize("name", [*NAMES, "map"])
@pytest.mark.parametrize("size", [(4, 5), (5, 4), (6, 6), (1, 7), (7, 1)])
def test_transposing_moves_exponents_with_their_shape(name: str, size: tuple[int, int]) -> None:
    """R50, R52: the transposed matrix decodes to the transposed values, without touching a mantissa."""
    x = np.random.default_rng(4).normal(size=size) * np.exp2(np.arange(size[1]))
    shape = BlockShape.from_map(np.arange(x.size).reshape(size) % 3) if name == "map" else BlockShape.parse(name)
    matrix = arithmetic.encode_matrix(x, BlockFormat(10), shape)
    transposed = arithmetic.transpose(matrix)
    assert np.array_equal(transposed.mantissa, matrix.mantissa.T)
    assert np.array_equal(transposed.element_exponents(), matrix.element_exponents().T)
    assert np.array_equal(arithmetic.decode_matrix(transposed), arithmetic.decode_matrix(matrix).T)


def test_row_and_column_exchange_when_transposed() -> None:
    """R50"""
    assert BlockShape.parse("row").transposed(3, 4)[0] == BlockShape.parse("column")
    assert BlockShape.parse("tile:2,3").transposed(4, 6)[0] == BlockShape.parse("tile:3,2")


@pytest.mark.parametrize("case", SHAPES["reduction_segments"], ids=lambda case: case["id"])
def test_reduction_segment_vectors(case: dict[str, Any]) -> None:
    """R54"""
    products, exponents = zip(*case["segments"], strict=True)
    result, reference = arithmetic.combine_segments(products, exponents, case["K"], case["acc_bits"], BlockFormat(16))
    assert (int(result), int(reference)) == (case["acc"], case["e_ref"])
    error = abs(Fraction(case["exact"]) - int(result) * Fraction(2) ** int(reference))
    assert error <= len(products) * Fraction(2) ** int(reference)


@pytest.mark.parametrize("name", ["row", "quarter", "tile:2,16", "column"])
def test_segmented_product_equals_exact_arithmetic_where_it_fits(name: str) -> None:
    """R53, R54: with a wide accumulator no bit is lost."""
    rng = np.random.default_rng(8)
    matrix = arithmetic.encode_matrix(rng.normal(size=(4, 32)), BlockFormat(8), BlockShape.parse(name))
    vector, exponents = rng.integers(-127, 128, 32), np.where(np.arange(32) < 16, -3, -5)
    result, reference = arithmetic.segmented_product(matrix, vector, exponents, 58)
    exact = arithmetic.decode_matrix(matrix) @ np.ldexp(vector.astype(float), exponents)
    assert np.array_equal(np.ldexp(result.astype(float), reference), exact)


def test_segmented_product_needs_room_for_its_products() -> None:
    """R54"""
    with pytest.raises(DataError, match="41 are needed"):
        arithmetic.combine_segments([1], [0], 1000, 40, BlockFormat(16))


@pytest.mark.parametrize("case", load_vectors("bfp_elementwise.json")["cases"], ids=lambda case: case["id"])
def test_elementwise_vectors(case: dict[str, Any]) -> None:
    """R45-R49"""
    fmt, a, b, expected = vector_format(case["format"]), case["a"], case["b"], case["expect"]
    operands = (np.array(a["m"]), a["e"], np.array(b["m"]), b["e"], fmt)
    if case["op"] == "div":
        quotient = arithmetic.divide(*operands)
        assert quotient.divided_by_zero == expected["div_by_zero"]
        result = quotient.block
    else:
        result = {"add": arithmetic.add, "sub": arithmetic.subtract}[case["op"]](*operands)
    assert (result.mantissa.tolist(), int(result.exponent)) == (expected["m"], expected["e"])
    assert (result.overflow, result.underflow) == (expected["overflow"], expected["underflow"])


@settings(deadline=None, max_examples=drawn(80))
@given(fmt=FORMATS, data=st.data(), exponents=st.tuples(st.integers(-6, 6), st.integers(-6, 6)))
def test_elementwise_results_equal_exact_arithmetic(
    fmt: BlockFormat, data: st.DataObject, exponents: tuple[int, int]
) -> None:
    """R45-R49: alignment, quotient and final shift, each rounded once."""
    mantissas = st.lists(st.integers(-fmt.mantissa_max, fmt.mantissa_max), min_size=3, max_size=3)
    a, b = data.draw(mantissas), data.draw(mantissas)
    (ea, eb), e = exponents, max(exponents)
    aligned = [(shift(x, e - ea, fmt.rounding), shift(y, e - eb, fmt.rounding)) for x, y in zip(a, b, strict=True)]
    extra, top = fmt.mantissa_bits - 1, 1 << (2 * fmt.mantissa_bits - 2)
    quotients = [
        round_fraction(Fraction(x << extra, y), fmt.rounding) if y else (x > 0) * top - (x < 0) * top
        for x, y in zip(a, b, strict=True)
    ]
    operands = (np.array(a), ea, np.array(b), eb, fmt)
    for block, values, unit in (
        (arithmetic.add(*operands), [x + y for x, y in aligned], e),
        (arithmetic.subtract(*operands), [x - y for x, y in aligned], e),
        (arithmetic.divide(*operands).block, quotients, ea - eb - extra),
    ):
        amount = int(block.exponent) - unit
        exact = [saturate(shift(v, amount, fmt.rounding), fmt.mantissa_bits, fmt.saturation)[0] for v in values]
        assert block.mantissa.tolist() == exact


def test_inverse_and_determinant_on_the_host() -> None:
    """R51"""
    x = np.array([[4.0, 7.0], [2.0, 6.0]])
    matrix = arithmetic.encode_matrix(x, BlockFormat(16), BlockShape.parse("row"))
    product = arithmetic.decode_matrix(matrix) @ arithmetic.decode_matrix(arithmetic.inverse(matrix))
    assert np.abs(product - np.eye(2)).max() < 1e-3
    determinant = arithmetic.determinant(matrix)
    assert decode(determinant.mantissa, determinant.exponent[0]) == pytest.approx(10)
    with pytest.raises(DataError, match="no inverse"):
        arithmetic.inverse(arithmetic.encode_matrix(np.ones((2, 2)), BlockFormat(16), BlockShape()))
    with pytest.raises(DataError, match="square"):
        arithmetic.determinant(arithmetic.encode_matrix(np.ones((2, 3)), BlockFormat(16), BlockShape()))


def test_reblocking_gives_the_shape_the_array_wants() -> None:
    """R55"""
    matrix = arithmetic.encode_matrix(MATRIX, BlockFormat(16), BlockShape.parse("tile:2,2"))
    rows = arithmetic.reblock(matrix, BlockShape.parse("row"))
    assert rows.shape.constant_along_reduction(4, 5)
    units = np.exp2(rows.element_exponents().astype(float))
    assert (np.abs(arithmetic.decode_matrix(rows) - arithmetic.decode_matrix(matrix)) <= units / 2).all()


def test_fixed_point_conversion_round_trips() -> None:
    """R20: Q4.12 -> block -> Q4.12, and saturation on the way out."""
    values = np.array([4096, -2048, 3, 0])
    block = arithmetic.from_fixed_point(values, 12, BlockFormat(16))
    back, changed = arithmetic.to_fixed_point(block.mantissa, int(block.exponent), 12, 16)
    assert back.tolist() == values.tolist()
    assert not changed.any()
    narrow, changed = arithmetic.to_fixed_point(block.mantissa, int(block.exponent), 12, 12)
    assert (narrow.tolist(), changed.tolist()) == ([2047, -2048, 3, 0], [True, False, False, False])


@pytest.mark.parametrize("name", [*NAMES, "map"])
@pytest.mark.parametrize("fmt", [BlockFormat(16), BlockFormat(8), BlockFormat(4), BlockFormat(18, exponent_bits=12)])
def test_matrix_round_trips_through_the_memory_format(name: str, fmt: BlockFormat) -> None:
    """BFP 2.4, R19, R42"""
    shape = BlockShape.from_map(np.arange(20).reshape(4, 5) // 3) if name == "map" else BlockShape.parse(name)
    matrix = arithmetic.encode_matrix(MATRIX, fmt, shape)
    matrix.exponent_bias = -3
    packed = pack_matrix(matrix)
    assert len(packed.mantissas) == 20 * fmt.container_bits // 8
    assert len(packed.exponents) == shape.count(4, 5) * (1 if fmt.exponent_bits <= 8 else 2)
    loaded = unpack_matrix(packed)
    assert (loaded.shape, loaded.exponent_bias) == (shape, -3)
    assert np.array_equal(loaded.mantissa, matrix.mantissa)
    assert np.array_equal(arithmetic.decode_matrix(loaded), arithmetic.decode_matrix(matrix))


def test_storage_is_half_of_float32() -> None:
    """BFP 6: 1000 x 1000 with row exponents takes 2 001 000 bytes."""
    matrix = arithmetic.encode_matrix(np.ones((1000, 1000)), BlockFormat(16), BlockShape.parse("row"))
    packed = pack_matrix(matrix)
    assert len(packed.mantissas) + len(packed.exponents) == 2_001_000


def test_damaged_matrix_files_are_refused() -> None:
    packed = pack_matrix(arithmetic.encode_matrix(MATRIX, BlockFormat(16), BlockShape()))
    with pytest.raises(DataError, match="needs 32"):
        unpack_matrix(type(packed)(packed.header[:10], packed.mantissas, packed.exponents))
    with pytest.raises(DataError, match="40 bytes"):
        unpack_matrix(type(packed)(packed.header, packed.mantissas[:39], packed.exponents))
