"""Random sequences of faults; `benchmarks/board/faults.py` plays a thousand and more."""

from __future__ import annotations

import pytest

pytest.importorskip("pynq")

from effort import drawn
from fault_sequences import WAYS, Boards, Tally, play

pytestmark = pytest.mark.board

SEQUENCES = drawn(120)


def available_ways() -> dict[str, int]:
    """The ways that the installed PYNQ has."""
    try:
        import pynq.pl_server.remote_device  # noqa: F401
    except ImportError:
        return {way: weight for way, weight in WAYS.items() if way != "remote"}
    return WAYS


def test_random_faults_end_in_errors_and_never_in_wrong_answers() -> None:
    tally = Tally()
    with Boards(available_ways()) as boards:
        for seed in range(SEQUENCES):
            play(seed, boards, tally)
        assert boards.opened == set(available_ways())
    assert tally.sequences == SEQUENCES
    assert tally.errors > SEQUENCES / 4
    assert len(tally.fired) >= 8
