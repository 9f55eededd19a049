"""Networks in formats of blocks as AMD Quark and ONNX Runtime export them, and ONNX's own quantizers by blocks.

tests/data/microscaling: `python -m benchmarks.formats.microscaling_files`, with the results of Quark's operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from effort import some_of
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_networks import Network as WrittenNetwork

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.microscaling import written_out
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.read.simplify import session
from bfpga.contract.program import HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError
from bfpga.formats.microscaling import ELEMENTS, integers, round_blocks
from bfpga.runtime import run

FOLDER = Path(__file__).parents[1] / "data" / "microscaling"
WIDE, NARROW = ("bfp16", "mxint8", "mxfp8e4m3"), ("mxfp6e3m2", "mxfp4e2m1")


def exported(name: str) -> tuple[Network, np.ndarray, np.ndarray]:
    with np.load(FOLDER / "answers.npz") as answers:
        return read_network(FOLDER / f"quark_{name}.onnx"), answers["x"], answers[name]


def computed(network: Network, x: np.ndarray, quantized: bool = False) -> np.ndarray:
    return next(iter(FloatNetwork(network, quantized=quantized).run({"x": x}).values()))


def on_host(program: Program) -> bool:
    return any(isinstance(node, HostNode) and "Round" in node.operators for node in program.nodes)


@pytest.mark.parametrize("name", [*WIDE, *NARROW])
def test_the_reference_repeats_the_operators_of_quark(name: str) -> None:
    """Every bit of ONNX Runtime's results with Quark's library; 36 channels do not fill their blocks."""
    network, x, wanted = exported(name)
    np.testing.assert_array_equal(computed(network, x, quantized=True), wanted)


@pytest.mark.parametrize("name", WIDE)
def test_values_of_eight_bits_are_rounded_by_the_array(name: str) -> None:
    network, x, wanted = exported(name)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"), x)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    found = next(iter(Emulator(program).run({"x": x}).outputs.values()))
    np.testing.assert_allclose(found, computed(network, x), atol=2e-3)  # weights in blocks, values in float
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()
    assert network.notes == (
        "x and 7 more: the mantissas of the array round instead of blocks of 8 bits or more",
    )


@pytest.mark.parametrize("name", some_of(NARROW, NARROW[-1]))
def test_values_of_fewer_bits_are_rounded_by_the_host(name: str) -> None:
    network, x, wanted = exported(name)
    np.testing.assert_array_equal(computed(network, x), wanted)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"), x)
    assert on_host(program)
    assert any("rounded in blocks by the host" in note for note in program.notes)
    found = next(iter(run(program, {"x": x}, "emulator").outputs.values()))
    assert np.mean(found == wanted) > 0.7  # others are a step of the last rounding away
    assert np.abs(found - wanted).max() <= 0.25 * np.abs(wanted).max()


def test_weights_in_blocks_are_decoded_exactly() -> None:
    model = onnx.load(FOLDER / "quark_mxfp4e2m1.onnx")
    network, _, _ = exported("mxfp4e2m1")
    stored = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    found = [numpy_helper.to_array(item) for item in network.model.graph.initializer]
    for name in ("w1", "w2"):
        wanted = round_blocks(stored[name], ELEMENTS["fp4_e2m1"], 32, axis=1)
        assert any(np.array_equal(wanted, item) for item in found)


def test_mxint8_of_quark_has_the_lowest_integer(tmp_path: Path) -> None:
    """-128, which the specification leaves open, and which its BFP16 has not."""
    for name, lowest in (("mxint8", -2.0), ("bfp16", -2.0 + 2.0**-6)):
        model = onnx.load(FOLDER / f"quark_{name}.onnx")
        weights = next(item for item in model.graph.initializer if item.name == "w2")
        values = numpy_helper.to_array(weights).copy()
        values[0, 0] = -1.999
        weights.CopyFrom(numpy_helper.from_array(values, "w2"))
        onnx.save(model, tmp_path / "network.onnx")
        constants = read_network(tmp_path / "network.onnx").model.graph.initializer
        assert min(numpy_helper.to_array(item).min() for item in constants if len(item.dims) == 4) == lowest


@pytest.mark.parametrize(("name", "value", "reason"), [
    ("rounding_mode", 0, "rounding_mode 0; export it with 2"),
    ("bfp_method", "to_bfp_prime", "MX4, MX6, MX9"),
    ("bit_width", 60, "bit_width 60; 10 to 24 are possible"),
    ("axis", 7, "blocks of 8 along axis 7 cannot be in a value of"),
    ("block_size", 0, "blocks of 0 along axis 0 cannot be"),
])  # fmt: skip
def test_nodes_that_cannot_be_read_are_named(name: str, value: Any, reason: str, tmp_path: Path) -> None:
    model = onnx.load(FOLDER / "quark_bfp16.onnx")
    node = next(node for node in model.graph.node if node.op_type == "BFPQuantizeDequantize")
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    onnx.save(model, tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=rf"BFPQuantizeDequantize \S+: .*{reason}"):
        read_network(tmp_path / "network.onnx")


def test_other_operators_of_quark_are_named(tmp_path: Path) -> None:
    model = onnx.load(FOLDER / "quark_bfp16.onnx")
    next(node for node in model.graph.node if node.op_type == "BFPQuantizeDequantize").op_type = "ExtendedLSTM"
    onnx.save(model, tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=r"ExtendedLSTM \S+: an operator of com\.amd\.quark that is not known"):
        read_network(tmp_path / "network.onnx")


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", [*sorted(ELEMENTS), "full"])
def test_operators_of_a_rounding_give_its_bits(name: str, opset: int) -> None:
    """Powers of two and their neighbours, ties, zeros, and all sizes in between."""
    generator = np.random.default_rng(4)
    powers = 2.0 ** generator.integers(-60, 60, size=(2, 3, 40, 2))
    factors = generator.choice([0, 1, -1, 1 + 2.0**-23, 1 - 2.0**-24, 1.5, 1.25], size=powers.shape)
    x = (powers * factors).astype(np.float32)
    x[1, 1] = generator.normal(size=(40, 2))
    x[1, 2] = generator.integers(-64, 64, size=(40, 2)) / 8
    element = integers(8, symmetric=False) if name == "full" else ELEMENTS[name]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, ["N", "M", 40, 2]) for end in ("x", "y")]
    model = helper.make_model(helper.make_graph([], "g", ends[:1], ends[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", opset)])  # fmt: skip
    model.graph.node.extend(written_out(model, "x", "y", (1, 3, 40, 2), element, 16, 2))
    onnx.checker.check_model(model, full_check=True)
    (found,) = session(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, round_blocks(x, element, 16, axis=2))


# ONNX's own quantizers, with scales for blocks


def quantized_values(kind: str, computed: bool = True) -> onnx.ModelProto:
    """Some values behind a pair of quantizers with a scale for each 16 of 32. computed: from the values."""
    network = WrittenNetwork(32, opset=21)
    attributes = {"axis": 1, "block_size": 16}
    scale = network.constant(np.array([[0.02, 0.3]], np.float32))
    if computed:
        parts = network.add("Reshape", network.add("Abs", "x"), network.constant(np.array([-1, 2, 16], np.int64)))
        largest = network.add("ReduceMax", parts, network.constant(np.array([2], np.int64)), keepdims=0)
        scale = network.add("Mul", network.add("Max", largest, network.constant(np.float32(1e-6))), network.constant(
            np.float32(1 / 7)))  # fmt: skip
    number = getattr(TensorProto, kind)
    codes = network.add("QuantizeLinear", "x", scale, output_dtype=number, **attributes)
    values = network.add("DequantizeLinear", codes, scale, **attributes)
    network.add("MatMul", values, network.constant(np.eye(32, dtype=np.float32)[:, ::3]))  # exact in any order
    return network.model()


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_values_quantized_by_blocks_are_those_of_onnx(kind: str, tmp_path: Path) -> None:
    """The host rounds them: every bit of ONNX's reference evaluator."""
    model = quantized_values(kind)
    onnx.save(model, tmp_path / "network.onnx")
    network = read_network(tmp_path / "network.onnx")
    x = np.random.default_rng(1).normal(size=(3, 32)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(computed(network, x), wanted)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"), x)
    assert any(isinstance(node, HostNode) and "QuantizeLinear" in node.operators for node in program.nodes)
    found = next(iter(Emulator(program).run({"x": x}).outputs.values()))
    assert np.abs(found - wanted).max() < 1e-3 * np.abs(wanted).max()
    assert any("rounded by the host" in note for note in program.notes)


@pytest.mark.skipif(not hasattr(TensorProto, "FLOAT4E2M1"), reason="onnx before 1.18 does not know this type")
@pytest.mark.parametrize("by_zero_point", [False, True])
def test_values_of_four_bit_floating_point_are_refused_by_name(by_zero_point: bool, tmp_path: Path) -> None:
    """ONNX Runtime has no such values."""
    model = quantized_values("FLOAT4E2M1")
    model.opset_import[0].version, model.ir_version = 23, 11
    if by_zero_point:
        node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
        kept = [item for item in node.attribute if item.name != "output_dtype"]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.input.append("zero")
        model.graph.initializer.append(helper.make_tensor("zero", TensorProto.FLOAT4E2M1, [1, 2], [0, 0]))
    onnx.save(model, tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=r"QuantizeLinear \S+: only weights may be of four-bit floating point"):
        read_network(tmp_path / "network.onnx")


def test_constant_scales_for_blocks_of_values_are_refused_by_name(tmp_path: Path) -> None:
    """ONNX wants them in the shape of the values, the batch included."""
    onnx.save(quantized_values("INT8", computed=False), tmp_path / "network.onnx")
    with pytest.raises(ModelError, match=r"QuantizeLinear \S+: block_size 16: constant scales state the batch"):
        read_network(tmp_path / "network.onnx")


# Weights that ONNX Runtime packs


def packed(tmp_path: Path, bits: int, symmetric: bool, form: str) -> tuple[Path, onnx.ModelProto]:
    """Two dense layers as ONNX Runtime's quantizer for blocks of weights writes them; the last block is not full."""
    tool = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    from onnxruntime.quantization import QuantFormat

    network = WrittenNetwork(72, opset=21)
    generator = np.random.default_rng(2)
    first, second = (network.constant(generator.normal(size=size).astype(np.float32)) for size in ((72, 48), (48, 10)))
    network.add("MatMul", network.add("Relu", network.add("MatMul", "x", first)), second)
    settings = tool.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=symmetric, bits=bits,
                                                 quant_format=QuantFormat[form])  # fmt: skip
    quantizer = tool.MatMulNBitsQuantizer(network.model(), algo_config=settings)
    quantizer.process()
    quantizer.model.save_model_to_file(str(tmp_path / "network.onnx"))
    return tmp_path / "network.onnx", onnx.load(tmp_path / "network.onnx")


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("bits", "form"), [(4, "QOperator"), (8, "QOperator"), (4, "QDQ")])
def test_weights_packed_by_onnx_runtime_are_weights(bits: int, symmetric: bool, form: str, tmp_path: Path) -> None:
    """Both layers are the array's; results are ONNX Runtime's, of QDQ ONNX's (ONNX Runtime rounds the values too)."""
    path, model = packed(tmp_path, bits, symmetric, form)
    x = np.random.default_rng(3).normal(size=(4, 72)).astype(np.float32)
    run_model = session(model).run if form == "QOperator" else ReferenceEvaluator(model).run
    (wanted,) = run_model(None, {"x": x})
    network = read_network(path)
    np.testing.assert_allclose(computed(network, x), wanted, rtol=1e-5, atol=1e-4)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"), x)
    assert not any(isinstance(node, HostNode) for node in program.nodes)


def test_packed_weights_with_groups_of_their_own_and_a_bias(tmp_path: Path) -> None:
    """By the definition of MatMulNBits, a weight at a time."""
    generator = np.random.default_rng(5)
    codes, zeros = generator.integers(0, 16, size=(6, 32)), generator.integers(0, 16, size=(6, 2))
    groups, scales = generator.integers(0, 2, size=32), generator.normal(size=(6, 2)).astype(np.float32)
    bias = generator.normal(size=6).astype(np.float32)
    network = WrittenNetwork(32, opset=21)
    network.domains.append("com.microsoft")
    parts = [(codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8).reshape(6, 2, 8), scales,
             (zeros[:, 0] | zeros[:, 1] << 4).astype(np.uint8), groups.astype(np.int32), bias]  # fmt: skip
    inputs = [network.constant(part) for part in parts]
    network.add("MatMulNBits", "x", *inputs, domain="com.microsoft", K=32, N=6, bits=4, block_size=16)
    onnx.save(network.model(), tmp_path / "network.onnx")
    x = generator.normal(size=(3, 32)).astype(np.float32)
    weights = np.zeros((32, 6))
    for output in range(6):
        for place in range(32):
            group = groups[place]
            weights[place, output] = (int(codes[output, place]) - int(zeros[output, group])) * scales[output, group]
    found = computed(read_network(tmp_path / "network.onnx"), x)
    np.testing.assert_allclose(found, x @ weights + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("change", "reason"), [
    ({"bits": 3}, "bits may be 2, 4, 8"),
    ({"K": 97}, "bytes are not 48 rows of 97 weights"),
    ({"block_size": 0}, "in blocks of 0"),
    ({}, "its weights and scales must be constants; it reads x"),
])  # fmt: skip
def test_packed_weights_that_do_not_fit_are_named(change: dict[str, int], reason: str, tmp_path: Path) -> None:
    path, model = packed(tmp_path, 4, True, "QOperator")
    node = model.graph.node[0]
    kept = [item for item in node.attribute if item.name not in change]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in change.items())])
    if not change:
        node.input[2] = "x"
    onnx.save(model, path)
    with pytest.raises(ModelError, match=rf"MatMulNBits .*{reason}"):
        read_network(path)
