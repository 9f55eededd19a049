"""Averages over many pixels in two steps: the same means, fewer clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_networks import Network, compiled, largest_error

from bfpga.compiler.read.network import read_network
from bfpga.compiler.read.separable_averages import SUFFIX
from bfpga.program.cycles import program_cycles


def pooled(kind: str, **attributes: object) -> Network:
    network = Network(6, 12, 9)
    network.conv(8, 6, 1)
    network.add(kind, **attributes)
    network.conv(4, 8, 1)
    return network


def average_names(network: Network, folder: Path) -> list[str]:
    import onnx

    onnx.save(network.model(), folder / "n.onnx")
    graph = read_network(folder / "n.onnx").graph(separate_averages=True)
    return [node.name for node in graph.model.graph.node if "Average" in node.op_type]


SEPARATED = [
    ("GlobalAveragePool", {}),
    ("AveragePool", {"kernel_shape": [12, 9]}),
    ("AveragePool", {"kernel_shape": [6, 8], "strides": [6, 8]}),
]
WHOLE = [
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [3, 3]}),  # few taps
    ("AveragePool", {"kernel_shape": [6, 8]}),  # windows that overlap
    ("AveragePool", {"kernel_shape": [6, 8], "strides": [6, 8], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [12, 1]}),
]


@pytest.mark.parametrize(("kind", "attributes"), SEPARATED)
def test_a_large_average_becomes_two(kind: str, attributes: dict[str, object], tmp_path: Path) -> None:
    network = pooled(kind, **attributes)
    first, second = average_names(network, tmp_path)
    assert first == second + SUFFIX
    assert largest_error(network, compiled(network, tmp_path)) < 1e-3


@pytest.mark.parametrize(("kind", "attributes"), WHOLE)
def test_other_averages_stay_whole(kind: str, attributes: dict[str, object], tmp_path: Path) -> None:
    assert len(average_names(pooled(kind, **attributes), tmp_path)) == 1


def test_two_steps_take_fewer_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = pooled("GlobalAveragePool")
    apart = program_cycles(compiled(network, tmp_path)).sample.compute
    monkeypatch.setattr("bfpga.compiler.read.separable_averages.LEAST_TAPS", 1 << 20)
    whole = program_cycles(compiled(network, tmp_path)).sample.compute
    assert apart < whole
