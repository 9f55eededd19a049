"""Where analyses and netlists of tests are kept, as those of users are: by the content of what they are made from."""

from __future__ import annotations

from pathlib import Path

from bfpga.formats.cache import cache_directory


def kept() -> Path:
    """The directory that `bfpga synthesize` keeps them in; another one with $BFPGA_CACHE."""
    return cache_directory("synthesis", "netlists")
