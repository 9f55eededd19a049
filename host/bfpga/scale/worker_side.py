"""What runs on a worker: a part of a piece of work, on a state that was made once.

Loading it needs no Dask, so that workers and the process that sends them parts may load it first.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import threading
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from bfpga.errors import ScaleError
from bfpga.scale.threads import THREADS_VARIABLE
from bfpga.scale.work import Work, release

#: Files whose content decides what is computed.
SOURCES = ("*.py", "*.hpp", "*.cpp", "*.j2", "*.h")

#: One part at a time: emulators, boards and the active device of PYNQ belong to a process.
_turn = threading.Lock()
#: The state at hand, under the digest of what it was made of.
_states: dict[str, Any] = {}


def run_part(
    work: Work[Any, Any, Any], part: Any, shared: Mapping[str, bytes], key: str, source: str | None, threads: int
) -> Any:
    """The result of one part.

    shared: pickled, by name; key: their digest. source: digest of the sender's source; None on the same machine.
    threads: of this worker, unless the environment states them. ScaleError if this is another version of bfpga.
    """
    if source is not None and source != source_digest():
        raise ScaleError(
            "a worker runs another version of bfpga, whose results may differ; install the same one on all machines"
        )
    os.environ.setdefault(THREADS_VARIABLE, str(threads))
    with _turn:
        return work.compute(_state(work, shared, key), part)


def _state(work: Work[Any, Any, Any], shared: Mapping[str, bytes], key: str) -> Any:
    if key not in _states:
        for old in list(_states):
            release(_states.pop(old))
        _states[key] = work.prepare(**{name: pickle.loads(content) for name, content in shared.items()})
    return _states[key]


@functools.cache
def source_digest(*packages: str) -> str:
    """Digest of all source files of this installation that decide on results, or of those in some of its packages."""
    digest = hashlib.sha256()
    for package in packages or ("bfpga", "vitis_hls_templates"):
        root = Path(str(files(package)))
        for path in sorted(path for pattern in SOURCES for path in root.rglob(pattern)):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
