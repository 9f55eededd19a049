"""Damaged and hostile ONNX models by changes that know the format: types, shapes, attributes, weights, nodes, names.

The same seed gives the same mutants. `onnx_constructs.py` has the changes that bring in whole constructs (loops,
functions, quantizers).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx_constructs import CONSTRUCTS, insert_before

Random = random.Random
#: A change of a model in place; false if the model has nothing that it could change.
Change = Callable[[Random, ModelProto], bool]

INTEGERS = (
    0, 1, 2, 3, 5, 7, 64, 1000, -1, -2, -7, 1 << 16, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40,
    (1 << 62), (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-20, 1e-5, 1e5, 1e18, 1e30, 3.4e38, -3.4e38, float("nan"), float("inf"),
    float("-inf"),
)  # fmt: skip
STRINGS = (
    "", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "nearest", "linear", "cubic", "constant", "reflect", "edge",
    "wrap", "asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize", "floor", "ceil",
    "round_prefer_floor", "forward", "reverse", "bidirectional", "DCR", "CRD", "add", "mul", "none", "tanh",
    "ij,jk->ik", "bchw->bc", "...->...", "bilinear", "zeros", "Relu", "Tanh", "Sigmoid", "no such word", "linear\n",
    "x" * 100_000, "\x1b[2J", "é",
)  # fmt: skip
TYPES = tuple(sorted(TensorProto.DataType.values()))
#: Operators that may take the place of another one.
OTHERS = (
    "Relu", "Sigmoid", "Conv", "ConvTranspose", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "Add",
    "Sub", "Mul", "Div", "Concat", "Softmax", "Flatten", "Reshape", "Transpose", "Clip", "LeakyRelu", "PRelu", "Resize",
    "Upsample", "Pad", "Slice", "Split", "Squeeze", "Unsqueeze", "Gather", "BatchNormalization", "LSTM", "GRU", "RNN",
    "Einsum", "Expand", "Tile", "ReduceMean", "ReduceSum", "LayerNormalization", "InstanceNormalization", "LRN", "Cast",
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "ConvInteger", "MatMulInteger",
    "Loop", "If", "Scan", "NonZero", "TopK", "ArgMax", "Where", "Range", "OneHot", "ScatterND", "GridSample",
    "RoiAlign", "NonMaxSuppression", "Constant", "ConstantOfShape", "RandomNormal", "Dropout", "Identity", "Shape",
    "Size", "SequenceAt", "StringNormalizer", "Optional", "DepthToSpace", "SpaceToDepth", "CumSum", "Trilu",
    "Attention", "Col2Im", "DeformConv", "MaxUnpool", "STFT", "DFT", "ImageDecoder", "NoSuchOperator",
)  # fmt: skip
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "qonnx.custom_op.general", "no.such\nplace")
PLACES = ("../weights.bin", "/etc/passwd", "missing.bin", "", ".", "net.onnx", "weights.bin\0x", "a/../../b")
NAMES = ("", "x", "\n", "\x1b[2J", "a" * 10_000, "ünï", "../x", "0", "v1")


def mutant(seeds: Sequence[ModelProto], index: int, seed: int) -> tuple[bytes, str]:
    """The mutant of number ``index``, one to three changes of a seed network, and the names of the changes."""
    rng = random.Random(seed * 1_000_003 + index)
    model = ModelProto()
    model.CopyFrom(seeds[index % len(seeds)])
    wanted, done = rng.choice((1, 1, 1, 2, 3)), []
    for _ in range(50):
        change = rng.choice(CHANGES)
        if change(rng, model):
            done.append(change.__name__)
        if len(done) == wanted:
            break
    return model.SerializeToString(), "+".join(done)


def one(rng: Random, items: Sequence[Any]) -> Any:
    """Any of the items, None if there are none."""
    return rng.choice(items) if items else None


def any_graph(rng: Random, model: ModelProto) -> GraphProto:
    """The graph of the model, or now and then one of its subgraphs."""
    inner = [item.g for node in model.graph.node for item in node.attribute if item.type == AttributeProto.GRAPH]
    return rng.choice(inner) if inner and rng.random() < 0.5 else model.graph


def any_node(rng: Random, model: ModelProto) -> NodeProto | None:
    bodies = [any_graph(rng, model).node, *(function.node for function in model.functions)]
    return one(rng, rng.choice(bodies))  # type: ignore[no-any-return]


def values(model: ModelProto) -> list[str]:
    """Names of all values of a model."""
    graph = model.graph
    made = [name for node in graph.node for name in node.output if name]
    return [*made, *(item.name for item in graph.initializer), *(item.name for item in graph.input)]


# Attributes


def attribute_value(rng: Random, model: ModelProto) -> bool:
    """An attribute that is there gets another value of its type."""
    found = [item for node in model.graph.node for item in node.attribute]
    item = one(rng, found)
    if item is None:
        return False
    if item.type == AttributeProto.INT:
        item.i = rng.choice(INTEGERS)
    elif item.type == AttributeProto.FLOAT:
        item.f = rng.choice(FLOATS)
    elif item.type == AttributeProto.STRING:
        item.s = rng.choice(STRINGS).encode()
    elif item.type == AttributeProto.INTS and item.ints:
        item.ints[rng.randrange(len(item.ints))] = rng.choice(INTEGERS)
    elif item.type == AttributeProto.TENSOR:
        change_values(rng, item.t)
    else:
        return False
    return True


def attribute_length(rng: Random, model: ModelProto) -> bool:
    item = one(rng, [item for node in model.graph.node for item in node.attribute if item.type == AttributeProto.INTS])
    if item is None:
        return False
    kept = rng.randrange(0, 2 * len(item.ints) + 2)
    ints = [*item.ints, *(rng.choice(INTEGERS) for _ in range(len(item.ints) + 2))][:kept]
    del item.ints[:]
    item.ints.extend(ints)
    return True


def attribute_of_schema(rng: Random, model: ModelProto) -> bool:
    """An attribute that the operator may have gets a value of its type, or of another one."""
    node = any_node(rng, model)
    if node is None or not onnx.defs.has(node.op_type):
        return False
    attributes = list(onnx.defs.get_schema(node.op_type).attributes.values())
    wanted = one(rng, attributes)
    if wanted is None:
        return False
    kinds: dict[int, Callable[[], Any]] = {
        AttributeProto.INT: lambda: rng.choice(INTEGERS),
        AttributeProto.FLOAT: lambda: rng.choice(FLOATS),
        AttributeProto.STRING: lambda: rng.choice(STRINGS),
        AttributeProto.INTS: lambda: [rng.choice(INTEGERS) for _ in range(rng.randint(1, 5))],
        AttributeProto.FLOATS: lambda: [rng.choice(FLOATS) for _ in range(rng.randint(1, 3))],
        AttributeProto.STRINGS: lambda: [rng.choice(STRINGS) for _ in range(rng.randint(1, 3))],
    }
    kind = int(wanted.type) if rng.random() < 0.85 else rng.choice(list(kinds))
    if kind not in kinds:
        return False
    for item in [item for item in node.attribute if item.name == wanted.name]:
        node.attribute.remove(item)
    node.attribute.append(helper.make_attribute(wanted.name, kinds[kind]()))
    return True


def attribute_lost(rng: Random, model: ModelProto) -> bool:
    node = one(rng, [node for node in model.graph.node if node.attribute])
    if node is None:
        return False
    del node.attribute[rng.randrange(len(node.attribute))]
    return True


def attribute_twice(rng: Random, model: ModelProto) -> bool:
    node = one(rng, [node for node in model.graph.node if node.attribute])
    if node is None:
        return False
    copy = node.attribute.add()
    copy.CopyFrom(node.attribute[0])
    copy.type = rng.choice(AttributeProto.AttributeType.values())
    return True


# Nodes and names


def node_lost(rng: Random, model: ModelProto) -> bool:
    graph = any_graph(rng, model)
    if not graph.node:
        return False
    del graph.node[rng.randrange(len(graph.node))]
    return True


def node_twice(rng: Random, model: ModelProto) -> bool:
    node = one(rng, model.graph.node)
    if node is None:
        return False
    copy = model.graph.node.add()
    copy.CopyFrom(node)
    if rng.random() < 0.5:  # its results have names of their own
        for index, name in enumerate(copy.output):
            copy.output[index] = f"{name}_twice"
    return True


def nodes_swapped(rng: Random, model: ModelProto) -> bool:
    nodes = list(model.graph.node)
    if len(nodes) < 2:
        return False
    rng.shuffle(nodes)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return True


def other_operator(rng: Random, model: ModelProto) -> bool:
    node = any_node(rng, model)
    if node is None:
        return False
    node.op_type = rng.choice(OTHERS)
    if rng.random() < 0.5:
        del node.attribute[:]
    return True


def other_domain(rng: Random, model: ModelProto) -> bool:
    node = any_node(rng, model)
    if node is None:
        return False
    node.domain = rng.choice(DOMAINS)
    if rng.random() < 0.5:
        model.opset_import.append(helper.make_opsetid(node.domain, 1))
    return True


def same_name(rng: Random, model: ModelProto) -> bool:
    """Two nodes of one name, or one whose name is odd."""
    node, other = any_node(rng, model), any_node(rng, model)
    if node is None or other is None:
        return False
    node.name = other.name if rng.random() < 0.5 else rng.choice(NAMES)
    return True


def rewired(rng: Random, model: ModelProto) -> bool:
    """An input becomes any other value: of another shape, of a later node (a cycle), missing, left out."""
    node = one(rng, [node for node in model.graph.node if node.input])
    if node is None:
        return False
    choices = [*values(model), *node.output, "missing", ""]
    node.input[rng.randrange(len(node.input))] = rng.choice(choices)
    return True


def input_count(rng: Random, model: ModelProto) -> bool:
    node = any_node(rng, model)
    if node is None:
        return False
    if node.input and rng.random() < 0.5:
        del node.input[rng.randrange(len(node.input))]
    else:
        node.input.extend(rng.choice([*values(model), ""]) for _ in range(rng.choice((1, 1, 2, 20))))
    return True


def output_count(rng: Random, model: ModelProto) -> bool:
    node = any_node(rng, model)
    if node is None:
        return False
    if node.output and rng.random() < 0.4:
        del node.output[rng.randrange(len(node.output))]
    else:
        node.output.append(rng.choice([*values(model), "", "further"]))
    return True


def renamed_value(rng: Random, model: ModelProto) -> bool:
    """A value gets an odd name everywhere."""
    old, new = one(rng, values(model)), rng.choice(NAMES)
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = new if name == old else name
    for item in [*graph.initializer, *graph.input, *graph.output]:
        item.name = new if item.name == old else item.name
    return True


# Weights


def any_tensor(rng: Random, model: ModelProto) -> TensorProto | None:
    graph = any_graph(rng, model)
    made = [item.t for node in graph.node for item in node.attribute if item.type == AttributeProto.TENSOR]
    return one(rng, [*graph.initializer, *made])  # type: ignore[no-any-return]


def change_values(rng: Random, tensor: TensorProto) -> None:
    """Some or all values of a tensor become extreme, or are scaled."""
    try:
        numbers = numpy_helper.to_array(tensor).copy()
    except Exception:
        return
    flat = numbers.reshape(-1)
    if not flat.size or flat.dtype.kind not in "iuf":
        return
    extremes: Sequence[float] = FLOATS if flat.dtype.kind == "f" else INTEGERS
    with np.errstate(all="ignore"):
        way = rng.randrange(4)
        if way == 0:
            flat[rng.randrange(flat.size)] = cast_number(rng.choice(extremes), flat.dtype)
        elif way == 1:
            flat[:] = cast_number(rng.choice(extremes), flat.dtype)
        elif way == 2:
            power = rng.choice((-40, -30, -18, -9, -3, 3, 9, 18, 30, 38))
            flat[:] = (flat * np.float64(10.0**power)).astype(flat.dtype)
        else:
            flat[rng.randrange(flat.size) :] = 0
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(numbers, name))


def cast_number(number: float, kind: np.dtype[Any]) -> Any:
    """A number in a type, wrapped around where it is too large."""
    if kind.kind == "f":
        return np.float64(number).astype(kind)
    bits = 8 * kind.itemsize
    return np.array([int(number) % (1 << bits)], np.uint64).astype(f"u{kind.itemsize}").view(kind)[0]


def weight_values(rng: Random, model: ModelProto) -> bool:
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    change_values(rng, tensor)
    return True


def weight_shape(rng: Random, model: ModelProto) -> bool:
    """The shape with the same or with another number of elements."""
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    dims = list(tensor.dims)
    way = rng.randrange(6)
    if way == 0:
        dims.insert(rng.randrange(len(dims) + 1), 1)
    elif way == 1:
        dims = [int(np.prod(dims))]
    elif way == 2:
        rng.shuffle(dims)
    elif way == 3 and dims:
        dims[rng.randrange(len(dims))] = rng.choice(INTEGERS)
    elif way == 4:
        dims = dims[1:]
    else:
        dims = [*dims[:1], 1, 1, 1, 1, 1, *dims[1:]]
    del tensor.dims[:]
    tensor.dims.extend(dims)
    return True


def weight_of_other_size(rng: Random, model: ModelProto) -> bool:
    """A whole tensor whose shape and contents fit together, but not to its operator."""
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    dims = [size if 0 < size < 100 else 2 for size in tensor.dims]
    if dims and rng.random() < 0.7:
        dims[rng.randrange(len(dims))] = rng.choice((0, 1, 2, 3, 5, 17))
    else:
        dims = dims[1:] if rng.random() < 0.5 else [*dims, 2]
    numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=dims)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(numbers, np.float32), tensor.name))
    return True


def weight_type(rng: Random, model: ModelProto) -> bool:
    """The type with the bytes as they are, or converted to it."""
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    kind = rng.choice(TYPES)
    if rng.random() < 0.5:
        tensor.data_type = kind
        return True
    try:
        with np.errstate(all="ignore"):
            numbers = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(kind))
            tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
    except Exception:
        tensor.data_type = kind
    return True


def weight_bytes(rng: Random, model: ModelProto) -> bool:
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    way = rng.randrange(4)
    if way == 0:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    elif way == 1:
        tensor.raw_data = tensor.raw_data + bytes(rng.randint(1, 64))
    elif way == 2:
        tensor.float_data.extend([1.0] * rng.randint(1, 9))
    else:
        tensor.string_data.append(b"text")
    return True


def weight_elsewhere(rng: Random, model: ModelProto) -> bool:
    """Weights in a file that is not there, or not the network's."""
    tensor = any_tensor(rng, model)
    if tensor is None:
        return False
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=rng.choice(PLACES))
    if rng.random() < 0.5:
        tensor.external_data.add(key=rng.choice(("offset", "length")), value=str(rng.choice((*INTEGERS, "x", 1.5))))
    return True


def weight_lost(rng: Random, model: ModelProto) -> bool:
    if not model.graph.initializer:
        return False
    del model.graph.initializer[rng.randrange(len(model.graph.initializer))]
    return True


def weight_twice(rng: Random, model: ModelProto) -> bool:
    tensor = one(rng, model.graph.initializer)
    if tensor is None:
        return False
    copy = model.graph.initializer.add()
    copy.CopyFrom(tensor)
    if rng.random() < 0.5:
        copy.name = rng.choice(values(model))
    return True


def weight_sparse(rng: Random, model: ModelProto) -> bool:
    tensor = one(rng, [item for item in model.graph.initializer if item.data_type == TensorProto.FLOAT])
    if tensor is None:
        return False
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), tensor.name))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, rng.choice((1, -1, 1 << 60))], np.int64), "places"))
    sparse.dims.extend(tensor.dims)
    if rng.random() < 0.7:
        model.graph.initializer.remove(tensor)
    return True


# Borders and headers


def border_shape(rng: Random, model: ModelProto) -> bool:
    value = rng.choice([*model.graph.input, *model.graph.output, *model.graph.value_info])
    dims = value.type.tensor_type.shape.dim
    way = rng.randrange(5)
    if way == 0 or not dims:
        value.type.tensor_type.shape.dim.add().dim_value = rng.choice(INTEGERS)
    elif way == 1:
        del dims[rng.randrange(len(dims))]
    elif way == 2:
        dims[rng.randrange(len(dims))].dim_value = rng.choice(INTEGERS)
    elif way == 3:
        dims[rng.randrange(len(dims))].dim_param = rng.choice(("N", "M", "", "\n"))
    else:
        value.type.tensor_type.ClearField("shape")
    return True


def border_type(rng: Random, model: ModelProto) -> bool:
    value = rng.choice([*model.graph.input, *model.graph.output])
    way = rng.randrange(4)
    if way == 0:
        value.ClearField("type")
    elif way == 1:
        value.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    else:
        value.type.tensor_type.elem_type = rng.choice(TYPES)
    return True


def border_count(rng: Random, model: ModelProto) -> bool:
    """Inputs or outputs lost, there twice, or of any other value."""
    items = rng.choice([model.graph.input, model.graph.output])
    if items and rng.random() < 0.3:
        del items[rng.randrange(len(items))]
        return True
    value = items.add()
    name = rng.choice([*values(model), "missing"])
    value.CopyFrom(helper.make_tensor_value_info(name, rng.choice((1, 1, 7)), rng.choice((["N", 4], ["N"], [], None))))
    return True


def wrong_value_info(rng: Random, model: ModelProto) -> bool:
    name, dims = rng.choice(values(model)), [rng.choice(INTEGERS) for _ in range(rng.randrange(6))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, rng.choice(TYPES), dims))
    return True


def versions(rng: Random, model: ModelProto) -> bool:
    way = rng.randrange(4)
    if way == 0:
        model.ir_version = rng.choice((0, 1, 3, 4, 7, 10, 13, 9999, -1))
    elif way == 1:
        del model.opset_import[:]
    elif way == 2:
        model.opset_import.append(helper.make_opsetid(rng.choice(DOMAINS), rng.choice((0, 1, 9999, -1))))
    else:
        for item in model.opset_import:
            item.version = rng.choice((0, 1, 5, 7, 9, 10, 11, 12, 13, 18, 19, 21, 22, 23, 24, 26, 9999, -1, 1 << 62))
    return True


CHANGES: tuple[Change, ...] = (
    attribute_value, attribute_value, attribute_value, attribute_length, attribute_of_schema, attribute_of_schema,
    attribute_of_schema, attribute_lost, attribute_twice, node_lost, node_twice, nodes_swapped, other_operator,
    other_operator, other_domain, same_name, rewired, rewired, input_count, output_count, renamed_value, weight_values,
    weight_values, weight_values, weight_shape, weight_shape, weight_of_other_size, weight_of_other_size, weight_type,
    weight_bytes, weight_elsewhere, weight_lost, weight_twice, weight_sparse, border_shape, border_shape, border_type,
    border_count, wrong_value_info, versions, insert_before, insert_before, *CONSTRUCTS,
)  # fmt: skip
