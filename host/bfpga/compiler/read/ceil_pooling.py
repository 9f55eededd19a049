"""Pooling with ``ceil_mode`` as pooling with explicit padding, so that every later shape is the one that is computed.

ONNX drops a last window that starts in the padding below or to the right. Shape inference of some versions of the
`onnx` package counts it all the same: the network would then have rows that nothing computes.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto, NodeProto, helper

from bfpga.compiler.read.graphs import attributes_of, copied
from bfpga.errors import ModelError

#: Shapes of a model's values by name, batch axis first.
Shapes = Callable[[ModelProto], dict[str, tuple[int, ...]]]


def explicit_ceiling(model: ModelProto, shapes_of: Shapes) -> ModelProto:
    """The model without ``ceil_mode`` wherever padding at the end says the same; itself if it has none.

    Padding is never the maximum, nor part of an average that leaves it out; averages that count their padding keep the
    attribute, since they do not count what is beyond it. ModelError for such an average whose last window starts in
    its padding: its shape is the one that versions of ONNX disagree about.
    """
    if not any(map(_rounds_up, model.graph.node)):
        return model
    result = copied(model)
    waiting = [node for node in result.graph.node if _rounds_up(node)]
    for node in waiting:
        # A pooling changes the shapes of those after it.
        shape = shapes_of(result).get(node.input[0])
        if shape is not None and len(shape) > 2:
            _make_explicit(node, shape[2:])
    return result


def _rounds_up(node: NodeProto) -> bool:
    attributes = attributes_of(node)
    if node.op_type not in ("MaxPool", "AveragePool") or not attributes.get("ceil_mode", 0):
        return False
    return bool(attributes.get("auto_pad", b"NOTSET") == b"NOTSET")


def _make_explicit(node: NodeProto, sizes: tuple[int, ...]) -> None:
    """Replace ``ceil_mode`` by the padding at the end that gives the same windows on an image of ``sizes``."""
    axes, values = len(sizes), attributes_of(node)

    def numbers(name: str, default: list[int]) -> list[int]:
        return [int(value) for value in values.get(name, default)]

    ones, pads = [1] * axes, numbers("pads", [0] * 2 * axes)
    reaches = [
        dilation * (span - 1) + 1
        for span, dilation in zip(numbers("kernel_shape", ones), numbers("dilations", ones), strict=True)
    ]
    places = list(zip(sizes, reaches, numbers("strides", ones), pads[:axes], pads[axes:], strict=True))
    if node.op_type == "AveragePool" and values.get("count_include_pad", 0):
        if any(starts_in_padding(*place) for place in places):
            raise ModelError(
                f"the last window of {node.name or node.op_type} starts in its padding, where versions of ONNX "
                "disagree about the shape: export the network with ceil_mode 0 or count_include_pad 0"
            )
        return
    kept = [item for item in node.attribute if item.name not in ("ceil_mode", "pads")]
    del node.attribute[:]
    ends = [end_padding(*place) for place in places]
    node.attribute.extend([*kept, helper.make_attribute("pads", [*pads[:axes], *ends])])


def starts_in_padding(size: int, reach: int, stride: int, begin: int, end: int) -> bool:
    """Whether rounding up counts a window that starts past the image.

    size: of the image's axis; reach: elements from the first to the last tap of a window; begin, end: stated padding.
    """
    return -(-(size + begin + end - reach) // stride) * stride >= size + begin


def end_padding(size: int, reach: int, stride: int, begin: int, end: int) -> int:
    """Padding after an axis with which rounding down gives the windows of rounding up; as `starts_in_padding`."""
    last = -(-(size + begin + end - reach) // stride) - starts_in_padding(size, reach, stride, begin, end)
    return max(0, last * stride + reach - size - begin)
