"""Quantized networks: weights as their integers say, quantizers as exponents, results as the networks' own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from small_networks import WIDE, Network

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.grids import Grid
from bfpga.compiler.read.network import Network as ReadNetwork
from bfpga.compiler.read.network import read_network
from bfpga.compiler.read.qonnx import ROUNDINGS
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.host import onnx_session
from bfpga.devices.reference import FloatNetwork, sqnr_db
from bfpga.errors import ModelError

ZERO = np.int8(0)
QONNX = "qonnx.custom_op.general"
NARROW = KernelConfig(columns=4, rows=8, lanes=2)
ACTIVATIONS = {"signed": QuantType.QInt8, "unsigned": QuantType.QUInt8}


class Samples(CalibrationDataReader):
    """What ONNX Runtime quantizes with."""

    def __init__(self, x: np.ndarray) -> None:
        self.left = iter([{"x": x[index : index + 1]} for index in range(len(x))])

    def get_next(self) -> Any:
        return next(self.left, None)


def float_network() -> Network:
    network = Network(3, 8, 8)
    first = network.add("Relu", network.conv(8, 3, 3, pads=[1, 1, 1, 1]))
    second = network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    network.add("Relu", network.add("Add", first, second))
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("Gemm", network.add("Flatten", axis=1), network.weights(128, 10), network.weights(10))
    return network


def quantized_file(kind: str, folder: Path) -> Path:
    """A network that ONNX Runtime quantized: `dynamic`, or a format and the sign of its activations."""
    network = float_network()
    source, target = folder / "float.onnx", folder / f"{kind}.onnx"
    source.write_bytes(network.model().SerializeToString())
    if kind == "dynamic":
        # ONNX Runtime up to 1.23 computes no ConvInteger with signed weights, which the default writes.
        quantize_dynamic(source, target, weight_type=QuantType.QUInt8)
    else:
        form, sign = kind.split()
        per_channel, weights = (False, QuantType.QUInt8) if form == "QOperator" else (True, QuantType.QInt8)
        quantize_static(
            source, target, Samples(network.samples(32)["x"]), quant_format=QuantFormat[form],
            activation_type=ACTIVATIONS[sign], weight_type=weights, per_channel=per_channel,
        )  # fmt: skip
    return target


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def compiled(network: ReadNetwork | Path, config: KernelConfig = WIDE) -> Program:
    """Without samples: quantizers tell the ranges."""
    return compile_network(network, accelerator_around(config, "test"))


def host_operators(program: Program) -> list[str]:
    return [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]


def own_sqnr(network: ReadNetwork, program: Program, x: dict[str, np.ndarray]) -> float:
    """Of a program's first output against the quantized network's own."""
    own = FloatNetwork(network, quantized=True).run(x)
    found = Emulator(program).run(x).outputs
    name = next(iter(found))
    assert found[name].shape == own[name].shape
    return sqnr_db(own[name], found[name])


@pytest.mark.parametrize("kind", ["QDQ signed", "QDQ unsigned", "QOperator unsigned", "dynamic"])
def test_networks_of_onnx_runtime_run_on_the_array(kind: str, tmp_path: Path) -> None:
    """Nothing on the host, every exponent known, and results as near as rounding to 8 bits lets them be."""
    network = read_network(quantized_file(kind, tmp_path))
    x = float_network().samples(64)
    for config, least in ((WIDE, 28), (NARROW, 22)):
        program = compiled(network, config)
        layers = [node for node in program.nodes if isinstance(node, ArrayNode)]
        assert not host_operators(program)
        assert len(layers) == 5
        static = [node.policy.policy == Policy.STATIC or node.policy.inherit for node in layers]
        assert all(static) or kind == "dynamic"
        assert own_sqnr(network, program, x) > least


def test_weights_are_exactly_what_their_integers_stand_for(tmp_path: Path) -> None:
    path = quantized_file("QDQ signed", tmp_path)
    model = onnx.load(path)
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    kernels = [node for node in model.graph.node if constants.get(node.input[0], np.zeros(0)).ndim == 4]
    integers, scale = (constants[name].astype(np.float64) for name in kernels[0].input[:2])
    wanted = (integers * scale.reshape(-1, 1, 1, 1)).astype(np.float32)
    found = read_network(path).reference.graph
    weights = [numpy_helper.to_array(item) for item in found.initializer]
    assert any(item.shape == wanted.shape and np.array_equal(item, wanted) for item in weights)


def quantize(network: Network, value: str, scale: float, zero_point: Any = ZERO) -> str:
    return network.add("QuantizeLinear", value, network.constant(np.float32(scale)), network.constant(zero_point))


def dequantize(network: Network, value: str, scale: float, zero_point: Any = ZERO) -> str:
    return network.add("DequantizeLinear", value, network.constant(np.float32(scale)), network.constant(zero_point))


def fake_quantized(network: Network, value: str, scale: float, zero_point: Any = ZERO) -> str:
    return dequantize(network, quantize(network, value, scale, zero_point), scale, zero_point)


def test_steps_that_are_powers_of_two_are_the_exponents(tmp_path: Path) -> None:
    """As of Vitis AI: then the results are those of the quantized network, bit by bit as far as sums are exact."""
    network = Network(3, 8, 8)
    fake_quantized(network, "x", 2.0**-4)
    weights = network.constant(network.generator.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8))
    network.add("Conv", network.last, dequantize(network, weights, 2.0**-9))
    fake_quantized(network, network.add("Relu", network.last), 2.0**-3)
    read = read_network(saved(network.model(), tmp_path))
    program = compiled(read, NARROW)
    assert program.tensors["x"].input_exponent == -4
    assert [node.policy.exponent for node in program.nodes if isinstance(node, ArrayNode)][-1] == -3
    x = network.samples(16)
    own = next(iter(FloatNetwork(read, quantized=True).run(x).values()))
    np.testing.assert_array_equal(next(iter(Emulator(program).run(x).outputs.values())), own)


def test_a_quantizer_from_zero_on_is_a_relu(tmp_path: Path) -> None:
    """Exporters leave the ReLU out where the quantizer's zero point is the least integer."""
    network = Network(3, 8, 8)
    network.conv(4, 3, 3, source=fake_quantized(network, "x", 0.03))
    fake_quantized(network, network.last, 0.02, np.int8(-128))
    read = read_network(saved(network.model(), tmp_path))
    for functions in (WIDE.functions, ("none", "relu")):
        program = compiled(read, replace(WIDE, functions=functions))
        assert not host_operators(program)
        found = next(iter(Emulator(program).run(network.samples()).outputs.values()))
        assert found.min() == 0
        assert own_sqnr(read, program, network.samples()) > 25


@pytest.mark.parametrize("zero_point", [np.uint8(0), np.int8(-128)])
def test_an_input_quantizer_from_zero_on_limits_its_input(zero_point: Any, tmp_path: Path) -> None:
    """Half of the samples' values are negative."""
    network = Network(3, 8, 8)
    network.conv(4, 3, 3, source=fake_quantized(network, "x", 0.03, zero_point))
    read = read_network(saved(network.model(), tmp_path))
    for samples in (None, network.samples(4)):
        program = compile_network(read, accelerator_around(WIDE, "test"), samples)
        assert own_sqnr(read, program, network.samples()) > 30


def test_operators_on_integers_move_values(tmp_path: Path) -> None:
    """Between a quantizer and its dequantizer: maxima, rearrangements, padding, concatenation."""
    network = Network(4, 8, 8)
    zero = np.uint8(100)
    network.conv(4, 4, 3, source=fake_quantized(network, "x", 0.03), pads=[1, 1, 1, 1])
    integers = quantize(network, network.last, 0.04, zero)
    pooled = network.add("MaxPool", integers, kernel_shape=[2, 2], strides=[2, 2])
    joined = network.add("Concat", pooled, network.add("Transpose", pooled, perm=[0, 1, 3, 2]), axis=1)
    pads = network.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    padded = network.add("Pad", joined, pads, network.constant(zero))
    network.conv(5, 8, 3, source=dequantize(network, padded, 0.04, zero))
    read = read_network(saved(network.model(), tmp_path))
    assert not {node.op_type for node in read.model.graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    program = compile_network(read, accelerator_around(WIDE, "test"), network.samples(16))
    assert own_sqnr(read, program, network.samples()) > 25


def test_integers_that_an_unknown_operator_reads_are_made_on_the_host(tmp_path: Path) -> None:
    network = Network(16)
    integers = quantize(network, network.add("MatMul", "x", network.weights(16, 8)), 0.02)
    network.add("Cast", network.add("Mod", integers, network.constant(np.int8(7))), to=TensorProto.FLOAT)
    read = read_network(saved(network.model(), tmp_path))
    program = compile_network(read, accelerator_around(WIDE, "test"), network.samples(16))
    assert "QuantizeLinear" in host_operators(program)
    assert own_sqnr(read, program, network.samples()) > 20


def test_quantized_borders_are_given_as_what_they_stand_for(tmp_path: Path) -> None:
    """A network of TFLite takes bytes and gives bytes."""
    network = Network(3, 8, 8)
    network.conv(4, 3, 3, source=dequantize(network, "x", 1 / 255, np.uint8(128)))
    quantize(network, network.last, 0.03)
    model = network.model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(network.last, TensorProto.INT8, ["N", 4, 6, 6]))
    del model.graph.value_info[:]
    x = np.random.default_rng(2).integers(0, 256, (16, 3, 8, 8)).astype(np.uint8)
    integers = onnx_session(model.SerializeToString()).run(None, {"x": x})[0]
    read = read_network(saved(model, tmp_path))
    floats = {"x": x.astype(np.float32)}
    own = FloatNetwork(read, quantized=True).run(floats)[network.last]
    np.testing.assert_allclose(own, integers.astype(np.float32) * np.float32(0.03), rtol=1e-6)
    assert own_sqnr(read, compiled(read), floats) > 30


# QONNX


def qonnx_network(*shape: int) -> Network:
    network = Network(*shape)
    network.domains = [QONNX]
    return network


def quant(network: Network, value: str, scale: Any, bits: float, zero_point: float = 0, **attributes: Any) -> str:
    numbers = [network.constant(np.asarray(number, np.float32)) for number in (scale, zero_point, bits)]
    given = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"} | attributes
    return network.add("Quant", value, *numbers, domain=QONNX, **given)


def rounded(x: np.ndarray, mode: str) -> np.ndarray:
    """The rounding modes of QONNX, as its documents define them."""
    size = np.abs(x)
    plain = {"CEIL": np.ceil(x), "FLOOR": np.floor(x), "ROUND": np.rint(x), "HALF_EVEN": np.rint(x)}
    sized = {"UP": np.ceil(size), "DOWN": np.floor(size), "HALF_UP": np.floor(size + 0.5)}
    sized["HALF_DOWN"] = np.ceil(size - 0.5)
    return plain[mode] if mode in plain else np.sign(x) * sized[mode]


@pytest.mark.parametrize("mode", ROUNDINGS)
def test_quantizers_of_qonnx_are_their_definition(mode: str, tmp_path: Path) -> None:
    """Quant(x) = (round(clip(x / scale + zero point)) - zero point) * scale, by channel or not."""
    network = qonnx_network(8)
    scale = np.linspace(0.25, 0.5, 8).astype(np.float32)
    quant(network, "x", scale, 3, 1, narrow=1, rounding_mode=mode)
    read = read_network(saved(network.model(), tmp_path))
    x = np.concatenate([network.samples(64)["x"], np.arange(-32, 32).reshape(-1, 8).astype(np.float32) * scale / 2])
    wanted = (rounded(np.clip(x / scale + np.float32(1), -3, 3), mode) - 1) * scale
    found = FloatNetwork(read, quantized=True).run({"x": x})
    np.testing.assert_allclose(next(iter(found.values())), wanted, atol=1e-6)


def test_truncation_of_qonnx_is_its_definition(tmp_path: Path) -> None:
    network = qonnx_network(8)
    numbers = [network.constant(np.float32(number)) for number in (0.01, 0, 8, 5)]
    network.add("Trunc", "x", *numbers, domain=QONNX, rounding_mode="FLOOR")
    read = read_network(saved(network.model(), tmp_path))
    x = network.samples(64)["x"]
    found = FloatNetwork(read, quantized=True).run({"x": x})
    wanted = np.floor(np.rint(x / np.float32(0.01)) / 8) * np.float32(0.01)
    np.testing.assert_allclose(next(iter(found.values())), wanted, atol=1e-6)


def trained_with(bits: int, sign: bool = False) -> Network:
    """As Brevitas exports: few bits of weights and activations, scales that are no powers of two."""
    network = qonnx_network(3, 8, 8)
    generator = network.generator

    def weights(*shape: int) -> str:
        scale = (generator.random((shape[0], *[1] * (len(shape) - 1))) * 0.2 + 0.3).astype(np.float32)
        return quant(network, network.weights(*shape, scale=4), scale, bits, narrow=1)

    value = network.add("Conv", quant(network, "x", 0.037, 8), weights(8, 3, 3, 3), pads=[1, 1, 1, 1])
    if sign:
        value = network.add("BipolarQuant", value, network.constant(np.float32(0.7)), domain=QONNX)
    else:
        value = quant(network, network.add("Relu", value), 0.31, bits, signed=0)
    value = network.add("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    value = quant(network, network.add("Conv", value, weights(12, 8, 3, 3)), 0.53, bits + 1)
    matrix = quant(network, network.weights(48, 10), 0.1, 4)
    network.add("MatMul", network.add("Flatten", value, axis=1), matrix)
    return network


@pytest.mark.parametrize(("bits", "sign", "least"), [(2, False, 60), (4, False, 40), (2, True, 25)])
def test_networks_trained_with_few_bits_keep_their_rounding(bits: int, sign: bool, least: int, tmp_path: Path) -> None:
    """Dropping it would be another network: its float form alone is 7 to 20 dB from the quantized one's results."""
    network = trained_with(bits, sign)
    read = read_network(saved(network.model(), tmp_path))
    x = network.samples(64)
    program = compiled(read)
    assert host_operators(program) in ([], ["Mul"])
    assert own_sqnr(read, program, x) > least
    plain = next(iter(FloatNetwork(read).run(x).values()))
    assert sqnr_db(next(iter(FloatNetwork(read, quantized=True).run(x).values())), plain) < least - 5


def test_integers_of_fewer_bits_than_their_type(tmp_path: Path) -> None:
    """Brevitas' export to QDQ limits the integers by a Clip between quantizer and dequantizer."""
    network = qonnx_network(3, 8, 8)
    network.conv(4, 3, 3, source=fake_quantized(network, "x", 2.0**-5))
    integers = quantize(network, network.last, 0.25, np.uint8(0))
    limits = [network.constant(np.uint8(number)) for number in (0, 7)]
    dequantize(network, network.add("Clip", integers, *limits), 0.25, np.uint8(0))
    read = read_network(saved(network.model(), tmp_path))
    assert Grid(0.25, 0.0, 1.75, rounds=True) in read.grids.values()
    assert own_sqnr(read, compiled(read), network.samples(32)) > 25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda node: node.input.__setitem__(1, "x"), "x is computed; scale, zero point and bits must be constants"),
        (lambda node: node.attribute.append(helper.make_attribute("rounding_mode", "ODD")), "rounding_mode ODD"),
        (lambda node: node.input.pop(), "it has 3 inputs; 4 are needed"),
    ],
)
def test_quantizers_that_nothing_defines_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    network = qonnx_network(8)
    numbers = [network.constant(np.float32(number)) for number in (0.1, 0, 4)]
    network.add("Quant", "x", *numbers, domain=QONNX, signed=1, narrow=0)
    model = network.model()
    change(model.graph.node[0])
    with pytest.raises(ModelError, match=rf"network.onnx: quantizer Quant_0 \(Quant\): {message}"):
        read_network(saved(model, tmp_path))


def test_integers_with_computed_scales_are_refused(tmp_path: Path) -> None:
    network = qonnx_network(3, 8, 8)
    scale, zero = network.constant(np.float32(0.1)), network.constant(np.uint8(0))
    weights = network.constant(np.ones((4, 3, 3, 3), np.uint8))
    bias = network.constant(np.ones(4, np.int32))
    computed = network.add("ReduceMax", "x", keepdims=0)
    integers = network.add("QuantizeLinear", "x", scale, zero)
    network.add("QLinearConv", integers, computed, zero, weights, scale, zero, scale, zero, bias)
    network.add("DequantizeLinear", network.last, scale, zero)
    with pytest.raises(ModelError, match=r"QLinearConv QLinearConv_2: input 1 \(v0\) must be a constant"):
        read_network(saved(network.model(), tmp_path))
