"""Means and maxima over the channels of each pixel, and maps with one channel: CBAM on the chip (issue 37)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import drawn, each_once, some_of
from hypothesis import given, settings
from hypothesis import strategies as st
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
#: No value saturates.
LARGEST = CompileOptions(exponents="max")
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.03


def copied(channels: int) -> Network:
    """An image as it is, by a convolution with ones."""
    network = Network(channels, 3, 5)
    network.add("Conv", "x", network.constant(np.eye(channels, dtype=np.float32)[:, :, None, None]))
    return network


@pytest.mark.parametrize("name", some_of(["cbam_legacy", "cbam_dynamo_batch1"], "cbam_dynamo_batch1"))
def test_an_exported_cbam_leaves_nothing_on_the_host(name: str) -> None:
    network = read_network(EXPORTED / f"{name}.onnx")
    x = {"x": np.random.default_rng(0).normal(size=(8, *network.inputs["x"])).astype(np.float32)}
    program = compile_network(network, accelerator_around(KERNEL, "wide"), x)
    assert on_host(program) == Counter()
    assert len(program.steps) == 2  # the factors of channels are weights of the second
    assert sqnr_db(FloatNetwork(network).run(x)["y"], Emulator(program).run(x).outputs["y"]) > 30
    assert simulates_alike(program, x)


@pytest.mark.parametrize("keepdims", [0, 1])
@settings(max_examples=drawn(24))
@given(channels=st.integers(2, 40))
def test_the_largest_channel_is_found_within_a_step(
    channels: int, keepdims: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Copies round once where they have another exponent; whether channels fill words and groups or not."""
    network = copied(channels)
    image = network.last
    network.add("ReduceMax", axes=[1], keepdims=keepdims)
    outputs = image, network.last
    program = compiled(network, tmp_path_factory.mktemp("network"), KERNEL, LARGEST, outputs=outputs)
    assert on_host(program) == Counter()
    found = Emulator(program).run(network.samples(16)).outputs
    step = 2.0 ** max(node.policy.exponent for node in program.nodes if isinstance(node, ArrayNode))
    wanted = found[image].max(axis=1, keepdims=bool(keepdims))
    assert found[network.last].shape == wanted.shape
    assert np.abs(found[network.last] - wanted).max() <= step


@pytest.mark.parametrize(("kind", "channels"), each_once(["ReduceMean", "ReduceSum"], [3, 8, 21]))
def test_means_and_sums_of_channels_are_convolutions(kind: str, channels: int, tmp_path: Path) -> None:
    network = copied(channels)
    axes = {"axes": [1]} if kind == "ReduceMean" else {}
    inputs = [network.last] if axes else [network.last, network.constant(np.array([1]))]
    network.add(kind, *inputs, keepdims=1, **axes)
    network.conv(4, 1, 3, pads=[1] * 4)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert largest_error(network, program) < CLOSE
    assert simulates_alike(program, network.samples(3))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_map_with_one_channel_multiplies_all(swapped: bool, tmp_path: Path) -> None:
    network = copied(6)
    image = network.last
    operands = [image, network.add("Sigmoid", network.conv(1, 6, 3, image, pads=[1] * 4))]
    network.add("Mul", *(operands[::-1] if swapped else operands))
    network.conv(4, 6, 1)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert largest_error(network, program) < CLOSE
    # Without the process of rows there is no product of two images.
    assert on_host(compiled(network, tmp_path, replace(KERNEL, row_columns=0)))["Mul"] == 1


@pytest.mark.parametrize("counts", [(1, 1), (3, 5, 2), (6, 4)])
def test_channels_that_begin_within_a_word_are_a_sum(counts: tuple[int, ...], tmp_path: Path) -> None:
    network = copied(6)
    image = network.last
    network.add("Concat", *(network.conv(count, 6, 3, image, pads=[1] * 4) for count in counts), axis=1)
    network.conv(4, sum(counts), 3, pads=[1] * 4)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert largest_error(network, program) < CLOSE
    assert simulates_alike(program, network.samples(3))
