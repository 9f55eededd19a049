"""Analyses that are kept: the front end of an IP is half of a synthesis, and a change of one IP leaves the others.

What is kept belongs to the sources that the IP includes, to the tools and to the code of this package. A file is a line
with the digest of the rest, then JSON; nothing is taken from one that differs from its digest or holds anything else
than the fields of an analysis.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from bfpga.formats.cache import check_private, make_private
from bfpga.formats.files import read_file, replace_file
from bfpga.scale.worker_side import source_digest
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.frontend.llvm import llvm_release

_LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class Analysis:
    """The loops of a kernel, or of one IP of it, and the flat LLVM IR in which they were found."""

    loops: list[LoopBody]
    flat: str


_FORMAT = TypeAdapter(Analysis)


def analysis_key(sources: Mapping[str, str], *others: str) -> str:
    """What an analysis belongs to. ``sources``: path -> text of all that is read; ``others``: what else it rests on."""
    tools = source_digest("bfpga.synthesis"), llvm_release()
    digest = hashlib.sha256("\0".join([*tools, *others]).encode())
    for path, text in sorted(sources.items()):
        digest.update(f"\0{path}\0{text}".encode())
    return digest.hexdigest()[:32]


def read_analysis(cache: Path, key: str) -> Analysis | None:
    """What was kept under a key; None if there is nothing or it is damaged. CacheError if others can write there."""
    check_private(cache)
    try:
        digest, _, kept = read_file(_path(cache, key), _LARGEST_FILE).partition(b"\n")
        if hashlib.sha256(kept).hexdigest().encode() != digest:
            return None
        return _FORMAT.validate_json(kept, strict=True)
    except (OSError, ValueError):
        return None


def write_analysis(cache: Path, key: str, analysis: Analysis) -> None:
    """Keep an analysis; a cache that cannot be written keeps nothing."""
    kept = _FORMAT.dump_json(analysis)
    try:
        make_private(cache)
        replace_file(_path(cache, key), hashlib.sha256(kept).hexdigest().encode() + b"\n" + kept)
    except OSError:
        return


def _path(cache: Path, key: str) -> Path:
    return cache / f"{key}.analysis"
