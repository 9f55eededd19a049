"""LpNormalization, vectors of length 1, in the process of rows (issue 37)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.devices.emulator import Emulator

#: A layer before, the rows, and a layer behind them, with mantissas of 8 bits.
CLOSE = 0.04


def unit_vectors(images: bool, p: int = 2) -> Network:
    network = Network(8, 3, 4) if images else Network(9, 8)
    if images:
        network.add("LpNormalization", network.conv(12, 8, 1), axis=1, p=p)
        network.conv(4, 12, 1)
    else:
        network.add("LpNormalization", network.add("MatMul", "x", network.weights(8, 12)), axis=-1, p=p)
        network.add("MatMul", network.last, network.weights(12, 4))
    return network


@pytest.mark.parametrize("images", [True, False])
def test_vectors_are_scaled_to_length_1_on_the_chip(images: bool, tmp_path: Path) -> None:
    """Of images, whose channels are vectors, and of rows."""
    network = unit_vectors(images)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert len(program.nodes) == 3
    assert largest_error(network, program) < CLOSE
    assert simulates_alike(program, network.samples(3))


def test_without_rows_or_with_sums_of_sizes_the_host_does(tmp_path: Path) -> None:
    for network, config in ((unit_vectors(True, p=1), KERNEL), (unit_vectors(True), replace(KERNEL, row_columns=0))):
        assert on_host(compiled(network, tmp_path, config)) == Counter({"LpNormalization": 1})


def test_vectors_of_length_0_stay_zero(tmp_path: Path) -> None:
    program = compiled(unit_vectors(False), tmp_path, KERNEL)
    found = Emulator(program).run({"x": np.zeros((1, 9, 8), np.float32)}).outputs
    assert all((value == 0).all() for value in found.values())
