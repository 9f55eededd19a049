"""What a synthesis says of a kernel of processes, so that the documents do not say more."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_synthesis import kept

from bfpga.accelerator.loader import load_accelerator

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.kept import kept_figures

TINY = load_accelerator("tiny")


def test_loops_of_processes_are_those_of_the_package(tmp_path: Path) -> None:
    """Which the gate judges (test_gate.py). A loop alone is the same: what others do not read of it is left out."""
    figures = kept_figures(TINY, tmp_path)
    assert figures is not None
    loops = {loop.name: loop for loop in figures.loops if loop.name != OUTSIDE}
    assert {"Sequencer", "Scratchpad", "Weights", "Array", "Rows", "Store"} <= set(loops)
    (alone,) = synthesize(TINY, "Weights", cache=kept()).loops
    assert alone == loops["Weights"]
