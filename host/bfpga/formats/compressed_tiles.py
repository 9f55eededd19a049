"""Tiles of images for the zero-skip engine: a command of four words, then the rows of the tile buffer (ZS 2.3)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.compressed_words import (
    WORD,
    WORD_BYTES,
    ValueArray,
    WordArray,
    as_words,
    check_field,
    check_values,
    signed,
    value_type,
    words_of,
)

COMMAND_WORDS = 4
_TYPE, _VERSION = 0x54, 1
_LIMITS = {
    "kz": (0, 0xFFFF), "row": (-0x8000, 0x7FFF), "column": (-0x8000, 0x7FFF), "fill_rows": (0, 0xFF),
    "fill_columns": (0, 0xFF), "tile_rows": (1, 256), "tile_columns": (1, 256),
}  # fmt: skip


@dataclass(frozen=True)
class TileCommand:
    """Which cells of the tile buffer follow; ``DataError`` for a field out of range.

    kz: image. row, column: place of the buffer in the image, negative in the padding. fill_rows, fill_columns: rows
    above and columns on the left that are zero and do not follow. tile_rows, tile_columns: outputs of the tile.
    first_kz: clear the accumulators; last_kz: write them out; last_tile: the pass ends.
    """

    kz: int
    row: int
    column: int
    fill_rows: int
    fill_columns: int
    tile_rows: int
    tile_columns: int
    first_kz: bool = False
    last_kz: bool = False
    last_tile: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in _LIMITS:
                check_field("tile command", field.name, getattr(self, field.name), *_LIMITS[field.name])


def tile_bytes(rows: int, columns: int, value_bytes: int) -> int:
    """Bytes of a tile command and of the rows that follow."""
    return WORD_BYTES * (COMMAND_WORDS + rows * words_of(columns * value_bytes))


def encode_tile(command: TileCommand, cells: npt.ArrayLike, value_bytes: int) -> WordArray:
    """Command and rows. ``cells`` (rows, columns): what lies inside the image, each row padded to a word."""
    values = check_values(np.asarray(cells), 8 * value_bytes, "tile")
    if values.ndim != 2 or max(values.shape) > 0xFFFF:
        raise DataError(f"tile: expected up to 65535 rows and columns, got shape {values.shape}")
    rows, columns = values.shape
    words = np.zeros(tile_bytes(rows, columns, value_bytes) // WORD_BYTES, WORD)
    flags = command.first_kz | command.last_kz << 1 | command.last_tile << 2
    words[:COMMAND_WORDS] = (
        _TYPE | _VERSION << 8 | flags << 12 | command.kz << 16,
        command.row & 0xFFFF | (command.column & 0xFFFF) << 16,
        rows | columns << 16,
        command.fill_rows | command.fill_columns << 8 | command.tile_rows - 1 << 16 | command.tile_columns - 1 << 24,
    )
    if rows and columns:
        stored = words[COMMAND_WORDS:].view(value_type(value_bytes)).reshape(rows, -1)
        stored[:, :columns] = values
    return words


def decode_tile(data: bytes | npt.NDArray[np.uint32], value_bytes: int) -> tuple[TileCommand, ValueArray, int]:
    """Command and cells of the first tile of a stream, and the words it takes; ``DataError`` if it is damaged."""
    words = as_words(data, "tile")
    if words.size < COMMAND_WORDS:
        raise DataError(f"tile command is cut off: it takes {COMMAND_WORDS} words, there are {words.size}")
    first, place, size, fill = (int(word) for word in words[:COMMAND_WORDS])
    if first & 0x8FFF != _TYPE | _VERSION << 8:
        raise DataError(f"tile: word 0 is 0x{first:08X}, no tile command of version {_VERSION}")
    command = TileCommand(
        first >> 16, signed(place, 16), signed(place >> 16, 16), fill & 0xFF, fill >> 8 & 0xFF,
        (fill >> 16 & 0xFF) + 1, (fill >> 24) + 1, bool(first >> 12 & 1), bool(first >> 13 & 1), bool(first >> 14 & 1),
    )  # fmt: skip
    rows, columns = size & 0xFFFF, size >> 16
    needed = tile_bytes(rows, columns, value_bytes) // WORD_BYTES
    if words.size < needed:
        raise DataError(f"tile of {rows} x {columns} cells is cut off: it takes {needed} words, there are {words.size}")
    if rows == 0 or columns == 0:
        return command, np.zeros((rows, columns), value_type(value_bytes)), needed
    stored = words[COMMAND_WORDS:needed].view(value_type(value_bytes)).reshape(rows, -1)
    if stored[:, columns:].any():
        raise DataError(f"tile of {rows} x {columns} cells: the bytes that pad a row are not zero")
    return command, stored[:, :columns].copy(), needed
