"""Pieces of feature maps in memory: a descriptor of eight words, then the payload (SC 2.4, SC R37)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.compressed.maps import LARGEST_PIECE, Payload
from bfpga.formats.compressed.words import WORD, WordArray, check_field, signed

PIECE_DESCRIPTOR_WORDS = 8
_TYPE, _VERSION = 0x51, 1


@dataclass(frozen=True)
class _Field:
    """Where a field of the descriptor lies; ``offset`` is subtracted before it is stored."""

    word: int
    low: int
    bits: int
    offset: int = 0
    is_signed: bool = False

    def limits(self) -> tuple[int, int]:
        lowest = -(1 << (self.bits - 1)) if self.is_signed else self.offset
        return lowest, lowest + (1 << self.bits) - 1

    def read(self, words: list[int]) -> int:
        value = words[self.word] >> self.low & ((1 << self.bits) - 1)
        return signed(value, self.bits) if self.is_signed else value + self.offset


_FIELDS = {
    "payload": _Field(0, 12, 4),
    "last_piece": _Field(0, 16, 1),
    "last_channel": _Field(0, 17, 1),
    "clear_accumulators": _Field(0, 18, 1),
    "halo": _Field(0, 19, 1),
    "value_bytes": _Field(0, 20, 1, offset=1),
    "block_exponent": _Field(0, 24, 8, is_signed=True),
    "channel": _Field(1, 0, 16),
    "unit": _Field(1, 16, 8),
    "fold": _Field(1, 24, 8),
    "row": _Field(2, 0, 16),
    "column": _Field(2, 16, 16),
    "rows": _Field(3, 0, 16),
    "columns": _Field(3, 16, 16),
    "output_row": _Field(4, 0, 16),
    "output_column": _Field(4, 16, 16),
    "output_rows": _Field(5, 0, 16),
    "output_columns": _Field(5, 16, 16),
    "non_zeros": _Field(6, 0, 24),
    "tile_rows": _Field(6, 24, 4, offset=1),
    "tile_columns": _Field(6, 28, 4, offset=1),
    "payload_words": _Field(7, 0, 32),
}

_FLAGS = ("last_piece", "last_channel", "clear_accumulators", "halo")


@dataclass(frozen=True)
class PieceDescriptor:
    """What a unit has to know about a piece; ``DataError`` for a field out of range.

    payload, value_bytes, tile_rows, tile_columns, non_zeros, payload_words: how it is written. last_piece, last_channel
    (post-processing follows), clear_accumulators (before this piece), halo (else overlap-add). channel, unit, fold:
    number of the map, of its unit, of the fold. row, column, rows, columns: input cells that are stored, halo included.
    output_row, output_column, output_rows, output_columns: outputs that the unit owns. block_exponent: of all values.
    """

    payload: Payload
    rows: int
    columns: int
    value_bytes: int = 1
    tile_rows: int = 4
    tile_columns: int = 4
    non_zeros: int = 0
    payload_words: int = 0
    row: int = 0
    column: int = 0
    output_row: int = 0
    output_column: int = 0
    output_rows: int = 0
    output_columns: int = 0
    channel: int = 0
    unit: int = 0
    fold: int = 0
    block_exponent: int = 0
    last_piece: bool = False
    last_channel: bool = False
    clear_accumulators: bool = False
    halo: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            low, high = _FIELDS[field.name].limits()
            value = getattr(self, field.name)
            if field.name in ("rows", "columns"):
                low, high = 1, LARGEST_PIECE
            elif field.name == "payload":
                high = max(Payload)
            check_field("piece descriptor", field.name, int(value) if isinstance(value, bool) else value, low, high)
        if self.non_zeros > self.rows * self.columns:
            raise DataError(f"piece descriptor: {self.non_zeros} non-zeros in {self.rows} x {self.columns} cells")

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a micro-tile."""
        return self.tile_rows, self.tile_columns

    def to_words(self) -> WordArray:
        """The eight words."""
        words = [_TYPE | _VERSION << 8] + [0] * (PIECE_DESCRIPTOR_WORDS - 1)
        for name, field in _FIELDS.items():
            stored = int(getattr(self, name)) - field.offset
            words[field.word] |= (stored & ((1 << field.bits) - 1)) << field.low
        return np.array(words, WORD)

    @staticmethod
    def from_words(words: npt.NDArray[np.uint32]) -> PieceDescriptor:
        """Inverse of ``to_words``; ``DataError`` for words that are no descriptor."""
        if len(words) < PIECE_DESCRIPTOR_WORDS:
            needed = PIECE_DESCRIPTOR_WORDS
            raise DataError(f"piece descriptor is cut off: it takes {needed} words, there are {len(words)}")
        numbers = [int(word) for word in words[:PIECE_DESCRIPTOR_WORDS]]
        if numbers[0] & 0xFFF != _TYPE | _VERSION << 8:
            raise DataError(f"piece descriptor: word 0 is 0x{numbers[0]:08X}, no descriptor of version {_VERSION}")
        if numbers[0] >> 21 & 7:
            raise DataError(f"piece descriptor: word 0 is 0x{numbers[0]:08X}, its bits 23:21 must be zero")
        values = {name: field.read(numbers) for name, field in _FIELDS.items()}
        number = values.pop("payload")
        if number not in list(Payload):
            raise DataError(f"piece descriptor: payload format {number}, it must be from 0 to {max(Payload)}")
        last_piece, last_channel, clear, halo = (bool(values.pop(name)) for name in _FLAGS)
        return PieceDescriptor(
            Payload(number), **values,
            last_piece=last_piece, last_channel=last_channel, clear_accumulators=clear, halo=halo,
        )  # fmt: skip
