"""Compressed feature maps (SC 2.3, 2.4): one piece in any payload, the smallest payload, streams of pieces.

Payloads are arrays of 32-bit words. Kernels are in ``kernels`` and ``kernel_decoder``;
docs/compressed-formats.md shows all words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.compressed.maps import (
    MapFormat,
    Payload,
    bitmap_bytes,
    check_piece,
    check_sides,
    coo32_bytes,
    decode_bitmap,
    decode_coo32,
    decode_dense,
    dense_bytes,
    encode_bitmap,
    encode_coo32,
    encode_dense,
)
from bfpga.formats.compressed.pieces import PIECE_DESCRIPTOR_WORDS, PieceDescriptor
from bfpga.formats.compressed.tree import decode_tree, encode_tree, tree_bytes
from bfpga.formats.compressed.words import ValueArray, WordArray, as_words

__all__ = [
    "MapFormat", "Payload", "PieceDescriptor", "decode_map", "decode_pieces", "encode_map", "encode_piece", "map_bytes",
    "smallest_format",
]  # fmt: skip

#: Leaves that are tried for the smallest TREE. A single cell takes two bits, yet a thin piece wastes less with it.
_TRIED_LEAVES = (1, 2, 4, 8)


def encode_map(values: npt.ArrayLike, fmt: MapFormat) -> WordArray:
    """Payload of a piece (rows, columns) of integers; ``DataError`` for another shape or values out of range."""
    cells = check_piece(np.asarray(values), fmt.value_bytes)
    if fmt.payload == Payload.DENSE:
        return encode_dense(cells, fmt.value_bytes)
    if fmt.payload == Payload.COO32:
        return encode_coo32(cells, fmt.tile)
    if fmt.payload == Payload.BITMAP:
        return encode_bitmap(cells, fmt.value_bytes, fmt.tile)
    return encode_tree(cells, fmt.value_bytes, fmt.leaf, fmt.levels)


def decode_map(data: bytes | npt.NDArray[np.uint32], rows: int, columns: int, fmt: MapFormat) -> ValueArray:
    """Inverse of ``encode_map``: values (rows, columns) in ``value_bytes``; ``DataError`` for a damaged payload.

    A TREE tells its own leaf and levels; those of ``fmt`` are not read.
    """
    check_sides(rows, columns)
    words = as_words(data, f"{fmt.payload.name} payload")
    if fmt.payload == Payload.DENSE:
        return decode_dense(words, rows, columns, fmt.value_bytes)
    if fmt.payload == Payload.COO32:
        return decode_coo32(words, rows, columns, fmt.value_bytes, fmt.tile)
    if fmt.payload == Payload.BITMAP:
        return decode_bitmap(words, rows, columns, fmt.value_bytes, fmt.tile)
    return decode_tree(words, rows, columns, fmt.value_bytes)


def map_bytes(values: npt.ArrayLike, fmt: MapFormat) -> int:
    """Bytes of the payload that ``encode_map`` gives, without encoding it."""
    cells = check_piece(np.asarray(values), fmt.value_bytes)
    rows, columns = cells.shape
    if fmt.payload == Payload.DENSE:
        return dense_bytes(rows, columns, fmt.value_bytes)
    if fmt.payload == Payload.TREE:
        return tree_bytes(cells, fmt.value_bytes, fmt.leaf, fmt.levels)
    non_zeros = int(np.count_nonzero(cells))
    if fmt.payload == Payload.COO32:
        return coo32_bytes(non_zeros)
    return bitmap_bytes(rows, columns, non_zeros, fmt.value_bytes, fmt.tile)


def smallest_format(
    values: npt.ArrayLike,
    value_bytes: int = 1,
    tile: tuple[int, int] = (4, 4),
    payloads: Collection[Payload] = tuple(Payload),
) -> MapFormat:
    """The format with the fewest bytes for a piece, of ``payloads``; of equal ones the first in the order of `Payload`.

    TREE is tried with leaves of 1, 2, 4 and 8 and all levels.
    """
    if not payloads:
        raise ConfigurationError("smallest payload: at least one payload must be allowed")
    cells = check_piece(np.asarray(values), value_bytes)
    formats = [MapFormat(payload, value_bytes, tile) for payload in Payload if payload in payloads]
    if Payload.TREE in payloads:
        formats += [MapFormat(Payload.TREE, value_bytes, tile, leaf) for leaf in _TRIED_LEAVES]
    return min(formats, key=lambda fmt: map_bytes(cells, fmt))


def encode_piece(values: npt.ArrayLike, descriptor: PieceDescriptor, fmt: MapFormat) -> WordArray:
    """Descriptor and payload of a piece. Its size, format, count and length come from ``values`` and ``fmt``."""
    cells = check_piece(np.asarray(values), fmt.value_bytes)
    payload = encode_map(cells, fmt)
    complete = replace(
        descriptor, payload=fmt.payload, value_bytes=fmt.value_bytes, tile_rows=fmt.tile[0], tile_columns=fmt.tile[1],
        rows=cells.shape[0], columns=cells.shape[1],
        non_zeros=int(np.count_nonzero(cells)), payload_words=payload.size,
    )  # fmt: skip
    return np.concatenate([complete.to_words(), payload])


def decode_pieces(data: bytes | npt.NDArray[np.uint32]) -> Iterator[tuple[PieceDescriptor, ValueArray]]:
    """Descriptor and values of every piece of a stream; ``DataError`` where it is damaged or cut off."""
    words = as_words(data, "pieces")
    start = 0
    while start < words.size:
        descriptor = PieceDescriptor.from_words(words[start : start + PIECE_DESCRIPTOR_WORDS])
        start += PIECE_DESCRIPTOR_WORDS
        payload = words[start : start + descriptor.payload_words]
        if payload.size < descriptor.payload_words:
            raise DataError(
                f"piece is cut off: its payload takes {descriptor.payload_words} words, there are {payload.size}"
            )
        start += payload.size
        fmt = MapFormat(descriptor.payload, descriptor.value_bytes, descriptor.tile)
        values = decode_map(payload, descriptor.rows, descriptor.columns, fmt)
        found = int(np.count_nonzero(values))
        if found != descriptor.non_zeros:
            raise DataError(f"piece: its descriptor counts {descriptor.non_zeros} non-zeros, its payload holds {found}")
        yield descriptor, values
