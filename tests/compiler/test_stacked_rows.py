"""Rows that are some of the channels of a pixel, as distributions of a detector's boxes (issue 37, item 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.row_layers import RowLayers
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06
#: What another exporter makes of a network that is tried.
LEGACY = pytest.param("distributions_legacy", marks=pytest.mark.slow)

Write = Callable[[Network], str]


def rows(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.rows is not None]


def reshaped(network: Network, x: str, *shape: int) -> str:
    return network.add("Reshape", x, network.constant(np.array([0, *shape])))


def summed(network: Network) -> str:
    """Four distributions over six distances for each of 5 x 7 pixels; their means as sums of products."""
    found = network.add("Softmax", reshaped(network, network.last, 4, 6, 35), axis=2)
    network.add("Mul", found, network.constant(np.arange(6, dtype=np.float32).reshape(1, 1, 6, 1)))
    return network.add("ReduceSum", network.last, network.constant(np.array([2])), keepdims=0)


def convolved(network: Network) -> str:
    """As YOLOv8: transposed, and a convolution over the distances."""
    turned = network.add("Transpose", reshaped(network, network.last, 4, 6, 35), perm=[0, 2, 1, 3])
    found = network.add("Softmax", turned, axis=1)
    weights = network.constant(np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1))
    return reshaped(network, network.add("Conv", found, weights), 4, 35)


def interleaved(network: Network) -> str:
    """The distances first, so that channels of a distribution are four apart."""
    return network.add("Softmax", reshaped(network, network.last, 6, 4, 35), axis=1)


def boxes(write: Write) -> Network:
    network = Network(3, 5, 7)
    network.conv(24, 3, 3, pads=[1, 1, 1, 1])
    write(network)
    return network


@pytest.mark.parametrize("write", [summed, convolved, interleaved], ids=lambda write: write.__name__)
def test_distributions_of_a_pixel_are_rows_of_one_layer(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = boxes(write)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    (layer,) = rows(program)
    assert layer.channels == 6
    assert layer.window.output_height * layer.window.output_width == 4 * 35
    assert largest_error(network, program) < CLOSE
    samples = network.samples(3)
    assert simulates_alike(program, samples)
    monkeypatch.setattr(RowLayers, "_stack_rows", lambda *_: None)
    assert on_host(compiled(network, tmp_path, KERNEL))["Softmax"] == 1


def test_what_something_else_reads_stays_where_it_is(tmp_path: Path) -> None:
    """Channels of a pixel next to each other for the one, below each other for the other: the host has the Softmax."""
    network = Network(3, 5, 7)
    values = network.conv(24, 3, 3, pads=[1, 1, 1, 1])
    pooled = network.add("MaxPool", values, kernel_shape=[5, 7])
    network.add("Softmax", reshaped(network, values, 4, 6, 35), axis=2)
    means = network.add("ReduceMean", network.last, axes=[3], keepdims=0)
    network.add("Add", reshaped(network, means, 24), reshaped(network, pooled, 24))
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program)["Softmax"] == 1
    assert largest_error(network, program) < CLOSE


def test_without_samples_the_convolution_stays_whole(tmp_path: Path) -> None:
    """Its parts need one exponent."""
    program = compiled(boxes(summed), tmp_path, KERNEL, calibrate=False)
    assert on_host(program)["Softmax"] == 1
    assert "Conv" not in on_host(program)


@pytest.mark.parametrize("name", ["distributions_dynamo_batch1", "yolo_legacy", LEGACY])
def test_detectors_as_pytorch_exports_them(name: str) -> None:
    """Heads of YOLOv8, of one scale and of two, with what makes boxes of distances."""
    network, generator = read_network(EXPORTED / f"{name}.onnx"), np.random.default_rng(0)
    x = {key: generator.normal(size=(16, *shape)).astype(np.float32) for key, shape in network.inputs.items()}
    program = compile_network(network, accelerator_around(KERNEL, "test"), x)
    assert on_host(program) == Counter()
    judged = {key: value[:4] for key, value in x.items()}
    emulated = Emulator(program).run(judged)
    for output, wanted in FloatNetwork(network).run(judged).items():
        assert sqnr_db(wanted, emulated.outputs[output]) > 30
    assert simulates_alike(program, judged)
