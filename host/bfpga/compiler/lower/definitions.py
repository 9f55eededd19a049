"""Operators that ONNX defines by others, written as their definition says for the shapes at hand.

The body of the definition comes from ``onnx``. It asks for shapes and decides by them, so it is written out for one
sample, what follows from shapes becomes constants, and the batch is opened again.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.inliner import inline_selected_functions

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.shapes import inferred_shapes
from bfpga.compiler.read.simplify import fold_constants, without_unused
from bfpga.contract.configuration import KernelConfig

#: Those whose parts may all be the array's.
DEFINED = ("Attention", "Celu", "MeanVarianceNormalization")
#: Shapes that follow from other shapes take a turn each, at most this many.
TURNS = 8
Shapes = dict[str, tuple[int, ...]]


def by_definition(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write an operator as its definition; False, and nothing written, where shapes do not say all of it."""
    computed = [name for name in dict.fromkeys(node.input) if name and name not in rewriter.constants]
    if not all(name in rewriter.shapes for name in computed):
        return False
    body = _body(rewriter, node, computed)
    if body is None:
        return False
    kept = {*computed, *filter(None, node.output)}
    names = {name: name for name in kept}
    for item in body.graph.initializer:
        names[item.name] = rewriter.constant(numpy_helper.to_array(item))
    for part in body.graph.node:
        names.update((name, rewriter.name(f"{node.output[0]}/{name}")) for name in part.output if name not in names)
        copy = NodeProto()
        copy.CopyFrom(part)
        copy.name = names[part.output[0]]
        for values in (copy.input, copy.output):
            values[:] = [names.get(name, name) for name in values]
        rewriter.nodes.append(copy)
    return True


def _body(rewriter: Rewriter, node: NodeProto, computed: list[str]) -> ModelProto | None:
    """The definition for one sample, without questions about shapes; None where some are left."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *rewriter.shapes[name][1:]])
              for name in computed]  # fmt: skip
    fixed = [numpy_helper.from_array(rewriter.constants[name], name) for name in dict.fromkeys(node.input)
             if name in rewriter.constants]  # fmt: skip
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "definition", inputs, outputs, fixed)
    # The inliner asks for the types of all values.
    graph.value_info.extend(helper.make_tensor_value_info(item.name, item.data_type, item.dims) for item in fixed)
    model = helper.make_model(
        graph, opset_imports=list(rewriter.model.opset_import), ir_version=rewriter.model.ir_version
    )
    try:
        model = inline_selected_functions(model, [(node.domain, node.op_type)], inline_schema_functions=True)
    except (RuntimeError, TypeError):  # there is no definition, or this onnx does not write those of operators out
        return None
    if len(model.graph.node) == 1:
        return None
    for _ in range(TURNS):
        shapes = inferred_shapes(model, 1)
        asked = _answered(model, shapes)
        model = fold_constants(model)
        if not asked:
            break
    if any(part.op_type == "Shape" for part in model.graph.node):
        return None
    shapes = inferred_shapes(model, 1)
    _without_idle(model, shapes)
    _with_one_factor(model, shapes)
    _open_batch(model, shapes)
    return without_unused(model)


def _answered(model: ModelProto, shapes: Shapes) -> bool:
    """Whether operators asked for shapes that are known; they become constants."""
    asked = [part for part in model.graph.node if part.op_type == "Shape" and part.input[0] in shapes]
    for part in asked:
        attributes, shape = attributes_of(part), shapes[part.input[0]]
        numbers = np.array(shape[attributes.get("start", 0) : attributes.get("end", len(shape))], np.int64)
        model.graph.initializer.append(numpy_helper.from_array(numbers, part.output[0]))
        model.graph.node.remove(part)
    return bool(asked)


def _without_idle(model: ModelProto, shapes: Shapes) -> None:
    """Take out operators that give what they read."""
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    outputs = {value.name for value in model.graph.output}

    def idle(part: NodeProto) -> bool:
        alike = shapes.get(part.input[0]) == shapes.get(part.output[0], ()) and part.output[0] not in outputs
        number = constants.get(part.input[1]) if len(part.input) > 1 else None
        zero = part.op_type == "Add" and number is not None and not number.any()
        one = part.op_type == "Mul" and number is not None and bool((number == 1).all())
        same = part.op_type == "Identity" or (part.op_type == "Cast" and attributes_of(part)["to"] == TensorProto.FLOAT)
        return alike and (zero or one or same or part.op_type == "Expand")

    names: dict[str, str] = {}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for part in nodes:
        part.input[:] = [names.get(name, name) for name in part.input]
        if idle(part):
            names[part.output[0]] = part.input[0]
        else:
            model.graph.node.append(part)


def _with_one_factor(model: ModelProto, shapes: Shapes) -> None:
    """Let one factor follow a product of matrices in the place of one in front of each of both."""
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    factors = {
        part.output[0]: part for part in model.graph.node
        if part.op_type == "Mul" and part.input[1] in constants and constants[part.input[1]].size == 1
    }  # fmt: skip
    for index, part in enumerate(list(model.graph.node)):
        if part.op_type != "MatMul" or not all(name in factors for name in part.input):
            continue
        both = [factors[name] for name in part.input]
        number = np.prod([constants[factor.input[1]].reshape(()) for factor in both], dtype=np.float32)
        result, name = part.output[0], f"{part.output[0]}/product"
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(number), f"{name}/factor"))
        part.input[:] = [factor.input[0] for factor in both]
        part.output[0] = name
        model.graph.node.insert(index + 1, helper.make_node("Mul", [name, f"{name}/factor"], [result]))


def _open_batch(model: ModelProto, shapes: Shapes) -> None:
    """Let Reshape keep the first axis, which is that of the samples."""
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for part in model.graph.node:
        if part.op_type != "Reshape" or part.input[1] not in constants or part.output[0] not in shapes:
            continue
        name = f"{part.output[0]}/target"
        target = np.array([0, *shapes[part.output[0]][1:]], np.int64)
        model.graph.initializer.append(numpy_helper.from_array(target, name))
        part.input[1] = name
        for item in [item for item in part.attribute if item.name == "allowzero"]:
            part.attribute.remove(item)
