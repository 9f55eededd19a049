"""Words of compressed payloads: 32 bits, little-endian, in numpy arrays; what every format of them shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import ByteArray

WordArray = npt.NDArray[np.uint32]
IndexArray = npt.NDArray[np.int64]
ValueArray = npt.NDArray[Any]

WORD = np.dtype("<u4")
WORD_BYTES = WORD.itemsize
_VALUES: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2")}


def value_type(value_bytes: int) -> np.dtype[Any]:
    """Signed integers of 1 or 2 bytes, little-endian; ``ConfigurationError`` for another size."""
    if value_bytes not in _VALUES:
        raise ConfigurationError(f"compressed format: value_bytes is {value_bytes!r}, it must be 1 or 2")
    return _VALUES[value_bytes]


def words_of(octets: int) -> int:
    """Words that hold a number of bytes."""
    return -(-octets // WORD_BYTES)


def as_words(data: bytes | bytearray | memoryview | npt.NDArray[Any], what: str) -> WordArray:
    """Bytes or an array of 32-bit words as a flat array of words, without a copy where that is possible.

    ``DataError`` if the bytes are no whole words, or the array has another type.
    """
    if isinstance(data, np.ndarray):
        if data.ndim != 1 or data.dtype not in (np.uint8, WORD):
            raise DataError(f"{what}: expected a flat array of uint32 or uint8, got {data.ndim} axes of {data.dtype}")
        data = np.ascontiguousarray(data)
        octets: ByteArray = data.view(np.uint8)
    else:
        octets = np.frombuffer(data, np.uint8)
    if octets.size % WORD_BYTES:
        raise DataError(f"{what}: {octets.size} bytes are no whole number of {WORD_BYTES}-byte words")
    return octets.view(WORD)


def bytes_to_words(octets: ByteArray) -> WordArray:
    """Bytes as words, the last one padded with zeros."""
    words = np.zeros(words_of(octets.size), WORD)
    words.view(np.uint8)[: octets.size] = octets
    return words


def pack_values(values: ValueArray, value_bytes: int) -> WordArray:
    """Flat values in 1 or 2 bytes each, padded to a word. Their range has been checked (``check_values``)."""
    return bytes_to_words(np.ascontiguousarray(values, value_type(value_bytes)).view(np.uint8))


def unpack_values(words: WordArray, count: int, value_bytes: int, what: str) -> ValueArray:
    """Inverse of ``pack_values``: ``words`` hold ``count`` values and nothing else, else ``DataError``."""
    check_length(words, words_of(count * value_bytes), what)
    octets = words.view(np.uint8)
    if octets[count * value_bytes :].any():
        raise DataError(f"{what}: the bytes that pad the last word are not zero")
    return octets[: count * value_bytes].view(value_type(value_bytes))


def check_length(words: WordArray, needed: int, what: str) -> None:
    """``DataError`` unless there are exactly the words that are needed."""
    if words.size < needed:
        raise DataError(f"{what} is cut off: it takes {needed} words, there are {words.size}")
    if words.size > needed:
        raise DataError(f"{what} takes {needed} words, {words.size - needed} more follow")


def check_stored(values: ValueArray, what: str) -> None:
    """``DataError`` if a value that was stored is zero: formats that leave out zeros hold none."""
    if not values.all():
        position = int(np.flatnonzero(values == 0)[0])
        raise DataError(f"{what}: value {position} is zero, but zeros are never stored")


def check_values(values: npt.ArrayLike, bits: int, what: str) -> ValueArray:
    """An array of integers that fit in ``bits`` bits with sign; ``DataError`` names the first that does not."""
    array: ValueArray = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int8) if array.dtype.kind not in "iu" else array
    if array.dtype.kind not in "iu":
        raise DataError(f"{what}: expected whole numbers, got {array.dtype}")
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    limits = np.iinfo(array.dtype)
    if limits.min >= low and limits.max <= high:
        return array
    if array.min() < low or array.max() > high:
        position = tuple(int(axis) for axis in np.argwhere((array < low) | (array > high))[0])
        raise DataError(f"{what}: {array[position]} at {position} does not fit {bits} bits ({low} to {high})")
    return array


def check_field(what: str, name: str, value: int, low: int, high: int) -> int:
    """A whole number between two limits, both allowed; ``DataError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise DataError(f"{what}: {name} is {value!r}, it must be a whole number from {low} to {high}")
    return int(value)


def signed(value: int, bits: int) -> int:
    """The low bits of an integer, read as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
