"""Which layers of a program run natively, and what they are described with for the C++ side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.schedule.matmul import product_node
from bfpga.contract import rows
from bfpga.contract.descriptor import Policy
from bfpga.contract.flows import everything
from bfpga.contract.functions import ACTIVATION_EXPONENT, GRID_BITS, TABLE_STEPS, Function, Table
from bfpga.contract.program import ArrayNode, MatMulNode, Node, OperandWeights, Program, TensorSpec, values_read
from bfpga.contract.rows import RowOperation
from bfpga.devices.matmul import matrix_tiles
from bfpga.devices.native.library import InstructionSet, instruction_set
from bfpga.devices.native.records import (
    HOLDS,
    INHERIT,
    KINDS,
    ROW_NUMBERS,
    SYMMETRIES,
    UNITS,
    LayerRecord,
    RowNumbersRecord,
    SegmentRecord,
    TensorRecord,
    format_record,
)
from bfpga.engines.kernel.streams import working_columns
from bfpga.engines.output.exponents import LEARNING
from bfpga.engines.rows.settings import RowSettings
from bfpga.program.layout import memory_order

#: Bytes of the activations of the samples that pass all layers of a run together: they should stay in the cache.
CHUNK_BYTES = 256 << 10
MOST_SAMPLES = 256
#: Functions by arithmetic that ``scalar.hpp`` has, those of ``in_vectors`` in ``epilogue.hpp`` too; tables are data.
ARITHMETIC = (Function.NONE, Function.RELU, Function.LEAKY_RELU, Function.CLIP)
#: Widest mantissas and weights of the C++ side, and the largest sum of a dot product that 32 bits hold.
WIDEST, LARGEST_SUM = 16, (1 << 30) - 1


def static_exponents(program: Program) -> dict[str, int]:
    """Tensors whose exponent is known before a run: encoded with a given one, or results of static policies."""
    exponents = {name: spec.input_exponent for name, spec in program.tensors.items() if spec.input_exponent is not None}
    for node in program.nodes:
        if not isinstance(node, ArrayNode):
            continue
        exponents.pop(node.output, None)
        if node.policy.inherit and not node.factors and all(name in exponents for name in node.inputs):
            exponents[node.output] = max(exponents[name] for name in node.inputs)
        elif not node.policy.inherit and node.policy.policy == Policy.STATIC:
            exponents[node.output] = node.policy.exponent
    return exponents


def never_negative(program: Program) -> set[str]:
    """Tensors whose mantissas are 0 or more: instructions for bytes are faster on them."""
    found: set[str] = set()
    if program.config.format.saturation == "wrap":
        return found
    signed: set[str] = set()
    for node in program.nodes:
        if isinstance(node, ArrayNode):
            (found if _not_negative(node, found - signed) else signed).add(node.output)
    return found - signed


def _not_negative(node: ArrayNode, known: set[str]) -> bool:
    """Whether a layer gives no negative value, from its function alone or because it only selects or averages."""
    if node.function is Function.RELU or (node.function is Function.CLIP and node.function_argument >= 0):
        return not node.function_first or node.bias is None
    if node.rows is not None:
        return node.rows.operation is RowOperation.SOFTMAX and node.function is Function.NONE and node.bias is None
    window = node.window
    selects = node.kind == "max" and window.pad_top == window.pad_left == 0
    averages = node.uniform_weights and node.weights is not None and bool((node.weights >= 0).all())
    plain = node.function is Function.NONE and node.bias is None and not node.adds_second
    return plain and (selects or averages) and node.inputs[0] in known


def element_bits(program: Program) -> int:
    """Bits that hold the program's mantissas and weights."""
    largest = [int(np.abs(node.weights).max(initial=0)) for node in program.nodes
               if isinstance(node, ArrayNode) and node.weights is not None]  # fmt: skip
    return max(program.config.format.mantissa_bits, 1 + max(largest, default=0).bit_length())


def layer_of(program: Program, index: int) -> ArrayNode:
    """Node ``index`` as a layer; a product of two activations as one matrix of it."""
    node = program.nodes[index]
    if isinstance(node, MatMulNode):
        layer = product_node(node)
        layer.tiles = matrix_tiles(program, index, node)
        return layer
    assert isinstance(node, ArrayNode)
    return node


def refusal(program: Program, node: Node, item: InstructionSet) -> str:
    """Why the engines in numpy compute a node; empty if the C++ side does."""
    fmt = program.config.format
    if fmt.mantissa_bits > WIDEST:
        return f"mantissas of {fmt.mantissa_bits} bits"
    if isinstance(node, MatMulNode):
        wide = node.inner * fmt.mantissa_max * -fmt.mantissa_min
    elif not isinstance(node, ArrayNode):
        return "an operator of the host"
    elif node.factors and not _one_pixel(program.tensors[node.factors], node.channels):
        return "factors that are an image"
    elif node.kind not in KINDS or (node.kind == "sum" and len(node.inputs) > 2):
        return f"a layer of kind {node.kind} with {len(node.inputs)} inputs"
    elif node.function not in ARITHMETIC and node.function.row.table is None:
        return f"the function {node.function.key}"
    elif node.operand is not None:
        wide = node.operand.terms * fmt.mantissa_max * -fmt.mantissa_min
    elif node.weights is None or node.factors:
        wide = 0
    else:
        sums = np.abs(np.asarray(node.weights, np.int64)).reshape(node.channels, -1).sum(axis=1)
        wide = int(sums.max(initial=0)) * -min(fmt.mantissa_min, -fmt.mantissa_max)
    if wide > LARGEST_SUM and item.element_bits < WIDEST:
        return f"sums of up to {wide}, beyond the 32 bits of bytes"
    return ""


def _one_pixel(spec: TensorSpec, channels: int) -> bool:
    return (spec.height, spec.width, spec.channels) == (1, 1, channels)


@dataclass
class Stretch:
    """Consecutive nodes that run natively together, by their index."""

    indices: list[int]
    item: InstructionSet


def stretches(program: Program, wanted: str | None, reasons: dict[str, str]) -> list[Stretch]:
    """The runs of native layers of a program; ``reasons``: why other layers stay with the engines in numpy."""
    item = instruction_set(element_bits(program), wanted)
    if item is None:
        bits = f"mantissas or weights of {element_bits(program)} bits"
        reasons.update((node.name, bits) for node in program.nodes if isinstance(node, (ArrayNode, MatMulNode)))
        return []
    native: set[int] = set()
    for index, node in enumerate(program.nodes):
        reason = refusal(program, node, item)
        if not reason:
            native.add(index)
        elif isinstance(node, (ArrayNode, MatMulNode)):
            reasons[node.name] = reason
    while True:
        found = [Stretch(indices, item) for indices in _runs(program, native)]
        split = _split(program, found)
        if not split:
            return found
        native -= split
        reasons.update((program.nodes[index].name, "a part of a tensor that numpy completes") for index in split)


def _runs(program: Program, native: set[int]) -> Iterator[list[int]]:
    """Consecutive native layers; products alone. Layers that share a policy slot learn one after the other."""
    run: list[int] = []
    slots: set[int] = set()
    for index, node in enumerate(program.nodes):
        learns = isinstance(node, ArrayNode) and node.policy.policy in LEARNING and not node.policy.inherit
        alone = isinstance(node, MatMulNode)
        if run and (index not in native or alone or (learns and node.policy.slot in slots)):  # type: ignore[union-attr]
            yield run
            run, slots = [], set()
        if index not in native:
            continue
        if alone:
            yield [index]
            continue
        run.append(index)
        if learns:
            slots.add(node.policy.slot)  # type: ignore[union-attr]
    if run:
        yield run


def _split(program: Program, found: Sequence[Stretch]) -> set[int]:
    """Native layers whose tensor has parts that other runs or the engines compute."""
    place = {index: number for number, stretch in enumerate(found) for index in stretch.indices}
    parts: dict[str, list[int]] = {}
    for index, node in enumerate(program.nodes):
        if isinstance(node, ArrayNode):
            parts.setdefault(node.output, []).append(index)
    split: set[int] = set()
    for indices in parts.values():
        if len({place.get(index, -1) for index in indices}) > 1:
            split.update(index for index in indices if index in place)
    return split


def memory_strides(spec: TensorSpec) -> tuple[int, int, int] | None:
    """Distances of rows, pixels and channels of a tensor in its ONNX value; None if they differ from place to place."""
    size, order = spec.height * spec.width * spec.channels, memory_order(spec)
    places = np.arange(size).reshape(order.shape).transpose(order.axes)
    places = places.reshape(spec.height, spec.width, spec.channels)
    steps = [int(places[1, 0, 0]) if spec.height > 1 else 0, int(places[0, 1, 0]) if spec.width > 1 else 0,
             int(places[0, 0, 1]) if spec.channels > 1 else 1]  # fmt: skip
    y, x, c = np.ogrid[: spec.height, : spec.width, : spec.channels]
    same: bool = bool((places == steps[0] * y + steps[1] * x + steps[2] * c).all())
    return (steps[0], steps[1], steps[2]) if same else None


class Description:
    """A run of layers as records, with the arrays that these point to.

    layers: as ``layer_of`` gives them; tensors: names in the order of the records. second: spec of the second operand
    of a product.
    """

    def __init__(self, program: Program, layers: Sequence[ArrayNode], exponents: dict[str, int],
                 operands: dict[str, TensorSpec] | None = None) -> None:  # fmt: skip
        self.program = program
        self.layers = list(layers)
        self.kept: list[npt.NDArray[Any]] = []
        self.specs = operands or {
            name: program.tensors[name] for node in layers for name in (*values_read(node), node.output)
        }
        self.tensors = list(self.specs)
        self.product = operands is not None
        self.numbers = {name: number for number, name in enumerate(self.tensors)}
        self.tensor_records = (TensorRecord * len(self.tensors))(*self._tensors(exponents))
        self.layer_records = (LayerRecord * len(self.layers))(*(self._layer(node) for node in self.layers))
        config = program.config
        self.learns = any(node.policy.policy in LEARNING and not node.policy.inherit for node in self.layers)
        self.record = SegmentRecord(
            format_record(config.format, config.accumulator_bits, config.position_bins),
            len(self.tensors), len(self.layers), self._chunk(), self.learns, TABLE_STEPS, GRID_BITS,
            ACTIVATION_EXPONENT, 0, self._rows(), self.tensor_records, self.layer_records,
        )  # fmt: skip

    def _chunk(self) -> int:
        """Samples that pass all layers together."""
        item = 1 if self.program.config.format.mantissa_bits <= 8 else 2
        size = sum(spec.height * spec.width * spec.channels for spec in self.specs.values())
        return max(1, min(MOST_SAMPLES, CHUNK_BYTES // (item * size)))

    def _tensors(self, exponents: dict[str, int]) -> Iterator[TensorRecord]:
        positive = never_negative(self.program)
        for name in self.tensors:
            spec = self.specs[name]
            top = left = bottom = right = 0
            for node in self.layers:
                if node.kind != "gemm" or node.inputs[0] != name:
                    continue
                window = node.window
                height = (window.output_height - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y
                width = (window.output_width - 1) * window.stride_x + (window.kernel_width - 1) * window.dilation_x
                top, left = max(top, window.pad_top), max(left, window.pad_left)
                bottom = max(bottom, height + 1 - window.pad_top - spec.height)
                right = max(right, width + 1 - window.pad_left - spec.width)
            yield TensorRecord(
                spec.height, spec.width, spec.channels, top, left, bottom, right,
                name in exponents, exponents.get(name, 0), name in positive,
            )  # fmt: skip

    def _keep(self, values: npt.ArrayLike | None, dtype: npt.DTypeLike) -> int | None:
        """Address of values as an array that lives as long as this."""
        if values is None:
            return None
        self.kept.append(np.ascontiguousarray(values, dtype))
        return int(self.kept[-1].ctypes.data)

    def _layer(self, node: ArrayNode) -> LayerRecord:
        window, policy, row = node.window, node.policy, node.function.row
        table = row.table
        sample = policy.sample or everything(node.channels)
        second = node.operand or OperandWeights(True, self.specs[self.tensors[0]].channels)
        multiplies = self.product or node.operand is not None
        kind = KINDS["product" if multiplies else "scale" if node.factors else node.kind]
        operand = (second.by_pixels, second.terms, second.first_input, second.first_weight, second.first_pixel)
        inputs = self.tensors[:2] if self.product else values_read(node)
        columns = working_columns(node, self.program.config)
        tiles = [(tile.y0, tile.y1, tile.m0, tile.m1) for tile in node.tiles]
        tiles = tiles or [(0, window.output_height, 0, node.channels)]
        exponents = None if self.product else node.weight_exponents
        return LayerRecord(
            kind, self.numbers[inputs[0]], self.numbers[inputs[1]] if len(inputs) > 1 else -1,
            self.numbers[node.output], node.channels, node.channel_offset, node.groups,
            window.kernel_height, window.kernel_width, window.stride_y, window.stride_x, window.pad_top,
            window.pad_left, window.dilation_y, window.dilation_x, window.output_height, window.output_width,
            window.spread_y, window.first_y, window.first_x, node.negate_second, node.adds_second,
            node.function, node.function_argument, node.function_exponent, node.function_first,
            UNITS[row.unit], *_table_numbers(table),
            INHERIT if policy.inherit else policy.policy, policy.exponent, policy.rule, policy.rate, policy.margin,
            policy.base, sample.step, sample.offset % sample.step, len(sample.blocks), len(tiles), columns,
            node.bias_exponent, *(operand if multiplies else (0,) * 5), *_row_numbers(node),
            None if self.product or node.factors else self._keep(node.weights, np.int32),
            self._keep(exponents, np.int32), self._keep(node.bias, np.int64),
            self._keep(table.points if table else None, np.int32), self._keep(sample.blocks, np.int32),
            self._keep(tiles, np.int32),
            self._keep(node.rows.gains if node.rows else None, np.int32),
        )  # fmt: skip

    def _rows(self) -> RowNumbersRecord:
        tables = (rows.power_table(), rows.reciprocal_table(), rows.root_table())
        numbers = [getattr(rows, name.upper()) for name in ROW_NUMBERS]
        return RowNumbersRecord(*numbers, rows.log2_e(), 0, *(self._keep(table, np.int32) for table in tables))


def _row_numbers(node: ArrayNode) -> tuple[int, ...]:
    """Operation, exponent, magnitude and inverse of a row's channels, mantissa and exponent of epsilon's share."""
    work = node.rows
    if work is None:
        return 0, 0, 0, 0, 0, 0
    settings = RowSettings.of_layer(work, node.channels)
    return int(work.operation), work.exponent, settings.magnitude, settings.inverse, *settings.epsilon


def _table_numbers(table: Table | None) -> tuple[int, int, int, int]:
    """Limit, contents and symmetry of a table, and fraction bits of a step."""
    if table is None:
        return 0, 0, 0, 0
    steps = (table.width << GRID_BITS) // TABLE_STEPS
    return table.limit, HOLDS[table.holds], SYMMETRIES[table.symmetry], steps.bit_length() - 1
