"""Clocks of a ResNet-8 with 80 % zeros on the ready skip arrays, beside those of the dense array (issue 16)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from small_networks import Network

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli.work import compile_for_estimate
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.program.cycles import program_cycles
from bfpga.pruning.layers import Balanced, Group, prunable_layers

#: Shares of zeros that `bfpga prune --sparsity 0.8` chose for the layers of a trained ResNet-8, in the network's order.
SHARES = (0.5, 0.7, 0.6, 0.5, 0.7, 0.7, 0.8, 0.8, 0.873, 0.25)
SAMPLES = 16


def residual() -> Network:
    """The layers of MLPerf Tiny's ResNet-8: 3 x 32 x 32 pixels, 16, 32 and 64 channels, 10 classes."""
    same, halved = {"pads": [1, 1, 1, 1]}, {"strides": [2, 2]}
    network = Network(3, 32, 32)
    value = network.add("Relu", network.conv(16, 3, 3, **same))
    inner = network.add("Relu", network.conv(16, 16, 3, source=value, **same))
    value = network.add("Relu", network.add("Add", value, network.conv(16, 16, 3, source=inner, **same)))
    for channels in (32, 64):
        beside = network.conv(channels, channels // 2, 1, source=value, **halved)
        inner = network.conv(channels, channels // 2, 3, source=value, pads=[0, 0, 1, 1], **halved)
        inner = network.conv(channels, channels, 3, source=network.add("Relu", inner), **same)
        value = network.add("Relu", network.add("Add", beside, inner))
    network.add("Flatten", network.add("AveragePool", value, kernel_shape=[8, 8], strides=[8, 8]), axis=1)
    network.add("Gemm", network.last, network.weights(10, 64), network.weights(10), transB=1)
    return network


def pruned(folder: Path, group: Group | None) -> Path:
    """The network with these shares of zeros, the smallest weights of each layer, which are random."""
    path, model = folder / "n.onnx", residual().model()
    onnx.save(model, path)
    layers = prunable_layers(read_network(path).graph())
    assert len(layers) == len(SHARES)
    stored = {item.name: item for item in model.graph.initializer}
    for layer, share in zip(layers, SHARES, strict=True):
        values = layer.weights * layer.kept(layer.weights, share, group)
        stored[layer.constant].CopyFrom(numpy_helper.from_array(values.astype(np.float32), layer.constant))
    onnx.save(model, path)
    return path


def clocks(name: str, path: Path) -> float:
    """Of a sample among several, by the schedule; residual additions are layers, as skip arrays compute them."""
    accelerator = load_accelerator(name)
    layers = replace(accelerator, config=replace(accelerator.config, residual_adds=False))
    program = compile_for_estimate(layers, read_network(path), None, CompileOptions())
    found = program_cycles(program).scheduled(SAMPLES)
    assert found is not None
    return found / SAMPLES


@pytest.mark.parametrize(
    ("name", "most"),
    [pytest.param("pynq_z2_zero_skip_wide", 0.45, marks=pytest.mark.slow), ("pynq_z2_zero_skip", 0.60)],
)
def test_eighty_percent_of_zeros(name: str, most: float, tmp_path: Path) -> None:
    """With groups that are balanced; where any weight may go, the same array takes longer."""
    balanced = clocks(name, pruned(tmp_path, Balanced.of(load_accelerator(name).config)))
    assert balanced <= most * clocks("pynq_z2_dense", tmp_path / "n.onnx")
    assert balanced < clocks(name, pruned(tmp_path, None))
