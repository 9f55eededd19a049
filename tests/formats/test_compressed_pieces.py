"""Piece descriptors and streams of pieces."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from compressed_cases import MAP_FORMATS, SHAPES, VECTORS, only_data_errors, sparse_array, vector, vector_words
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.errors import DataError
from bfpga.formats.compressed.maps import MapFormat, Payload
from bfpga.formats.compressed.payloads import decode_pieces, encode_map, encode_piece, smallest_format
from bfpga.formats.compressed.pieces import PIECE_DESCRIPTOR_WORDS, PieceDescriptor

HALF, BYTE = st.integers(0, 0xFFFF), st.integers(0, 0xFF)
DESCRIPTORS = st.builds(
    PieceDescriptor,
    payload=st.sampled_from(Payload), rows=st.integers(200, 256), columns=st.integers(200, 256),
    value_bytes=st.integers(1, 2), tile_rows=st.integers(1, 16), tile_columns=st.integers(1, 16),
    non_zeros=st.integers(0, 40000), payload_words=st.integers(0, 0xFFFFFFFF), row=HALF, column=HALF,
    output_row=HALF, output_column=HALF, output_rows=HALF, output_columns=HALF, channel=HALF, unit=BYTE, fold=BYTE,
    block_exponent=st.integers(-128, 127), last_piece=st.booleans(), last_channel=st.booleans(),
    clear_accumulators=st.booleans(), halo=st.booleans(),
)  # fmt: skip
MAPS = [
    (path.stem, number, channel)
    for path in sorted(VECTORS.glob("sc*.json"))
    for number, channel in enumerate(
        vector(path.stem)["input"].get("maps") or [vector(path.stem)["input"].get("map", [[0]])]
    )
]


def vector_descriptor(content: dict[str, Any]) -> PieceDescriptor:
    names = {
        "fmt": "payload", "val_bytes": "value_bytes", "exp": "block_exponent", "map": "channel", "row0": "row",
        "col0": "column", "cols": "columns", "orow0": "output_row", "ocol0": "output_column", "orows": "output_rows",
        "ocols": "output_columns", "nnz": "non_zeros", "tr": "tile_rows", "tc": "tile_columns",
        "words": "payload_words", "acc_init": "clear_accumulators", "halo_mode": "halo",
    }  # fmt: skip
    flags = {"last_piece", "last_channel", "acc_init", "halo_mode"}
    return PieceDescriptor(**{names.get(k, k): bool(v) if k in flags else v for k, v in content.items()})


# --- descriptors


def test_the_descriptor_of_the_vector() -> None:
    """SC R37: sc24, both ways"""
    content = vector("sc24_formats")
    descriptor = vector_descriptor(content["input"]["descriptor"])
    words = vector_words(content["expected"]["descriptor"])
    assert descriptor.to_words().tolist() == words
    assert PieceDescriptor.from_words(np.array(words, np.uint32)) == descriptor


def test_every_field_has_bits_of_its_own() -> None:
    """SC 2.4: no two fields share a bit, bits 23:21 of word 0 belong to none"""
    lowest = {"payload": Payload(0), "rows": 1, "columns": 1}
    taken = np.zeros(PIECE_DESCRIPTOR_WORDS, np.uint32)
    base = PieceDescriptor(**lowest, value_bytes=1, tile_rows=1, tile_columns=1).to_words()  # type: ignore[arg-type]
    largest = {
        "payload": Payload.TREE, "rows": 256, "columns": 256, "value_bytes": 2, "tile_rows": 16, "tile_columns": 16,
        "non_zeros": 65536, "payload_words": 0xFFFFFFFF, "unit": 255, "fold": 255, "block_exponent": -1,
    }  # fmt: skip
    flags = {"last_piece", "last_channel", "clear_accumulators", "halo"}
    for field in fields(PieceDescriptor):
        value: Any = largest.get(field.name, True if field.name in flags else 0xFFFF)
        options: dict[str, Any] = {**lowest, "value_bytes": 1, "tile_rows": 1, "tile_columns": 1, field.name: value}
        if field.name == "non_zeros":
            options.update(rows=256, columns=256)
        changed = PieceDescriptor(**options).to_words() ^ base
        changed[3] &= 0 if field.name == "non_zeros" else 0xFFFFFFFF
        assert changed.any()
        assert not (changed & taken).any(), field.name
        taken |= changed
    assert int(taken[0]) >> 20 & 0xF == 1


@given(DESCRIPTORS)
def test_descriptors_come_back(descriptor: PieceDescriptor) -> None:
    """SC R37"""
    words = descriptor.to_words()
    assert words.size == PIECE_DESCRIPTOR_WORDS
    assert PieceDescriptor.from_words(words) == descriptor


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 257}, "rows is 257, it must be a whole number from 1 to 256"),
        ({"columns": 0}, "columns is 0, it must be a whole number from 1 to 256"),
        ({"value_bytes": 3}, "value_bytes is 3, it must be a whole number from 1 to 2"),
        ({"tile_rows": 17}, "tile_rows is 17, it must be a whole number from 1 to 16"),
        ({"block_exponent": 128}, "block_exponent is 128, it must be a whole number from -128 to 127"),
        ({"channel": 65536}, "channel is 65536, it must be a whole number from 0 to 65535"),
        ({"unit": -1}, "unit is -1, it must be a whole number from 0 to 255"),
        ({"unit": 1.0}, r"unit is 1\.0, it must be a whole number"),
        ({"payload": 4}, "payload is 4, it must be a whole number from 0 to 3"),
        ({"non_zeros": 26}, "26 non-zeros in 5 x 5 cells"),
    ],
)
def test_fields_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    """SC R154"""
    with pytest.raises(DataError, match=f"piece descriptor: {message}"):
        PieceDescriptor(**{"payload": Payload.DENSE, "rows": 5, "columns": 5, **options})


@pytest.mark.parametrize(
    ("word", "value", "message"),
    [
        (0, 0x00000152, "word 0 is 0x00000152, no descriptor of version 1"),
        (0, 0x00000251, "word 0 is 0x00000251, no descriptor of version 1"),
        (0, 0x00004151, "payload format 4, it must be from 0 to 3"),
        (0, 0x00200151, "bits 23:21 must be zero"),
        (3, 0x00050101, "rows is 257"),
        (3, 0x00000005, "columns is 0"),
        (6, 0x0000001A, "26 non-zeros in 5 x 5 cells"),
    ],
)
def test_words_that_are_no_descriptor_are_refused(word: int, value: int, message: str) -> None:
    words = PieceDescriptor(Payload.DENSE, 5, 5).to_words()
    words[word] = value
    with pytest.raises(DataError, match=message):
        PieceDescriptor.from_words(words)
    with pytest.raises(DataError, match="piece descriptor is cut off: it takes 8 words, there are 7"):
        PieceDescriptor.from_words(words[:7])


# --- pieces


@pytest.mark.parametrize(("name", "number", "cells"), MAPS, ids=[f"{name}-{number}" for name, number, _ in MAPS])
def test_maps_of_all_vectors_come_back_as_pieces(name: str, number: int, cells: list[list[int]]) -> None:
    """SC R10, SC R37, SC R46, SC R143: every payload; the descriptor counts what numpy counts"""
    values = np.array(cells)
    descriptor = PieceDescriptor(Payload.DENSE, 1, 1, channel=number)
    formats = [MapFormat(payload, 2, (2, 2)) for payload in Payload] + [smallest_format(values, 2)]
    stream = np.concatenate([encode_piece(values, descriptor, fmt) for fmt in formats])
    pieces = list(decode_pieces(stream.tobytes()))
    assert [found.payload for found, _ in pieces] == [fmt.payload for fmt in formats]
    for found, decoded in pieces:
        assert found.channel == number
        assert found.non_zeros == np.count_nonzero(values)
        np.testing.assert_array_equal(decoded, values)


def test_the_piece_of_the_vector_is_descriptor_and_payload() -> None:
    """SC R37: sc24"""
    content = vector("sc24_formats")
    fmt = MapFormat(Payload.BITMAP, tile=(2, 2))
    placed = vector_descriptor({**content["input"]["descriptor"], "rows": 1, "cols": 1, "nnz": 0, "words": 0, "tr": 9})
    expected = vector_words(content["expected"]["descriptor"] + content["expected"]["bitmap_1byte"])
    assert encode_piece(content["input"]["map"], placed, fmt).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SHAPES, MAP_FORMATS, DESCRIPTORS), max_size=4), st.integers(0, 1 << 30))
def test_streams_of_pieces_come_back(
    parts: list[tuple[tuple[int, int], MapFormat, PieceDescriptor]], seed: int
) -> None:
    """SC R37, SC R46: any pieces in any formats, one after the other"""
    values = [sparse_array(shape, 0.3, seed, fmt.value_bytes) for shape, fmt, _ in parts]
    words = [encode_piece(v, descriptor, fmt) for v, (_, fmt, descriptor) in zip(values, parts, strict=True)]
    stream = np.concatenate([np.zeros(0, np.uint32), *words])
    pieces = list(decode_pieces(stream))
    assert len(pieces) == len(parts)
    for (found, decoded), cells, (shape, fmt, wanted) in zip(pieces, values, parts, strict=True):
        np.testing.assert_array_equal(decoded, cells)
        assert (found.rows, found.columns) == shape
        assert (found.payload, found.value_bytes, found.tile) == (fmt.payload, fmt.value_bytes, fmt.tile)
        for name in ("row", "column", "output_rows", "unit", "fold", "block_exponent", "halo", "last_piece"):
            assert getattr(found, name) == getattr(wanted, name)


def test_pieces_whose_payload_is_cut_off_or_counts_wrongly_are_refused() -> None:
    words = encode_piece(sparse_array((5, 5), 0.5, 1), PieceDescriptor(Payload.DENSE, 1, 1), MapFormat())
    for size in range(1, words.size):
        with pytest.raises(DataError, match="is cut off"):
            list(decode_pieces(words[:size]))
    words[6] += 1
    with pytest.raises(DataError, match=r"its descriptor counts \d+ non-zeros, its payload holds \d+"):
        list(decode_pieces(words))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=12), st.integers(0, 0xFFFFFFFF))
def test_random_words_behind_a_type_are_decoded_or_refused(numbers: list[int], first: int) -> None:
    only_data_errors(lambda: list(decode_pieces(np.array([first & ~0xFFF | 0x151, *numbers], np.uint32))))


def test_a_piece_is_the_payload_behind_its_descriptor() -> None:
    values = sparse_array((6, 7), 0.4, 2)
    words = encode_piece(values, PieceDescriptor(Payload.DENSE, 1, 1), MapFormat(Payload.COO32))
    np.testing.assert_array_equal(words[PIECE_DESCRIPTOR_WORDS:], encode_map(values, MapFormat(Payload.COO32)))
