"""Payloads of feature maps, cell by cell: DENSE, COO32 and BITMAP (SC 2.3; SC: sparse cluster specification).

A piece is an array (rows, columns) of at most 256 x 256 cells. COO32 and BITMAP go through it *tile by tile*:
micro-tiles of ``tile`` cells in raster order, their cells in raster order. A tile at the border is as large as the
others, its cells beyond the border are empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import BoolArray
from bfpga.formats.compressed.words import (
    WORD,
    WORD_BYTES,
    IndexArray,
    ValueArray,
    WordArray,
    bytes_to_words,
    check_stored,
    check_values,
    pack_values,
    unpack_values,
    value_type,
    words_of,
)

#: Rows and columns of a piece at most: COO32 has 8 bits for each index.
LARGEST_PIECE = 256
#: Rows and columns of a micro-tile at most: the descriptor has 4 bits for each.
LARGEST_TILE = 16
LEAF_SIDES = (1, 2, 4, 8)
#: A tree of this many levels is not limited: 256 cells are 8 halvings.
ALL_LEVELS = 9


class Payload(IntEnum):
    """How a piece is written: the format field of its descriptor."""

    DENSE = 0
    COO32 = 1
    BITMAP = 2
    TREE = 3


@dataclass(frozen=True)
class MapFormat:
    """A payload and its parameters; ``ConfigurationError`` if one is not allowed.

    value_bytes: 1 or 2. tile: rows and columns of a micro-tile, 1 to 16 each (COO32, BITMAP). leaf, levels: smallest
    side of a TREE's cells, 1, 2, 4 or 8, and how often its root may be halved, 0 to 255.
    """

    payload: Payload = Payload.BITMAP
    value_bytes: int = 1
    tile: tuple[int, int] = (4, 4)
    leaf: int = 2
    levels: int = ALL_LEVELS

    def __post_init__(self) -> None:
        value_type(self.value_bytes)
        check_tile(self.tile)
        check_tree(self.leaf, self.levels)


def check_tile(tile: tuple[int, int]) -> None:
    if len(tile) != 2 or not all(type(side) is int and 1 <= side <= LARGEST_TILE for side in tile):
        raise ConfigurationError(f"compressed format: tile is {tile!r}, it must be two sides from 1 to {LARGEST_TILE}")


def check_tree(leaf: int, levels: int) -> None:
    if leaf not in LEAF_SIDES:
        raise ConfigurationError(f"compressed format: leaf is {leaf!r}, it must be 1, 2, 4 or 8")
    if type(levels) is not int or not 0 <= levels <= 255:
        raise ConfigurationError(f"compressed format: levels is {levels!r}, it must be a whole number from 0 to 255")


def check_piece(values: ValueArray, value_bytes: int) -> ValueArray:
    """The values of a piece in their stored type, (rows, columns); ``DataError`` for another shape or range."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise DataError(f"piece: expected rows and columns, got {array.ndim} axes")
    check_sides(*array.shape)
    return check_values(array, 8 * value_bytes, "piece").astype(value_type(value_bytes), copy=False)


def check_sides(rows: int, columns: int) -> None:
    """``DataError`` unless a piece has 1 to 256 rows and columns. SC R154"""
    if not (1 <= rows <= LARGEST_PIECE and 1 <= columns <= LARGEST_PIECE):
        raise DataError(
            f"piece: {rows} x {columns} cells, but rows and columns go from 1 to {LARGEST_PIECE}: fold larger maps"
        )


# --- order of the cells


def tile_counts(rows: int, columns: int, tile: tuple[int, int]) -> tuple[int, int]:
    """Micro-tiles of a piece: down and across."""
    return -(-rows // tile[0]), -(-columns // tile[1])


def _tile_by_tile(cells: ValueArray, tile: tuple[int, int]) -> ValueArray:
    """Cells (rows, columns) as (tiles, cells of a tile), zero beyond the border."""
    rows, columns = cells.shape
    down, across = tile_counts(rows, columns, tile)
    whole = (down * tile[0], across * tile[1])
    if (rows, columns) != whole:
        padded = np.zeros(whole, cells.dtype)
        padded[:rows, :columns] = cells
        cells = padded
    grid = cells.reshape(down, tile[0], across, tile[1])
    return grid.transpose(0, 2, 1, 3).reshape(down * across, tile[0] * tile[1])


def _row_by_row(tiles: ValueArray, rows: int, columns: int, tile: tuple[int, int]) -> ValueArray:
    """Inverse of ``_tile_by_tile``, with the cells beyond the border."""
    down, across = tile_counts(rows, columns, tile)
    grid = tiles.reshape(down, across, *tile).transpose(0, 2, 1, 3)
    return grid.reshape(down * tile[0], across * tile[1])


@lru_cache(maxsize=16)
def _index_words(rows: int, columns: int, tile: tuple[int, int]) -> WordArray:
    """Row in bits 31:24 and column in bits 23:16 of every cell, tile by tile."""
    row = np.arange(rows, dtype=WORD) << WORD.type(24)
    column = np.arange(columns, dtype=WORD) << WORD.type(16)
    return _tile_by_tile(row[:, None] | column, tile).reshape(-1)


@lru_cache(maxsize=16)
def _ranks(columns: int, tile: tuple[int, int]) -> tuple[IndexArray, IndexArray]:
    """A cell's place, tile by tile, is the sum of a number for its row and one for its column."""
    side = np.arange(LARGEST_PIECE)
    across = -(-columns // tile[1])
    area = tile[0] * tile[1]
    return side // tile[0] * across * area + side % tile[0] * tile[1], side // tile[1] * area + side % tile[1]


# --- sizes


def dense_bytes(rows: int, columns: int, value_bytes: int) -> int:
    """Bytes of a DENSE payload."""
    return WORD_BYTES * words_of(rows * columns * value_bytes)


def coo32_bytes(non_zeros: int) -> int:
    """Bytes of a COO32 payload."""
    return WORD_BYTES * non_zeros


def bitmap_bytes(rows: int, columns: int, non_zeros: int, value_bytes: int, tile: tuple[int, int] = (4, 4)) -> int:
    """Bytes of a BITMAP payload."""
    return WORD_BYTES * (_mask_words(rows, columns, tile) + words_of(non_zeros * value_bytes))


def _mask_bytes(tile: tuple[int, int]) -> int:
    return -(-tile[0] * tile[1] // 8)


def _mask_words(rows: int, columns: int, tile: tuple[int, int]) -> int:
    down, across = tile_counts(rows, columns, tile)
    return words_of(down * across * _mask_bytes(tile))


# --- encoders: ``cells`` come from ``check_piece``


def encode_dense(cells: ValueArray, value_bytes: int) -> WordArray:
    """All values in raster order."""
    return pack_values(cells.reshape(-1), value_bytes)


def encode_coo32(cells: ValueArray, tile: tuple[int, int]) -> WordArray:
    """A word for each value that is not zero, tile by tile: value, column, row."""
    ordered = _tile_by_tile(cells, tile).reshape(-1)
    places = np.flatnonzero(ordered != 0)
    values = ordered[places].astype(np.int16).view(np.uint16)
    words: WordArray = _index_words(cells.shape[0], cells.shape[1], tile)[places] | values
    return words


def encode_bitmap(cells: ValueArray, value_bytes: int, tile: tuple[int, int]) -> WordArray:
    """The mask of every micro-tile in whole bytes, then the values of the bits that are set."""
    ordered = _tile_by_tile(cells, tile)
    occupied: BoolArray = ordered != 0
    values = ordered[occupied]
    bits = 8 * _mask_bytes(tile)
    if occupied.shape[1] != bits:
        padded = np.zeros((len(occupied), bits), np.bool_)
        padded[:, : occupied.shape[1]] = occupied
        occupied = padded
    masks = bytes_to_words(np.packbits(occupied.reshape(-1), bitorder="little"))
    return np.concatenate([masks, pack_values(values, value_bytes)])


# --- decoders: the whole payload and nothing else; ``DataError`` for one that no encoder writes


def decode_dense(words: WordArray, rows: int, columns: int, value_bytes: int) -> ValueArray:
    """Inverse of ``encode_dense``: (rows, columns)."""
    what = f"DENSE payload of {rows} x {columns} cells"
    return unpack_values(words, rows * columns, value_bytes, what).reshape(rows, columns).copy()


def decode_coo32(words: WordArray, rows: int, columns: int, value_bytes: int, tile: tuple[int, int]) -> ValueArray:
    """Inverse of ``encode_coo32``. Indices lie inside the piece and follow each other tile by tile."""
    what = f"COO32 payload of {rows} x {columns} cells"
    halves = words.view("<u2").reshape(-1, 2)
    octets = words.view(np.uint8).reshape(-1, 4)
    values, column, row = halves[:, 0].astype(np.uint16).view(np.int16), octets[:, 2], octets[:, 3]
    if words.size and (row.max() >= rows or column.max() >= columns):
        bad = int(np.flatnonzero((row >= rows) | (column >= columns))[0])
        raise DataError(f"{what}: word {bad} lies at row {row[bad]}, column {column[bad]}, outside of the piece")
    of_row, of_column = _ranks(columns, tile)
    place = of_row[row] + of_column[column]
    if not (place[1:] > place[:-1]).all():
        bad = int(np.flatnonzero(place[1:] <= place[:-1])[0]) + 1
        raise DataError(f"{what}: word {bad} is at or before its predecessor in the order of the tiles")
    check_stored(values, what)
    check_values(values, 8 * value_bytes, what)
    cells = np.zeros((rows, columns), value_type(value_bytes))
    cells.reshape(-1)[row.astype(np.int64) * columns + column] = values
    return cells


def decode_bitmap(words: WordArray, rows: int, columns: int, value_bytes: int, tile: tuple[int, int]) -> ValueArray:
    """Inverse of ``encode_bitmap``. No mask has a bit beyond its tile or beyond the border of the piece."""
    what = f"BITMAP payload of {rows} x {columns} cells"
    down, across = tile_counts(rows, columns, tile)
    section = _mask_words(rows, columns, tile)
    if words.size < section:
        raise DataError(f"{what} is cut off: its masks take {section} words, there are {words.size}")
    octets = words[:section].view(np.uint8)
    used = down * across * _mask_bytes(tile)
    if octets[used:].any():
        raise DataError(f"{what}: the bytes that pad the masks are not zero")
    masks = np.unpackbits(octets[:used], bitorder="little").view(np.bool_).reshape(down * across, -1)
    area = tile[0] * tile[1]
    if masks[:, area:].any():
        raise DataError(f"{what}: a mask has a bit beyond the {area} cells of its tile")
    masks = np.ascontiguousarray(masks[:, :area])
    values = unpack_values(words[section:], int(np.count_nonzero(masks)), value_bytes, what)
    check_stored(values, what)
    ordered = np.zeros(masks.shape, value_type(value_bytes))
    ordered[masks] = values
    return inside(_row_by_row(ordered, rows, columns, tile), rows, columns, what)


def inside(cells: ValueArray, rows: int, columns: int, what: str) -> ValueArray:
    """The cells of the piece, of an array that goes beyond its border; ``DataError`` if a value lies there."""
    if cells[rows:].any() or cells[:, columns:].any():
        raise DataError(f"{what}: a bit is set outside of the piece")
    return np.ascontiguousarray(cells[:rows, :columns])
