"""Payloads of feature maps: DENSE, COO32, BITMAP and TREE, their sizes, the smallest of them, damaged payloads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_compressed as reference
from compressed_cases import DENSITIES, MAP_FORMATS, SHAPES, TILES, only_data_errors, sparse_array, vector, vector_words
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.compressed.maps import MapFormat, Payload
from bfpga.formats.compressed.payloads import decode_map, encode_map, map_bytes, smallest_format

DENSE, COO32, BITMAP, TREE = Payload


# --- layout


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("coo32", MapFormat(COO32, tile=(2, 2))),
        ("bitmap_1byte", MapFormat(BITMAP, tile=(2, 2))),
        ("bitmap_2byte", MapFormat(BITMAP, 2, (2, 2))),
        ("tree_leaf2", MapFormat(TREE, leaf=2)),
    ],
)
def test_words_are_those_of_the_vector(name: str, fmt: MapFormat) -> None:
    """SC R142, SC R143: sc24, every payload, both ways"""
    content = vector("sc24_formats")
    values = np.array(content["input"]["map"])
    words = encode_map(values, fmt)
    assert words.tolist() == vector_words(content["expected"][name])
    np.testing.assert_array_equal(decode_map(words, 5, 5, fmt), values)


@settings(max_examples=200, deadline=None)
@given(SHAPES, DENSITIES, st.sampled_from([1, 2]), TILES, st.integers(0, 1 << 30))
def test_words_are_those_of_a_writer_of_single_cells(
    shape: tuple[int, int], density: float, value_bytes: int, tile: tuple[int, int], seed: int
) -> None:
    """SC R46, SC R143: values and their places travel together"""
    values = sparse_array(shape, density, seed, value_bytes)
    dense = encode_map(values, MapFormat(DENSE, value_bytes)).tolist()
    assert dense == reference.words_of_values(values.ravel().tolist(), value_bytes)
    assert encode_map(values, MapFormat(COO32, value_bytes, tile)).tolist() == reference.coo32(values, tile)
    bitmap = encode_map(values, MapFormat(BITMAP, value_bytes, tile)).tolist()
    assert bitmap == reference.bitmap(values, value_bytes, tile)


@settings(max_examples=200, deadline=None)
@given(
    SHAPES, DENSITIES, st.sampled_from([1, 2]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([0, 1, 2, 9, 255]),
    st.booleans(), st.integers(0, 1 << 30),
)  # fmt: skip
def test_trees_are_those_of_a_writer_of_single_nodes(
    shape: tuple[int, int], density: float, value_bytes: int, leaf: int, levels: int, clustered: bool, seed: int
) -> None:
    """SC R142: both rules that end the halving, pieces of any shape"""
    values = sparse_array(shape, density, seed, value_bytes, clustered)
    words = encode_map(values, MapFormat(TREE, value_bytes, leaf=leaf, levels=levels))
    assert words.tolist() == reference.tree(values, value_bytes, leaf, levels)


def test_empty_tiles_cost_no_words_in_coo32_and_zero_masks_in_bitmap() -> None:
    """SC 2.3"""
    values = np.zeros((8, 8), np.int8)
    values[5, 6] = -3
    assert encode_map(values, MapFormat(COO32)).tolist() == [5 << 24 | 6 << 16 | 0xFFFD]
    assert encode_map(values, MapFormat(BITMAP)).tolist() == [0, (1 << 6) << 16, 0xFD]
    assert encode_map(np.zeros((8, 8), int), MapFormat(COO32)).size == 0


def test_bits_do_not_depend_on_the_type_of_the_values() -> None:
    values = sparse_array((17, 23), 0.3, 4)
    for payload in Payload:
        kinds = (np.int8, np.int32, np.int64)
        words = {encode_map(values.astype(kind), MapFormat(payload)).tobytes() for kind in kinds}
        words.add(encode_map(np.asfortranarray(values), MapFormat(payload)).tobytes())
        words.add(encode_map(np.repeat(values, 2, axis=1)[:, ::2], MapFormat(payload)).tobytes())
        assert len(words) == 1


# --- round trips


@settings(max_examples=300, deadline=None)
@given(SHAPES, DENSITIES, MAP_FORMATS, st.booleans(), st.integers(0, 1 << 30))
def test_payloads_come_back(
    shape: tuple[int, int], density: float, fmt: MapFormat, clustered: bool, seed: int
) -> None:
    """SC R46, SC R142, SC R143: any shape, density and format; the size is known without encoding"""
    values = sparse_array(shape, density, seed, fmt.value_bytes, clustered)
    words = encode_map(values, fmt)
    assert words.nbytes == map_bytes(values, fmt)
    back = decode_map(words.tobytes(), *shape, fmt)
    assert back.dtype == np.dtype(f"<i{fmt.value_bytes}")
    np.testing.assert_array_equal(back, values)


@pytest.mark.parametrize("shape", [(256, 256), (1, 256), (256, 1), (255, 129), (1, 1), (200, 3)])
@pytest.mark.parametrize("payload", Payload)
def test_the_largest_and_the_thinnest_pieces_come_back(payload: Payload, shape: tuple[int, int]) -> None:
    for leaf in (1, 2, 8):
        fmt = MapFormat(payload, 2, (16, 3), leaf)
        for density in (0.01, 0.6):
            values = sparse_array(shape, density, 7, 2)
            values[-1, -1] = -32768
            np.testing.assert_array_equal(decode_map(encode_map(values, fmt), *shape, fmt), values)


# --- sizes


def test_the_smallest_payload_follows_the_density() -> None:
    """SC 2.3: DENSE above 0.875, COO32 below 1/24 with one byte and 1/16 with two, BITMAP between; without clusters"""
    for value_bytes, low in ((1, 1 / 24), (2, 1 / 16)):
        high = 1 - 1 / (8 * value_bytes)
        for density, wanted in ((low - 0.01, COO32), (low + 0.01, BITMAP), (high - 0.02, BITMAP), (high + 0.02, DENSE)):
            values = np.zeros(256 * 256, np.int8)
            values[: round(density * values.size)] = 1
            values = np.random.default_rng(1).permutation(values).reshape(256, 256)
            flat = (DENSE, COO32, BITMAP)
            assert smallest_format(values, value_bytes, payloads=flat).payload == wanted, (density, value_bytes)


@settings(max_examples=100, deadline=None)
@example((1, 15), 0.5, 2, (1, 1), True, 0)
@given(SHAPES, DENSITIES, st.sampled_from([1, 2]), TILES, st.booleans(), st.integers(0, 1 << 30))
def test_no_payload_is_smaller_than_the_smallest(
    shape: tuple[int, int], density: float, value_bytes: int, tile: tuple[int, int], clustered: bool, seed: int
) -> None:
    values = sparse_array(shape, density, seed, value_bytes, clustered)
    chosen = encode_map(values, smallest_format(values, value_bytes, tile)).nbytes
    for payload in Payload:
        for leaf in (1, 2, 4, 8):
            assert chosen <= encode_map(values, MapFormat(payload, value_bytes, tile, leaf)).nbytes


def test_clustered_maps_are_smallest_as_trees() -> None:
    """SC R142: below 30 % density"""
    values = sparse_array((128, 128), 0.1, 3, clustered=True)
    assert smallest_format(values).payload == TREE
    assert smallest_format(values, payloads=[BITMAP, DENSE]).payload == BITMAP
    with pytest.raises(ConfigurationError, match="at least one payload"):
        smallest_format(values, payloads=[])


# --- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value_bytes": 3}, "value_bytes is 3, it must be 1 or 2"),
        ({"tile": (0, 4)}, r"tile is \(0, 4\), it must be two sides from 1 to 16"),
        ({"tile": (4, 17)}, r"tile is \(4, 17\)"),
        ({"leaf": 3}, "leaf is 3, it must be 1, 2, 4 or 8"),
        ({"leaf": 16}, "leaf is 16"),
        ({"levels": 256}, "levels is 256, it must be a whole number from 0 to 255"),
    ],
)
def test_parameters_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MapFormat(**options)


@pytest.mark.parametrize(
    ("values", "value_bytes", "message"),
    [
        (np.zeros((257, 4), int), 1, "257 x 4 cells, but rows and columns go from 1 to 256: fold larger maps"),
        (np.zeros((4, 0), int), 1, "4 x 0 cells"),
        (np.zeros(4, int), 1, "expected rows and columns, got 1 axes"),
        (np.zeros((2, 2)), 1, "expected whole numbers, got float64"),
        (np.array([[0, 1], [128, 2]]), 1, r"128 at \(1, 0\) does not fit 8 bits \(-128 to 127\)"),
        (np.array([[0, -32769]]), 2, r"-32769 at \(0, 1\) does not fit 16 bits"),
    ],
)
@pytest.mark.parametrize("payload", Payload)
def test_pieces_that_do_not_fit_are_refused(payload: Payload, values: Any, value_bytes: int, message: str) -> None:
    """SC R154: pieces beyond 256 cells a side"""
    with pytest.raises(DataError, match=message):
        encode_map(values, MapFormat(payload, value_bytes))


EXAMPLE = np.array([[0, 9, 0, 0, 0], [0, -5, 0, 0, 0], [0, 0, 0, 0, 7], [0, 0, 0, 0, 0], [1, 0, 0, -128, 0]])


@pytest.mark.parametrize("payload", Payload)
def test_payloads_that_are_cut_off_or_too_long_are_refused(payload: Payload) -> None:
    fmt = MapFormat(payload, tile=(2, 2))
    words = encode_map(EXAMPLE, fmt)
    for size in range(words.size):
        if payload != COO32:
            with pytest.raises(DataError, match="is cut off"):
                decode_map(words[:size], 5, 5, fmt)
    longer = np.append(words, np.uint32(words[0] if payload == COO32 else 0))
    with pytest.raises(DataError, match="order of the tiles" if payload == COO32 else "1 more follow"):
        decode_map(longer, 5, 5, fmt)
    with pytest.raises(DataError, match="no whole number of 4-byte words"):
        decode_map(words.tobytes()[:-1], 5, 5, fmt)
    with pytest.raises(DataError, match="rows and columns go from 1 to 256"):
        decode_map(words, 0, 5, fmt)


@pytest.mark.parametrize(
    ("fmt", "words", "message"),
    [
        (MapFormat(DENSE), [0x01020304, 0x05060708, 0x0000FF09], "the bytes that pad the last word are not zero"),
        (MapFormat(COO32), [0x03000001], "word 0 lies at row 3, column 0, outside of the piece"),
        (MapFormat(COO32), [0x00000001, 0x00030001], "word 1 lies at row 0, column 3, outside"),
        (MapFormat(COO32), [0x00010001, 0x00000001], "word 1 is at or before its predecessor"),
        (MapFormat(COO32), [0x00010001, 0x00010002], "word 1 is at or before its predecessor"),
        (MapFormat(COO32), [0x00010000], "value 0 is zero, but zeros are never stored"),
        (MapFormat(COO32), [0x00010080], "128 at .0,. does not fit 8 bits"),
        (MapFormat(BITMAP), [0x00000101], "is cut off: it takes 1 words, there are 0"),
        (MapFormat(BITMAP), [0x00010001, 0x00000001], "the bytes that pad the masks are not zero"),
        (MapFormat(BITMAP), [0x00000008, 0x00000001], "a bit is set outside of the piece"),
        (MapFormat(BITMAP, tile=(3, 3)), [0x00000200, 0x00000001], "a bit beyond the 9 cells of its tile"),
        (MapFormat(BITMAP), [0x00000001, 0x00000000], "value 0 is zero"),
        (MapFormat(BITMAP), [0x00000001, 0x00000201], "the bytes that pad the last word are not zero"),
        (MapFormat(TREE), [1, 0x00020903, 0], "its leaves have side 3, it must be 1, 2, 4 or 8"),
        (MapFormat(TREE), [1, 0x00030902, 0], r"the root field is 3, it must be 2 \(side 4\)"),
        (MapFormat(TREE), [0, 0x00020902], "it has 0 bits, but its tree goes on"),
        (MapFormat(TREE), [33, 0x00020902, 1], "33 bits end after 4 words, there are 3"),
        (MapFormat(TREE), [0xFFFFFFFF, 0x00020902, 1], "is cut off: 4294967295 bits"),
        (MapFormat(TREE), [2, 0x00020902, 0], "it has 2 bits, but its tree ends after 1"),
        (MapFormat(TREE), [4, 0x00020902, 1], "it has 4 bits, but its tree goes on"),
        (MapFormat(TREE), [1, 0x00020902, 2], "the bits that pad the tree are not zero"),
        (MapFormat(TREE), [5, 0x00020902, 1], "a node is marked as occupied, but holds no value"),
        (MapFormat(TREE), [9, 0x00020902, 3], "a node is marked as occupied, but holds no value"),
        (MapFormat(TREE), [9, 0x00020902, 7, 0], "value 0 is zero"),
        (MapFormat(TREE), [9, 0x00020902, 0b10101, 1], "a bit is set outside of the piece"),
    ],
)  # fmt: skip
def test_payloads_that_no_encoder_writes_are_refused(fmt: MapFormat, words: list[int], message: str) -> None:
    """of 3 x 3 cells: wrong places, counts, order, stored zeros, padding"""
    with pytest.raises(DataError, match=message):
        decode_map(np.array(words, np.uint32), 3, 3, fmt)


def test_a_tree_with_a_bit_outside_of_the_piece_is_refused() -> None:
    """its leaf at the border has a bit for every cell, of which some lie outside"""
    words = encode_map(np.array([[5], [0], [0]]), MapFormat(TREE, leaf=4))
    assert words[2] == 0b11
    words[2] = 0b101
    with pytest.raises(DataError, match="a bit is set outside of the piece"):
        decode_map(words, 3, 1, MapFormat(TREE))


@settings(max_examples=500, deadline=None)
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)), MAP_FORMATS, st.booleans(), st.integers(0, 1 << 30), st.data()
)
def test_damaged_payloads_decode_to_what_they_say_or_are_refused(
    shape: tuple[int, int], fmt: MapFormat, clustered: bool, seed: int, data: st.DataObject
) -> None:
    """No other error; and what decodes without its length or a value being wrong is written the same way again"""
    words = encode_map(sparse_array(shape, 0.3, seed, fmt.value_bytes, clustered), fmt)
    for _ in range(data.draw(st.integers(1, 3))):
        if words.size:
            bit = data.draw(st.integers(0, 32 * words.size - 1))
            words[bit // 32] ^= np.uint32(1 << bit % 32)
    size = data.draw(st.one_of(st.just(words.size), st.integers(0, words.size)))
    words = words[:size]
    if only_data_errors(lambda: decode_map(words, *shape, fmt)):
        if fmt.payload == TREE:
            fmt = replace(fmt, leaf=int(words[1]) & 0xFF, levels=int(words[1]) >> 8 & 0xFF)
        assert encode_map(decode_map(words, *shape, fmt), fmt).tolist() == words.tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=20), MAP_FORMATS)
def test_random_words_are_decoded_or_refused(numbers: list[int], fmt: MapFormat) -> None:
    only_data_errors(lambda: decode_map(np.array(numbers, np.uint32), 9, 6, fmt))


def test_arrays_that_are_no_words_are_refused() -> None:
    with pytest.raises(DataError, match="expected a flat array of uint32 or uint8, got 1 axes of int64"):
        decode_map(np.zeros(4, np.int64), 4, 4, MapFormat(DENSE))  # type: ignore[arg-type]
