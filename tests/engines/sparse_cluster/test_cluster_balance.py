"""When the compiler has strips of the sparse cluster balanced: where it pays on the calibration samples (SC R22)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Network

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers

CONFIG = SystolicConfig(
    columns=9, rows=4, lanes=2, activation_words=4096,
    beside=(ClusterNumbers(2, 2, kernel=3, kernels_in_flight=4, load_pixels=4),),
)  # fmt: skip
SIDE = 24


def program(folder: Path, x: np.ndarray | None) -> Program:
    """A 3 x 3 convolution on the cluster, calibrated on x (samples, 2, rows, columns)."""
    network = Network(2, SIDE, SIDE)
    network.conv(4, 2, 3, pads=[1, 1, 1, 1])
    path = folder / "network.onnx"
    onnx.save(network.model(), path)
    samples = None if x is None else {"x": x}
    return compile_network(path, accelerator_around(CONFIG), samples, CompileOptions(engine="sparse_cluster"))


def count_steps(program: Program) -> list[int]:
    operations = [item for step in program.steps if isinstance(step, LaunchStep) for item in step.operations]
    return [item.descriptor.count_step for item in operations if item.descriptor.operation == Operation.SPARSE]


def corner(samples: int = 3) -> np.ndarray:
    """All values lie in one corner."""
    x = np.zeros((samples, 2, SIDE, SIDE), np.float32)
    x[:, :, : SIDE // 3, : SIDE // 3] = np.random.default_rng(1).uniform(0.5, 1, (samples, 2, SIDE // 3, SIDE // 3))
    return x


def everywhere(samples: int = 3) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.5, 1, (samples, 2, SIDE, SIDE)).astype(np.float32)


@pytest.mark.parametrize(("x", "balanced"), [(corner(), True), (everywhere(), False)])
def test_strips_are_balanced_where_that_takes_fewer_clocks(tmp_path: Path, x: np.ndarray, balanced: bool) -> None:
    """SC R22: on samples in one corner, not on samples without a zero; the other way would take longer."""
    chosen = program(tmp_path, x)
    assert count_steps(chosen) == [1 if balanced else 0] * len(count_steps(chosen))
    clocks = Emulator(chosen).run({"x": x}).cycles
    for step in chosen.steps:
        for operation in step.operations if isinstance(step, LaunchStep) else ():
            if operation.descriptor.operation == Operation.SPARSE:
                operation.descriptor = replace(operation.descriptor, count_step=0 if balanced else 1)
    assert Emulator(chosen).run({"x": x}).cycles > clocks


def test_strips_are_balanced_if_nothing_is_known_of_their_input(tmp_path: Path) -> None:
    """SC R22."""
    assert set(count_steps(program(tmp_path, None))) == {1}
