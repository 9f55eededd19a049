"""How many threads one process computes with: as many as there are cores, or its share of them."""

from __future__ import annotations

import os

from bfpga.errors import ConfigurationError

#: The environment variable that states them.
THREADS_VARIABLE = "BFPGA_THREADS"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stated_threads() -> int | None:
    """$BFPGA_THREADS, None without. ConfigurationError unless above 0."""
    text = os.environ.get(THREADS_VARIABLE, "")
    return _number(text) if text else None


def thread_count(threads: int | None = None) -> int:
    """Threads that share samples: as given, $BFPGA_THREADS, or one a core. ConfigurationError unless above 0."""
    return (stated_threads() or cores()) if threads is None else _number(str(threads))


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{THREADS_VARIABLE}: {text!r} is no number of threads, 1 or more")
    return int(text)
