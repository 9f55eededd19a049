"""How much tests try: all of it with --all, else what every value of a parameter needs; and with how many threads."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

#: Set by tests/conftest.py before any test is imported.
ALL = "BFPGA_TEST_ALL"
#: A thread each for what tests compute, here and in processes that they start: there are workers for all cores, and
#: idle threads of numpy's BLAS spin. Read when numpy is loaded, which this module, imported first, precedes.
for _variable in ("BFPGA_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


def drawn(count: int) -> int:
    """How many random cases a test draws: ``count`` with --all, else a sixth, but a third of those up to 12."""
    return count if os.environ.get(ALL) else max(-(-count // 6), min(-(-count // 3), 4))


def some_of(values: Iterable[Any], *kept: Any) -> list[Any]:
    """All values of one parameter, for `pytest.mark.parametrize`; without --all those that are ``kept``."""
    every = list(values)
    assert all(value in every for value in kept), kept
    return [pytest.param(value, marks=() if value in kept else pytest.mark.slow) for value in every]


def each_once(*values: Sequence[Any]) -> list[Any]:
    """All combinations, for `pytest.mark.parametrize`; without --all as many as meet each value once at least."""
    number = max(map(len, values))
    needed = [[n % len(each) for each in values] for n in range(number)]
    places = itertools.product(*(range(len(each)) for each in values))
    return [
        pytest.param(*(each[at] for each, at in zip(values, place, strict=True)),
                     marks=() if list(place) in needed else pytest.mark.slow)
        for place in places
    ]  # fmt: skip
