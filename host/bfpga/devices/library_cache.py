"""Compiled libraries that are kept: each with a record of its size and SHA-256, compared before it is loaded.

A truncated library ends the process that maps it (SIGBUS) and no error can be caught, so what differs from its record
is compiled again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from bfpga.errors import ToolError
from bfpga.formats.cache import check_private, make_private, not_private
from bfpga.formats.files import FULL

#: Ending of the record's name. The file is the lock of the library too: a writer of either holds it.
RECORD = ".sha256"


def cached_library(path: Path, make: Callable[[Path, Path], None]) -> Path:
    """``path``, whole as it was built; made first if it is missing or damaged.

    make: builds the library; gets its path and a directory for other files, which is removed. Of several processes one
    builds and the others wait. ToolError if the directory cannot be written, CacheError if others own or can write it.
    """
    check_private(path.parent)
    if is_whole(path):
        return path
    try:
        make_private(path.parent)
        with path.with_suffix(RECORD).open("a+") as record:
            fcntl.flock(record, fcntl.LOCK_EX)
            if not is_whole(path):
                record.truncate(0)  # an interruption leaves a library without a record, which is built again
                record.write(_built(path, make))
    except OSError as error:
        raise ToolError(_unwritable(path, error)) from None
    return path


def is_whole(path: Path) -> bool:
    """Whether a library is the one of its record, to the last byte, and no other user could have written it."""
    try:
        return not not_private(path) and path.with_suffix(RECORD).read_text() == _record(path)
    except (OSError, ValueError):
        return False


def _built(path: Path, make: Callable[[Path, Path], None]) -> str:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as directory:
        built = Path(directory) / path.name
        make(built, Path(directory))
        text = _record(built)
        built.chmod(0o700)  # whatever the compiler and the user's umask let others do
        os.replace(built, path)
    return text


def _record(path: Path) -> str:
    data = path.read_bytes()
    return f"{hashlib.sha256(data).hexdigest()} {len(data)}\n"


def _unwritable(path: Path, error: OSError) -> str:
    full = "the disk is full: a kernel needs about 10 MB while it is compiled" if error.errno in FULL else ""
    reason = full or error.strerror or str(error)
    return (
        f"{error.filename or path}: the cache of compiled kernels cannot be written: {reason}; "
        "set BFPGA_CACHE to a directory that can be written"
    )
