"""ONNX files that were made to do harm, or that no exporter writes: one message, or the right result.

benchmarks/robustness takes thousands of them; each of these once ended the process, ran for ever or gave wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_constructs as constructs
import pytest
from effort import each_once
from hostile_seeds import EXAMPLES, images, normalized, vectors
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_mutations import mutant
from small_networks import WIDE, Network, attention_network, recurrent_network, refusal

from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read import trial
from bfpga.compiler.read.network import Network as ReadNetwork
from bfpga.compiler.read.network import read_network
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError


def written(model: ModelProto, folder: Path) -> Path:
    path = folder / "hostile.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def read(model: ModelProto, folder: Path) -> ReadNetwork:
    network = read_network(written(model, folder))
    network.graph()
    return network


def with_attribute(network: Network, operator: str, **attributes: object) -> ModelProto:
    """The first operator of a kind has other attributes."""
    model = network.model()
    node = next(node for node in model.graph.node if node.op_type == operator)
    kept = [item for item in node.attribute if item.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())])
    return model


def one(kind: str, *constants: object, **attributes: object) -> ModelProto:
    """A network of one operator on its input and constants."""
    network = Network(2, 4, 4)
    network.add(kind, "x", *map(network.constant, constants), **attributes)
    network.add("Relu")
    return network.model(inferred=False)


def constant_of(kind: str, *constants: object, **attributes: object) -> ModelProto:
    """A constant of computed operands, brought to one number and added to a quantized value: it is folded at once."""
    network = Network(4)
    step, zero = network.constant(np.float32(0.1)), network.constant(np.uint8(128))
    value = network.add("DequantizeLinear", network.add("QuantizeLinear", "x", step, zero), step, zero)
    network.add(kind, *(network.add("Max", network.constant(item)) for item in constants), **attributes)
    network.add("Add", value, network.add("ReduceMax", keepdims=0))
    return network.model(inferred=False)


def depth_of_nothing() -> ModelProto:
    """An operator over whose operands ONNX's inference ends the process."""
    network = Network(4)
    indices = network.constant(np.zeros(4, np.int64))
    depth, both = network.constant(np.zeros((1, 0), np.float32)), network.constant(np.array([0, 1], np.float32))
    network.add("Add", "x", network.add("ReduceMax", network.add("OneHot", indices, depth, both), keepdims=0))
    return network.model(inferred=False)


def with_function(*bodies: tuple[str, tuple[str, ...]]) -> ModelProto:
    """A network that calls function F; bodies: names of functions, and which they call one after the other."""
    network = Network(4)
    network.nodes.append(helper.make_node("F", ["x"], ["y"], domain="own"))
    network.last = "y"
    network.domains.append("own")
    network.add("Relu")
    graph = helper.make_graph(network.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                              [helper.make_tensor_value_info(network.last, TensorProto.FLOAT, ["N", 4])])  # fmt: skip
    functions = []
    for name, called in bodies:
        names = ["a", *(f"m{number}" for number in range(len(called) - 1)), "b"]
        steps = zip(called, names[:-1], names[1:], strict=True)
        nodes = [helper.make_node(n, [a], [b], domain="" if n == "Neg" else "own") for n, a, b in steps]
        functions.append(constructs.function(name, nodes, 17))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8)


def looping(turns: int) -> ModelProto:
    """A loop over a value of the network."""
    network = Network(4)
    network.add("Relu")
    kinds = {"turn": TensorProto.INT64, "on": TensorProto.BOOL, "going": TensorProto.BOOL}
    values = {name: helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()}
    values |= {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in ("a", "b")}
    nodes = [helper.make_node("Identity", ["on"], ["going"]), helper.make_node("Neg", ["a"], ["b"])]
    inner = helper.make_graph(
        nodes, "body", [values[name] for name in ("turn", "on", "a")], [values[name] for name in ("going", "b")]
    )
    network.add("Loop", network.constant(np.int64(turns)), network.constant(np.bool_(True)), "v0", body=inner)
    network.add("Reshape", network.add("ReduceMax", keepdims=0), network.constant(np.array([1])))
    network.add("Add", network.last, "x")
    return network.model(inferred=False)


def doubled_constant() -> ModelProto:
    network = Network(4)
    last = network.constant(np.ones(100, np.float32))
    for _ in range(50):
        last = network.add("Concat", last, last, axis=0)
    network.add("Add", "x", network.add("ReduceMax", last, keepdims=0))
    return network.model(inferred=False)


def branches(levels: int) -> ModelProto:
    """Branches that branch again."""

    def branch(level: int, number: int) -> onnx.GraphProto:
        name = f"b{level}_{number}"
        if level:
            below = [branch(level - 1, 2 * number + side) for side in (0, 1)]
            node = helper.make_node("If", ["c0"], [name], then_branch=below[0], else_branch=below[1])
        else:
            node = helper.make_node("Constant", [], [name], value_float=float(number))
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [])])

    network = Network(4)
    condition = network.constant(np.bool_(True))
    sides = {"then_branch": branch(levels - 1, 0), "else_branch": branch(levels - 1, 1)}
    network.add("Add", "x", network.add("If", condition, **sides))
    return network.model(inferred=False)


def reading(*values: str) -> ModelProto:
    """Sums of the input, each with a value of that name: v0 is the first sum."""
    network = Network(4)
    for value in values:
        network.add("Add", "x", value)
    return network.model(inferred=False)


def reading_within(value: str) -> ModelProto:
    """A branch that reads a value."""
    network = Network(4)
    network.add("If", network.constant(np.bool_(True)), then_branch=inner_sum(value), else_branch=inner_sum("x"))
    return network.model(inferred=False)


def inner_sum(value: str) -> onnx.GraphProto:
    result = helper.make_tensor_value_info("b", TensorProto.FLOAT, ["N", 4])
    return helper.make_graph([helper.make_node("Add", ["x", value], ["b"])], "branch", [], [result])


def output_twice() -> ModelProto:
    model = vectors().model()
    model.graph.output.append(helper.make_tensor_value_info("v4", TensorProto.FLOAT, []))
    return model


def with_weights(network: Network, place: int, values: np.ndarray) -> ModelProto:
    model = network.model()
    tensor = model.graph.initializer[place]
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


GIANT = np.array([1, 10**11], np.int64)
NAN = float("nan")
#: Name -> the model, and what the message says.
REFUSED: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "function calls itself": (lambda: with_function(("F", ("F",))), r"function F calls itself \(F -> F\)"),
    "functions in a circle": (lambda: with_function(("F", ("G",)), ("G", ("F",))), r"calls itself \(F -> G -> F\)"),
    "functions double": (
        lambda: with_function(*((f"F{n or ''}", (f"F{n + 1}",) * 2) for n in range(40)), ("F40", ("Neg",))),
        "come to 1,099,511,627,777 operators; 2,000 are possible",
    ),
    "Conv, weights of two axes": (
        lambda: one("Conv", np.ones((3, 2), np.float32)), "Conv Conv_0 has weights of 2 axes, 4 are right"
    ),
    "ConvTranspose, weights of one axis": (
        lambda: one("ConvTranspose", np.ones(3, np.float32)), "has weights of 1 axes, 4 are right"
    ),
    "value that nothing gives": (
        lambda: reading("nowhere"), r"operator Add_0 \(Add\) reads 'nowhere', which no input, constant or operator bef"
    ),
    "value of its own": (lambda: reading("v0"), r"reads 'v0', which operator Add_0 \(Add\) gives only afterwards"),
    "values in a circle": (lambda: reading("v1", "v0"), r"operator Add_0 .* reads 'v1', which operator Add_1 .* cycle"),
    "missing in a branch": (lambda: reading_within("gone"), r"operator b \(Add\) reads 'gone', which no input"),
    "output there twice": (output_twice, "output 'v4' is there 2 times, once is right"),
    "branches of branches": (lambda: branches(10), "has 2,046 branches of If and bodies of loops; 256 are possible"),
    "OneHot of no depth": (depth_of_nothing, r"ONNX's libraries end the process .* \(SIG(SEGV|ABRT)\)"),
    "constant of 10^11": (
        lambda: constant_of("ConstantOfShape", GIANT), r"ConstantOfShape_\d gives a constant of"
    ),
    "tiled to 10^11": (lambda: constant_of("Tile", np.ones((1, 1), np.float32), GIANT), r"Tile_\d gives a constant of"),
    "resized to 10^11": (
        lambda: constant_of("Resize", np.ones((1, 1), np.float32), np.zeros(0, np.float32),
                            np.array([1, 1e11], np.float32), mode="nearest"), r"Resize_\d gives a constant of"
    ),
    "doubled 50 times": (doubled_constant, r"takes more than (1,024 MiB|\d+ s)"),
    "loop of 10^12 turns": (lambda: looping(10**12), "takes more than 1 s"),
    "alpha of Gemm": (lambda: with_attribute(vectors(), "Gemm", alpha=NAN), "Gemm_0: alpha is nan; must be a finite"),
    "epsilon": (lambda: with_attribute(images(), "BatchNormalization", epsilon=NAN), "epsilon is nan"),
    "mode of Resize": (
        lambda: with_attribute(images(), "Resize", mode="best"), "mode is 'best'; must be one of nearest, linear, cubic"
    ),
    "auto_pad": (lambda: with_attribute(images(), "Conv", auto_pad="SAME"), "auto_pad is 'SAME'; must be one of"),
    "mode of DepthToSpace": (lambda: with_attribute(images(), "DepthToSpace", mode="dcr"), "one of DCR, CRD"),
    "blocksize": (
        lambda: with_attribute(images(), "DepthToSpace", blocksize=1 << 62), "blocksize has the value 461168601842738"
    ),
    "direction": (
        lambda: with_attribute(recurrent_network("LSTM", 4), "LSTM", direction="back"), "direction is 'back'; must be"
    ),
    "activations": (
        lambda: with_attribute(recurrent_network("LSTM", 4), "LSTM", activations=["Sigmoid", "Tanh", "Sine"]),
        "activations is 'Sine'; must be one of Relu",
    ),
    "no text": (lambda: with_attribute(normalized(), "Einsum", equation=b"\xff\xfe"), "holds bytes that are no UTF-8"),
    "Gemm of other sizes": (
        lambda: with_weights(vectors(), 0, np.ones((10, 9), np.float32)),
        r"rows of 12 values, .* columns of 10|mismatch .* 10 and 12",
    ),
    "Gemm of integers": (
        lambda: with_weights(vectors(), 0, np.ones((12, 9), np.int16)), r"c0 is of type tensor\(int16\)"
    ),
    "bias of Gemm": (lambda: with_weights(vectors(), 1, np.ones(5, np.float32)), "does not spread over 9 columns"),
    "weights of LSTM": (
        lambda: with_weights(recurrent_network("LSTM", 4), 0, np.ones((1, 15, 28), np.float32)),
        r"its weights have shape \(1, 15, 28\), \(1, 16, channels of its input\) is right",
    ),
    "recurrence weights of LSTM": (
        lambda: with_weights(recurrent_network("LSTM", 4), 1, np.ones((10, 4), np.float32)),
        "LSTM has recurrence weights of 2 axes, 3 are right",
    ),
    "biases of GRU": (
        lambda: with_weights(recurrent_network("GRU", 4, directions=2), 2, np.ones((2, 12), np.float32)),
        r"its biases have shape \(2, 12\), \(2, 24\) is right",
    ),
    "perm of Transpose": (
        lambda: one("Transpose", perm=[0, 2]), r"perm is \[0, 2\], the axes 0 to 3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_network_is_refused_with_what_is_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, message = REFUSED[name]
    if "takes more than" in message:
        monkeypatch.setattr(trial, "CPU_SECONDS", 1.0)
    with pytest.raises(ModelError, match=message) as refused:
        read(make(), tmp_path)
    assert str(refused.value).startswith(str(tmp_path / "hostile.onnx"))
    assert str(refused.value).isprintable()


def test_the_helper_serves_again_after_a_file_that_ended_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="end the process"):
        read(depth_of_nothing(), tmp_path)
    assert read(looping(3), tmp_path).inputs == {"x": (4,)}


def test_a_helper_that_grows_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MEMORY", 100 << 20)
    model = constant_of("Range", np.float32(0), np.float32(6e7), np.float32(1))
    with pytest.raises(ModelError, match="takes more than 100 MiB"):
        read(model, tmp_path)


def test_branches_read_values_around_them(tmp_path: Path) -> None:
    assert read(branches(3), tmp_path).inputs == read(reading_within("x"), tmp_path).inputs == {"x": (4,)}


def test_nodes_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    model = vectors().model()
    samples = vectors().samples()
    expected = FloatNetwork(written(model, tmp_path)).run(samples)
    for node in model.graph.node:
        node.name = "same"
    network = read(model, tmp_path)
    assert [operator.name for operator in network.graph().operators][:3] == ["same_2", "same_3", "same_4"]
    found = FloatNetwork(network).run(samples)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("factor", "calibrated"), each_once([1e-30, 1e-18, 1e9, 1e18, 1e30], [True, False]))
def test_weights_of_any_size_give_right_results(factor: float, calibrated: bool, tmp_path: Path) -> None:
    """Those of a layer within a network, whose other biases have the size that they had."""
    model = onnx.load(EXAMPLES / "mlp_digits.onnx")
    tensor = next(item for item in model.graph.initializer if len(item.dims) > 1)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))
    network = read_network(written(model, tmp_path))
    samples = {"input" if "input" in network.inputs else next(iter(network.inputs)):
               np.random.default_rng(2).normal(size=(20, 64)).astype(np.float32)}  # fmt: skip
    program = compile_network(network, load_accelerator("tiny"), samples if calibrated else None)
    expected = FloatNetwork(network).run(samples)
    for name, found in Emulator(program).run(samples).outputs.items():
        wanted = expected[name].astype(np.float64)
        assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


def test_values_beyond_float32_are_refused(tmp_path: Path) -> None:
    network = vectors()
    for tensor in network.constants[:4]:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e30), tensor.name))
    path = written(network.model(), tmp_path)
    with pytest.raises(ModelError, match=r"hostile.onnx: value v\d is infinite or NaN on the calibration samples"):
        compile_network(path, accelerator_around(WIDE, "test"), network.samples())


def test_factors_that_leave_the_format_are_refused(tmp_path: Path) -> None:
    network = Network(4)
    network.add("Gemm", "x", network.constant(np.full((4, 3), 1e30, np.float32)))
    network.add("Mul", network.last, network.constant(np.full(3, 1e30, np.float32)))
    path = written(network.model(), tmp_path)
    with pytest.raises(ModelError, match=r"layer \w+: with the factors .* its weights reach 1e\+60"):
        compile_network(path, accelerator_around(WIDE, "test"))


def test_mutants_that_know_the_format_are_read_or_refused(tmp_path: Path) -> None:
    """A few of what benchmarks/robustness takes by thousands; those that need the helper cost more and are its own."""
    seeds, refused = [vectors().model(), images().model(), attention_network().model()], 0
    path = tmp_path / "hostile.onnx"
    for index in range(30):
        content, changes = mutant(seeds, index, seed=3)
        path.write_bytes(content)
        message = refusal(path)
        assert not message or (message.startswith(str(path)) and message.isprintable()), changes
        refused += bool(message)
    assert refused > 10


def test_the_mutator_gives_the_same_for_the_same_seed() -> None:
    seeds = [vectors().model()]
    assert [mutant(seeds, index, 1) for index in range(20)] == [mutant(seeds, index, 1) for index in range(20)]
    assert len({mutant(seeds, index, 1)[0] for index in range(20)}) > 15
