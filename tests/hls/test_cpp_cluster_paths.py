"""cluster_*.hpp around the units: payloads of pieces, adder tree, ReLU and pooling, counts, stitching."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_cpp import SimulationError
from cluster_paths_cpp import (
    LARGEST_PIECE,
    PIECE_BUILDS,
    POOL_BUILDS,
    POOL_KINDS,
    REDUCTION_LANES,
    STITCH_BITS,
    ReadOut,
    compute_piece,
    decode_piece,
    header_again,
    output_counts,
    pool_maps,
    reduce_pixels,
    stitch_pieces,
    tree_sum,
)
from cluster_paths_cpp import encode_piece as encode_in_cpp
from cpp_units import BUILDS
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_sparse_cluster import UnitModel
from sparse_vectors import load_vector

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.units.output import PoolSettings, pool
from bfpga.engines.sparse_cluster.units.output import relu as relu_of
from bfpga.formats.compressed.maps import MapFormat, Payload
from bfpga.formats.compressed.payloads import encode_piece
from bfpga.formats.compressed.pieces import PIECE_DESCRIPTOR_WORDS, PieceDescriptor
from bfpga.formats.rounding import wrap

PLAIN = PieceDescriptor(Payload.DENSE, 1, 1)
SEEDS = st.integers(0, 1 << 20)


def words_of(texts: list[str]) -> np.ndarray:
    return np.array([int(text, 16) for text in texts], np.uint32)


def random_piece(seed: int, shape: tuple[int, int], density: float, bits: int = 8) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


def in_tile_order(cells: np.ndarray, tile: tuple[int, int]) -> list[tuple[int, int, int]]:
    """(row, column, value) of what is not zero, tile by tile."""
    rows, columns = np.nonzero(cells)
    order = np.lexsort((columns, rows, columns // tile[1], rows // tile[0]))
    return [(int(rows[n]), int(columns[n]), int(cells[rows[n], columns[n]])) for n in order]


# --- payloads


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize(
    ("payload", "words"), [(1, "coo32"), (2, "bitmap_1byte"), (2, "bitmap_2byte")], ids=["coo32", "bytes", "halves"]
)
def test_words_of_the_vector(integers: Integers, payload: int, words: str) -> None:
    """SC R46, SC R127, SC R145: sc24's map, read and written"""
    vector = load_vector("sc24_formats")
    cells, payload_words = np.array(vector["input"]["map"]), words_of(vector["expected"][words])
    value_bytes = 1 if words == "bitmap_1byte" else 2
    written = encode_in_cpp(integers, 1, payload, value_bytes, -4, cells)
    assert written[PIECE_DESCRIPTOR_WORDS:].tolist() == payload_words.tolist()
    assert int(written[6]) & 0xFFFFFF == np.count_nonzero(cells)
    assert int(written[7]) == len(payload_words)
    assert int(written[0]) >> 24 == 0xFC
    assert decode_piece(integers, 1, written) == in_tile_order(cells, (2, 2))


def test_the_descriptor_of_the_vector_keeps_every_field() -> None:
    """SC R37"""
    words = words_of(load_vector("sc24_formats")["expected"]["descriptor"])
    assert header_again("native", words).tolist() == words.tolist()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_piece_is_read_and_written(data: st.DataObject) -> None:
    """SC R46, SC R127, SC R145: the words are those of the Python payloads, empty tiles and ragged ones too."""
    build = data.draw(st.integers(0, len(PIECE_BUILDS) - 1))
    tile, bits = PIECE_BUILDS[build]
    shape = tuple(data.draw(st.integers(1, limit)) for limit in LARGEST_PIECE)
    cells = random_piece(data.draw(SEEDS), shape, data.draw(st.sampled_from([0.0, 0.03, 0.3, 1.0])), bits)
    value_bytes = 2 if bits == 16 else data.draw(st.sampled_from([1, 2]))
    payload = data.draw(st.sampled_from([Payload.COO32, Payload.BITMAP]))
    exponent = data.draw(st.integers(-128, 127))
    descriptor = PieceDescriptor(Payload.DENSE, 1, 1, block_exponent=exponent)
    words = encode_piece(cells, descriptor, MapFormat(payload, value_bytes, tile))
    integers = data.draw(st.sampled_from(BUILDS))
    assert encode_in_cpp(integers, build, int(payload), value_bytes, exponent, cells).tolist() == words.tolist()
    assert decode_piece(integers, build, words) == in_tile_order(cells, tile)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([0.02, 0.2, 0.7]))
def test_a_piece_goes_straight_into_a_unit(seed: int, density: float) -> None:
    """SC R46, SC R69: decoder and unit of variant B, against plain Python; tiles without values cost nothing"""
    cells = random_piece(seed, (13, 14), density)
    kernel = random_piece(seed + 1, (3, 3), 0.7)
    words = encode_piece(cells, PLAIN, MapFormat(Payload.BITMAP, 1, (4, 4)))
    full, rounds, skipped = compute_piece("native", words, kernel)
    model = UnitModel(kernel.tolist(), 6, "B").run(cells.tolist())
    assert {(r, c): int(full[r, c]) for r, c in np.argwhere(full)} == {k: v for k, v in model.sums.items() if v}
    assert (rounds, skipped) == (model.counts["rounds"], model.counts["tiles_skipped"])


@pytest.mark.parametrize(("position", "value", "sentence"), [
    (0, 0x2152, "a piece begins with the word 8530"),
    (0, 0x4151, "a piece begins with the word 16721"),
    (3, 0x0005_0022, "a BITMAP piece has more rows or columns than the build: 34"),
    (6, 0x2300_0006, "a BITMAP piece has tiles of another size than the build, rows: 4"),
    (6, 0x3300_0040, "the payload is cut off"),
    (6, 0x3300_0001, "the decoder left words: 1"),
])  # fmt: skip
def test_illegal_pieces_stop_the_simulation(position: int, value: int, sentence: str) -> None:
    """SC R154"""
    cells = np.zeros((5, 5), np.int64)
    cells[1, :3] = cells[4, 2:] = 7
    words = encode_piece(cells, PLAIN, MapFormat(Payload.BITMAP, 1, (4, 4)))
    assert int(words[6]) == 0x3300_0006
    words[position] = value
    with pytest.raises(SimulationError, match=sentence):
        decode_piece("native", 0, words)


# --- reduction


@pytest.mark.parametrize("integers", BUILDS)
def test_fully_connected_layer_of_the_vector(integers: Integers) -> None:
    """SC R117-R119: sc17, the tree's sum of every round, a partial group last"""
    vector = load_vector("sc17_fully_connected")
    matrix, inputs = np.array(vector["weights"]["matrix"]), np.array(vector["input"]["vector"])
    expected, lanes = vector["expected"], vector["config"]["p"]
    found = reduce_pixels(integers, lanes, matrix, inputs[None])
    assert found.outputs[0].tolist() == expected["out"]
    assert found.partials == [partial for output in expected["partial_sums"] for partial in output]
    assert found.rounds == expected["rounds"]
    assert found.idle == len(matrix) * (lanes - expected["last_group"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(REDUCTION_LANES), SEEDS, st.integers(1, 40), st.integers(1, 12), st.sampled_from([0, 0.2, 1]))
def test_any_pixels_on_the_reduction_path(lanes: int, seed: int, inputs: int, outputs: int, density: float) -> None:
    """SC R67, SC R117, SC R118, SC R120: matrix products of 16 x 8 bits, rounds = outputs * sum of ceil(q / p)"""
    matrix, pixels = random_piece(seed, (outputs, inputs), 0.8), random_piece(seed + 1, (4, inputs), density, 16)
    found = reduce_pixels("native", lanes, matrix, pixels)
    np.testing.assert_array_equal(found.outputs, wrap(pixels.astype(np.int64) @ matrix.T.astype(np.int64), 32))
    values = np.count_nonzero(pixels, axis=1)
    assert found.rounds == outputs * int((-(-values // lanes)).sum())
    assert found.issued == outputs * int(values.sum())
    assert found.idle == found.rounds * lanes - found.issued


@pytest.mark.parametrize("integers", BUILDS)
def test_extremes_of_the_reduction_path(integers: Integers) -> None:
    """SC R67: the largest products of either sign, with every lane"""
    for lanes in REDUCTION_LANES:
        pixels = np.array([[-32768] * 40, [32767] * 40])
        found = reduce_pixels(integers, lanes, np.array([[-128] * 40, [127] * 40]), pixels)
        assert found.outputs.tolist() == [[40 * 32768 * 128, -40 * 32768 * 127], [-40 * 32767 * 128, 40 * 32767 * 127]]


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=9))
def test_the_tree_adds_all_its_terms(terms: list[int]) -> None:
    """SC R117: also those of a group that is not full"""
    assert tree_sum("native", terms) == sum(terms)


# --- ReLU, pooling, counts


@pytest.mark.parametrize("integers", BUILDS)
def test_pooling_of_the_vector(integers: Integers) -> None:
    """SC R90, SC R121, SC R123: sc22, odd sizes; averages round half up, below zero too"""
    vector = load_vector("sc22_pooling")
    one, expected = np.array(vector["input"]["map"]), vector["expected"]
    maps = np.stack([one, -one], axis=2)
    for kind, name in zip(POOL_KINDS, ("max", "avg", "sum"), strict=True):
        assert pool_maps(integers, 0, maps, kind, relu=True)[:, :, 0].tolist() == expected[name]
    assert pool_maps(integers, 0, maps, "average", relu=False)[:, :, 0].tolist() == expected["avg_no_relu"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, len(POOL_BUILDS) - 1), st.integers(1, 12), st.integers(1, 24), SEEDS, st.sampled_from(POOL_KINDS),
    st.booleans(), st.sampled_from(BUILDS),
)  # fmt: skip
def test_any_map_is_pooled(
    build: int, rows: int, columns: int, seed: int, kind: str, relu: bool, integers: Integers
) -> None:
    """SC R121, SC R123, SC R124: two channels side by side, windows of any size and stride, partial ones dropped"""
    maps = np.random.default_rng(seed).integers(-(1 << 30), 1 << 30, (rows, columns, 2))
    size, stride = POOL_BUILDS[build]
    wanted = pool(relu_of(maps) if relu else maps, PoolSettings(kind, size, stride))  # type: ignore[arg-type]
    np.testing.assert_array_equal(pool_maps(integers, build, maps, kind, relu=relu), wanted)


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), SEEDS, st.sampled_from([0, 0.3, 1]))
def test_outputs_are_counted_by_row_and_column(rows: int, columns: int, seed: int, density: float) -> None:
    """SC R131"""
    values = random_piece(seed, (rows, columns), density)
    present = values != 0
    wanted = (present.sum(axis=1).tolist(), present.sum(axis=0).tolist(), int(present.sum()))
    assert output_counts("native", values) == wanted


# --- stitching


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pieces_are_summed_at_their_places(data: st.DataObject) -> None:
    """SC R72, SC R128-R130: any rectangles over each other, modulo the accumulator; zero where no piece lies"""
    shape = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 30))
    seed = data.draw(SEEDS)
    total, pieces = np.zeros(shape, np.int64), []
    for number in range(data.draw(st.integers(0, 5))):
        row0, column0 = (data.draw(st.integers(0, limit - 1)) for limit in shape)
        row1, column1 = data.draw(st.integers(row0 + 1, shape[0])), data.draw(st.integers(column0 + 1, shape[1]))
        place = Rectangle(row0, column0, row1, column1)
        values = random_piece(seed + number, (place.rows, place.columns), 0.8, STITCH_BITS)
        pieces.append((place, values))
        total[row0:row1, column0:column1] += values
    found = stitch_pieces(data.draw(st.sampled_from(BUILDS)), shape, pieces, ReadOut(*shape))
    np.testing.assert_array_equal(found, wrap(total, STITCH_BITS))


@given(st.integers(-6, 6), st.integers(-6, 6), st.integers(1, 3), st.integers(1, 3))
def test_outputs_are_read_at_any_offset_and_stride(row: int, column: int, down: int, right: int) -> None:
    """SC R35, E4: padding moves where outputs are read, what lies outside the full grid is zero"""
    full = np.arange(1, 8 * 9 + 1).reshape(8, 9)
    window = ReadOut(7, 6, row, column, down, right)
    found = stitch_pieces("native", (8, 9), [(Rectangle(0, 0, 8, 9), full)], window)
    around = np.pad(full, 40)
    wanted = around[40 + row :: down, 40 + column :: right][:7, :6]
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(("place", "sentence"), [
    (Rectangle(3, 0, 9, 2), "a piece ends in row 9"),
    (Rectangle(0, 4, 2, 7), "a piece ends in column 7"),
])  # fmt: skip
def test_pieces_outside_the_map_stop_the_simulation(place: Rectangle, sentence: str) -> None:
    """SC R154"""
    with pytest.raises(SimulationError, match=sentence):
        stitch_pieces("native", (8, 6), [(place, np.ones((place.rows, place.columns)))], ReadOut(8, 6))


def test_maps_larger_than_the_build_stop_the_simulation() -> None:
    """SC R154"""
    with pytest.raises(SimulationError, match="a stitched map has more rows or columns than the build: 41"):
        stitch_pieces("native", (41, 6), [], ReadOut(1, 1))
