"""Tile commands of the zero-skip engine's image stream: four words, then the rows of the buffer (ZS 2.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.errors import DataError
from bfpga.formats.arrays import IntArray

TILE_TYPE = 0x54
TILE_VERSION = 1
COMMAND_WORDS = 4


@dataclass(frozen=True)
class TileCommand:
    """What the engine must know of the rows that follow.

    image: index of the image (kz). row0, column0: of the buffer in image coordinates, negative in the padding. rows,
    columns: cells that follow, clipped to the image. fill_top, fill_left: rows and columns of zeros before them.
    tile_height, tile_width: outputs.
    """

    first_image: bool
    last_image: bool
    last_tile: bool
    image: int
    row0: int
    column0: int
    rows: int
    columns: int
    fill_top: int
    fill_left: int
    tile_height: int
    tile_width: int

    def __post_init__(self) -> None:
        limits = {
            "image": (0, 65535), "row0": (-32768, 32767), "column0": (-32768, 32767), "rows": (0, 65535),
            "columns": (0, 65535), "fill_top": (0, 255), "fill_left": (0, 255), "tile_height": (1, 256),
            "tile_width": (1, 256),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise DataError(f"tile command: {name} is {getattr(self, name)}, it must be {low} to {high}")


def row_words(columns: int, operand_bytes: int) -> int:
    """Words of one row on the stream: packed cells, padded to a word."""
    return -(-columns * operand_bytes // 4)


def pack_tile(command: TileCommand, cells: IntArray, operand_bytes: int = 1) -> list[int]:
    """Words of a command and its cells (rows, columns), 1 or 2 bytes each."""
    if cells.shape != (command.rows, command.columns):
        raise DataError(f"tile command: {command.rows}x{command.columns} cells are to follow, there are {cells.shape}")
    half = 1 << (8 * operand_bytes - 1)
    if cells.size and not (-half <= int(cells.min()) and int(cells.max()) < half):
        raise DataError(f"tile command: cells of {operand_bytes} bytes are {-half} to {half - 1}")
    flags = command.first_image << 12 | command.last_image << 13 | command.last_tile << 14
    header = [
        TILE_TYPE | TILE_VERSION << 8 | flags | command.image << 16,
        command.row0 & 0xFFFF | (command.column0 & 0xFFFF) << 16,
        command.rows | command.columns << 16,
        command.fill_top | command.fill_left << 8 | (command.tile_height - 1) << 16 | (command.tile_width - 1) << 24,
    ]
    padded = np.zeros((command.rows, row_words(command.columns, operand_bytes) * 4 // operand_bytes), np.int64)
    padded[:, : command.columns] = cells
    body = padded.astype(f"<i{operand_bytes}").tobytes()
    return header + [int(word) for word in np.frombuffer(body, "<u4")]


def unpack_tile(words: list[int], operand_bytes: int = 1) -> tuple[TileCommand, IntArray]:
    """The command and its cells; ``DataError`` if the words are no tile."""
    if len(words) < COMMAND_WORDS or words[0] & 0xFFF != TILE_TYPE | TILE_VERSION << 8:
        raise DataError(f"no tile command of version {TILE_VERSION}: {[hex(word) for word in words[:COMMAND_WORDS]]}")

    def signed(field: int) -> int:
        return (field & 0xFFFF ^ 0x8000) - 0x8000

    command = TileCommand(
        first_image=bool(words[0] >> 12 & 1),
        last_image=bool(words[0] >> 13 & 1),
        last_tile=bool(words[0] >> 14 & 1),
        image=words[0] >> 16,
        row0=signed(words[1]),
        column0=signed(words[1] >> 16),
        rows=words[2] & 0xFFFF,
        columns=words[2] >> 16,
        fill_top=words[3] & 0xFF,
        fill_left=words[3] >> 8 & 0xFF,
        tile_height=(words[3] >> 16 & 0xFF) + 1,
        tile_width=(words[3] >> 24) + 1,
    )
    wanted = command.rows * row_words(command.columns, operand_bytes)
    if len(words) != COMMAND_WORDS + wanted:
        raise DataError(f"tile command: {wanted} words of cells are to follow, there are {len(words) - COMMAND_WORDS}")
    body = np.array(words[COMMAND_WORDS:], "<u4").tobytes()
    cells = np.frombuffer(body, f"<i{operand_bytes}").reshape(command.rows, -1 if wanted else 0)
    return command, cells[:, : command.columns].astype(np.int64)
