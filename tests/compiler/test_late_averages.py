"""Fully connected layers before the average that they read: the same function, fewer clocks of a skip array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Network

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.late_averages import LateAverages
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.program.cycles import program_cycles

SKIP, DENSE = load_accelerator("pynq_z2_zero_skip"), load_accelerator("pynq_z2_dense")


def classifier(view: str = "Flatten", layer: str = "Gemm", outputs: int = 5, side: int = 8) -> Network:
    network = Network(3, side, side)
    network.add("Relu", network.conv(32, 3, 3, pads=[1, 1, 1, 1]))
    network.add("GlobalAveragePool")
    if view == "Reshape":
        network.add("Reshape", network.last, network.constant(np.array([-1, 32], np.int64)))
    else:
        network.add("Flatten", axis=1)
    if layer == "Gemm":
        network.add("Gemm", network.last, network.weights(outputs, 32), network.weights(outputs), transB=1)
    else:
        network.add("MatMul", network.last, network.weights(32, outputs))
        network.add("Add", network.last, network.weights(outputs))
    return network


def kinds(network: Network, folder: Path, late: bool = True) -> list[str]:
    onnx.save(network.model(), folder / "n.onnx")
    graph = read_network(folder / "n.onnx").graph(separate_averages=True, late_averages=late)
    return [node.op_type for node in graph.model.graph.node]


def compiled_for(network: Network, folder: Path, accelerator: Accelerator = SKIP) -> Program:
    onnx.save(network.model(), folder / "n.onnx")
    return compile_network(folder / "n.onnx", accelerator, network.samples())


@pytest.mark.parametrize("view", ["Flatten", "Reshape"])
@pytest.mark.parametrize("layer", ["Gemm", "MatMul"])
def test_the_layer_comes_before_its_average(view: str, layer: str, tmp_path: Path) -> None:
    network = classifier(view, layer)
    assert kinds(network, tmp_path) == ["Conv", "Relu", "Conv", "AveragePool", "AveragePool", "Flatten"]
    samples = network.samples(3)
    given = FloatNetwork(tmp_path / "n.onnx").run(samples)[network.last]
    graph = read_network(tmp_path / "n.onnx").graph(separate_averages=True, late_averages=True)
    onnx.save(graph.model, tmp_path / "late.onnx")
    late = FloatNetwork(tmp_path / "late.onnx").run(samples)[network.last]
    np.testing.assert_allclose(late, given, rtol=1e-4, atol=1e-5)


def two_readers() -> Network:
    network = classifier()
    vector = network.nodes[-1].input[0]
    network.add("Concat", vector, network.last, axis=1)
    return network


def function_between() -> Network:
    network = Network(3, 8, 8)
    network.conv(32, 3, 1)
    network.add("GlobalAveragePool")
    network.add("Relu")
    network.add("Flatten", axis=1)
    network.add("Gemm", network.last, network.weights(5, 32), transB=1)
    return network


@pytest.mark.parametrize(
    "network",
    [classifier(outputs=9), classifier(side=4), two_readers(), function_between()],
    ids=["many outputs", "few pixels", "two readers", "function between"],
)
def test_other_averages_stay_before_their_readers(network: Network, tmp_path: Path) -> None:
    assert kinds(network, tmp_path) == kinds(network, tmp_path, late=False)


def test_a_skip_array_takes_fewer_clocks_and_other_arrays_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are near the float network's."""
    network = classifier()
    program = compiled_for(network, tmp_path)
    names = [node.name for node in program.nodes]
    assert names.index("Gemm_4") < names.index("GlobalAveragePool_2")
    dense = [node.name for node in compiled_for(network, tmp_path, DENSE).nodes]
    assert dense.index("Gemm_4") > dense.index("GlobalAveragePool_2")
    clocks = program_cycles(program).sample.compute
    monkeypatch.setattr(LateAverages, "changed", lambda self: self.model)
    assert clocks < program_cycles(compiled_for(network, tmp_path)).sample.compute - 100
    samples = network.samples(4)
    wanted = Emulator(program).run(samples)
    exact = FloatNetwork(tmp_path / "n.onnx").run(samples)[network.last]
    error = np.abs(wanted.outputs[network.last] - exact).max()
    assert error < 0.03 * np.abs(exact).max()
