"""`bfpga research blocks`: networks with rounded operands, against the same in numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_networks import Network as WrittenNetwork

from bfpga.cli import main
from bfpga.compiler.numbers.calibrate import exponent_without_overflow
from bfpga.compiler.read.network import Network, read_network
from bfpga.errors import ModelError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.microscaling import integers, round_blocks
from bfpga.precision.blocks import Numbers, Products

Array = np.ndarray[Any, np.dtype[np.float32]]


def two_sizes(tmp_path: Path) -> tuple[Network, Array, list[Array]]:
    """A dense layer of 64 values, the last 32 of which are 2^-9 times as large and their weights 2^9 times; a sum."""
    network = WrittenNetwork(64)
    generator = np.random.default_rng(8)
    scale = np.repeat(np.float32([1, 2.0**-9]), 32)
    first = (generator.normal(size=(64, 64)) / scale[:, None] / 8).astype(np.float32)
    second = generator.normal(size=(64, 3)).astype(np.float32)
    hidden = network.add("MatMul", "x", network.constant(first))
    network.add("MatMul", network.add("Add", hidden, "x"), network.constant(second))
    onnx.save(network.model(), tmp_path / "network.onnx")
    x = (generator.normal(size=(40, 64)) * scale).astype(np.float32)
    return read_network(tmp_path / "network.onnx"), x, [first, second]


@pytest.mark.parametrize("weights", [0, 32])
@pytest.mark.parametrize("bits", [4, 8])
def test_values_and_weights_in_blocks_are_those_of_the_format(bits: int, weights: int, tmp_path: Path) -> None:
    """The sum reads the input as the product does: rounded."""
    network, x, (first, second) = two_sizes(tmp_path)
    products = Products(network)
    model = products.rounded(Numbers(bits, 32, weights), products.histograms({"x": x}))
    (found,) = products.outputs(model, {"x": x}).values()
    element = integers(bits)
    if weights:
        first, second = (round_blocks(w, element, 32, axis=0) for w in (first, second))
    else:
        first, second = (round_blocks(w, element, 64, axis=0) for w in (first, second))
    values = round_blocks(x, element, 32)
    hidden = round_blocks(values.astype(np.float64) @ first + values, element, 32)
    np.testing.assert_allclose(found, hidden @ second, atol=0.01 * np.abs(hidden @ second).max())


def test_an_exponent_of_a_tensor_has_the_least_squared_error(tmp_path: Path) -> None:
    """Of all from the largest magnitude down, measured on the samples themselves; larger values saturate."""
    network, x, _ = two_sizes(tmp_path)
    products = Products(network)
    model = products.rounded(Numbers(8), products.histograms({"x": x}))
    steps = {item.name: onnx.numpy_helper.to_array(item).item() for item in model.graph.initializer if item.dims == []}
    top = exponent_without_overflow(float(np.abs(x).max()), BlockFormat())
    errors = {
        exponent: np.square(x - np.clip(np.rint(x / 2.0**exponent), -127, 127) * 2.0**exponent).sum()
        for exponent in range(top - 4, top + 2)
    }
    assert np.log2(steps["x/rounded/step"]) == min(errors, key=lambda exponent: errors[exponent])
    assert (steps["x/rounded/low"], steps["x/rounded/high"]) == (-127, 127)


def test_blocks_help_where_channels_differ_and_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, x, _ = two_sizes(tmp_path)
    np.savez(tmp_path / "samples.npz", x=x)
    target = tmp_path / "blocks.json"
    command = ["research", "blocks", str(tmp_path / "network.onnx"), "-a", "tiny", "-d", str(tmp_path / "samples.npz")]
    assert main([*command, "--json", str(target)]) == 0
    content = json.loads(target.read_text())
    found = [(row["bits"], row["sqnr_db"]) for row in content["rows"]]
    assert [bits for bits, _ in found] == [8, 8, 8, 8, 4, 4, 4]
    one, values, both = (ratio for _, ratio in found[1:4])
    assert one < values < both - 20  # the small half of values and of weights has lost its bits otherwise
    assert "for 32 channels of a value, for 32 of weights" in capsys.readouterr().out
    assert main([*command, "--block", "64", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["rows"][3]["sqnr_db"] < both - 20  # both halves in one block


def test_weights_of_fewer_channels_than_a_block_keep_an_exponent_a_row(tmp_path: Path) -> None:
    """Depthwise: a block of each tap alone would be a floating-point number."""
    network = WrittenNetwork(40, 6, 6)
    network.add("Relu", network.conv(40, 40, 3, group=40))
    onnx.save(network.model(), tmp_path / "network.onnx")
    products = Products(read_network(tmp_path / "network.onnx"))
    found = []
    for numbers in (Numbers(4, 32, 0), Numbers(4, 32, 32)):
        model = products.rounded(numbers, products.histograms(network.samples(4)))
        weights = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
        found.append(weights[products.weights[0].name])
    np.testing.assert_array_equal(*found)
    rows = products.constants[products.weights[0].name]
    np.testing.assert_array_equal(found[0], round_blocks(rows.reshape(40, 9), integers(4), 9).reshape(rows.shape))


def test_a_network_without_products_is_refused(tmp_path: Path) -> None:
    network = WrittenNetwork(4)
    network.add("Relu", "x")
    onnx.save(network.model(), tmp_path / "network.onnx")
    with pytest.raises(ModelError, match="no product of the network"):
        Products(read_network(tmp_path / "network.onnx"))


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "blocks", "lenet", "-a", "pynq_z2_dense"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    shown = (Path(__file__).parents[2] / "docs" / "blocks.md").read_text().splitlines()
    assert len(printed) > 8
    assert [line for line in printed if line not in shown] == []
