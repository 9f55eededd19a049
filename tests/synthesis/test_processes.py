"""What a synthesis says of a kernel of processes, so that the documents do not say more."""

from __future__ import annotations

import pytest
from kept_synthesis import kept

from bfpga.accelerator.loader import load_accelerator

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.frontend.loops import OUTSIDE

TINY = "tiny"


def test_loops_of_processes_reach_their_intervals() -> None:
    figures = synthesize(load_accelerator(str(TINY)), count=False, cache=kept())
    loops = [loop for loop in figures.loops if loop.name != OUTSIDE]
    assert {"Sequencer", "Scratchpad", "Weights", "Array", "Rows", "Store"} <= {loop.name for loop in loops}
    assert {loop.name: loop.interval for loop in loops if loop.interval > loop.stated_interval} == {}
    assert all(loop.slack >= 0 for loop in loops)
    # A loop alone is the same: what the others do not read of it is left out of both.
    (alone,) = synthesize(load_accelerator(str(TINY)), "Weights", count=False, cache=kept()).loops
    assert alone == next(loop for loop in loops if loop.name == "Weights")
