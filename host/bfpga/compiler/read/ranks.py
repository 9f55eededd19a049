"""Numbers of axes of a model's values, found without ONNX's own inference of shapes, which trusts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from bfpga.compiler.read import qonnx
from bfpga.compiler.read.graphs import attributes_of
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Operators whose result has the axes of their first input.
SAME = frozenset({
    "Abs", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Concat", "Conv", "ConvTranspose",
    "Cos", "DepthToSpace", "DequantizeLinear", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "GlobalAveragePool",
    "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization", "LRN", "LeakyRelu", "Log",
    "LogSoftmax", "MaxPool", "Mish", "Neg", "Not", "PRelu", "Pad", "QuantizeLinear", "Reciprocal", "Relu", "Resize",
    "Round", "Selu", "Sigmoid", "Sign", "Sin", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split",
    "Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Transpose",
})  # fmt: skip
#: Operators whose result has the axes of that input which has most.
BROADCAST = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where", "MatMul"})
MATRICES = frozenset({"Gemm", "Flatten"})
#: Operators that give constants no more elements than they have.
KEEPING = SAME - {"Pad", "Resize", "Conv", "ConvTranspose"} | {"Flatten", "Reshape", "Shape", "Squeeze", "Unsqueeze"}
CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
#: Which input holds the weights of a convolution, where it is not the second.
WEIGHTS = {"QLinearConv": 3}
#: Axes of what recurrent operators have in addition to their input.
RECURRENT = {"weights": (1, 3), "recurrence weights": (2, 3), "biases": (3, 2)}
#: Elements of the largest constant whose values are looked at.
MOST = 64

Constants = dict[str, TensorProto]


def constants_of(model: ModelProto) -> Constants:
    """Initializers, and tensors of Constant operators."""
    found = {item.name: item for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensors = [item.t for item in node.attribute if item.type == AttributeProto.TENSOR]
            found |= dict(zip(node.output, tensors, strict=False))
    return found


def ranks_of(model: ModelProto, constants: Constants) -> dict[str, int]:
    """Axes of the values of a model, as far as they follow from what it states."""
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in model.graph.input
        if value.type.tensor_type.HasField("shape")
    }
    ranks |= {name: len(tensor.dims) for name, tensor in constants.items()}
    for node in model.graph.node:
        rank = _rank(node, ranks, constants)
        if rank is not None:
            ranks |= dict.fromkeys(node.output, rank)
    return ranks


def check_ranks(model: ModelProto, ranks: Mapping[str, int], path: object) -> None:
    """ModelError for weights of other axes than their operator takes: the inference of shapes reads on, or aborts."""
    for node in model.graph.node:
        if node.op_type in ("RNN", "GRU", "LSTM"):
            _check_recurrent(node, ranks, path)
        place = WEIGHTS.get(node.op_type, 1)
        if node.op_type not in CONVOLUTIONS or len(node.input) <= place:
            continue
        image, weights = ranks.get(node.input[0]), ranks.get(node.input[place])
        if weights is not None and (weights < 3 or image not in (None, weights)):
            wanted = image if image is not None and image >= 3 else "at least 3"
            name = printable(node.name) or node.op_type
            raise ModelError(
                f"{path}: shapes do not fit together: {node.op_type} {name} has weights of {weights} axes, {wanted} "
                "are right" + (f": its input has {image}" if image is not None else "")
            )


def _check_recurrent(node: NodeProto, ranks: Mapping[str, int], path: object) -> None:
    for what, (place, wanted) in RECURRENT.items():
        found = ranks.get(node.input[place]) if place < len(node.input) else None
        if found not in (None, wanted):
            name = printable(node.name) or node.op_type
            raise ModelError(
                f"{path}: shapes do not fit together: {node.op_type} {name} has {what} of {found} axes, {wanted} "
                "are right"
            )


def _rank(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> int | None:
    inputs = [ranks.get(name) for name in node.input if name]
    if node.op_type in MATRICES:
        return 2
    if not inputs or inputs[0] is None:
        return None
    if node.op_type in SAME or qonnx.is_quantizer(node):
        return inputs[0]
    if node.op_type in BROADCAST:
        known = [rank for rank in inputs if rank is not None]
        return max(known) if len(known) == len(inputs) else None
    rule = _RULES.get(node.op_type, _reduced if node.op_type.startswith("Reduce") else None)
    return None if rule is None else rule(node, inputs[0], ranks, constants)


def integers(node: NodeProto, place: int, attribute: str, constants: Constants) -> list[int] | None:
    """A list of integers that an attribute or a constant states; None if it is computed, or left out."""
    given = attributes_of(node).get(attribute)
    if given is not None:
        return [int(value) for value in given]
    tensor = constants.get(node.input[place]) if len(node.input) > place else None
    if tensor is None or len(tensor.dims) > 1 or sum(tensor.dims) > MOST or tensor.data_type != TensorProto.INT64:
        return None
    return [int(value) for value in numpy_helper.to_array(tensor).reshape(-1)]


def _reshaped(node: NodeProto, rank: int, ranks: Mapping[str, int], constants: Constants) -> int | None:
    target = integers(node, 1, "shape", constants)
    return None if target is None else len(target)


def _squeezed(node: NodeProto, rank: int, ranks: Mapping[str, int], constants: Constants) -> int | None:
    axes = integers(node, 1, "axes", constants)
    if axes is None:
        return None
    return rank + len(axes) if node.op_type == "Unsqueeze" else max(0, rank - len(axes))


def _reduced(node: NodeProto, rank: int, ranks: Mapping[str, int], constants: Constants) -> int | None:
    if attributes_of(node).get("keepdims", 1):
        return rank
    axes = integers(node, 1, "axes", constants)
    return None if axes is None else max(0, rank - len(axes))


def _gathered(node: NodeProto, rank: int, ranks: Mapping[str, int], constants: Constants) -> int | None:
    places = ranks.get(node.input[1]) if len(node.input) > 1 else None
    return None if places is None else rank + places - 1


def _shape(node: NodeProto, rank: int, ranks: Mapping[str, int], constants: Constants) -> int | None:
    return 1


_RULES: dict[str, Callable[[NodeProto, int, Mapping[str, int], Constants], int | None]] = {
    "Reshape": _reshaped, "Squeeze": _squeezed, "Unsqueeze": _squeezed, "Gather": _gathered, "Shape": _shape,
}  # fmt: skip
