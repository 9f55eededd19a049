"""What the host does with every value and byte of a start, compiled; in numpy what that does not hold."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.checksum import FOLD_BITS
from bfpga.devices.native import library
from bfpga.devices.native.library import InstructionSet
from bfpga.devices.native.records import FormatRecord, format_record
from bfpga.errors import ToolError
from bfpga.formats.arrays import FloatArray, Int32Array, IntArray
from bfpga.formats.block_format import BlockFormat
from bfpga.program.stream_work import NUMPY_WORK, Encoding, StreamWork

#: Without contraction a product is rounded before it is added to, as numpy's.
SOURCE, FLAGS = "packing.cpp", ("-ffp-contract=off",)
#: Bytes of mantissas that are compiled, and bits of beats.
_MANTISSA_BYTES, _BEAT_BITS = (1, 2), (32, 64, 128, 256, 512, 1024)


class CompiledWork(StreamWork):
    """The work in C++, with numpy's bits and numpy's errors."""

    def __init__(self, path: Path) -> None:
        self._library = _loaded(path)
        self._formats: dict[BlockFormat, FormatRecord] = {}

    def encode(self, x: FloatArray, encoding: Encoding, mantissas: IntArray) -> Int32Array:
        exponents = np.full(len(x), encoding.exponent or 0, np.int32)
        factors = 0 if encoding.factors is None else _address(encoding.factors)
        if not _held(x, encoding, mantissas) or not self._library.bfpga_encode(
            _address(x), factors, *x.shape, self._format(encoding.format), encoding.exponent is not None,
            encoding.remainder, _address(exponents), _address(mantissas), *_pitch(mantissas),
        ):  # fmt: skip
            return super().encode(x, encoding, mantissas)
        return exponents

    def place(self, mantissas: IntArray, source: Int32Array, rows: npt.NDArray[Any]) -> None:
        if rows.itemsize not in _MANTISSA_BYTES or rows.dtype != mantissas.dtype or source.dtype != np.int32:
            super().place(mantissas, source, rows)
            return
        pitch, size = _pitch(mantissas)
        self._library.bfpga_place(
            _address(mantissas), pitch, len(rows), _address(source), len(source), _address(rows), rows.strides[0], size
        )

    def checksum(self, stream: bytes | npt.NDArray[np.uint8], beat_bits: int) -> int:
        if beat_bits not in _BEAT_BITS or len(stream) * 8 % beat_bits:
            return super().checksum(stream, beat_bits)
        data = np.frombuffer(stream, np.uint8)
        words = beat_bits // FOLD_BITS
        return int(self._library.bfpga_checksum(_address(data), len(data) * 8 // beat_bits, words))

    def _format(self, fmt: BlockFormat) -> int:
        if fmt not in self._formats:
            self._formats[fmt] = format_record(fmt)
        return ctypes.addressof(self._formats[fmt])


def _held(x: FloatArray, encoding: Encoding, mantissas: IntArray) -> bool:
    """Whether the encoding is compiled for these values: float32 side by side."""
    fmt = encoding.format
    if encoding.parts > 1 or fmt.saturation == "wrap" or (encoding.remainder and fmt.rounding != "rne"):
        return False
    known = [x] if encoding.factors is None else [x, encoding.factors]
    plain = all(one.dtype == np.float32 and one.flags.c_contiguous for one in known)
    return plain and mantissas.itemsize in _MANTISSA_BYTES


def _pitch(mantissas: IntArray) -> tuple[int, int]:
    """Elements from sample to sample, and bytes of an element."""
    return mantissas.strides[0] // mantissas.itemsize, mantissas.itemsize


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _loaded(path: Path) -> ctypes.CDLL:
    found = library.opened(path)
    found.bfpga_encode.argtypes = [
        c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_int64, c_int32,
    ]  # fmt: skip
    found.bfpga_place.argtypes = [c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_int32]
    found.bfpga_place.restype = None
    found.bfpga_checksum.argtypes = [c_void_p, c_int64, c_int32]
    found.bfpga_checksum.restype = c_uint32
    return found


@functools.cache
def work_of(item: InstructionSet) -> StreamWork:
    """The work with a set of instructions; in numpy where it cannot be compiled."""
    try:
        return CompiledWork(library.build(item, SOURCE, FLAGS))
    except ToolError:
        return NUMPY_WORK


def stream_work() -> StreamWork:
    """The fastest work that this machine does; $BFPGA_NATIVE as for layers."""
    item = library.instruction_set(8)
    return NUMPY_WORK if item is None else work_of(item)
