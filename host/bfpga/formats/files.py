"""Files that commands write and read: they appear complete or not at all, never in the place of an input, and what is
no regular file is not read."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from bfpga.errors import ConfigurationError

#: What a write to a full disk, or beyond a user's share of it, fails with.
FULL = (errno.ENOSPC, errno.EDQUOT)


def printable(text: str, keep: str = "") -> str:
    """``text`` with escapes for characters that would steer a terminal or cannot be shown; ``keep``: let through."""
    return "".join(char if char.isprintable() or char in keep else _escape(char) for char in text)


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def first_line(error: Exception) -> str:
    """What a library said, in one line that a terminal can show."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(lines[0]) if lines else type(error).__name__


def regular_file(path: Path) -> str:
    """Why a path is no file that can be read from begin to end; empty if it is one."""
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a name with a null character
        return str(error)
    except OSError as error:
        return "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
    if stat.S_ISDIR(mode):
        return "is a directory"
    return "" if stat.S_ISREG(mode) else "is no regular file (a pipe or a device)"


def check_regular(path: Path) -> None:
    """OSError with the reason unless a path is a file that can be read from begin to end."""
    path.stat()  # its error for what is not there
    reason = regular_file(path)
    if reason:
        raise OSError(errno.EINVAL, reason, str(path))


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of at most ``limit``; OSError with the reason for everything else."""
    check_regular(path)
    with path.open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit:,} bytes, the most such a file has", str(path))
    return data


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name in its directory, then rename it; OSError as ``write_error`` words it."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise write_error(error, path, len(content)) from None


def write_directory(directory: Path, files: Mapping[str, bytes], what: str) -> Path:
    """Write a new directory that appears complete or not at all. files: path in it -> content; what: it is, in words.

    ConfigurationError if the directory exists and is not empty; OSError as ``write_error`` words it.
    """
    check_new_directory(directory, what)
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for path, content in files.items():
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        temporary.chmod(0o755)
        os.replace(temporary, directory)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_error(error, directory, sum(map(len, files.values()))) from None
        raise
    return directory


def check_new_directory(directory: Path, what: str) -> None:
    """Refuse a directory that exists and is not empty, before work is spent on it: ConfigurationError."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(f"{directory} exists and is not empty; give a new directory for {what}")


def write_error(error: OSError, path: Path, needed: int) -> OSError:
    """The error of a write with the name of the file and, on a full disk, with the bytes that were needed."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        free = shutil.disk_usage(path.parent).free
        reason = f"the disk is full: {needed:,} bytes are needed, {free:,} are free; nothing was written"
    return OSError(error.errno or errno.EIO, reason, str(path))


def same_file(first: Path, second: Path) -> bool:
    """Whether two paths lead to one existing file, by whatever spelling or link."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def refuse_input(output: Path | None, inputs: Iterable[Path]) -> None:
    """OSError if a file that shall be written is one of those that are read."""
    if output is None:
        return
    for path in inputs:
        if same_file(output, path):
            same = "" if os.fspath(path) == os.fspath(output) else f" ({path})"
            raise OSError(errno.EEXIST, f"is an input of this command{same}; give another file to write", str(output))


def check_target(path: Path | None) -> None:
    """Refuse a file that cannot be written, before work is spent on it."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory; give a file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file, which a result could replace; give a file", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the directory does not exist", str(path.parent))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "the directory cannot be written", str(path.parent))
