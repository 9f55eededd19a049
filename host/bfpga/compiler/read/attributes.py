"""Attributes that libraries below would stumble over (a division by zero ends the process), checked before they run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, helper

from bfpga.compiler.read.graphs import all_nodes
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Operators that slide a window.
WINDOWS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "Im2Col", "Col2Im", "DeformConv", "MaxUnpool")
#: Attributes that count pixels: at least one, and no more than an image has.
COUNTS = ("strides", "dilations", "kernel_shape")
#: Largest size, padding or number of groups that an attribute may state.
LARGEST = 1 << 20
#: Largest magnitude of an axis: tensors have far fewer.
MOST_AXES = 64
#: Attributes that may be infinite: bounds that do not bind, and masks.
ENDLESS = frozenset({("Clip", "min"), ("Clip", "max"), ("Pad", "value"), ("Constant", "value_float"),
                     ("Constant", "value_floats")})  # fmt: skip

_PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_DIRECTIONS = ("forward", "reverse", "bidirectional")
_REDUCTIONS = ("none", "add", "mul", "max", "min")
#: Words that attributes may be, by operator and name.
WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    **{(operator, "auto_pad"): _PADDING for operator in (*WINDOWS, "ConvInteger", "QLinearConv")},
    **{(operator, "direction"): _DIRECTIONS for operator in ("RNN", "GRU", "LSTM")},
    **{(operator, "reduction"): _REDUCTIONS for operator in ("ScatterElements", "ScatterND")},
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Resize", "coordinate_transformation_mode"): (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    ("Resize", "nearest_mode"): ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    ("Resize", "keep_aspect_ratio_policy"): ("stretch", "not_larger", "not_smaller"),
    ("Upsample", "mode"): ("nearest", "linear", "bilinear"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("GridSample", "mode"): ("linear", "bilinear", "nearest", "cubic", "bicubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("Gelu", "approximate"): ("none", "tanh"),
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
}  # fmt: skip
#: Functions of recurrent cells, whatever their capitals.
ACTIVATIONS = (
    "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign",
    "Softplus",
)  # fmt: skip


def check_attributes(model: ModelProto, path: object) -> None:
    """ModelError for the first attribute of any operator, subgraphs included, that no operator can mean."""
    for node in all_nodes(model):
        for problem in _problems(node):
            raise ModelError(f"{path}: operator {printable(node.name) or node.op_type}: {problem}")


def _problems(node: NodeProto) -> Iterator[str]:
    for item in node.attribute:
        yield from (*_number_problems(node, item), *_word_problems(node, item))
        values = _integers(helper.get_attribute_value(item)) if item.type in _NUMBERS else []
        if item.name in ("axis", "axes"):
            yield from (
                f"{item.name} is {value}; no tensor has so many axes" for value in values if abs(value) > MOST_AXES
            )
        elif node.op_type in WINDOWS or item.name == "blocksize":
            yield from _window_problems(item.name, values)


def _number_problems(node: NodeProto, item: AttributeProto) -> Iterator[str]:
    for value in [item.f] if item.type == AttributeProto.FLOAT else item.floats:
        if math.isnan(value) or (math.isinf(value) and (node.op_type, item.name) not in ENDLESS):
            yield f"{item.name} is {value}; must be a finite number"


def _word_problems(node: NodeProto, item: AttributeProto) -> Iterator[str]:
    """Words that the operator does not know; bytes that are no text at all."""
    known = ACTIVATIONS if item.name == "activations" else WORDS.get((node.op_type, item.name))
    lowered = {word.lower() for word in ACTIVATIONS}
    for data in [item.s] if item.type == AttributeProto.STRING else item.strings:
        word = data.decode(errors="replace")
        fits = word.lower() in lowered if item.name == "activations" else known is None or word in known
        if not fits and known is not None and node.domain in ("", "ai.onnx"):
            yield f"{item.name} is {printable(word[:40])!r}; must be one of {', '.join(known)}"
        elif known is None and "\ufffd" in word:
            yield f"{item.name} holds bytes that are no UTF-8 text"


_NUMBERS = (AttributeProto.INT, AttributeProto.INTS)


def _integers(value: Any) -> list[int]:
    return [int(value)] if isinstance(value, int) else [int(item) for item in value]


def _window_problems(name: str, values: list[int]) -> Iterator[str]:
    least = {**dict.fromkeys(COUNTS, 1), "group": 1, "blocksize": 1, "pads": 0}.get(name)
    if least is None:
        return
    for value in values:
        if not least <= value <= LARGEST:
            yield f"{name} has the value {value}; must be {least}..{LARGEST}"
