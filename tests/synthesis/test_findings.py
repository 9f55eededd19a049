"""What a synthesis finds in a kernel of one loop, which engines beside an array need."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.estimate.hardware import HardwareFigures, LoopFigures, findings
from bfpga.synthesis.driver import synthesize

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")


ACCELERATOR = load_accelerator(Path(__file__).parents[1] / "data" / "tiny_loop.yaml")


@functools.cache
def figures() -> HardwareFigures:
    return synthesize(ACCELERATOR, count=False)


def loop(name: str) -> LoopFigures:
    return next(loop for loop in figures().loops if loop.name == name)


def test_the_array_loop_is_far_from_interval_1_because_it_writes_banks_before_it_reads_them() -> None:
    array = loop("Array")
    assert array.stated_interval == 1
    assert array.interval >= 10
    worst = max(array.limits, key=lambda limit: limit.interval)
    assert worst.reason == "recurrence"
    assert worst.subject.startswith("activations_")
    assert any("activation_memory.hpp" in line for line in worst.lines)
    assert any("write_back.hpp" in line or "output_stage.hpp" in line for line in worst.lines)


def test_a_step_of_the_walk_is_longer_than_a_clock() -> None:
    (limit, *_) = loop("Columns_Place").limits
    assert any("address.hpp" in line for line in limit.lines)
    assert 8.0 < limit.delay < 12.0


def test_loading_weights_is_at_its_interval() -> None:
    assert loop("Rows_Load").interval == 1


def test_the_gate_names_the_loop_and_the_lines() -> None:
    (found,) = [text for text in findings(figures(), ACCELERATOR.board.resources) if text.startswith("Array ")]
    assert "stated 1" in found
    assert "activation_memory.hpp" in found
