"""Values in blocks with a shared exponent: nodes of AMD Quark, as weights or in standard operators.

Each of these nodes rounds a value as a block format would and gives it as float32: MXQuantizeDequantize to elements of
OCP Microscaling, BFPQuantizeDequantize to integers. Source: the operator descriptions of `amd-quark`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.compiler.read.opsets import opset_of
from bfpga.compiler.read.shapes import inferred_shapes
from bfpga.errors import ModelError
from bfpga.formats.files import printable
from bfpga.formats.microscaling import BLOCK, ELEMENTS, Element, integers, round_blocks

DOMAIN = "com.amd.quark"
OPERATORS = ("BFPQuantizeDequantize", "MXQuantizeDequantize")
#: Computed values of this many bits are rounded by the mantissas of the array instead, as those of other quantizers.
ENOUGH_BITS = 8
#: Bits of the exponent and of the spare one in what Quark calls the width of block floating point.
BFP_EXPONENT_BITS = 8
#: The one rounding mode of Quark that the specification of Microscaling has, and all of its presets: half to even.
HALF_TO_EVEN = 2
#: Smallest magnitude whose exponent a block of computed values has: steps and their reciprocals stay normal float32.
LEAST = 2.0**-90

Constants = Mapping[str, npt.NDArray[np.generic]]


def is_block_rounding(node: NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in OPERATORS


def with_block_weights(model: ModelProto, constants: Constants, path: str | Path) -> ModelProto:
    """The model whose weights in blocks are their values; itself if it has none.

    ModelError for other operators of the domain.
    """
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type not in OPERATORS:
            raise _refused(node, path, f"an operator of {DOMAIN} that is not known; known are {', '.join(OPERATORS)}")
    weights = [is_block_rounding(node) and node.input[0] in constants for node in model.graph.node]
    if not any(weights):
        return model
    result = copied(model)
    nodes = []
    for node, is_weight in zip(model.graph.node, weights, strict=True):
        if is_weight:
            element, block, axis = _numbers(node, constants[node.input[0]].ndim, path)
            values = round_blocks(constants[node.input[0]], element, block, axis)
            result.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            nodes.append(node)
    replace_nodes(result, nodes)
    return result


def with_written_blocks(model: ModelProto, path: str | Path, whole: bool = True) -> tuple[ModelProto, list[str]]:
    """The model with each rounding of computed values written out, and notes; the model itself if it has none.

    whole: all of them; otherwise those of ``ENOUGH_BITS`` are left out.
    """
    if not any(map(is_block_rounding, model.graph.node)):
        return model, []
    result = _with_identities(model)
    shapes = inferred_shapes(result, 1)
    nodes: list[NodeProto] = []
    written, left = [], []
    for node, plain in zip(model.graph.node, result.graph.node, strict=True):
        if not is_block_rounding(node):
            nodes.append(node)
            continue
        if node.input[0] not in shapes:
            raise _refused(node, path, "the shape of its input is known only while the network runs")
        shape = shapes[node.input[0]]
        element, block, axis = _numbers(node, len(shape), path)
        if axis == 0:
            raise _refused(node, path, "blocks of the samples' axis cannot be: samples run one by one")
        if whole or element.bits < ENOUGH_BITS:
            nodes += written_out(result, node.input[0], node.output[0], shape, element, block, axis)
            written.append(node.input[0])
        else:
            nodes.append(plain)
            left.append(node.input[0])
    replace_nodes(result, nodes)
    notes = [f"{_first(written)}: rounded in blocks by the host; without quantizers of activations it is not needed"]
    notes += [f"{_first(left)}: the mantissas of the array round instead of blocks of {ENOUGH_BITS} bits or more"]
    return result, [note for note, names in zip(notes, (written, left), strict=True) if names]


def _first(names: list[str]) -> str:
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{printable(names[0])}{others}" if names else ""


def _with_identities(model: ModelProto) -> ModelProto:
    """The model whose roundings are identities, through which shapes can be inferred."""
    result = copied(model)
    for node in filter(is_block_rounding, result.graph.node):
        node.op_type, node.domain = "Identity", ""
        del node.attribute[:]
    return result


def _refused(node: NodeProto, path: str | Path, reason: str) -> ModelError:
    return ModelError(f"{path}: {node.op_type} {printable(node.name)}: {reason}")


def _numbers(node: NodeProto, rank: int, path: str | Path) -> tuple[Element, int, int]:
    """Element, block and axis of a node; ModelError for what is not known here."""
    given = attributes_of(node)
    blocks_of_bfp = node.op_type == "BFPQuantizeDequantize"
    block, axis = given.get("block_size", 8 if blocks_of_bfp else BLOCK), given.get("axis", 1)
    if block < 1 or not -rank <= axis < rank:
        raise _refused(node, path, f"blocks of {block} along axis {axis} cannot be in a value of {rank} axes")
    mode = given.get("rounding_mode", 0)
    if mode != HALF_TO_EVEN:
        raise _refused(node, path, f"rounding_mode {mode}; export it with 2, to the nearest even")
    return (_bfp_element if blocks_of_bfp else _mx_element)(node, given, path), block, axis % rank


def _bfp_element(node: NodeProto, given: Mapping[str, Any], path: str | Path) -> Element:
    method, width = given.get("bfp_method", b"to_bfp").decode(), given.get("bit_width", 16)
    if method != "to_bfp" or given.get("convert_to_bfloat_before_bfp", 0):
        raise _refused(node, path, "exponents of parts of a block (MX4, MX6, MX9) and of bfloat16 are not known here; "
                       "export BFP16 or a format of OCP Microscaling")  # fmt: skip
    if not 2 <= width - BFP_EXPONENT_BITS <= 16:
        raise _refused(node, path, f"bit_width {width}; 10 to 24 are possible")
    return integers(width - BFP_EXPONENT_BITS)


def _mx_element(node: NodeProto, given: Mapping[str, Any], path: str | Path) -> Element:
    name = given.get("element_dtype", b"int8").decode()
    if name == "int8":
        return integers(8, symmetric=False)
    if name not in ELEMENTS:
        raise _refused(node, path, f"element_dtype {printable(name)}; known are {', '.join(ELEMENTS)}")
    return ELEMENTS[name]


def written_out(
    model: ModelProto, value: str, output: str, shape: Sequence[int], element: Element, block: int, axis: int
) -> list[NodeProto]:
    """Operators that round a value to blocks, exactly; constants are added to the model.

    shape: of the value; axes before ``axis`` may have any size. Blocks below 2**-90 are rounded as those of that size.
    """
    return _Writing(model, output).nodes_of(value, list(shape), element, block, axis)


class _Writing:
    """The operators of one rounding."""

    def __init__(self, model: ModelProto, output: str) -> None:
        self.model, self.output, self.nodes = model, output, list[NodeProto]()
        self.reduces_by_input = opset_of(model) >= 18

    def nodes_of(self, value: str, shape: list[int], element: Element, block: int, axis: int) -> list[NodeProto]:
        size, block = shape[axis], min(block, max(shape[axis], 1))
        missing = -size % block
        if missing:
            ends = [missing if place == axis else 0 for place in range(len(shape))]
            value = self.add("Pad", value, self.constant([0] * len(shape) + ends))
        before, after = [0] * axis, shape[axis + 1 :]
        values = self.add("Reshape", value, self.constant([*before, (size + missing) // block, block, *after]))
        rounded = self._rounded(values, element, axis + 1)
        joined = self.add("Reshape", rounded, self.constant([*before, size + missing, *after]))
        if missing:
            joined = self.add("Slice", joined, self.constant([0]), self.constant([size]), self.constant([axis]))
        self.nodes[-1].output[0] = self.output
        return self.nodes

    def _rounded(self, values: str, element: Element, axis: int) -> str:
        magnitudes = self.add("Abs", values)
        floor = self.constant(np.float32(LEAST))
        largest = self._power_below(self.add("Max", self._largest(magnitudes, axis), floor))
        scale = self.add("Mul", largest, self.constant(np.float32(2.0**-element.exponent)))
        base = scale
        if not element.whole:
            least = self.add("Mul", scale, self.constant(np.float32(2.0**element.least)))
            base = self._power_below(self.add("Max", magnitudes, least))
        step = self.add("Mul", base, self.constant(np.float32(2.0**-element.fraction)))
        rounded = self.add("Mul", self.add("Round", self.add("Div", values, step)), step)
        limits = [self.add("Mul", scale, self.constant(np.float32(end))) for end in (element.highest, element.lowest)]
        return self.add("Max", self.add("Min", rounded, limits[0]), limits[1])

    def _largest(self, magnitudes: str, axis: int) -> str:
        if self.reduces_by_input:
            return self.add("ReduceMax", magnitudes, self.constant([axis]), keepdims=1)
        return self.add("ReduceMax", magnitudes, axes=[axis], keepdims=1)

    def _power_below(self, value: str) -> str:
        """The largest power of two that is not above positive values.

        A logarithm finds its place or one next to it, comparisons which.
        """
        logarithm = self.add("Mul", self.add("Log", value), self.constant(np.float32(1 / np.log(2))))
        place = self.add("Min", self.add("Floor", logarithm), self.constant(np.float32(127)))
        power = self.add("Pow", self.constant(np.float32(2)), place)
        half, double = (self.add("Mul", power, self.constant(np.float32(factor))) for factor in (0.5, 2))
        power = self.add("Where", self.add("Greater", power, value), half, power)
        return self.add("Where", self.add("Greater", double, value), power, double)

    def constant(self, values: Any) -> str:
        array = values if isinstance(values, np.generic) else np.asarray(values, np.int64)
        name = f"{self.output}/number{len(self.model.graph.initializer)}"
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self.output}/{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name
