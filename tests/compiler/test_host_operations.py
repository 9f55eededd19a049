"""Operations of what stays on the host: every ONNX operator has a count, those with much work the right one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from small_networks import Network, compiled, recurrent_network

from bfpga.compiler.lower.operations import EXP, FREE, SIGMOID, TANH, count_fixed, count_operations
from bfpga.program.host import host_nodes, host_share
from bfpga.program.listing import listing

#: Operators whose examples in the `onnx` package have nothing to count: branches of constants, sequences.
UNKNOWN = {"If", "SequenceMap"}


def counted(network: Network) -> dict[str, int]:
    """Operations by operator type; the last of each type counts."""
    model = network.model()
    work = count_operations(model)
    return {node.op_type: work[next(filter(None, node.output))] for node in model.graph.node}


def test_every_operator_of_onnx_is_counted() -> None:
    """The package's tests of single operators, unless one of their tensors is empty."""
    nothing: Counter[str] = Counter()
    seen: set[str] = set()
    for case in load_model_tests(kind="node"):
        model = onnx.load(Path(case.model_dir) / "model.onnx")
        values = [*model.graph.input, *model.graph.output]
        if len(model.graph.node) == 1 and not any(_empty(value) for value in values):
            kind = model.graph.node[0].op_type
            seen.add(kind)
            nothing[kind] += not sum(count_fixed(model).values())
    assert len(seen) > 150
    assert {kind for kind, count in nothing.items() if count} - FREE == UNKNOWN


def _empty(value: onnx.ValueInfoProto) -> bool:
    return any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in value.type.tensor_type.shape.dim)


@pytest.mark.parametrize(
    ("kind", "gates", "functions"),
    [("RNN", 1, TANH), ("GRU", 3, 2 * SIGMOID + TANH + 6), ("LSTM", 4, 3 * SIGMOID + 2 * TANH + 4)],
)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells_count_the_products_of_every_step(
    kind: str, gates: int, functions: int, directions: int, bias: bool
) -> None:
    hidden = 32
    products = 2 * gates * hidden * (28 + hidden)
    sums = gates * hidden + (2 * gates * hidden if bias else 0)
    expected = 28 * directions * (products + sums + functions * hidden)
    assert counted(recurrent_network(kind, hidden, bias, directions))[kind] == expected


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_recurrent_network_with_clipped_gates_is_the_hosts_work(kind: str, tmp_path: Path) -> None:
    """The listing said `host: 0.00 % of operations`."""
    program = compiled(recurrent_network(kind, 256, clip=100.0), tmp_path, calibrate=False)
    assert host_share(program) > 0.999
    assert sum(node.flops for node in host_nodes(program)) > 12_000_000
    text = listing(program)
    assert f"host: {100 * host_share(program):.2f} % of operations" in text
    assert "ms, the array alone" in text


def test_products_convolutions_and_windows() -> None:
    network = Network(3, 9, 9)
    network.conv(8, 3, 3, pads=[1, 1, 1, 1])
    network.add("ConvTranspose", network.last, network.weights(8, 4, 2, 2), strides=[2, 2])
    network.add("MaxPool", kernel_shape=[3, 3], strides=[3, 3])
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(144, 10), network.weights(10))
    network.add("Softmax", axis=-1)
    assert counted(network) == {
        "Conv": 2 * 8 * 81 * 27 + 8 * 81,
        "ConvTranspose": 2 * 8 * 81 * 16,
        "MaxPool": 4 * 36 * 9,
        "Flatten": 0,
        "Gemm": 2 * 144 * 10 + 10,
        "Softmax": 10 * (EXP + 7),
    }


def test_operators_of_vectors_and_images() -> None:
    network = Network(4, 6, 6)
    scales = network.constant(np.array([1, 1, 2, 2], np.float32))
    network.add("Resize", network.last, "", scales, mode="linear")
    network.add("LayerNormalization", network.last, network.weights(12))
    network.add("Einsum", network.last, network.weights(12, 5), equation="...w,wk->...k")
    network.add("ReduceMean", axes=[3], keepdims=0)
    network.add("Pow", network.last, network.constant(np.float32(2)))
    assert counted(network) == {
        "Resize": 4 * 144 * 8,
        "LayerNormalization": 4 * 144 * 7,
        "Einsum": 2 * 4 * 12 * 12 * 5,
        "ReduceMean": 4 * 12 * 5,
        "Pow": 4 * 12,
    }


def test_loops_count_their_turns_and_branches_the_larger_one() -> None:
    """A loop of seven turns whose body has a product; a branch with one and one without."""
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")
    state, more = value("state", TensorProto.FLOAT, [1, 8]), value("more", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["next"]), helper.make_node("Identity", ["more"], ["again"])],
        "body",
        [value("turn", TensorProto.INT64, []), more, state],
        [value("again", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [1, 8])],
    )
    product = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"])], "then", [], [value("a", 1, [1, 8])])
    plain = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "else", [], [value("b", 1, [1, 8])])
    turns = numpy_helper.from_array(np.array(7), "turns")
    yes = numpy_helper.from_array(np.array(True), "yes")
    nodes = [
        helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body),
        helper.make_node("If", ["yes"], ["z"], then_branch=product, else_branch=plain),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, ["N", 8])], [value("y", 1, None), value("z", 1, None)], [weights, turns, yes]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert count_operations(model) == {"y": 7 * 2 * 64, "z": 2 * 64}


def test_functions_of_the_model_count_their_body() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    nodes = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Tanh", ["c"], ["d"])]
    function = helper.make_function("own", "Layer", ["a", "b"], ["d"], nodes, opsets[:1])
    weights = numpy_helper.from_array(np.ones((16, 5), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Layer", ["x", "w"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    assert count_operations(model) == {"y": 2 * 16 * 5 + 5 * TANH}
