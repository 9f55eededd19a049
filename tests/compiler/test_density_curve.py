"""The curves of speed by density: layers whose zeros are where they may pay, a table and a picture of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
#: A small layer, so that a test takes no time.
SIZES = ("3x3, 32, 8x8", 32, 32, 8, 3)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.compiler import density_curve

    return density_curve


def test_zeros_are_as_many_as_stated_and_nothing_else_rounds_to_zero(module: Any) -> None:
    layer = module.CurveLayer(*SIZES)
    for density in (1.0, 0.3, 0.05):
        for values in (layer.weights(density), layer.samples(density)):
            assert np.count_nonzero(values) == round(density * values.size)
            assert np.abs(values[values != 0]).min() >= 0.25
    assert layer.samples(0.5).min() == 0


def test_zeros_pay_on_skip_arrays_and_not_on_the_dense_one(module: Any) -> None:
    layer = module.CurveLayer(*SIZES)
    found = module.curves([layer], "pynq_z2_dense", ["pynq_z2_dense", *module.ACCELERATORS], [100, 30])
    dense, *skipping = found
    assert dense.relative == {100: 1.0, 30: 1.0}
    assert {curve.accelerator: curve.zeros for curve in skipping} == {
        "pynq_z2_zero_skip": "weights", "pynq_z2_sparse": "activations",
    }  # fmt: skip
    for curve in skipping:
        assert curve.relative[30] < 0.7 < 0.9 < curve.relative[100] < 1.3
        assert f"| {layer.name} | {curve.dense:,.0f} |" in module.markdown([curve], "pynq_z2_dense")


def test_clocks_are_those_of_the_layer_alone(module: Any) -> None:
    """Work of its passes and little more: neither tensors nor the begin of a start."""
    layer, accelerator = module.CurveLayer(*SIZES), module.load_accelerator("pynq_z2_dense")
    config = accelerator.config
    groups, blocks, steps = -(-64 // config.columns), -(-32 // config.rows), 9 * 32 // config.lanes
    work = groups * blocks * steps
    assert work <= module.layer_clocks(accelerator, layer, 1.0) <= work + 40
