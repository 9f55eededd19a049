"""Parts of samples that exporters put into the batch: patches of MobileViT, all of it on the chip (issue 37)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from effort import some_of
from hypothesis import given
from hypothesis import strategies as st
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.batched_parts import with_parts_apart, with_parts_in_samples
from bfpga.compiler.lower.moves import copied_windows
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
FILES = "mobilevit_legacy", "mobilevit_legacy_batch1", "mobilevit_dynamo_batch1"
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06


def reshaped(network: Network, x: str, *shape: int) -> str:
    return network.add("Reshape", x, network.constant(np.array(shape)))


def patches_network(patch: int, rows: int, columns: int, heads: int, bias: bool = False) -> Network:
    """Attention among the pixels at one place of all patches of an image, as PyTorch exports MobileViT's."""
    size, count, width = patch * patch, rows * columns, 4 * heads
    network = Network(3, patch * rows, patch * columns)
    x = network.conv(width, 3, 1, "x")
    x = network.add("Transpose", reshaped(network, x, -1, patch, columns, patch), perm=[0, 2, 1, 3])
    x = network.add("Transpose", reshaped(network, x, -1, width, count, size), perm=[0, 3, 2, 1])
    x = reshaped(network, x, -1, count, width)
    if bias:
        x = network.add("Add", x, network.weights(1, count, width))
    joint = reshaped(network, network.add("MatMul", x, network.weights(width, 3 * width)), -1, count, 3, heads, 4)
    turned = network.add("Transpose", joint, perm=[2, 0, 3, 1, 4])
    query, key, value = (network.add("Gather", turned, network.constant(np.array(i)), axis=0) for i in range(3))
    scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 1, 3, 2]))
    seen = network.add("MatMul", network.add("Softmax", scores, axis=-1), value)
    seen = reshaped(network, network.add("Transpose", seen, perm=[0, 2, 1, 3]), -1, count, width)
    x = network.add("Add", x, network.add("MatMul", seen, network.weights(width, width)))
    x = network.add("Transpose", reshaped(network, x, -1, size, count, width), perm=[0, 3, 2, 1])
    x = network.add("Transpose", reshaped(network, x, -1, columns, patch, patch), perm=[0, 2, 1, 3])
    network.conv(4, width, 3, reshaped(network, x, -1, width, patch * rows, patch * columns), pads=[1] * 4)
    return network


@pytest.mark.parametrize("name", some_of(FILES, FILES[2]))
def test_an_exported_mobilevit_leaves_nothing_on_the_host(name: str) -> None:
    network = read_network(EXPORTED / f"{name}.onnx")
    x = {"x": np.random.default_rng(0).normal(size=(8, *network.inputs["x"])).astype(np.float32)}
    program = compile_network(network, accelerator_around(KERNEL, "wide"), x)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    assert sqnr_db(FloatNetwork(network).run(x)["y"], Emulator(program).run(x).outputs["y"]) > 30
    assert simulates_alike(program, x)


def test_without_weights_from_activations_the_batch_stays_with_the_host() -> None:
    network = read_network(EXPORTED / f"{FILES[0]}.onnx")
    x = np.random.default_rng(0).normal(size=(4, *network.inputs["x"])).astype(np.float32)
    program = compile_network(network, accelerator_around(replace(KERNEL, operand_weights=False), "wide"), x)
    assert on_host(program)["MatMul"] == 6  # two of attention, four of its linear layers


@given(
    patch=st.integers(2, 3), rows=st.integers(2, 3), columns=st.integers(2, 4), heads=st.integers(1, 3),
    bias=st.booleans(),
)  # fmt: skip
def test_parts_in_samples_compute_the_same(
    patch: int, rows: int, columns: int, heads: int, bias: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ONNX Runtime on both networks, for a batch of three."""
    network = patches_network(patch, rows, columns, heads, bias)
    path = tmp_path_factory.mktemp("network") / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    graph = read_network(path).graph()
    parted = with_parts_in_samples(graph)
    assert any(name not in graph.shapes for item in graph.operators for name in item.outputs)
    x = np.random.default_rng(0).normal(size=(3, *network.inputs["x"])).astype(np.float32)
    wanted, found = (
        onnxruntime.InferenceSession(item.SerializeToString()).run(None, {"x": x})[0]
        for item in (network.model(), with_parts_apart(parted).model)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("patch", "rows", "columns"), [(3, 2, 3), pytest.param(2, 2, 5, marks=pytest.mark.slow)]
)
def test_patches_of_any_size_stay_on_the_chip(patch: int, rows: int, columns: int, tmp_path: Path) -> None:
    network = patches_network(patch, rows, columns, 2)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert largest_error(network, program) < CLOSE
    weighing = [node.operand for node in program.nodes if isinstance(node, ArrayNode) and node.operand is not None]
    assert {item.first_pixel for item in weighing} == {rows * columns * part for part in range(patch * patch)}
    assert simulates_alike(program, network.samples(3))


@pytest.mark.parametrize("kind", ["CumSum", "ReduceSum"])
def test_what_mixes_parts_of_samples_keeps_its_form(kind: str, tmp_path: Path) -> None:
    """A sum over the batch of parts adds samples: there is no axis of a sample for that."""
    network = Network(4, 6)
    x = reshaped(network, network.add("Relu", "x"), -1, 2, 6)
    x = network.add(kind, x, network.constant(np.array(0 if kind == "CumSum" else [0])))
    reshaped(network, x, *((-1, 4, 6) if kind == "CumSum" else (1, 2, 6)))
    if kind == "ReduceSum":
        network.add("Add", network.last, reshaped(network, "x", -1, 2, 6))
        reshaped(network, network.last, -1, 4, 6)
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    graph = read_network(path).graph()
    assert with_parts_in_samples(graph) is graph


@given(st.data())
def test_copies_take_each_pixel_once_from_where_it_is(data: st.DataObject) -> None:
    """Whatever the order: the pixels that windows read are those that are wanted where they write."""
    height, width, banks = (data.draw(st.integers(1, size)) for size in (6, 6, 4))
    other = data.draw(st.sampled_from([size for size in range(1, height * width + 1) if height * width % size == 0]))
    order = np.arange(height * width)
    if data.draw(st.booleans()):
        order = np.array(data.draw(st.permutations(order.tolist())))
    else:  # blocks of pixels apart, as of patches
        order = order.reshape(height, width).T.ravel()
    wanted = order.reshape(height, width)
    y, x = np.divmod(wanted, other)
    found = np.full((height, width), -1)
    windows = copied_windows(y, x, banks)
    assert windows is not None
    for window in windows:
        assert window.output_width == 1 or window.stride_x % banks
        for row in range(window.output_height):
            for column in range(window.output_width):
                place = window.first_y + window.spread_y * row, window.first_x + column
                assert found[place] == -1
                source = row * window.stride_y - window.pad_top, column * window.stride_x - window.pad_left
                found[place] = source[0] * other + source[1]
    np.testing.assert_array_equal(found, wanted)


def test_the_columns_of_patches_take_two_copies_each() -> None:
    """Rows of a column of patches are copied together."""
    pixels = np.arange(64).reshape(2, 2, 4, 4).transpose(2, 0, 3, 1).reshape(8, 8)
    windows = copied_windows(*np.divmod(pixels, 4), 8)
    assert windows is not None
    assert len(windows) == 16
    assert {(window.output_height, window.output_width) for window in windows} == {(4, 1)}
