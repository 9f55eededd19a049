"""Averages on arrays of shift units: 1/count is rounded, and the factor that this makes goes to a neighbour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shift_arrays import MIXED, SHIFT
from small_networks import Network, compiled, float_outputs, nodes_of

from bfpga.compiler.numbers.averages import fold_averages
from bfpga.compiler.numbers.weight_formats import format_figures
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.partition import lower_fitting
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import HostNode
from bfpga.devices.emulator import Emulator
from bfpga.formats.block_format import BlockFormat


def pooled(*after: str, kernel: int = 7) -> Network:
    """A convolution, the mean of 7 x 7 values (two-hot weights are 4 % off), and perhaps a reader."""
    network = Network(6, kernel, kernel)
    network.add("Relu", network.conv(8, 6, 1))
    network.add("GlobalAveragePool")
    if "conv" in after:
        network.conv(5, 8, 1)
    return network


@pytest.mark.parametrize("after", [(), ("conv",)], ids=["into the layer before", "into the reader"])
def test_what_an_average_loses_moves_into_a_neighbour(after: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "pooled.onnx"
    path.write_bytes(pooled(*after).model().SerializeToString())
    graph, options = read_network(path).graph(), CompileOptions()
    before = [np.array(layer.weights) for layer in lower_fitting(graph, SHIFT, True, options).layers]
    lowered = lower_fitting(graph, SHIFT, True, options)
    factors = fold_averages(lowered, graph.outputs, SHIFT, options)
    neighbour, average = (lowered.layers[2 if after else 0], lowered.layers[1])
    assert average.uniform_weights
    assert format_figures(average, SHIFT, "mse")[0].weight_snr_db == 200
    lost = np.asarray(average.weights)[0, 0, 0, 0] / before[1][0, 0, 0, 0]
    assert abs(lost - 1) > 0.02
    np.testing.assert_allclose(np.asarray(neighbour.weights) * lost, before[2 if after else 0], rtol=1e-12)
    name = average.output if after else average.inputs[0]
    np.testing.assert_allclose(factors[name], lost if after else 1 / lost)


@pytest.mark.parametrize("after", [(), ("conv",)], ids=["into the layer before", "into the reader"])
@pytest.mark.parametrize("calibrate", [True, False])
def test_averages_keep_their_value(after: tuple[str, ...], calibrate: bool, tmp_path: Path) -> None:
    """The outputs grow with the float ones one by one: no factor is left."""
    network = pooled(*after)
    config = replace(SHIFT, format=BlockFormat(mantissa_bits=12))
    program = compiled(network, tmp_path, config, calibrate=calibrate)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    samples = network.samples(16)
    found = next(iter(Emulator(program).run(samples).outputs.values())).ravel()
    expected = float_outputs(network, samples)[0].ravel()
    assert float(found @ expected / (expected @ expected)) == pytest.approx(1, abs=0.015)


def test_an_average_that_nobody_can_make_good_stays_on_the_host(tmp_path: Path) -> None:
    network = Network(4, 7, 7)
    network.add("GlobalAveragePool")
    program = compiled(network, tmp_path, SHIFT)
    assert any("a mean of 49 values is 4.3 % off" in note for note in program.notes)
    assert all(isinstance(node, HostNode) for node in program.nodes)
    mixed = compiled(network, tmp_path, MIXED)
    assert {node.weight_format for node in nodes_of(mixed)} == {"linear"}


def test_an_average_of_a_power_of_two_is_left_alone(tmp_path: Path) -> None:
    network = Network(4, 8, 8)
    network.add("GlobalAveragePool")
    program = compiled(network, tmp_path, SHIFT)
    assert [node.weight_choices[0].weight_snr_db for node in nodes_of(program)] == [200]
