"""Networks as users have them: old and new opsets, half precision, open sizes, integer borders, channels last."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaging.requirements import Requirement
from small_networks import WIDE, Network, compiled, largest_error

import bfpga
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import read_network
from bfpga.compiler.read.opsets import NEWEST_ONNX
from bfpga.contract.program import HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.host import host_function, onnx_session
from bfpga.errors import ModelError, ProgramError

NEWEST = onnx.defs.onnx_opset_version()


def host_operators(program: Program) -> list[str]:
    return [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def error_of(
    model: onnx.ModelProto, x: dict[str, np.ndarray], folder: Path, shapes: dict[str, tuple[int, ...]] | None = None
) -> float:
    """Largest difference of a compiled network to ONNX Runtime on the file as it is, over the largest value."""
    network = read_network(saved(model, folder), shapes)
    floats = {name: values.astype(np.float32) for name, values in x.items()}
    program = compile_network(network, accelerator_around(WIDE, "test"), floats)
    found = next(iter(Emulator(program).run(floats).outputs.values()))
    expected = np.asarray(onnx_session(model.SerializeToString()).run(None, x)[0], np.float32)
    assert (found.shape, found.dtype) == (expected.shape, np.float32)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def small(opset: int) -> Network:
    network = Network(3, 8, 8, opset=opset)
    network.conv(4, 3, 3)
    numbers = [network.constant(np.full(4, value, np.float32)) for value in (1, 0.5, 0, 2)]
    value = network.add("BatchNormalization", network.last, *numbers)
    if opset < 11:
        network.add("Clip", value, min=0.0, max=6.0)
    else:
        network.add("Clip", value, *(network.constant(np.float32(bound)) for bound in (0, 6)))
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("Flatten", axis=1)
    network.add("Gemm", network.last, network.weights(36, 5), network.weights(5))
    return network


@pytest.mark.parametrize("opset", [7, 9, 10, *range(22, NEWEST + 1)])
def test_opsets_beyond_those_of_the_compiler_are_converted(opset: int, tmp_path: Path) -> None:
    """As the installed onnx writes them: in a format that ONNX Runtime may not know yet."""
    network = small(opset)
    model = network.model()
    model.ir_version = onnx.IR_VERSION
    read = read_network(saved(model, tmp_path))
    assert [item.version for item in read.model.opset_import] == [13 if opset < 11 else 21]
    assert read.model.ir_version == 10
    program = compile_network(read, accelerator_around(WIDE, "test"), network.samples())
    assert not host_operators(program)
    plain = small(min(opset, 21))
    assert largest_error(plain, program) < 1e-3


#: Operators since the opset 24 without an older form: the first one, attributes, inputs, constants.
SINCE = {
    "Swish": (24, {}, ["r"], []),
    "CumProd": (26, {}, ["r", "axis"], [np.int64(1)]),
    "SwiGLU": (28, {}, ["r", "r"], []),
}


@pytest.mark.parametrize("operator", [name for name, (opset, *_) in SINCE.items() if opset <= NEWEST])
def test_operators_of_newer_opsets_are_computed_or_refused(operator: str, tmp_path: Path) -> None:
    """By the array, or by the host if ONNX Runtime has them; never a traceback."""
    opset, attributes, inputs, constants = SINCE[operator]
    network = Network(3, 4, 4, opset=opset)
    network.conv(4, 3, 3)
    relu = network.add("Relu", network.last)
    given = [network.constant(value) for value in constants]
    network.add(operator, *[relu if name == "r" else given[0] for name in inputs], **attributes)
    refused, outputs = "", {}
    try:
        outputs = Emulator(compiled(network, tmp_path)).run(network.samples()).outputs
    except ModelError as error:
        refused = str(error)
    assert outputs or re.search(rf"ONNX Runtime .* opset up to 21, it has {opset}", refused), refused
    assert all(np.isfinite(value).all() for value in outputs.values())


def test_what_onnx_runtime_does_not_have_is_named_before_a_run(tmp_path: Path) -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Absent", ["x"], ["y"], "a")], "host",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        ), opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    node = HostNode(name="a", inputs=("x",), outputs=("y",), model=model.SerializeToString(), operators=("Absent",))
    with pytest.raises(ProgramError, match=r"a \(Absent\) cannot be computed on the host"):
        host_function(node)


def test_weights_may_be_listed_among_the_inputs(tmp_path: Path) -> None:
    """Old exporters do so, and PyTorch's for weights that are quantized."""
    network = Network(3, 8, 8)
    scale, zero = network.constant(np.float32(0.05)), network.constant(np.int8(0))
    integers = network.add("QuantizeLinear", "x", scale, zero)
    network.conv(4, 3, 3, source=network.add("DequantizeLinear", integers, scale, zero))
    model = network.model()
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    assert error_of(model, network.samples(), tmp_path) < 2e-2


@pytest.mark.parametrize("attributes", [{}, {"allowzero": 1}])
def test_a_batch_of_one_may_be_written_into_a_reshape(attributes: dict[str, int], tmp_path: Path) -> None:
    network = Network(3, 8, 8)
    network.conv(4, 3, 3)
    network.add("Reshape", network.last, network.constant(np.array([1, 144], np.int64)), **attributes)
    network.add("MatMul", network.last, network.weights(144, 5))
    program = compiled(network, tmp_path, batch=1)
    x = network.samples(4)["x"]
    session = onnx_session(network.model(batch=1).SerializeToString())
    expected = np.concatenate([session.run(None, {"x": sample[None]})[0] for sample in x])
    np.testing.assert_allclose(next(iter(Emulator(program).run({"x": x}).outputs.values())), expected, atol=1e-2)


def test_an_opset_that_onnx_does_not_know_is_one_sentence(tmp_path: Path) -> None:
    path = saved(small(NEWEST + 1).model(), tmp_path)
    with pytest.raises(ModelError, match=f"opset {NEWEST + 1} is unknown to the installed onnx .* 1 to {NEWEST}"):
        read_network(path)


@pytest.mark.parametrize(("opset", "said"), [(28, f": install onnx {NEWEST_ONNX}, or export"), (29, ": export the")])
def test_the_onnx_to_install_is_one_that_the_package_allows(
    opset: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 25)
    with pytest.raises(ModelError, match=said):
        read_network(saved(small(opset).model(), tmp_path))
    (allowed,) = (item for item in map(Requirement, requires("bfpga") or []) if item.name == "onnx")
    assert allowed.specifier.contains(NEWEST_ONNX)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_half_precision_becomes_float32_exactly(kind: int, tmp_path: Path) -> None:
    network = small(17)
    model = network.model()
    wanted = {}
    for tensor in model.graph.initializer:
        narrow = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(kind))
        wanted[tensor.name] = narrow.astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = kind
    del model.graph.value_info[:]
    found = read_network(saved(model, tmp_path))
    assert {item.name for item in found.model.graph.initializer} == wanted.keys()
    for tensor in found.model.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), wanted[tensor.name])
    program = compile_network(found, accelerator_around(WIDE, "test"), network.samples())
    assert not host_operators(program)


def test_casts_between_precisions_vanish(tmp_path: Path) -> None:
    """Converters to half precision keep the borders in float32 and cast behind them."""
    network = Network(3, 8, 8)
    network.add("Cast", to=TensorProto.FLOAT16)
    weights = network.constant(network.generator.normal(size=(4, 3, 3, 3)).astype(np.float16))
    network.add("Relu", network.add("Conv", network.last, weights))
    network.add("Cast", to=TensorProto.FLOAT)
    program = compiled(network, tmp_path)
    assert not host_operators(program)
    assert largest_error(network, program) < 1e-2


def open_sizes() -> tuple[Network, onnx.ModelProto]:
    network = Network(3, 8, 8)
    network.inputs["z"] = (3, 8, 8)
    network.add("Relu", network.conv(4, 3, 3, source=network.add("Add", "x", "z")))
    model = network.model()
    for value in model.graph.input:
        for axis, name in ((2, "height"), (3, "width")):
            value.type.tensor_type.shape.dim[axis].dim_param = name
    del model.graph.value_info[:], model.graph.output[0].type.tensor_type.shape.dim[:]
    for name in ("N", "c", "h", "w"):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = name
    return network, model


def test_sizes_that_are_open_are_given_once_for_all_inputs(tmp_path: Path) -> None:
    network, model = open_sizes()
    assert error_of(model, network.samples(), tmp_path, {"x": (1, 3, 8, 8)}) < 1e-3
    with pytest.raises(ModelError, match=r"axis 2 of input x is dynamic.*--input-shape x=1,3,224,224,"):
        read_network(saved(model, tmp_path))


@pytest.mark.parametrize(("axes", "size"), [((1, 2, 3), 28), ((2, 3), 64), ((3,), 16)])
def test_open_sizes_are_told_with_a_shape_that_serves(axes: tuple[int, ...], size: int, tmp_path: Path) -> None:
    """Behind a Flatten one size alone fits the weights."""
    network = Network(3, size, size)
    network.add("MaxPool", network.conv(4, 3, 3), kernel_shape=[2, 2], strides=[2, 2])
    network.add("Gemm", network.add("Flatten", axis=1), network.weights(4 * ((size - 2) // 2) ** 2, 5))
    model = network.model()
    for axis in axes:
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"open {axis}"
    with pytest.raises(ModelError, match=f"--input-shape x=1,3,{size},{size},") as refused:
        read_network(saved(model, tmp_path))
    told = re.search(r"--input-shape x=([\d,]*\d)", str(refused.value))
    assert told is not None
    shape = tuple(map(int, told[1].split(",")))
    assert error_of(model, network.samples(), tmp_path, {"x": shape}) < 1e-2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1, 3, 8, 8)}, "there is no input 'y' to give a shape; inputs are x, z"),
        ({"": (1, 3, 8, 8)}, "a shape is given without a name; inputs are x, z"),
        ({"x": (3, 8, 8)}, "input x has 4 axes; the shape that was given, 3,8,8, has 3"),
        ({"x": (1, 5, 8, 8)}, "axis 1 of input x is 3 in the file, 5 in the shape"),
        ({"x": (1, 3, 0, 8)}, "has a size below 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        read_network(saved(open_sizes()[1], tmp_path), shapes)


def test_integer_inputs_are_cast_at_the_border(tmp_path: Path) -> None:
    """Bytes of an image, which the network itself casts and scales."""
    network = Network(3, 8, 8)
    scaled = network.add("Div", network.add("Cast", to=TensorProto.FLOAT), network.constant(np.float32(255)))
    network.conv(4, 3, 3, source=scaled)
    model = network.model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    x = np.random.default_rng(3).integers(0, 256, (6, 3, 8, 8)).astype(np.uint8)
    assert error_of(model, {"x": x}, tmp_path) < 1e-3


def test_indices_are_cast_back_for_the_operators_that_need_them(tmp_path: Path) -> None:
    network = Network(6)
    network.add("Gather", network.weights(20, 8), "x", axis=0)
    network.add("MatMul", network.last, network.weights(8, 5))
    model = network.model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    x = np.random.default_rng(3).integers(0, 20, (6, 6))
    assert error_of(onnx.shape_inference.infer_shapes(model), {"x": x}, tmp_path) < 1e-3


def test_truth_values_leave_as_floats(tmp_path: Path) -> None:
    network = Network(8)
    network.add("Greater", network.add("MatMul", "x", network.weights(8, 5)), network.constant(np.float32(0)))
    model = network.model()
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(network.last, TensorProto.BOOL, ["N", 5]))
    assert error_of(model, network.samples(), tmp_path) == 0


def test_text_is_no_input(tmp_path: Path) -> None:
    model = small(17).model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(ModelError, match="x is of type STRING; inputs must be float32, or integers"):
        read_network(saved(model, tmp_path))


# Channels last

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]


def turned_conv(network: Network, source: str, channels: int, inputs: int, **attributes: object) -> str:
    """A convolution between transpositions, as exporters of Keras write it."""
    network.add("Transpose", source, perm=FIRST)
    network.add("Conv", network.last, network.weights(channels, inputs, 3, 3), **attributes)
    return network.add("Transpose", perm=LAST)


def biases_and_activations() -> Network:
    network = Network(9, 8, 3)
    network.add("Relu", network.add("Add", turned_conv(network, "x", 8, 3, pads=[1, 1, 1, 1]), network.weights(8)))
    network.add("Add", turned_conv(network, network.last, 12, 8), network.weights(1, 1, 1, 12))
    network.add("Clip", network.last, network.constant(np.float32(0)), network.constant(np.float32(6)))
    network.add("Transpose", network.last, perm=FIRST)
    network.add("Transpose", network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2]), perm=LAST)
    network.add("Reshape", network.last, network.constant(np.array([-1, 108], np.int64)))
    network.add("Add", network.add("MatMul", network.last, network.weights(108, 10)), network.weights(10))
    return network


def residual_with_mean() -> Network:
    network = Network(8, 8, 4)
    first = turned_conv(network, "x", 8, 4, pads=[1, 1, 1, 1])
    first = network.add("Relu", network.add("Mul", first, network.weights(8)))
    second = network.add("Add", turned_conv(network, first, 8, 8, pads=[1, 1, 1, 1]), network.weights(8))
    network.add("ReduceMean", network.add("Relu", network.add("Add", first, second)), axes=[1, 2], keepdims=0)
    network.add("Gemm", network.last, network.weights(8, 5), network.weights(5))
    return network


def joined_with_padding() -> Network:
    network = Network(8, 8, 4)
    first = network.add("Relu", turned_conv(network, "x", 8, 4, pads=[1, 1, 1, 1]))
    second = network.add("Relu", turned_conv(network, first, 8, 8, pads=[1, 1, 1, 1]))
    network.add("Concat", first, second, axis=-1)
    network.add("Pad", network.last, network.constant(np.array([0, 1, 0, 0, 0, 1, 0, 0], np.int64)))
    turned_conv(network, network.last, 6, 16)
    return network


@pytest.mark.parametrize(
    ("build", "layers"), [(biases_and_activations, 4), (residual_with_mean, 5), (joined_with_padding, 4)]
)
def test_channels_last_leave_nothing_on_the_host(build: Callable[[], Network], layers: int, tmp_path: Path) -> None:
    """layers: as many as the same network has with channels first (one of them copies a part of a concatenation)."""
    network = build()
    program = compiled(network, tmp_path)
    assert not host_operators(program)
    assert len(program.nodes) <= layers
    assert largest_error(network, program) < 2e-3


def test_transpositions_that_a_reader_needs_stay(tmp_path: Path) -> None:
    network = Network(8, 8, 4)
    value = network.add("Relu", turned_conv(network, "x", 8, 4))
    network.add("Softmax", value, axis=2)
    program = compiled(network, tmp_path, outputs=(value, network.last))
    assert largest_error(network, program, (value, network.last)) < 2e-3


def test_python_takes_shapes_of_inputs(tmp_path: Path) -> None:
    _, model = open_sizes()
    read = read_network(saved(model, tmp_path), {"x": (1, 3, 6, 7)})
    program = bfpga.compile(read, "tiny")
    assert dict(program.inputs) == {"x": (3, 6, 7), "z": (3, 6, 7)}
