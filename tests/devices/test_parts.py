"""Runs in parts as one: what a layer tells of its samples stays in their order."""

from __future__ import annotations

from bfpga.devices.base import LayerResult
from bfpga.devices.parts import joined_layers


def test_the_way_that_each_sample_took_is_kept() -> None:
    """Cores, boards and long batches run in parts; found by random networks on boards with several cores."""
    first = [LayerResult("a", "array", choices=(True, False)), LayerResult("b", "array")]
    second = [LayerResult("a", "array", choices=(False,)), LayerResult("b", "array")]
    a, b = joined_layers([first, second])
    assert a.choices == (True, False, False)
    assert b.choices is None
