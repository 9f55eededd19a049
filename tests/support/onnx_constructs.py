"""Whole constructs that a hostile ONNX model may bring: endless loops, giants, recursion, quantizers, odd numbers.

Each is a function of a random generator and a model, which it changes; false if it has no place there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Random = random.Random
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ODD = (float("nan"), float("inf"), float("-inf"), 3.4e38, 1e-45, -1.0, 0.0, 1e30)
GIANTS = (1 << 20, 10**9, 10**11, 1 << 40, (1 << 63) - 1)


def constant(model: ModelProto, name: str, numbers: Any, kind: Any = None) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(numbers, kind), name))
    return name


def place_before(rng: Random, model: ModelProto) -> tuple[NodeProto, int] | None:
    """A node and one of its inputs that is computed or fed."""
    weights = {item.name for item in model.graph.initializer}
    found = [
        (node, index)
        for node in model.graph.node
        for index, name in enumerate(node.input)
        if name and name not in weights
    ]
    return rng.choice(found) if found else None


def put(model: ModelProto, node: NodeProto, index: int, new: list[NodeProto], result: str) -> None:
    """New nodes at the beginning or right before ``node``, which reads their result."""
    node.input[index] = result
    nodes = list(model.graph.node)
    at = next(number for number, item in enumerate(nodes) if item is node or item == node)
    copies = [NodeProto.FromString(item.SerializeToString()) for item in [*nodes[:at], *new, *nodes[at:]]]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def fresh(model: ModelProto, kind: str) -> str:
    return f"{kind}_{len(model.graph.node)}_{len(model.graph.initializer)}"


def insert_before(rng: Random, model: ModelProto) -> bool:
    """An operator with extreme arguments before any node."""
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name, value = fresh(model, "insert"), node.input[index]
    odd, kinds = rng.choice(ODD), INSERTED
    kind = rng.choice(sorted(kinds))
    put(model, node, index, [kinds[kind](model, value, name, odd)], name)
    return True


def _clip(model: ModelProto, value: str, name: str, odd: float) -> NodeProto:
    low = constant(model, f"{name}_low", odd, np.float32)
    high = constant(model, f"{name}_high", 1.0, np.float32)
    return helper.make_node("Clip", [value, low, high], [name])


def _with(kind: str, attribute: str) -> Callable[[ModelProto, str, str, float], NodeProto]:
    return lambda model, value, name, odd: helper.make_node(kind, [value], [name], **{attribute: odd})


def _binary(kind: str) -> Callable[[ModelProto, str, str, float], NodeProto]:
    return lambda model, value, name, odd: helper.make_node(
        kind, [value, constant(model, f"{name}_c", odd, np.float32)], [name]
    )


def _quantize(model: ModelProto, value: str, name: str, odd: float) -> NodeProto:
    """A quantizer whose scale is odd; its second half comes at once, as an operator of the graph."""
    scale, zero = constant(model, f"{name}_s", odd, np.float32), constant(model, f"{name}_z", 3, np.uint8)
    model.graph.node.insert(0, helper.make_node("QuantizeLinear", [value, scale, zero], [f"{name}_q"]))
    return helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [name])


def _batch_norm(model: ModelProto, value: str, name: str, odd: float) -> NodeProto:
    inputs = [constant(model, f"{name}_{index}", [1.0], np.float32) for index in range(3)]
    variance = constant(model, f"{name}_v", [odd], np.float32)
    return helper.make_node("BatchNormalization", [value, *inputs, variance], [name], epsilon=1e-5)


def _resize(model: ModelProto, value: str, name: str, odd: float) -> NodeProto:
    scales = constant(model, f"{name}_s", [1, 1, odd, 2], np.float32)
    return helper.make_node("Resize", [value, "", scales], [name], mode="nearest")


def _pad(model: ModelProto, value: str, name: str, odd: float) -> NodeProto:
    pads = constant(model, f"{name}_p", [0, 0, 0, 0, 0, 0, 1, 1], np.int64)
    filled = constant(model, f"{name}_f", odd, np.float32)
    return helper.make_node("Pad", [value, pads, filled], [name])


INSERTED: dict[str, Callable[[ModelProto, str, str, float], NodeProto]] = {
    "Clip": _clip, "LeakyRelu": _with("LeakyRelu", "alpha"), "Elu": _with("Elu", "alpha"),
    "HardSigmoid": _with("HardSigmoid", "alpha"), "ThresholdedRelu": _with("ThresholdedRelu", "alpha"),
    "Celu": _with("Celu", "alpha"), "Selu": _with("Selu", "gamma"), "Add": _binary("Add"), "Mul": _binary("Mul"),
    "Div": _binary("Div"), "Pow": _binary("Pow"), "PRelu": _binary("PRelu"), "Max": _binary("Max"),
    "Mod": _binary("Mod"),
    "Quantize": _quantize, "BatchNormalization": _batch_norm, "Resize": _resize, "Pad": _pad,
    "Log": lambda model, value, name, odd: helper.make_node("Log", [value], [name]),
    "Dropout": lambda model, value, name, odd: helper.make_node("Dropout", [value], [name]),
    "Gelu": lambda model, value, name, odd: helper.make_node("Gelu", [value], [name], approximate="no such"),
}  # fmt: skip


def add_scalar(rng: Random, model: ModelProto, nodes: list[NodeProto], result: str) -> bool:
    """A computed constant is added to a value of the network, after it was brought to one number."""
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name = fresh(model, "sum")
    value = node.input[index]
    reduce = helper.make_node("ReduceMax", [result], [f"{name}_max"], keepdims=0)
    put(model, node, index, [*nodes, reduce, helper.make_node("Add", [value, f"{name}_max"], [name])], name)
    return True


# Constants that take for ever or fill the memory


def constant_of_a_giant(rng: Random, model: ModelProto) -> bool:
    size, name = rng.choice(GIANTS), fresh(model, "giant")
    if rng.random() < 0.5:
        shape = constant(model, f"{name}_shape", rng.choice(([size], [size, size], [-size], [7, size, 3])), np.int64)
        return add_scalar(rng, model, [helper.make_node("ConstantOfShape", [shape], [name])], name)
    ends = [constant(model, f"{name}_{index}", end, np.float32) for index, end in enumerate((0, size, 1))]
    return add_scalar(rng, model, [helper.make_node("Range", ends, [name])], name)


def expanded_giant(rng: Random, model: ModelProto) -> bool:
    size, name = rng.choice(GIANTS), fresh(model, "wide")
    one = constant(model, f"{name}_one", np.ones((1, 1, 1, 1)), np.float32)
    kind = rng.choice(("Expand", "Tile", "Resize", "Pad", "OneHot", "EyeLike"))
    if kind == "Expand":
        target = constant(model, f"{name}_shape", [1, 1, size, 4], np.int64)
        return add_scalar(rng, model, [helper.make_node("Expand", [one, target], [name])], name)
    if kind == "Tile":
        target = constant(model, f"{name}_shape", [1, 1, 4, size], np.int64)
        return add_scalar(rng, model, [helper.make_node("Tile", [one, target], [name])], name)
    if kind == "Resize":
        target = constant(model, f"{name}_shape", [1, 1, min(size, 1 << 40), 4], np.int64)
        return add_scalar(rng, model, [helper.make_node("Resize", [one, "", "", target], [name])], name)
    if kind == "Pad":
        target = constant(model, f"{name}_shape", [0, 0, 0, size, 0, 0, 0, size], np.int64)
        return add_scalar(rng, model, [helper.make_node("Pad", [one, target], [name])], name)
    if kind == "EyeLike":
        shape = constant(model, f"{name}_shape", [min(size, 1 << 24), 1 << 12], np.int64)
        made = helper.make_node("ConstantOfShape", [shape], [f"{name}_zeros"])
        return add_scalar(rng, model, [made, helper.make_node("EyeLike", [f"{name}_zeros"], [name])], name)
    index = constant(model, f"{name}_index", np.zeros(1000), np.int64)
    depth, both = constant(model, f"{name}_depth", size, np.int64), constant(model, f"{name}_both", [0, 1], np.float32)
    return add_scalar(rng, model, [helper.make_node("OneHot", [index, depth, both], [name])], name)


def doubled(rng: Random, model: ModelProto) -> bool:
    """A constant that doubles, or is multiplied with itself, again and again."""
    name, count = fresh(model, "double"), rng.choice((8, 20, 60))
    nodes, last = [], constant(model, f"{name}_0", np.ones(100), np.float32)
    kind = rng.choice(("Concat", "outer", "Gather"))
    for step in range(1, count + 1):
        result = f"{name}_{step}"
        if kind == "Concat":
            nodes.append(helper.make_node("Concat", [last, last], [result], axis=0))
        elif kind == "outer":
            axis = constant(model, f"{result}_axis", [-1], np.int64)
            nodes.append(helper.make_node("Unsqueeze", [last, axis], [f"{result}_column"]))
            nodes.append(helper.make_node("Add", [last, f"{result}_column"], [f"{result}_square"]))
            flat = constant(model, f"{result}_flat", [-1], np.int64)
            nodes.append(helper.make_node("Reshape", [f"{result}_square", flat], [result]))
        else:
            places = constant(model, f"{result}_places", np.zeros(100), np.int64)
            nodes.append(helper.make_node("Gather", [last, places], [result], axis=rng.choice((0, -1))))
            axis = constant(model, f"{result}_axis", [0], np.int64)
            nodes.append(helper.make_node("Unsqueeze", [result, axis], [f"{result}_more"]))
            result = f"{result}_more"
        last = result
    return add_scalar(rng, model, nodes, last)


def chain(rng: Random, model: ModelProto) -> bool:
    """Thousands of operators, one behind the other."""
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name, value, kind = fresh(model, "chain"), node.input[index], rng.choice(("Identity", "Relu", "Neg"))
    count = rng.choice((100, 3000))
    names = [value, *(f"{name}_{number}" for number in range(count))]
    nodes = [helper.make_node(kind, [a], [b]) for a, b in pairwise(names)]
    put(model, node, index, nodes, names[-1])
    return True


# Subgraphs


def body(name: str, nodes: list[NodeProto], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs)


def loop(rng: Random, model: ModelProto) -> bool:
    """A loop over constants or over a value of the network; few turns, very many, or for ever."""
    name, turns = fresh(model, "loop"), rng.choice((0, 2, 1000, 10**12, -1, (1 << 63) - 1))
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    carried = rng.choice((node.input[index], constant(model, f"{name}_start", [1.0], np.float32)))
    count = constant(model, f"{name}_turns", turns, np.int64)
    going = constant(model, f"{name}_going", True, np.bool_)
    inner = body(
        "body",
        [helper.make_node("Identity", [f"{name}_on"], [f"{name}_next"]),
         helper.make_node(rng.choice(("Neg", "Identity", "Abs")), [f"{name}_in"], [f"{name}_out"])],
        [helper.make_tensor_value_info(f"{name}_turn", INT64, []),
         helper.make_tensor_value_info(f"{name}_on", BOOL, []),
         helper.make_tensor_value_info(f"{name}_in", FLOAT, None)],
        [helper.make_tensor_value_info(f"{name}_next", BOOL, []),
         helper.make_tensor_value_info(f"{name}_out", FLOAT, None)],
    )  # fmt: skip
    limit = "" if rng.random() < 0.15 else count
    made = helper.make_node("Loop", [limit, going, carried], [name], body=inner)
    if carried == node.input[index]:
        put(model, node, index, [made], name)
        return True
    return add_scalar(rng, model, [made], name)


def scan(rng: Random, model: ModelProto) -> bool:
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name, value = fresh(model, "scan"), node.input[index]
    inner = body(
        "body", [helper.make_node("Neg", [f"{name}_in"], [f"{name}_out"])],
        [helper.make_tensor_value_info(f"{name}_in", FLOAT, None)],
        [helper.make_tensor_value_info(f"{name}_out", FLOAT, None)],
    )  # fmt: skip
    count = rng.choice((1, 1, 1, 0, -1, 7, (1 << 63) - 1))
    axes = [rng.choice((0, 1, -1, 100))]
    put(model, node, index, [
        helper.make_node("Scan", [value], [name], body=inner, num_scan_inputs=count, scan_input_axes=axes)
    ], name)  # fmt: skip
    return True


def nested_ifs(rng: Random, model: ModelProto) -> bool:
    """Branches in branches, both the same: two to the power of their depth operators; or one deep line of them."""
    deep = rng.random() < 0.5
    depth, name = rng.choice((2, 12, 20)) if deep else rng.choice((3, 10, 14)), fresh(model, "if")
    condition = constant(model, f"{name}_condition", rng.random() < 0.5, np.bool_)
    counter = iter(range(1 << 20))

    def leaf(place: str) -> NodeProto:
        value = numpy_helper.from_array(np.ones(1, np.float32), "value")
        return helper.make_node("Constant", [], [place], value=value)

    def branch(level: int) -> Any:
        place = f"{name}_{next(counter)}"
        node = leaf(place)
        if level:
            node = helper.make_node("If", [condition], [place])
            for word, inner in (("then_branch", branch(level - 1)), ("else_branch", branch(0 if deep else level - 1))):
                item = node.attribute.add(name=word, type=AttributeProto.GRAPH)
                item.g.CopyFrom(inner)
        return body(place, [node], [], [helper.make_tensor_value_info(place, FLOAT, [1])])

    made = helper.make_node("If", [condition], [name], then_branch=branch(depth), else_branch=branch(0))
    return add_scalar(rng, model, [made], name)


def computed_if(rng: Random, model: ModelProto) -> bool:
    """A branch that reads values from outside, one of which may not be there."""
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name, value = fresh(model, "branch"), node.input[index]
    condition = constant(model, f"{name}_condition", rng.random() < 0.5, np.bool_)
    source = rng.choice((value, value, "missing", name))
    graphs = [
        body(word, [helper.make_node(kind, [source], [f"{name}_{word}"])], [],
             [helper.make_tensor_value_info(f"{name}_{word}", FLOAT, None)])
        for word, kind in (("then", "Neg"), ("else", "Identity"))
    ]  # fmt: skip
    put(model, node, index, [helper.make_node("If", [condition], [name], then_branch=graphs[0], else_branch=graphs[1])],
        name)  # fmt: skip
    return True


# Functions


def function(name: str, nodes: list[NodeProto], opset: int) -> FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, imports)


def functions(rng: Random, model: ModelProto) -> bool:
    """A function of the model's own: plain, calling itself, in a circle, or each calling the next one twice."""
    place = place_before(rng, model)
    if place is None:
        return False
    node, index = place
    name, value = fresh(model, "call"), node.input[index]
    opset = max((item.version for item in model.opset_import if item.domain == ""), default=17)

    def call(other: str, source: str, result: str) -> NodeProto:
        return helper.make_node(other, [source], [result], domain="own")

    way = rng.choice(("plain", "itself", "circle", "twice", "missing", "other name"))
    if way == "plain":
        model.functions.append(function("F", [helper.make_node("Neg", ["a"], ["b"])], opset))
    elif way == "itself":
        model.functions.append(function("F", [call("F", "a", "b")], opset))
    elif way == "circle":
        model.functions.append(function("F", [call("G", "a", "b")], opset))
        model.functions.append(function("G", [call("F", "a", "b")], opset))
    elif way == "twice":
        depth = rng.choice((4, 12, 40))
        for level in range(depth):
            inner = "F" if level == 0 else f"F{level}"
            calls = [call(f"F{level + 1}", "a", "m"), call(f"F{level + 1}", "m", "b")]
            model.functions.append(function(inner, calls, opset))
        model.functions.append(function(f"F{depth}", [helper.make_node("Neg", ["a"], ["b"])], opset))
    elif way == "other name":
        model.functions.append(function("F", [helper.make_node("Neg", ["a"], ["no such result"])], opset))
    model.opset_import.append(helper.make_opsetid("own", 1))
    put(model, node, index, [call("F", value, name)], name)
    return True


# Numbers


def gemm_numbers(rng: Random, model: ModelProto) -> bool:
    found = [node for node in model.graph.node if node.op_type == "Gemm"]
    if not found:
        return False
    node, name = rng.choice(found), rng.choice(("alpha", "beta"))
    for item in [item for item in node.attribute if item.name == name]:
        node.attribute.remove(item)
    node.attribute.append(helper.make_attribute(name, rng.choice(ODD)))
    return True


def all_weights_scaled(rng: Random, model: ModelProto) -> bool:
    """Every weight of a layer, or of all layers, times a power of ten."""
    found = [item for item in model.graph.initializer if item.data_type == FLOAT and len(item.dims) > 1]
    if not found:
        return False
    factor = 10.0 ** rng.choice((-38, -30, -18, -12, -6, 6, 12, 18, 30, 37))
    for tensor in found if rng.random() < 0.3 else [rng.choice(found)]:
        try:
            with np.errstate(all="ignore"):
                values = (numpy_helper.to_array(tensor) * np.float64(factor)).astype(np.float32)
        except Exception:
            return False
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return True


CONSTRUCTS = (
    constant_of_a_giant, expanded_giant, doubled, chain, loop, loop, scan, nested_ifs, computed_if, functions,
    functions, gemm_numbers, all_weights_scaled, all_weights_scaled,
)  # fmt: skip
