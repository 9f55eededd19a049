"""A quantized network as the float network that it represents, and the grids of its quantizers.

Weights become the values that their integers represent. A quantizer of activations limits its values, and these limits
stay in the network where they change anything (a quantizer from zero on is also a ReLU). Its step is not part of a
float network: it is noted as the ``Grid`` of the value, from which the compiler takes exponents. Quantizers of a few
bits, which networks are trained with, are kept exactly: their values are scaled so that the step is a power of two,
which an exponent of the array is.

Operators between a quantizer and its dequantizer (a maximum, a rearrangement of integers) are applied to the values. An
operator on integers that is not known here stays, with its quantizer: the host computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, graph_inputs, replace_nodes
from bfpga.compiler.read.grids import Grid
from bfpga.compiler.read.qonnx import Quantizer, is_quantizer, quantizer_of
from bfpga.compiler.read.qoperators import values_of

Number = npt.NDArray[np.float64]
#: Operators that move values, or take the largest of some: they do the same to integers and to their values.
MOVING = frozenset({
    "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip
EVERYTHING = (-np.inf, np.inf)
AVERAGES = ("AveragePool", "GlobalAveragePool", "ReduceMean")
#: Least and largest results of operators.
RANGES = {"Relu": (0.0, np.inf), "Softmax": (0.0, 1.0), "Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0)}
#: What rounding down or up adds to a value that is then rounded to the nearest, in steps; ties are no matter of it.
SHIFTS = {"FLOOR": -0.5 + 2.0**-10, "CEIL": 0.5 - 2.0**-10}
#: The same of values from zero on, which modes that distinguish the signs leave.
POSITIVE_SHIFTS = {"DOWN": SHIFTS["FLOOR"], "UP": SHIFTS["CEIL"], "HALF_UP": 2.0**-10, "HALF_DOWN": -(2.0**-10)}
#: Least and largest integer by the name of their type.
LIMITS = {
    f"{sign}int{bits}": (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if not sign else (0.0, 2.0**bits - 1)
    for bits in (2, 4, 8, 16, 32)
    for sign in ("", "u")
}


@dataclass(frozen=True)
class Meaning:
    """What integers represent: (integer - zero_point) * scale is the value ``name``, limited to ``low`` to ``high``.

    limits: of the integers, None where the value needs none (any more).
    """

    name: str
    scale: Number
    zero_point: Number
    limits: tuple[float, float] | None = None

    def same_numbers(self, scale: Number, zero_point: Number) -> bool:
        return np.array_equal(self.scale, scale) and np.array_equal(self.zero_point, zero_point)


class FloatForm:
    """One walk over the operators; ``grids`` are those of the values that the new operators give."""

    def __init__(self, model: ModelProto, constants: Mapping[str, npt.NDArray[np.generic]], path: str | Path) -> None:
        self.model, self.path = copied(model), path
        self.constants = dict(constants)
        self.inputs = {value.name for value in graph_inputs(model)}
        self.outputs = {value.name for value in model.graph.output}
        self.nodes: list[NodeProto] = []
        self.givers: dict[str, NodeProto] = {}
        self.meanings: dict[str, Meaning] = {}
        self.renamed: dict[str, str] = {}
        self.grids: dict[str, Grid] = {}
        self.notes: list[str] = []
        #: What quantizers of few values gave, by what they read and their numbers; and the numbers by what they gave.
        self.few: dict[tuple[Any, ...], str] = {}
        self.kinds: dict[str, tuple[Any, ...]] = {}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def run(self) -> ModelProto:
        """The float network; unused operators are still in it."""
        rules: dict[str, Callable[[NodeProto], bool]] = {
            "Add": self._add, "Cast": self._cast, "Clip": self._clip, "Concat": self._concat,
            "ConvInteger": self._product, "DequantizeLinear": self._dequantize, "DynamicQuantizeLinear": self._dynamic,
            "MatMulInteger": self._product, "Pad": self._pad, "QuantizeLinear": self._quantize, "Relu": self._relu,
        }  # fmt: skip
        for original in self.model.graph.node:
            node = NodeProto()
            node.CopyFrom(original)
            for index, name in enumerate(node.input):
                node.input[index] = self.renamed.get(name, name)
            rule = self._qonnx if is_quantizer(node) else rules.get(node.op_type)
            if rule is None and node.op_type in MOVING:
                rule = self._move
            if rule is None or not rule(node):
                self._put(node)
        self._give_integer_outputs()
        replace_nodes(self.model, self.nodes)
        del self.model.graph.value_info[:]
        return self.model

    # Parts of the new network

    def _constant(self, values: npt.ArrayLike, base: str) -> str:
        name = f"{base}/number{len(self.model.graph.initializer)}"
        array = np.asarray(values, np.float32)
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        self.constants[name] = array
        return name

    def _emit(self, kind: str, inputs: list[str], base: str, output: str = "") -> str:
        name = output or f"{base}/{kind.lower()}{len(self.nodes)}"
        self._put(helper.make_node(kind, inputs, [name], name=name))
        return name

    def _put(self, node: NodeProto) -> None:
        self.nodes.append(node)
        self.givers |= dict.fromkeys(node.output, node)

    def _times(self, value: str, factor: Number | float, base: str) -> str:
        if np.all(np.asarray(factor) == 1):
            return value
        return self._emit("Mul", [value, self._constant(factor, base)], base)

    def _plus(self, value: str, number: Number | float, base: str) -> str:
        if not np.any(number):
            return value
        return self._emit("Add", [value, self._constant(number, base)], base)

    def _alias(self, old: str, new: str) -> bool:
        """Make all readers of ``old`` read ``new``."""
        if old in self.outputs:
            self._emit("Identity", [new], old, output=old)
        else:
            self.renamed[old] = new
        return True

    def _number(self, name: str) -> Number | None:
        """A constant; None for one that is computed."""
        return np.asarray(self.constants[name], np.float64) if name in self.constants else None

    def _value(self, integers: str) -> Meaning:
        """The meaning of integers whose value exists and is limited."""
        meaning = self.meanings[integers]
        if meaning.limits is not None:
            name = self._limited(meaning.name, meaning, integers)
            meaning = self.meanings[integers] = replace(meaning, name=name, limits=None)
        return meaning

    def _limited(self, value: str, meaning: Meaning, base: str, shift: float = 0.0) -> str:
        """A value as a quantizer leaves it, apart from its step, which is noted. shift: in steps, before rounding."""
        if meaning.limits is not None and Grid(1.0, *meaning.limits).few:
            return self._few(value, meaning, base, shift)
        if meaning.scale.size != 1 or meaning.zero_point.size != 1:
            return value
        if meaning.limits is None:
            return self._plus(value, shift * meaning.scale, base)
        step, zero_point = meaning.scale.item(), meaning.zero_point.item()
        least, most = (limit - zero_point for limit in meaning.limits)
        if least == 0 and not shift:
            value = self._without_relu(value)
        value = self._plus(value, shift * step, base)
        low, high = self._range(value)
        saturates = False
        if low >= (least - 1) * step and high <= (most + 1) * step:
            pass  # limits change less than rounding does
        elif least == 0 or (value not in self.inputs and (low >= 0 or self._read_from_zero(base))):
            value, least = self._clipped(value, most * step, base), 0
        else:
            saturates = True
        grid = Grid(step, least * step, most * step, saturates=saturates)
        if grid.power is not None or not self._averaged(value):
            self._note(value, grid)
        return value

    def _read_from_zero(self, quantized: str) -> bool:
        """Whether all readers of a quantizer's result take negative values as zero."""
        readers = self.readers.get(quantized, [])
        if not readers or quantized in self.outputs:
            return False
        return all(
            reader.op_type == "Relu"
            or (reader.op_type == "DequantizeLinear" and self._read_from_zero(reader.output[0]))
            for reader in readers
        )

    def _few(self, value: str, meaning: Meaning, base: str, shift: float) -> str:
        """A value as a quantizer of few values leaves it: limited from zero on, and there rounded by its exponent.

        No other reader's value is rounded: the Clip is an operator of its own even where it changes nothing.
        """
        assert meaning.limits is not None
        low, high = meaning.limits
        if meaning.zero_point.size == 1 and self._range(value)[0] >= 0:
            low = max(low, meaning.zero_point.item())  # nothing is below: a sign would only take a bit
        scale, zero_point = (
            item.reshape(()) if item.size == 1 else item for item in (meaning.scale, meaning.zero_point)
        )
        numbers = (scale.tobytes(), zero_point.tobytes(), low, high)
        if 1 in (scale.ndim, zero_point.ndim):  # the axis of QDQ, which is not known here
            self.notes.append(f"{base}: rounding and limits of a quantizer with a scale for each channel are not kept")
            return value
        if self._is_one_of(value, numbers):
            return value
        key = (value, shift, *numbers)
        if key not in self.few:
            power = scale.size == 1 and Grid(scale.item(), 0, 0).power is not None
            power = power and not self._is_coarser(value, scale.item())
            step, factor = (scale.item(), np.ones(())) if power else (1.0, scale)
            least = low - zero_point
            top = (high - low) * step
            result = value if np.any(least) or shift else self._without_relu(value)
            result = self._plus(self._times(result, 1 / factor, base), (shift - least) * step, base)
            result = self._clipped(result, top, base)
            self.grids[result] = Grid(step, 0, top, rounds=True)
            if np.any(least):
                result = self._plus(result, least * step, base)
                if least.size == 1 and least.item() == round(least.item()):
                    self.grids[result] = Grid(step, least.item() * step, least.item() * step + top)
            result = self._times(result, factor, base)
            self.few[key] = result
            self.kinds[result] = numbers
        return self.few[key]

    def _is_one_of(self, value: str, numbers: tuple[Any, ...]) -> bool:
        """Whether the same quantizer is before a value already; only moved since then."""
        while value not in self.kinds and value in self.givers and self.givers[value].op_type in MOVING:
            value = self.givers[value].input[0]
        return self.kinds.get(value) == numbers

    def _is_coarser(self, value: str, step: float) -> bool:
        """Whether a value has a larger step: in units of that the array cannot limit it to a multiple of this one."""
        while value not in self.grids and value in self.givers and self.givers[value].op_type in MOVING:
            value = self.givers[value].input[0]
        return value in self.grids and self.grids[value].few and self.grids[value].step > step

    def _without_relu(self, value: str) -> str:
        """What a ReLU reads, if one gives the value: a limit at zero is one."""
        giver = self.givers.get(value)
        return giver.input[0] if giver is not None and giver.op_type == "Relu" else value

    def _clipped(self, value: str, top: float, base: str) -> str:
        return self._emit("Clip", [value, self._constant(0, base), self._constant(top, base)], base)

    def _range(self, value: str) -> tuple[float, float]:
        """Limits that the operators before a value set."""
        node = self.givers.get(value)
        if node is not None and node.op_type in RANGES:
            return RANGES[node.op_type]
        if node is not None and (node.op_type in MOVING or node.op_type in AVERAGES):
            return self._range(node.input[0])
        if node is None or node.op_type != "Clip":
            return EVERYTHING
        bounds = [self._number(name) if name else None for name in (*node.input[1:], "", "")[:2]]
        low, high = (e if bound is None else bound.item() for e, bound in zip(EVERYTHING, bounds, strict=True))
        return low, high

    def _averaged(self, value: str) -> bool:
        """Whether a value is an average: it often keeps the range of what it is taken from, and fills little of it."""
        node = self.givers.get(value)
        if node is not None and node.op_type in MOVING:
            return self._averaged(node.input[0])
        return node is not None and node.op_type in AVERAGES

    def _note(self, value: str, grid: Grid) -> None:
        """Of several quantizers of one value the finest counts."""
        self.grids[value] = grid.with_other(self.grids[value]) if value in self.grids else grid

    # Rules: each returns whether the operator is done with; otherwise it stays as it is.

    def _quantize(self, node: NodeProto) -> bool:
        if attributes_of(node).get("block_size", 0):
            self.notes.append(f"{node.output[0]}: values quantized in blocks are rounded by the host")
            return False
        scale, zero_point = self._number(node.input[1]), self._zero_point(node, 2)
        stated = attributes_of(node).get("output_dtype", 0)
        kind = helper.tensor_dtype_to_np_dtype(stated).name if stated else "uint8"
        if len(node.input) > 2 and node.input[2] in self.constants:
            kind = self.constants[node.input[2]].dtype.name
        if scale is not None and zero_point is not None and kind in LIMITS:
            self.meanings[node.output[0]] = Meaning(node.input[0], scale, zero_point, LIMITS[kind])
        return False  # an unknown reader of integers still needs them

    def _zero_point(self, node: NodeProto, index: int) -> Number | None:
        """An input that may be left out; None for one that is computed."""
        return self._number(node.input[index]) if index < len(node.input) and node.input[index] else np.zeros(())

    def _dequantize(self, node: NodeProto) -> bool:
        scale, zero_point = self._number(node.input[1]), self._zero_point(node, 2)
        if node.input[0] not in self.meanings or scale is None or zero_point is None:
            return False
        meaning, base = self.meanings[node.input[0]], node.output[0]
        if meaning.same_numbers(scale, zero_point):
            return self._alias(base, self._value(node.input[0]).name)
        if max(item.size for item in (scale, zero_point, meaning.scale, meaning.zero_point)) > 1:
            return False
        value = self._value(node.input[0]).name
        value = self._plus(value, (meaning.zero_point - zero_point) * meaning.scale, base)
        return self._alias(base, self._times(value, scale / meaning.scale, base))

    def _cast(self, node: NodeProto) -> bool:
        """Casts after the border make integers of float inputs; casts of integers to floats end them."""
        target, source = attributes_of(node)["to"], node.input[0]
        if source in self.inputs and target != TensorProto.FLOAT:
            self.meanings[node.output[0]] = Meaning(source, np.ones(()), np.zeros(()))
            return False
        if source not in self.meanings or self.meanings[source].scale.size > 1:
            return False
        if target == TensorProto.INT32:
            self.meanings[node.output[0]] = self.meanings[source]
            return False
        if target != TensorProto.FLOAT:
            return False
        meaning = self._value(source)
        value = self._times(meaning.name, 1 / meaning.scale, node.output[0])
        return self._alias(node.output[0], self._plus(value, meaning.zero_point, node.output[0]))

    def _clip(self, node: NodeProto) -> bool:
        """Limits of integers narrow those of their quantizer (Brevitas writes few bits so)."""
        if node.input[0] not in self.meanings:
            return False
        meaning = self.meanings[node.input[0]]
        bounds = [self._number(name) if name else None for name in (*node.input[1:], "", "")[:2]]
        if any(name and bound is None for name, bound in zip(node.input[1:], bounds, strict=False)):
            return False
        given = meaning.limits or EVERYTHING
        low, high = (limit if bound is None else bound.item() for limit, bound in zip(given, bounds, strict=True))
        limits = max(low, given[0]), min(high, given[1])
        if np.isfinite(limits).all():
            self.meanings[node.output[0]] = replace(meaning, limits=limits)
        return False

    def _relu(self, node: NodeProto) -> bool:
        """After a quantizer that absorbed it it changes nothing."""
        limited = self.givers.get(node.input[0])
        if limited is None or limited.op_type != "Clip" or self._range(node.input[0])[0] < 0:
            return False
        return self._alias(node.output[0], node.input[0])

    def _move(self, node: NodeProto) -> bool:
        if node.input[0] not in self.meanings or self.meanings[node.input[0]].scale.size > 1:
            return False
        meaning = self._value(node.input[0])
        self._moved(node, [meaning.name, *node.input[1:]], meaning)
        return False

    def _moved(self, node: NodeProto, inputs: list[str], meaning: Meaning) -> None:
        """The operator on values in parallel with that on integers."""
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        copy.input.extend(inputs)
        copy.output.extend(f"{name}/value" if name else "" for name in node.output)
        if node.op_type == "MaxPool":
            del copy.output[1:]
        self._put(copy)
        for name in node.output[: len(copy.output)]:
            self.meanings[name] = replace(meaning, name=f"{name}/value", limits=None)

    def _concat(self, node: NodeProto) -> bool:
        if not all(name in self.meanings for name in node.input):
            return False
        first = self.meanings[node.input[0]]
        if first.scale.size > 1 or not all(
            self.meanings[name].same_numbers(first.scale, first.zero_point) for name in node.input
        ):
            return False
        self._moved(node, [self._value(name).name for name in node.input], first)
        return False

    def _pad(self, node: NodeProto) -> bool:
        """Padding of integers with their zero point is padding of values with zero."""
        if node.input[0] not in self.meanings or self.meanings[node.input[0]].scale.size > 1:
            return False
        number = self._zero_point(node, 2)
        if number is None:
            return False
        meaning = self._value(node.input[0])
        value = self._constant((number.reshape(()) - meaning.zero_point) * meaning.scale, node.output[0])
        self._moved(node, [meaning.name, node.input[1], value, *node.input[3:]], meaning)
        return False

    def _add(self, node: NodeProto) -> bool:
        """A bias on integers."""
        for first, second in ((0, 1), (1, 0)):
            meaning, number = self.meanings.get(node.input[first]), self._number(node.input[second])
            if meaning is not None and number is not None and meaning.scale.size == 1 and not meaning.zero_point.any():
                meaning = self._value(node.input[first])
                name = self._plus(meaning.name, number * meaning.scale, node.output[0])
                self.meanings[node.output[0]] = replace(meaning, name=name)
                return False
        return False

    def _dynamic(self, node: NodeProto) -> bool:
        """A quantizer that takes the range of each value: the value itself, with a scale of 1."""
        readers = self.readers.get(node.output[0], [])
        if not all(reader.op_type in ("ConvInteger", "MatMulInteger", "DequantizeLinear") for reader in readers):
            return False
        for name, number in ((node.output[1], np.float32(1)), (node.output[2], np.uint8(0))):
            self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(number), name))
            self.constants[name] = np.asarray(number)
        self.meanings[node.output[0]] = Meaning(node.input[0], np.ones(()), np.zeros(()))
        return True

    def _product(self, node: NodeProto) -> bool:
        """ConvInteger and MatMulInteger: sums of products of integers, as those of the values that they represent."""
        operands = self._operand(node, 0), self._operand(node, 1)
        if operands[0] is None or operands[1] is None:
            return False
        (first, first_scale), (second, second_scale) = operands[0], operands[1]
        kind = "Conv" if node.op_type == "ConvInteger" else "MatMul"
        name = f"{node.output[0]}/value"
        self._put(helper.make_node(kind, [first, second], [name], name=node.name, **attributes_of(node)))
        self.meanings[node.output[0]] = Meaning(name, first_scale * second_scale, np.zeros(()))
        return True

    def _operand(self, node: NodeProto, index: int) -> tuple[str, Number] | None:
        """The value of an operand without its zero point, and what one of its integers is worth."""
        name, zero_point = node.input[index], self._zero_point(node, index + 2)
        if zero_point is None:
            return None
        number = self._number(name)
        if number is not None:
            axis = 0 if node.op_type == "ConvInteger" else -1
            return self._constant(values_of(number, np.ones(()), zero_point, axis), name), np.ones(())
        if name not in self.meanings or self.meanings[name].scale.size > 1 or zero_point.size > 1:
            return None
        meaning = self._value(name)
        difference = (meaning.zero_point - zero_point.reshape(())) * meaning.scale
        return self._plus(meaning.name, difference, node.output[0]), meaning.scale.reshape(())

    def _qonnx(self, node: NodeProto) -> bool:
        quantizer, base = quantizer_of(node, self.constants, self.path), node.output[0]
        if quantizer.kind == "bipolar":
            return self._alias(base, self._sign(node.input[0], quantizer, base))
        value, scale, zero_point = node.input[0], quantizer.scale, quantizer.zero_point
        if quantizer.kind == "truncated":
            value = self._times(value, 1 / quantizer.divided, base)
            if quantizer.output_scale is not None:
                value = self._times(value, (quantizer.output_scale / scale).astype(np.float64), base)
                scale, zero_point = quantizer.output_scale, zero_point / np.float32(quantizer.divided)
        limits, shift = (quantizer.low, quantizer.high), SHIFTS.get(quantizer.rounding, 0.0)
        if not np.isfinite(quantizer.low):  # an early Trunc states bits, and no sign
            positive = self._range(node.input[0])[0] >= 0
            limits = (0.0 if positive else -(2.0**quantizer.bits), 2.0**quantizer.bits)
        few = Grid(1.0, *limits).few
        if quantizer.rounding in POSITIVE_SHIFTS:
            if limits[0] == 0 and not zero_point.any():
                shift = POSITIVE_SHIFTS[quantizer.rounding]
            elif few:
                self.notes.append(f"{base}: {quantizer.rounding} of values of both signs is rounded to the nearest")
        bounded = few or np.isfinite(quantizer.low)
        numbers = np.asarray(scale, np.float64), np.asarray(zero_point, np.float64)
        meaning = Meaning(value, *numbers, limits if bounded else None)
        return self._alias(base, self._limited(value, meaning, base, shift))

    def _sign(self, value: str, quantizer: Quantizer, base: str) -> str:
        """The sign times the scale: one bit, by rounding a value of [0, 1] to an integer."""
        offset = np.asarray(quantizer.zero_point * quantizer.scale + 0.5 + 2.0**-13, np.float64)
        value = self._plus(value, offset, base)
        value = self._clipped(value, 1, base)
        self.grids[value] = Grid(1.0, 0.0, 1.0, rounds=True)
        scale = quantizer.scale.astype(np.float64)
        value = self._plus(self._times(value, 2 * scale, base), -scale, base)
        if quantizer.scale.size == 1:
            step = float(quantizer.scale.item())
            self.grids[value] = Grid(step, -step, step)
        return value

    def _give_integer_outputs(self) -> None:
        """An output of integers is given as their values."""
        for output in self.model.graph.output:
            if output.name in self.meanings:
                meaning = self._value(output.name)
                for node in self.nodes:
                    for names in (node.input, node.output):
                        for index, name in enumerate(names):
                            names[index] = f"{name}/integers" if name == output.name else name
                self._emit("Identity", [meaning.name], output.name, output=output.name)
                output.type.tensor_type.elem_type = TensorProto.FLOAT
