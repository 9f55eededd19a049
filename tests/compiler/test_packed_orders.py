"""What only moves numbers at the ends of a network is done where the host packs and unpacks tensors (issue 37)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import WIDE, Network, check_whole, compiled, largest_error, on_host

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower import layers
from bfpga.compiler.lower.layers import order_of, positions
from bfpga.compiler.lower.lowering import lower
from bfpga.compiler.read.network import read_network
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db
from bfpga.verify.virtual_boards import VirtualBoards

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
#: 16-bit mantissas: what is left is rounding.
CLOSE = 1e-3

Make = Callable[[], Network]


def reshaped(network: Network, *shape: int) -> str:
    return network.add("Reshape", network.last, network.constant(np.array([0, *shape])))


def larger_image(block: int, mode: str) -> Make:
    """Super-resolution: pixels out of channels at the end."""

    def make() -> Network:
        network = Network(3, 5, 4)
        network.conv(2 * block * block, 3, 3, pads=[1, 1, 1, 1])
        network.add("DepthToSpace", blocksize=block, mode=mode)
        return network

    return make


def larger_image_in_parts() -> Network:
    """The same as PyTorch's older exporters write it, with a limit behind."""
    network = Network(3, 5, 4)
    network.conv(8, 3, 3, pads=[1, 1, 1, 1])
    reshaped(network, 2, 2, 2, 5, 4)
    network.add("Transpose", perm=[0, 1, 4, 2, 5, 3])
    reshaped(network, 2, 10, 8)
    network.add("Relu")
    return network


def image_of_patches() -> Network:
    """Vectors of patches become an image again, as a masked autoencoder's decoder ends."""
    network = Network(6, 7)
    network.add("MatMul", "x", network.weights(7, 24))
    reshaped(network, 2, 3, 2, 4, 3)
    network.add("Transpose", perm=[0, 5, 1, 3, 2, 4])
    reshaped(network, 3, 4, 12)
    return network


def transposed_convolution() -> Network:
    """Its phases along a row are channels, next to each other as the columns that they are: whole axes do."""
    network = Network(3, 5, 4)
    network.add("ConvTranspose", "x", network.weights(3, 2, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1])
    return network


def patches() -> Network:
    """Patches of an image as vectors, by reshaping."""
    network = Network(3, 4, 6)
    reshaped(network, 3, 2, 2, 3, 2)
    network.add("Transpose", perm=[0, 2, 4, 3, 5, 1])
    reshaped(network, 6, 12)
    network.add("MatMul", network.last, network.weights(12, 5))
    return network


def smaller_image() -> Network:
    """Blocks of pixels as channels in front, as of some detectors."""
    network = Network(3, 6, 8)
    network.add("SpaceToDepth", blocksize=2)
    network.conv(4, 12, 3, pads=[1, 1, 1, 1])
    return network


MAKES: list[Make] = [
    larger_image(2, "CRD"), larger_image(3, "DCR"), larger_image_in_parts, image_of_patches, transposed_convolution,
    patches, smaller_image,
]  # fmt: skip
NAMES = ["crd", "dcr", "in_parts", "image_of_patches", "transposed", "patches", "smaller"]


@pytest.mark.parametrize("make", MAKES, ids=NAMES)
def test_the_host_computes_nothing(make: Make, tmp_path: Path) -> None:
    check_whole(make(), tmp_path)


@pytest.mark.parametrize("make", [make for make in MAKES if make is not transposed_convolution])
def test_in_orders_of_whole_axes_alone_it_has_to(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_split_order", lambda flat: None)
    program = compiled(make(), tmp_path)
    assert on_host(program)


def test_blocks_of_an_input_cost_no_layer(tmp_path: Path) -> None:
    assert len(compiled(smaller_image(), tmp_path).nodes) == 1


def test_the_driver_of_a_board_gives_the_same_bits(boards: VirtualBoards, tmp_path: Path) -> None:
    network = Network(3, 6, 8)
    network.add("SpaceToDepth", blocksize=2)
    network.conv(8, 12, 3, pads=[1, 1, 1, 1])
    network.add("DepthToSpace", blocksize=2, mode="CRD")
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    program = compile_network(path, load_accelerator("tiny"), network.samples(16))
    assert on_host(program) == Counter()
    device = boards.open(program)
    samples = network.samples(3)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


@pytest.mark.parametrize("name", ["pixel_shuffle_legacy", "pixel_shuffle_dynamo_batch1", "mixer_convolved_legacy"])
def test_files_that_pytorch_exported(name: str) -> None:
    """Super-resolution, and patches that are cut by reshaping."""
    network, generator = read_network(EXPORTED / f"{name}.onnx"), np.random.default_rng(0)
    x = {key: generator.normal(size=(16, *shape)).astype(np.float32) for key, shape in network.inputs.items()}
    program = compile_network(network, load_accelerator("pynq_z2_transformer"), x)
    assert on_host(program) == Counter()
    found = Emulator(program).run(x).outputs
    for output, wanted in FloatNetwork(network).run(x).items():
        assert sqnr_db(wanted, found[output]) > 15


def test_an_input_that_others_read_keeps_its_axes_whole(tmp_path: Path) -> None:
    """Whichever comes first: a convolution could not read the blocks of patches."""
    network = patches()
    vectors = network.last
    image = network.add("Conv", "x", network.weights(5, 3, 2, 2), strides=[2, 2])
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model(vectors, image).SerializeToString())
    graph = read_network(path).graph()
    last = sorted(graph.operators, key=lambda operator: operator.type == "Conv")
    lowered = lower(replace(graph, operators=last, consumers={}), WIDE)
    assert [operator.type for operator in lowered.host] == ["Reshape"]


def test_between_layers_blocks_are_the_host_s_and_it_is_said(tmp_path: Path) -> None:
    network = larger_image(2, "CRD")()
    network.conv(4, 2, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path)
    assert on_host(program) == Counter({"DepthToSpace": 1})
    assert any("DepthToSpace" in note and "not adjacent" in note for note in program.notes)


def test_layers_of_single_elements_between_do_not_hide_whose_order_it_is(tmp_path: Path) -> None:
    """PReLU is several layers, in the order before the blocks are moved; then a convolution needs them moved."""
    network = larger_image(2, "CRD")()
    slopes = network.constant(np.array([0.1, 0.3], np.float32).reshape(2, 1, 1))
    network.add("PRelu", network.last, slopes)
    network.conv(4, 2, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path)
    assert on_host(program) == Counter({"DepthToSpace": 1})
    assert largest_error(network, program) < CLOSE


# Orders


@given(st.data())
def test_an_order_of_axes_is_found_from_its_places(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=6)))
    axes = data.draw(st.permutations(range(len(shape))))
    size = int(np.prod(shape))
    layout = positions(shape).transpose(axes).reshape(1, 1, -1)
    found = order_of((size,), layout)
    assert found is not None
    values = np.arange(size)
    np.testing.assert_array_equal(values.reshape(found.shape).transpose(found.axes).ravel(), layout.ravel())


@pytest.mark.parametrize("places", [[0, 1, 3, 2], [1, 0, 3, 2], [0, 2, 1, 4, 3, 5], [0, 3, 1, 2, 4, 5], [3, 2, 1, 0]])
def test_what_is_none_is_told(places: list[int]) -> None:
    assert order_of((len(places),), np.array(places).reshape(1, 1, -1)) is None
