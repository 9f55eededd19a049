"""Memories of UltraRAM in the code: what a synthesis counts of them, and that the loops keep their intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kept_synthesis import kept

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import load_accelerator

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.frontend.loops import OUTSIDE

TINY = load_accelerator("tiny")


def test_memories_of_ultra_ram_keep_the_intervals_of_their_loops() -> None:
    """A bank of activations a block; a word of weights side by side in as many blocks as its bits need."""
    config = replace(TINY.config, dsp="DSP48E2", ultra_ram=("activations", "weights"))
    accelerator = replace(TINY, board=load_board("zcu104"), config=config, clock_mhz=187.5)
    figures = synthesize(accelerator, count=False, cache=kept())
    loops = [loop for loop in figures.loops if loop.name != OUTSIDE]
    assert {loop.name: loop.interval for loop in loops if loop.interval > loop.stated_interval} == {}
    assert all(loop.slack >= 0 for loop in loops)
    words = -(-config.rows * config.lanes * config.weight_bits // 72)
    assert figures.memories.uram == config.banks + words
