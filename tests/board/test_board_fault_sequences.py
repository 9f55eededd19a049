"""A hundred random sequences of faults; `benchmarks/board/faults.py` plays a thousand and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pynq")

from fault_sequences import WAYS, Boards, Tally, play

pytestmark = pytest.mark.board

SEQUENCES = 100
PARTS = 10


def available_ways() -> dict[str, int]:
    """The ways that the installed PYNQ has."""
    try:
        import pynq.pl_server.remote_device  # noqa: F401
    except ImportError:
        return {way: weight for way, weight in WAYS.items() if way != "remote"}
    return WAYS


@pytest.fixture(scope="module")
def boards() -> Iterator[Boards]:
    with Boards(available_ways()) as opened:
        yield opened


@pytest.mark.parametrize("part", range(PARTS))
def test_random_faults_end_in_errors_and_never_in_wrong_answers(boards: Boards, part: int) -> None:
    tally = Tally()
    for seed in range(part * SEQUENCES // PARTS, (part + 1) * SEQUENCES // PARTS):
        play(seed, boards, tally)
    assert tally.sequences == SEQUENCES // PARTS
    assert tally.errors > 0
    assert tally.fired
