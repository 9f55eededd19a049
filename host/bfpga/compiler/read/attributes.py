"""Attributes that libraries below would stumble over (a division by zero ends the process), checked before they run."""

from __future__ import annotations

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


def check_attributes(model: ModelProto, path: object) -> None:
    """ModelError for the first attribute of any operator, subgraphs included, that no operator can mean."""
    for node in all_nodes(model):
        for problem in _problems(node):
            raise ModelError(f"{path}: operator {printable(node.name) or node.op_type}: {problem}")


def _problems(node: NodeProto) -> Iterator[str]:
    for item in node.attribute:
        values = _integers(helper.get_attribute_value(item)) if item.type in _NUMBERS else []
        if item.name in ("axis", "axes"):
            yield from (
                f"{item.name} is {value}; no tensor has so many axes" for value in values if abs(value) > MOST_AXES
            )
        elif node.op_type in WINDOWS:
            yield from _window_problems(item.name, values)


_NUMBERS = (AttributeProto.INT, AttributeProto.INTS)


def _integers(value: Any) -> list[int]:
    return [int(value)] if isinstance(value, int) else [int(item) for item in value]


def _window_problems(name: str, values: list[int]) -> Iterator[str]:
    least = {**dict.fromkeys(COUNTS, 1), "group": 1, "pads": 0}.get(name)
    if least is None:
        return
    for value in values:
        if not least <= value <= LARGEST:
            yield f"{name} has the value {value}; must be {least}..{LARGEST}"
