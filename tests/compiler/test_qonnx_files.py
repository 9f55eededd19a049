"""QONNX files as they are found in public, against QONNX's own executor (benchmarks/training/qonnx_files.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_networks import Network as WrittenNetwork

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import HostNode
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError
from bfpga.runtime import run

FOLDER = Path(__file__).parents[1] / "data" / "qonnx"
NAMES = ("residual", "signs", "channels_last", "float_weights")


def recorded(name: str) -> tuple[Network, np.ndarray, np.ndarray]:
    with np.load(FOLDER / "answers.npz") as answers:
        return read_network(FOLDER / f"{name}.onnx"), answers[f"{name}_x"], answers[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_repeats_the_executor_of_qonnx(name: str) -> None:
    """Domains that the files do not import, 32-bit biases, opset 9, channels last."""
    network, x, wanted = recorded(name)
    (found,) = FloatNetwork(network, quantized=True).run({"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_wide_mantissas_repeat_the_network(name: str) -> None:
    """Signed values saturate, and sums of a coarse and a fine value keep the fine one; as in the simulation."""
    network, x, wanted = recorded(name)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"))
    (found,) = Emulator(program).run({"x": x}).outputs.values()
    error = np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())
    assert error < 0.01
    assert not any(isinstance(node, HostNode) and "Transpose" in node.operators for node in program.nodes)
    np.testing.assert_array_equal(next(iter(run(program, x[:1], "csim").outputs.values())), found[:1])


@pytest.mark.parametrize("calibrated", [False, True])
def test_signed_values_of_many_steps_saturate_on_wide_mantissas(calibrated: bool, tmp_path: Path) -> None:
    """x + 0 limited to -2 ... 1.98, by a quantizer of 8 bits; the limit is all that its reader sees."""
    numbers = {"scale": 2.0**-6, "zero": 0.0, "bits": 8.0, "two": 2.0}
    constants = [numpy_helper.from_array(np.float32(value), name) for name, value in numbers.items()]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["double"]),
        helper.make_node("Quant", ["double", "scale", "zero", "bits"], ["q"], domain="qonnx.custom_op.general",
                         signed=1, narrow=0, rounding_mode="ROUND"),
        helper.make_node("Mul", ["q", "two"], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in ("x", "y")]
    path = tmp_path / "network.onnx"
    imports = [helper.make_opsetid("", 13)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=imports), path)
    x = np.linspace(-4, 4, 32, dtype=np.float32).reshape(4, 8)
    program = compile_network(path, load_accelerator("pynq_z2_bfp16"), x if calibrated else None)
    (found,) = Emulator(program).run({"x": x}).outputs.values()
    np.testing.assert_allclose(found, 2 * np.clip(np.round(2 * x * 64), -128, 127) / 64, atol=2.1 * 2.0**-6)


@pytest.mark.parametrize(("scale", "calibrated"), [(2.0**-6, False), (2.0**-6, True), (0.013, True)])
def test_sums_end_at_the_limits_of_signed_quantizers_on_wide_mantissas(
    scale: float, calibrated: bool, tmp_path: Path
) -> None:
    """A residual block, most of whose values are beyond the limits: a step more than the upper one would show."""
    network = WrittenNetwork(4, 6, 6, opset=13)
    network.domains.append("qonnx.custom_op.general")
    numbers = [network.constant(np.float32(value)) for value in (scale, 0, 8)]

    def quantized(value: str) -> str:
        return network.add("Quant", value, *numbers, domain="qonnx.custom_op.general", signed=1, narrow=0,
                           rounding_mode="ROUND")  # fmt: skip

    first = quantized(network.conv(4, 4, 3, "x", pads=[1, 1, 1, 1]))
    second = quantized(network.add("Add", network.conv(4, 4, 3, first, pads=[1, 1, 1, 1]), first))
    network.add("MaxPool", second, kernel_shape=[2, 1])
    onnx.save(network.model(), tmp_path / "network.onnx")
    read, x = read_network(tmp_path / "network.onnx"), network.samples(4)
    own = next(iter(FloatNetwork(read, quantized=True).run(x).values()))
    program = compile_network(read, load_accelerator("pynq_z2_bfp16"), x if calibrated else None)
    found = next(iter(Emulator(program).run(x).outputs.values()))
    assert (found.min(), found.max()) == pytest.approx((-128 * scale, 127 * scale), abs=0.02 * scale)
    assert np.abs(found - own).mean() < 0.5 * scale


def test_an_operator_of_the_domain_that_is_not_known_is_named(tmp_path: Path) -> None:
    model = onnx.load(FOLDER / "channels_last.onnx")
    next(node for node in model.graph.node if node.op_type == "MaxPool").op_type = "AveragePool"
    path = tmp_path / "network.onnx"
    onnx.save(model, path)
    with pytest.raises(ModelError, match="channels_last is unknown; known are Conv, MaxPool, BatchNormalization"):
        read_network(path)


KINDS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1")


def mx_network(folder: Path, kind: str, scales: str) -> tuple[Path, np.ndarray]:
    """A layer whose weights are small floats with a scale for each 16, and these weights."""
    weights = np.random.default_rng(0).normal(size=(8, 32)).astype(np.float32)
    small = helper.make_tensor("w", getattr(TensorProto, kind), weights.shape, weights.ravel())
    factors = np.array([[0.5, 4.0]] * 8, np.float32)
    parts = [small, helper.make_tensor("s", getattr(TensorProto, scales), factors.shape, factors.ravel())]
    attributes = {"axis": 1, "block_size": 16, "output_dtype": TensorProto.FLOAT}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["values"], "scales", **attributes)]
    nodes.append(helper.make_node("Gemm", ["x", "values"], ["y"], transB=1))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, size]) for name, size in (("x", 32), ("y", 8))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], parts)
    path = folder / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    return path, numpy_helper.to_array(small).astype(np.float32) * np.repeat(factors, 16, axis=1)


@pytest.mark.skipif(not hasattr(TensorProto, "FLOAT8E8M0"), reason="onnx before 1.19 does not know these types")
@pytest.mark.parametrize("scales", ["FLOAT", "FLOAT8E8M0"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_small_floats_with_scales_for_blocks_are_exact(kind: str, scales: str, tmp_path: Path) -> None:
    path, wanted = mx_network(tmp_path, kind, scales)
    network = read_network(path)
    found = [numpy_helper.to_array(item) for item in network.model.graph.initializer]
    assert any(np.array_equal(item, wanted) or np.array_equal(item.T, wanted) for item in found)
    assert compile_network(network, load_accelerator("tiny")).nodes


@pytest.mark.parametrize("kind", ["FloatQuant", "MultiThreshold"])
def test_operators_of_qonnx_that_cannot_be_read_are_named(kind: str, tmp_path: Path) -> None:
    model = onnx.load(FOLDER / "float_weights.onnx")
    node = model.graph.node[0]
    if kind == "FloatQuant":
        node.input[0] = "x"
    node.op_type = kind
    onnx.save(model, tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=r"FloatQuant_v0: .*(must be weights|is not known; known are)"):
        read_network(tmp_path / "network.onnx")


def test_quantizers_of_bytes_are_quantizers_of_their_numbers(tmp_path: Path) -> None:
    """NN2FPGA's networks hold integers as bytes in front of quantizers."""
    model = onnx.load(FOLDER / "residual.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Quant" and node.input[0].startswith("c"))
    weights = next(item for item in model.graph.initializer if item.name == node.input[0])
    numbers = numpy_helper.to_array(weights)
    integers = np.round(100 * numbers / np.abs(numbers).max())
    results = []
    for kind in (np.float32, np.int8):
        weights.CopyFrom(numpy_helper.from_array(integers.astype(kind), weights.name))
        onnx.save(model, tmp_path / "network.onnx")
        x = np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)
        read = read_network(tmp_path / "network.onnx")
        results.append(next(iter(FloatNetwork(read, quantized=True).run({"x": x}).values())))
        assert any("reads integers and limits many" in note for note in read.notes) == (kind is np.int8)
    np.testing.assert_array_equal(*results)
