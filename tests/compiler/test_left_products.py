"""Layers along tokens, between transpositions or as convolutions, as products of constants from the left (issue 37)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from effort import some_of
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.left_products import left_products, with_left_products
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
#: Files whose layers along the tokens are between transpositions, and others with convolutions.
BETWEEN = "mixer_legacy", "mixer_dynamo_batch1"
CONVOLVED = "mixer_convolved_legacy", "mixer_convolved_dynamo_batch1"
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06

Mix = Callable[[Network, str], str]


def products(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.operand is not None]


def swapped(network: Network, x: str) -> str:
    return network.add("Transpose", x, perm=[0, 2, 1])


def tokens(mix: Mix) -> Network:
    """Nine vectors of twelve elements, a layer along them between two along their elements."""
    network = Network(9, 12)
    first = network.add("MatMul", "x", network.weights(12, 8, scale=2))
    network.add("MatMul", mix(network, first), network.weights(8, 6, scale=2))
    return network


def between(network: Network, x: str, hidden_size: int = 14) -> str:
    """Two layers with biases and a function."""
    hidden = network.add("MatMul", swapped(network, x), network.weights(9, hidden_size, scale=2))
    hidden = network.add("Relu", network.add("Add", hidden, network.weights(hidden_size)))
    last = network.add("MatMul", hidden, network.weights(hidden_size, 9, scale=2))
    return swapped(network, network.add("Add", network.weights(9), last))


def gated(network: Network, x: str) -> str:
    """A function in parts, whose operators read the value twice, constants of all shapes, and a residual."""
    hidden = network.add("MatMul", swapped(network, x), network.weights(9, 9, scale=2))
    hidden = network.add("Mul", hidden, network.constant(np.float32(1.5)))
    hidden = network.add("Sub", hidden, network.weights(1, 8, 9))
    hidden = network.add("Mul", hidden, network.add("Sigmoid", hidden))
    hidden = network.add("Add", hidden, network.weights(8, 1))
    return network.add("Add", x, swapped(network, hidden))


def added_before_it_is_turned_back(network: Network, x: str) -> str:
    """The residual meets what is still turned, as PyTorch's exporter leaves it: x itself is a Transpose's result."""
    flat = swapped(network, x)
    hidden = network.add("MatMul", swapped(network, swapped(network, flat)), network.weights(9, 9, scale=2))
    return swapped(network, network.add("Add", flat, hidden))


def from_left(network: Network, x: str) -> str:
    return network.add("MatMul", network.weights(9, 9, scale=2), x)


MIXES: list[Mix] = [between, gated, added_before_it_is_turned_back, from_left]


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.__name__)
def test_a_layer_along_the_tokens_stays_on_the_chip(mix: Mix, tmp_path: Path) -> None:
    network = tokens(mix)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    assert products(program)
    assert largest_error(network, program) < CLOSE
    without = compiled(network, tmp_path, replace(KERNEL, operand_weights=False))
    assert on_host(without)["Transpose"]
    assert products(without) == []


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.__name__)
def test_the_network_computes_the_same(mix: Mix, tmp_path: Path) -> None:
    """ONNX Runtime on both, in float; no transposition is left but those that something else reads."""
    network = tokens(mix)
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    turned = with_left_products(read_network(path).graph())
    assert left_products(turned)
    assert sum(operator.type == "Transpose" for operator in turned.operators) <= 2 * (mix is MIXES[2])
    samples = network.samples(3)
    wanted, found = (
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, samples)[0]
        for model in (network.model(), turned.model)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def patches(network: Network, x: str) -> str:
    """Turned and never turned back: pixels of an image become vectors."""
    return network.add("MatMul", swapped(network, x), network.weights(9, 8))


def normalized(network: Network, x: str) -> str:
    """Normalized along the tokens between."""
    hidden = network.add("MatMul", swapped(network, x), network.weights(9, 9))
    scale = network.constant(np.ones(9, np.float32))
    return swapped(network, network.add("LayerNormalization", hidden, scale))


@pytest.mark.parametrize("mix", [patches, normalized], ids=lambda mix: mix.__name__)
def test_what_is_not_turned_back_or_not_alike_in_both_orders_stays(mix: Mix, tmp_path: Path) -> None:
    network = Network(9, 12)
    mix(network, network.add("MatMul", "x", network.weights(12, 8)))
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    graph = read_network(path).graph()
    assert with_left_products(graph) is graph


def test_convolutions_along_an_image_stay(tmp_path: Path) -> None:
    """Only behind a normalization the vectors are known to be along the other axis."""
    network = Network(8, 12)
    network.add("Relu", network.add("Conv", "x", network.weights(8, 8, 3), pads=[1, 1]))
    network.add("Conv", network.last, network.weights(6, 8, 1))
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    graph = read_network(path).graph()
    assert with_left_products(graph) is graph


@pytest.mark.parametrize("name", some_of([*BETWEEN, *CONVOLVED], BETWEEN[0], CONVOLVED[-1]))
def test_mixers_as_pytorch_exports_them(name: str) -> None:
    """The results of ONNX Runtime, the bits of the emulator in C simulation."""
    network = read_network(EXPORTED / f"{name}.onnx")
    generator = np.random.default_rng(0)
    x = {key: generator.normal(size=(16, *shape)).astype(np.float32) for key, shape in network.inputs.items()}
    program = compile_network(network, accelerator_around(KERNEL, "test"), x)
    assert len(products(program)) == (4 if name in BETWEEN else 2)
    assert set(on_host(program)) <= ({"Reshape"} if name in CONVOLVED else set())
    judged = {key: value[:4] for key, value in x.items()}
    emulated = Emulator(program).run(judged)
    for output, wanted in FloatNetwork(network).run(judged).items():
        assert sqnr_db(wanted, emulated.outputs[output]) > 20
    assert simulates_alike(program, judged)
    plain = compile_network(network, accelerator_around(replace(KERNEL, operand_weights=False), "test"), x)
    assert set(on_host(plain)) & {"Transpose", "Conv"}


def test_what_would_not_be_faster_stays_as_it_was(tmp_path: Path) -> None:
    """Cores that take no time transpose for nothing, and the constants need not cross the stream with every sample."""
    network = tokens(lambda network, x: between(network, x, 128))
    accelerator = accelerator_around(KERNEL, "test")
    cores = accelerator.board.arm_cores
    assert cores is not None
    ideal = replace(accelerator.board, arm_cores=replace(cores, assumed_gflops=1e9, assumed_call_us=0.0))
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    assert products(compile_network(path, accelerator, network.samples(16)))
    assert products(compile_network(path, replace(accelerator, board=ideal), network.samples(16))) == []


def test_without_samples_nothing_is_turned(tmp_path: Path) -> None:
    """Products of tensors need exponents that samples give."""
    assert products(compiled(tokens(between), tmp_path, KERNEL, calibrate=False)) == []
