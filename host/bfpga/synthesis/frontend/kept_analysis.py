"""Analyses that are kept: the front end of an IP is half of a synthesis, and a change of one IP leaves the others.

What is kept belongs to the sources that the IP includes, to the tools and to the code of this package. A digest of it
stands before it, and nothing is taken from a file that differs from that.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfpga.formats.files import read_file, replace_file
from bfpga.scale.worker_side import source_digest
from bfpga.synthesis.frontend.llvm import llvm_release

_LARGEST_FILE = 1 << 29
_DIGEST = hashlib.sha256().digest_size


def analysis_key(sources: Mapping[str, str], *others: str) -> str:
    """What an analysis belongs to. ``sources``: path -> text of all that is read; ``others``: what else it rests on."""
    tools = source_digest("bfpga.synthesis"), llvm_release()
    digest = hashlib.sha256("\0".join([*tools, *others]).encode())
    for path, text in sorted(sources.items()):
        digest.update(f"\0{path}\0{text}".encode())
    return digest.hexdigest()[:32]


def read_analysis(cache: Path, key: str) -> Any:
    """What was kept under a key; None if there is nothing or it is damaged."""
    try:
        content = read_file(_path(cache, key), _LARGEST_FILE)
    except OSError:
        return None
    digest, kept = content[:_DIGEST], content[_DIGEST:]
    return pickle.loads(kept) if hashlib.sha256(kept).digest() == digest else None


def write_analysis(cache: Path, key: str, analysis: object) -> None:
    """Keep an analysis; a cache that cannot be written keeps nothing."""
    kept = pickle.dumps(analysis, pickle.HIGHEST_PROTOCOL)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        replace_file(_path(cache, key), hashlib.sha256(kept).digest() + kept)
    except OSError:
        return


def _path(cache: Path, key: str) -> Path:
    return cache / f"{key}.analysis"
