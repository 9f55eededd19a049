"""Arrays in zip archives (NPZ), read within bounds: nothing is unpickled, and a small file cannot fill the memory.

What a file says of itself decides how much is read, so the size that an array would have is judged before its data.
"""

from __future__ import annotations

import lzma
import os
import resource
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bfpga.formats.files import regular_file

#: What a truncated, damaged or foreign archive makes the libraries below raise.
UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    SyntaxError,
    OverflowError,
    RecursionError,
    RuntimeError,
    NotImplementedError,
    MemoryError,
    TypeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
)
#: What looks at the shape and the type that an array states.
Judge = Callable[[tuple[int, ...], np.dtype[Any]], None]
#: Arrays have no more axes than numpy's.
MOST_AXES = 32


class OversizeError(ValueError):
    """An archive that holds more than this machine should read; the message says how much."""


def memory_limit() -> int:
    """Bytes that one file may take: half of this machine's memory, or of what this process may have (`ulimit -v`)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    return (memory if allowed == resource.RLIM_INFINITY else min(memory, allowed)) // 2


def sample_limit() -> int:
    """Bytes that an array may take which becomes float32: those of narrow types need several times their own."""
    return memory_limit() // 4


@contextmanager
def opened(path: Path, limit: int | None = None) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose members together stay below ``limit`` bytes; None: each is judged as it is read.

    Raises one of ``UNREADABLE`` for what is no such archive, OversizeError for a larger one.
    """
    reason = regular_file(path)
    if reason:
        raise OSError(reason)
    with zipfile.ZipFile(path) as archive:
        check_size(sum(item.file_size for item in archive.infolist()) if limit is not None else 0, limit)
        yield archive


def check_size(size: int, limit: int | None) -> None:
    """OversizeError if ``size`` bytes are more than ``limit``, or than half of the memory without a limit."""
    most = memory_limit() if limit is None else limit
    if size > most:
        raise OversizeError(f"it holds {size:,} bytes once unpacked; {most:,} are possible on this machine")


def read_member(archive: zipfile.ZipFile, name: str, limit: int | None = None) -> bytes:
    """The bytes of a member, however large it says it is: never more than ``limit`` are unpacked."""
    most = memory_limit() if limit is None else limit
    with archive.open(name) as stream:
        data = stream.read(most + 1)
    check_size(len(data), most)
    return data


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an NPZ file by name; one of ``UNREADABLE`` for any other file."""
    arrays = {}
    with opened(path, memory_limit()) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                arrays[name.removesuffix(".npy")] = read_array(stream)
    return arrays


def read_array(
    stream: IO[bytes],
    count: int | None = None,
    limit: int | None = None,
    judge: Judge | None = None,
) -> npt.NDArray[Any]:
    """An array of the `npy` format; count: only its first items along axis 0.

    judge: gets shape and type of all items before any is read, and raises what it finds wrong.

    Raises one of ``UNREADABLE`` for a damaged one and for objects, OversizeError for one beyond ``limit`` bytes (half
    of the memory for None).
    """
    shape, fortran, dtype = _header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded (allow_pickle)")
    if len(shape) > MOST_AXES or any(not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError(f"its header states the shape {shape}")
    if judge is not None:
        judge(shape, dtype)
    if count is not None and shape and not fortran:
        shape = (min(shape[0], max(count, 0)), *shape[1:])
    size = prod(shape) * dtype.itemsize
    check_size(size, limit)
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"it ends after {len(data):,} of {size:,} bytes")
    values = np.frombuffer(data, dtype, prod(shape)).copy() if size else np.zeros(prod(shape), dtype)
    result = values.reshape(shape, order="F" if fortran else "C")
    return result[:count] if count is not None and result.ndim else result


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order of the axes (true: columns first) and type that a header states."""
    library: Any = np.lib.format
    version = library.read_magic(stream)
    readers = {(1, 0): library.read_array_header_1_0, (2, 0): library.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the array format is unknown")
    shape, fortran, dtype = readers[version](stream)
    return shape, fortran, dtype
