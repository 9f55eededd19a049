"""What the host does with every value and byte of a start, in numpy: encoding, placing, checksums.

``devices/native/stream_work.py`` has the same compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.checksum import stream_checksum
from bfpga.formats.arrays import FloatArray, Int32Array, IntArray
from bfpga.formats.block_float import encode_remainders, encode_samples
from bfpga.formats.block_format import BlockFormat
from bfpga.program.layout import encode_parts

#: Samples are encoded so many bytes at a time, step by step in the cache.
_BLOCK_BYTES = 1 << 18


@dataclass(frozen=True)
class Encoding:
    """How values become mantissas. exponent: of all samples; None: each sample's own. factors: (values,), which values
    are multiplied by first. remainder, parts: as in ``TensorSpec``."""

    format: BlockFormat
    exponent: int | None = None
    factors: FloatArray | None = None
    remainder: int = 0
    parts: int = 1


class StreamWork:
    """The work in numpy."""

    def encode(self, x: FloatArray, encoding: Encoding, mantissas: IntArray) -> Int32Array:
        """Fill in the mantissas of samples (samples, values); their exponents.

        mantissas: of all values, contiguous in a sample; then remainders; or part by part.
        """
        exponents = np.empty(len(x), np.int32)
        step = max(1, _BLOCK_BYTES // max(1, x[:1].nbytes))
        for first in range(0, len(x), step):
            rows = slice(first, first + step)
            exponents[rows] = _encoded(x[rows], encoding, mantissas[rows])
        return exponents

    def place(self, mantissas: IntArray, source: Int32Array, rows: npt.NDArray[Any]) -> None:
        """Each row (samples, elements) gets the mantissas of its sample (samples, values) that ``source`` names.

        Elements lie side by side in a row, values in a sample.
        """
        np.take(mantissas, source, axis=1, out=rows, mode="clip")

    def checksum(self, stream: bytes | npt.NDArray[np.uint8], beat_bits: int) -> int:
        """As ``stream_checksum``."""
        return stream_checksum(stream, beat_bits)


#: Without a compiler, and where nothing is in a hurry.
NUMPY_WORK = StreamWork()


def _encoded(values: FloatArray, encoding: Encoding, mantissas: IntArray) -> IntArray:
    """A few samples; their exponents."""
    fmt, size = encoding.format, values.shape[1]
    if encoding.factors is not None:
        values = values * encoding.factors
    whole, exponent = encode_samples(values, fmt, encoding.exponent)
    sets = [whole]
    if encoding.parts > 1:
        sets = encode_parts(values, exponent, encoding.parts, fmt)
    elif encoding.remainder:
        sets.append(encode_remainders(values, whole, exponent, fmt, encoding.remainder))
    for number, found in enumerate(sets):
        mantissas[:, number * size : (number + 1) * size] = found
    return exponent
