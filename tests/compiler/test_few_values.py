"""Quantizers of few values keep their rounding, whatever reads them: against the definition, run by ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from effort import drawn, each_once
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from small_networks import WIDE, Network

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import HostNode, Program
from bfpga.devices.emulator import Emulator

QONNX = "qonnx.custom_op.general"
CHANNELS = 4
#: Of the largest result: the rounding of weights and results to 16 bits, for most values.
TOLERANCE = 1e-3


def own_results(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What ONNX Runtime makes of a network whose Quant operators are written out as their definition says."""
    written = onnx.ModelProto()
    written.CopyFrom(model)
    numbers = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    del written.graph.node[:], written.graph.value_info[:]
    for node in model.graph.node:
        written.graph.node.extend(_definition(node, numbers, written) if node.op_type == "Quant" else [node])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(written.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _definition(node: onnx.NodeProto, numbers: dict[str, Any], model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """round(clip(x / scale)) * scale; the zero points here are 0."""
    given = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    bits, signed = float(numbers[node.input[3]]), given["signed"]
    low = -(2.0 ** (bits - 1)) if signed else 0.0
    limits = [f"{node.output[0]}_low", f"{node.output[0]}_high"]
    for name, limit in zip(limits, (low, low + 2**bits - 1), strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(limit), name))
    kind = {b"ROUND": "Round", b"FLOOR": "Floor", b"CEIL": "Ceil"}[given["rounding_mode"]]
    steps = [f"{node.output[0]}_{number}" for number in range(3)]
    return [
        onnx.helper.make_node("Div", [node.input[0], node.input[1]], steps[:1]),
        onnx.helper.make_node("Clip", [steps[0], *limits], steps[1:2]),
        onnx.helper.make_node(kind, steps[1:2], steps[2:]),
        onnx.helper.make_node("Mul", [steps[2], node.input[1]], list(node.output)),
    ]


@dataclass(frozen=True)
class Form:
    """Numbers of a quantizer, and how it is written."""

    bits: int
    scale: float
    signed: bool = False
    relu: bool = False
    qdq: bool = False
    channels: bool = False
    mode: str = "ROUND"


def quantized(network: Network, value: str, form: Form) -> str:
    if form.relu:
        value = network.add("Relu", value)
    if form.qdq:
        return between_integers(network, value, form)
    scale = np.float32(form.scale)
    if form.channels:
        scale = (scale * np.linspace(0.6, 1.4, CHANNELS, dtype=np.float32)).reshape(1, -1, 1, 1)
    numbers = [network.constant(item) for item in (scale, np.float32(0), np.float32(form.bits))]
    return network.add("Quant", value, *numbers, domain=QONNX, signed=int(form.signed), narrow=0,
                       rounding_mode=form.mode)  # fmt: skip


def between_integers(network: Network, value: str, form: Form) -> str:
    """As Brevitas writes few bits in standard operators: bytes with limits."""
    kind = np.int8 if form.signed else np.uint8
    scale, zero = (network.constant(item) for item in (np.float32(form.scale), kind(0)))
    low = -(2 ** (form.bits - 1)) if form.signed else 0
    limits = [network.constant(kind(number)) for number in (low, low + 2**form.bits - 1)]
    integers = network.add("Clip", network.add("QuantizeLinear", value, scale, zero), *limits)
    return network.add("DequantizeLinear", integers, scale, zero)


def conv(network: Network, value: str) -> str:
    return network.conv(CHANNELS, CHANNELS, 3, value, pads=[1, 1, 1, 1])


def resized(network: Network, value: str, mode: str) -> str:
    scales = network.constant(np.array([1, 1, 2, 2], np.float32))
    return network.add("Resize", value, "", scales, mode=mode, coordinate_transformation_mode="asymmetric")


NUMBERS = [np.linspace(low, 2, CHANNELS, dtype=np.float32) for low in (0.5, -1.0, -1.0, 0.5)]
#: What reads a quantized value q of 4 channels and 6 x 6 pixels; f quantizes another one.
READERS: dict[str, Any] = {
    "nothing": lambda n, q, f: q,
    "Conv": lambda n, q, f: conv(n, q),
    "AveragePool": lambda n, q, f: n.add("AveragePool", q, kernel_shape=[2, 2], strides=[2, 2]),
    "GlobalAveragePool": lambda n, q, f: n.add("GlobalAveragePool", q),
    "ReduceMean": lambda n, q, f: n.add("ReduceMean", q, axes=[2, 3]),
    "MaxPool": lambda n, q, f: n.add("MaxPool", q, kernel_shape=[2, 2], strides=[2, 2]),
    "nearest Resize": lambda n, q, f: resized(n, q, "nearest"),
    "linear Resize": lambda n, q, f: resized(n, q, "linear"),
    "Add of quantized": lambda n, q, f: n.add("Add", q, f(conv(n, "x"))),
    "Add of plain": lambda n, q, f: n.add("Add", conv(n, q), q),
    "Sub": lambda n, q, f: n.add("Sub", q, f(conv(n, "x"))),
    "Concat": lambda n, q, f: n.add("Concat", q, f(conv(n, "x")), axis=1),
    "Concat of plain": lambda n, q, f: n.add("Concat", q, conv(n, q), axis=1),
    "Mul": lambda n, q, f: n.add("Mul", q, n.constant(np.float32(1.7))),
    "normalization": lambda n, q, f: n.add("BatchNormalization", q, *map(n.constant, NUMBERS)),
    "Sigmoid": lambda n, q, f: n.add("Sigmoid", q),
    "LeakyRelu": lambda n, q, f: n.add("LeakyRelu", q, alpha=0.1),
    "Softmax": lambda n, q, f: n.add("Softmax", q, axis=1),
    "factors": lambda n, q, f: n.add("Mul", q, n.add("GlobalAveragePool", q)),
    "another quantizer": lambda n, q, f: f(q),
    "two quantizers": lambda n, q, f: n.add("Concat", q, f("v0"), axis=1),
    "channels last": lambda n, q, f: n.add("Transpose", q, perm=[0, 2, 3, 1]),
}


def network_of(form: Form, other: Form, reader: str, head: bool = False) -> Network:
    """A convolution, a quantizer, what reads it, and perhaps a convolution behind that."""
    network = Network(CHANNELS, 6, 6, opset=13)
    network.domains.append(QONNX)
    q = quantized(network, conv(network, "x"), form)
    result = READERS[reader](network, q, lambda value: quantized(network, value, other))
    if head and reader != "channels last":
        network.conv(4, 2 * CHANNELS if reader.startswith(("Concat", "two")) else CHANNELS, 1, result)
    return network


def compiled(model: onnx.ModelProto, samples: np.ndarray | None, options: CompileOptions | None = None) -> Program:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(model.SerializeToString())
        return compile_network(read_network(path), accelerator_around(WIDE, "test"), samples, options)


def samples_of(network: Network) -> np.ndarray:
    """Values of two bits behind the point: sums of a float32 reference are exact but for the weights'."""
    return np.round(4 * network.samples(4)["x"]) / 4


def check(network: Network, calibrated: bool = False, options: CompileOptions | None = None) -> Program:
    """Most values are as the reference says. One at a border between two steps may be the next one."""
    model, x = network.model(), samples_of(network)
    program = compiled(model, x if calibrated else None, options)
    expected = own_results(model, x)
    found = next(iter(Emulator(program).run({"x": x}).outputs.values()))
    assert np.median(np.abs(found - expected)) <= TOLERANCE * np.abs(expected).max()
    assert (np.abs(found - expected) <= 5 * TOLERANCE * np.abs(expected).max()).mean() > 0.7
    assert not any("lost" in note for note in program.notes)
    return program


@pytest.mark.parametrize(("reader", "scale"), each_once(list(READERS), [0.37, 0.5]))
def test_the_rounding_of_few_values_is_kept_whatever_reads_them(reader: str, scale: float) -> None:
    check(network_of(Form(2, scale), Form(2, 0.29 if scale == 0.37 else 0.25), reader))


FORMS = st.builds(
    Form, bits=st.integers(2, 4), scale=st.sampled_from([0.25, 0.5, 0.21, 0.37, 0.83]), signed=st.booleans(),
    relu=st.booleans(), qdq=st.booleans(), mode=st.sampled_from(["ROUND", "FLOOR", "CEIL"]),
)  # fmt: skip


@settings(max_examples=drawn(25), deadline=None)
@given(FORMS, FORMS, st.sampled_from(sorted(READERS)), st.booleans(), st.booleans())
@example(Form(2, 0.37, channels=True), Form(2, 0.25, channels=True), "GlobalAveragePool", True, False)
@example(Form(3, 0.37, signed=True, channels=True), Form(2, 0.25), "Add of quantized", False, True)
def test_random_networks_of_few_values(form: Form, other: Form, reader: str, head: bool, calibrated: bool) -> None:
    check(network_of(form, other, reader, head), calibrated)


def test_a_recipe_that_measures_ranges_leaves_few_values_their_step() -> None:
    check(network_of(Form(2, 0.5), Form(2, 0.25), "GlobalAveragePool"), options=CompileOptions(policy="max"))


def test_an_average_in_front_of_a_layer_costs_no_pass_for_the_quantizers_factor() -> None:
    """The convolution, the average along rows and along columns, the layer, whose weights take the factor."""
    program = check(network_of(Form(2, 0.37), Form(2, 0.37), "GlobalAveragePool", head=True))
    assert len(program.nodes) == 4


def test_the_host_rounds_what_it_computes() -> None:
    """A function that the array does not have, in front of a quantizer that the host reads again."""
    network = Network(CHANNELS, 6, 6, opset=13)
    network.domains.append(QONNX)
    q = quantized(network, network.add("Elu", conv(network, "x")), Form(3, 0.29, signed=True))
    network.add("Elu", q)
    program = check(network)
    assert any(isinstance(node, HostNode) and "Elu" in node.operators for node in program.nodes)


def test_one_quantizer_rounds_nobody_elses_value() -> None:
    """What a quantizer reads is also read as it is."""
    network = Network(CHANNELS, 6, 6, opset=13)
    network.domains.append(QONNX)
    plain = network.add("Sigmoid", conv(network, "x"))
    q = quantized(network, plain, Form(2, 0.5))
    network.add("Concat", plain, q, axis=1)
    check(network)


def test_rounding_that_a_program_loses_is_said() -> None:
    """A recipe states another exponent than the quantizer's."""
    network = network_of(Form(2, 0.5), Form(2, 0.5), "GlobalAveragePool")
    options = CompileOptions(layers={"Conv_0": {"policy": "lookup", "exponent": -6}})
    notes = compiled(network.model(), None, options).notes
    assert [note for note in notes if "rounding of a quantizer of few values is lost" in note]
