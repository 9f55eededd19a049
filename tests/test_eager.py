"""Operations called one by one: numpy's results, up to the format's rounding (FP 4.1)."""

from __future__ import annotations

import numpy as np

import bfpga


def test_product_bias_and_function_are_those_of_numpy() -> None:
    """FP R3: a fully connected layer, its result within the rounding of its operands and its own."""
    generator = np.random.default_rng(0)
    x, w, b = generator.normal(size=(9, 20)), generator.normal(size=(20, 11)), generator.normal(size=11)
    expected = np.maximum(x @ w + b, 0)
    with bfpga.eager("tiny", "emulator") as run:
        found = np.asarray((run.array(x) @ w + b).relu())
        fused = np.asarray(run.linear(x, w, b, function="relu"))
    assert np.abs(found - expected).max() < expected.max() / 40
    assert np.abs(fused - expected).max() < expected.max() / 40
