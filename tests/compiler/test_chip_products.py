"""Attention on the chip: products of two computed matrices, their heads, their factors (issue 37, item 3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from row_kernels import WHOLE as KERNEL
from small_networks import Network, attention_network, compiled, largest_error

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, HostNode, MatMulNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.runtime import open_device

#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06
EXPORTED = Path(__file__).parents[1] / "data" / "exported"


def on_host(program: Program) -> Counter[str]:
    return Counter(kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators)


def products(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.operand is not None]


def reshaped(network: Network, x: str, *shape: int) -> str:
    return network.add("Reshape", x, network.constant(np.array([0, *shape])))


def heads_network(factor: float = 1.0, heads: int = 2, joined: bool = True, tokens: int = 9) -> Network:
    """Attention of several heads over tokens of 16 channels, as PyTorch's exporter writes it."""
    network, size = Network(tokens, 16), 16 // heads
    if joined:
        network.add("MatMul", "x", network.weights(16, 48, scale=1.5))
        parts = [reshaped(network, name, tokens, heads, size) for name in _split(network, network.last, 3)]
    else:
        parts = [reshaped(network, network.add("MatMul", "x", network.weights(16, 16, scale=0.9)), tokens, heads, size)
                 for _ in range(3)]  # fmt: skip
    query, key, value = (network.add("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
    scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 1, 3, 2]))
    if factor != 1:
        scores = network.add("Mul", scores, network.constant(np.float32(factor)))
    seen = network.add("MatMul", network.add("Softmax", scores, axis=-1), value)
    together = reshaped(network, network.add("Transpose", seen, perm=[0, 2, 1, 3]), tokens, 16)
    network.add("MatMul", together, network.weights(16, 16))
    return network


def _split(network: Network, x: str, count: int) -> list[str]:
    first = network.add("Split", x, outputs=count, axis=2)
    return [first, *(f"{first}_{number}" for number in range(1, count))]


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_is_one_start(heads: int, joined: bool, tmp_path: Path) -> None:
    """Splitting into heads and joining them moves nothing; one Softmax takes the scores of all heads."""
    network = heads_network(heads=heads, joined=joined)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    assert len(products(program)) == 2 * heads
    assert sum(isinstance(node, ArrayNode) and node.rows is not None for node in program.nodes) == 1
    assert largest_error(network, program) < CLOSE


def test_the_kernel_gives_the_bits_of_the_emulator(tmp_path: Path) -> None:
    network = heads_network(0.3)
    program, samples = compiled(network, tmp_path, KERNEL), network.samples(3)
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


@pytest.mark.parametrize("joined", [True, False])
def test_the_factor_of_scores_goes_into_the_queries(joined: bool, tmp_path: Path) -> None:
    """1 / sqrt(channels of a head): no layer of its own; the other channels of a joint product keep their weights."""
    network = heads_network(0.35, joined=joined)
    program = compiled(network, tmp_path, KERNEL)
    assert len(program.nodes) == len(compiled(heads_network(joined=joined), tmp_path, KERNEL).nodes)
    assert largest_error(network, program) < CLOSE


def test_a_factor_of_queries_that_something_else_reads_is_a_layer(tmp_path: Path) -> None:
    network = Network(9, 16)
    query, key = (network.add("MatMul", "x", network.weights(16, 16, scale=1.5)) for _ in range(2))
    scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 2, 1]))
    seen = network.add("Softmax", network.add("Mul", scores, network.constant(np.float32(0.3))), axis=-1)
    network.add("Add", network.add("MatMul", seen, key), query)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == Counter()
    assert largest_error(network, program) < CLOSE


def test_without_the_key_or_without_samples_matrices_pass_the_host(tmp_path: Path) -> None:
    """Heads have exponents of their own where no samples give one for all."""
    for program in (
        compiled(attention_network(), tmp_path, replace(KERNEL, operand_weights=False)),
        compiled(heads_network(), tmp_path, KERNEL, calibrate=False),
    ):
        assert products(program) == []
        assert any(isinstance(node, MatMulNode) for node in program.nodes)


def test_products_that_memory_does_not_hold_pass_the_host_and_say_so(tmp_path: Path) -> None:
    network = heads_network(tokens=48)
    program = compiled(network, tmp_path, replace(KERNEL, activation_words=64))
    assert products(program) == []
    assert any("words of activation memory" in note for note in program.notes)
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize(
    "name", ["vit_dynamo_batch1", pytest.param("vit_legacy", marks=pytest.mark.slow), "decoder_legacy"]
)
def test_files_of_exporters_leave_the_host_nothing(name: str, tmp_path: Path) -> None:
    """Nothing of a vision transformer, nor of a decoder with a mask of infinite numbers."""
    network = read_network(EXPORTED / f"{name}.onnx")
    generator = np.random.default_rng(0)
    x = {key: generator.normal(size=(4, *shape)).astype(np.float32) for key, shape in network.inputs.items()}
    program = compile_network(network, accelerator_around(KERNEL, "test"), x)
    assert products(program)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(x), device.run(x)) is None
    device.close()
