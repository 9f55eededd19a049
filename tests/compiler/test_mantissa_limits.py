"""Signed quantizers whose integers are the mantissas of an array: nothing but exponents, and the file's own results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Network

import bfpga
from bfpga.compiler.read.finer_sums import finer_sums
from bfpga.compiler.read.mantissa_limits import with_mantissa_limits
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.formats.block_format import BlockFormat

QONNX = "qonnx.custom_op.general"
X = np.random.default_rng(3).normal(size=(20, 4, 5, 6), scale=2).astype(np.float32)


def quantized(network: Network, value: str, step: float, bits: int) -> str:
    numbers = [network.constant(np.float32(number)) for number in (step, 0, bits)]
    return network.add("Quant", value, *numbers, domain=QONNX, signed=1, narrow=1, rounding_mode="ROUND")


def conv(network: Network, value: str) -> str:
    """A convolution whose weights 4 bits hold."""
    weights = network.generator.integers(-7, 8, (4, 4, 3, 3)).astype(np.float32) / 16
    return network.add("Conv", value, network.constant(weights), pads=[1, 1, 1, 1])


def residual(folder: Path, bits: int) -> Path:
    """A convolution whose result is added to what it reads, both of unlike steps, with ReLU, and one behind it."""
    network = Network(4, 5, 6)
    network.domains = [QONNX]
    first = quantized(network, "x", 0.25, bits)
    second = quantized(network, conv(network, first), 0.5, bits)
    third = quantized(network, network.add("Relu", network.add("Add", first, second)), 0.5, bits)
    quantized(network, conv(network, third), 1.0, bits)
    path = folder / f"residual{bits}.onnx"
    onnx.save(network.model(inferred=False), path)
    return path


def expected(path: Path) -> np.ndarray:
    model = read_network(path).reference.SerializeToString()
    return np.asarray(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0])


def results(program: Program) -> np.ndarray:
    return next(iter(bfpga.run(program, X).outputs.values()))


def layers(program: Program) -> list[str]:
    return [node.kind for node in program.nodes if isinstance(node, ArrayNode)]


def test_no_layer_and_no_operator_of_the_host_is_for_the_quantizers(tmp_path: Path) -> None:
    program = bfpga.compile(residual(tmp_path, 5), "pynq_z2_quad")
    assert layers(program) == ["gemm", "sum", "gemm"]
    assert not [node for node in program.nodes if isinstance(node, HostNode)]
    assert not [note for note in program.notes if "lost" in note]


def test_results_are_those_of_the_file_where_its_sums_have_one_step(tmp_path: Path) -> None:
    """A sum of unlike steps rounds the finer operand; here it has the coarser one's."""
    network = Network(4, 5, 6)
    network.domains = [QONNX]
    first = quantized(network, "x", 0.5, 5)
    second = quantized(network, conv(network, first), 0.5, 5)
    quantized(network, conv(network, quantized(network, network.add("Add", first, second), 1.0, 5)), 1.0, 5)
    path = tmp_path / "n.onnx"
    onnx.save(network.model(inferred=False), path)
    found, wanted = results(bfpga.compile(path, "pynq_z2_quad")), expected(path)
    assert np.abs(wanted).max() == 15  # quantizers saturate
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("bits", "accelerator"), [(4, "pynq_z2_quad"), (5, "pynq_z2_bfp16")])
def test_wider_mantissas_limit_values_by_layers(bits: int, accelerator: str, tmp_path: Path) -> None:
    assert len(layers(bfpga.compile(residual(tmp_path, bits), accelerator))) > 3


@pytest.mark.parametrize(
    ("form", "same"),
    [
        (BlockFormat(mantissa_bits=5), False),
        (BlockFormat(mantissa_bits=6), True),
        (BlockFormat(mantissa_bits=5, saturation="full"), True),  # reaches one value further
        (BlockFormat(mantissa_bits=5, saturation="wrap"), True),
    ],
)
def test_only_equal_limits_are_those_of_mantissas(form: BlockFormat, same: bool, tmp_path: Path) -> None:
    graph = read_network(residual(tmp_path, 5)).graph()
    assert (with_mantissa_limits(graph, form) is graph) == same


def test_a_value_that_others_read_too_keeps_its_limits(tmp_path: Path) -> None:
    network = Network(4, 5, 6)
    network.domains = [QONNX]
    plain = conv(network, "x")
    network.add("Mul", plain, quantized(network, plain, 0.5, 5))
    path = tmp_path / "n.onnx"
    onnx.save(network.model(inferred=False), path)
    graph = read_network(path).graph()
    assert with_mantissa_limits(graph, BlockFormat(mantissa_bits=5)) is graph


def test_sums_get_finer_operands_where_mantissas_hold_them(tmp_path: Path) -> None:
    graph = read_network(residual(tmp_path, 5)).graph()
    assert finer_sums(graph, BlockFormat(mantissa_bits=5)) is graph
    assert len(finer_sums(graph, BlockFormat(mantissa_bits=6)).operators) > len(graph.operators)
