"""The user's cache: what can be made again. Compiled kernels in it are run, so no other user may write there.

All rooms take their directories from here. Root counts as the user: whoever is root can do anything in any case.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bfpga.errors import CacheError

#: A directory of the cache when it is made.
_OWN = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_directory(*names: str) -> Path:
    """Where what can be made again is kept: $BFPGA_CACHE, else $XDG_CACHE_HOME/bfpga, else ~/.cache/bfpga.

    names: a directory in it. It need not be there; CacheError if it, or one above it in the cache, is not private.
    """
    own, common = os.environ.get("BFPGA_CACHE"), Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification: a relative path is ignored.
    place = Path(own) if own else (common if common.is_absolute() else Path.home() / ".cache") / "bfpga"
    check_private(place)
    for name in names:
        place = place / name
        check_private(place)
    return place


def make_private(directory: Path) -> None:
    """Make a directory, and what is missing above it, for this user alone.

    CacheError for one that others own or can write, OSError if it cannot be made.
    """
    if not directory.is_dir():
        if directory.parent != directory:
            _make_missing(directory.parent)
        directory.mkdir(_OWN, exist_ok=True)
    check_private(directory)


def _make_missing(directory: Path) -> None:
    if not directory.exists():
        _make_missing(directory.parent)
        directory.mkdir(_OWN, exist_ok=True)


def check_private(path: Path) -> None:
    """CacheError if others own or can write a file or directory; nothing for one that is not there."""
    reason = not_private(path)
    if reason:
        raise CacheError(
            f"{path}: {reason}, so its content is not used: compiled code of the cache is run. Remove it (all in "
            "the cache is made again), or set BFPGA_CACHE to a directory that only you can write"
        )


def not_private(path: Path) -> str:
    """Why a file or directory is not this user's alone; empty if it is, or is not there."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return f"another user (number {found.st_uid}) owns it"
    if found.st_mode & _OTHERS_WRITE:
        return f"other users can write it (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
