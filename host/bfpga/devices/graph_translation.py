"""Layers of the array as one ONNX graph of float32 operators that carry integers, where that is exact.

A layer of static exponents is a chain of constants away from its accumulators: bias, unit and rounding are known. Its
mantissas are ``clip(round(sum of products * 2**-s))``; scaling the weights by the power of two 2**-s changes no digit,
so one convolution, one clip and one rounding (half to even) compute it exactly as long as every sum of magnitudes stays
at or below 2**24 units. Every layer is proven so before it is translated; ``NotTranslatableError`` tells why not.

Graph values are mantissas as float32 in ONNX layout: (samples, channels, height, width).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Function, Policy
from bfpga.contract.program import ArrayNode, Program, TensorSpec
from bfpga.engines.array.products import EXACT_FLOAT32
from bfpga.engines.output.stage import evaluate, requantize
from bfpga.formats.arrays import BoolArray, Float32Array, Float64Array, Int64Array
from bfpga.formats.block_format import Status
from bfpga.program.layout import channel_factors, memory_axes, onnx_shape, values_alone

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


#: Functions that operators compute exactly on integers in float32.
TRANSLATED = (Function.NONE, Function.RELU, Function.LEAKY_RELU, Function.CLIP)
OPSET, IR_VERSION = 13, 8
#: Powers of two beyond this are not trusted to stay normal float32 numbers after scaling.
LARGEST_SCALE = 90
#: 1.5 * 2**23: a float32 of a smaller magnitude plus this has no fraction bits left, so the addition rounds it.
ROUNDER = float(3 << 22)
#: Channels that convolutions of ONNX Runtime keep together (8 or 16, by CPU); other numbers are not blocked at all.
CHANNEL_BLOCK = 8


class NotTranslatableError(Exception):
    """These layers cannot be proven exact in float32; the text says which and why."""


@dataclass
class Segment:
    """Translated layers: ``model`` maps host values (float32, ONNX layout) by name to host values.

    tensors: all that it computes or reads.
    """

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[str, ...]


def static_exponents(program: Program) -> dict[str, int]:
    """Tensors whose exponent is known before a run: encoded with a given one, or results of static policies."""
    exponents = {name: spec.input_exponent for name, spec in program.tensors.items() if spec.input_exponent is not None}
    for node in program.nodes:
        if not isinstance(node, ArrayNode):
            continue
        exponents.pop(node.output, None)
        if node.policy.inherit and all(name in exponents for name in node.inputs):
            exponents[node.output] = max(exponents[name] for name in node.inputs)
        elif not node.policy.inherit and node.policy.policy == Policy.STATIC:
            exponents[node.output] = node.policy.exponent
    return exponents


def translate(program: Program, nodes: Sequence[ArrayNode], outputs: Iterable[str], made: set[str]) -> Segment:
    """The graph of consecutive array nodes.

    outputs: tensors that someone else reads; made: tensors that earlier array nodes computed (their host values are
    mantissas times 2**exponent already and need no rounding).
    """
    fmt = program.config.format
    if fmt.rounding != "rne" or fmt.saturation == "wrap":
        raise NotTranslatableError(f"rounding {fmt.rounding} with saturation {fmt.saturation} has no operator")
    if -fmt.mantissa_min > EXACT_FLOAT32:
        raise NotTranslatableError("mantissas are too wide for float32")
    return _Translation(program, made).run(nodes, tuple(outputs))


@dataclass
class _Scaled:
    """Constants of one layer: sum(weights * x) + bias is the result in units of the output's exponent, unrounded."""

    factor: Float64Array
    bias: Float64Array | None
    rounds: bool


@dataclass
class _Translation:
    program: Program
    made: set[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Float32Array | Int64Array] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, TensorSpec] = field(default_factory=dict)
    parts: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config: SystolicConfig = self.program.config
        self.exponents = static_exponents(self.program)

    def run(self, nodes: Sequence[ArrayNode], outputs: tuple[str, ...]) -> Segment:
        for node in nodes:
            self._layer(node)
        for name in outputs:
            self._leave(name)
        tensors = dict.fromkeys([*self.inputs, *(node.output for node in nodes)])
        return Segment(self._model(outputs).SerializeToString(), tuple(self.inputs), outputs, tuple(tensors))

    def _model(self, outputs: tuple[str, ...]) -> ModelProto:
        from onnx import TensorProto, helper, numpy_helper

        def info(name: str) -> Any:
            shape = ["N", *onnx_shape(self.program.tensors[name])]
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(
            self.nodes, "array", [info(name) for name in self.inputs], [info(name) for name in outputs], constants
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    # Building blocks

    def _emit(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"value.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        name = f"constant.{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(np.asarray(value, dtype))
        return name

    def _scale(self, value: str, exponent: int) -> str:
        """value * 2**exponent, exact."""
        if abs(exponent) > LARGEST_SCALE:
            raise NotTranslatableError(f"a scale of 2**{exponent} may leave float32")
        return value if exponent == 0 else self._emit("Mul", [value, self._constant(2.0**exponent)])

    def _stored(self, value: str, spec: TensorSpec, exponent: int, restored: bool) -> str:
        """The same, and times the powers of two that channels are stored with, or over them if ``restored``."""
        if not spec.channel_shift:
            return self._scale(value, exponent)
        factors = channel_factors(spec).astype(np.float64)
        if max(abs(exponent), *map(abs, spec.channel_shift)) > LARGEST_SCALE // 2:
            raise NotTranslatableError(f"the scales of tensor {spec.name} may leave float32")
        scale = 2.0**exponent * (1 / factors if restored else factors)
        return self._emit("Mul", [value, self._constant(scale)])

    def _saturate(self, value: str, rounds: bool, low: int | None = None, channels: int = 0) -> str:
        """Saturated and rounded: in this order, because the limits are whole numbers a convolution can apply.

        channels: of an image that convolutions computed. ONNX Runtime keeps such images in blocks of channels, which
        its Round cannot read; adding and taking away ROUNDER rounds as well, and normalization reads the blocks.
        """
        fmt = self.config.format
        limits = [self._constant(fmt.mantissa_min if low is None else low), self._constant(fmt.mantissa_max)]
        clipped = self._emit("Clip", [value, *limits])
        if not rounds:
            return clipped
        if channels % CHANNEL_BLOCK or not channels:
            return self._emit("Round", [clipped])
        one, zero = self._constant(np.ones(channels)), self._constant(np.zeros(channels))
        for offset in (ROUNDER, -ROUNDER):
            shift = self._constant(np.full(channels, offset))
            clipped = self._emit("BatchNormalization", [clipped, one, shift, zero, one], epsilon=0.0)
        return clipped

    # Values that enter and leave

    def _value(self, name: str) -> str:
        """The graph value of a tensor, image order; what is not computed here enters from the host."""
        if name in self.parts:
            self._concatenate(name)
        if name in self.values:
            return self.values[name]
        spec = self.program.tensors[name]
        exponent = self._exponent(name)
        self.inputs[name] = spec
        scaled = self._stored(name, spec, -exponent, restored=False)
        mantissa = scaled if name in self.made else self._saturate(scaled, rounds=True)
        image = self._to_image(mantissa, values_alone(spec))
        if spec.remainder:
            left = self._scale(self._emit("Sub", [scaled, mantissa]), spec.remainder)
            remainders = self._to_image(self._saturate(left, rounds=True), values_alone(spec))
            image = self._emit("Concat", [image, remainders], axis=1)
        self.values[name] = image
        return image

    def _exponent(self, name: str) -> int:
        if name not in self.exponents:
            raise NotTranslatableError(f"the exponent of {name} is not known before a run")
        return self.exponents[name]

    def _reshape(self, value: str, shape: Sequence[int]) -> str:
        return self._emit("Reshape", [value, self._constant([-1, *shape], np.int64)])

    def _to_image(self, value: str, spec: TensorSpec) -> str:
        """ONNX layout -> (samples, channels, height, width)."""
        image = (spec.channels, spec.height, spec.width)
        if onnx_shape(spec) == image and memory_axes(spec) == (1, 2, 0):
            return value
        axes = memory_axes(spec)
        if axes != tuple(range(len(axes))):
            value = self._emit("Transpose", [value], perm=[0, *(axis + 1 for axis in axes)])
        if spec.height * spec.width == 1:
            return self._reshape(value, image)
        value = self._reshape(value, (spec.height, spec.width, spec.channels))
        return self._emit("Transpose", [value], perm=[0, 3, 1, 2])

    def _leave(self, name: str) -> None:
        """A tensor as a host value: times 2**exponent, in ONNX layout."""
        spec = self.program.tensors[name]
        value = self._value(name)
        shape, axes = onnx_shape(spec), memory_axes(spec)
        if shape != (spec.channels, spec.height, spec.width) or axes != (1, 2, 0):
            if spec.height * spec.width > 1:
                value = self._emit("Transpose", [value], perm=[0, 2, 3, 1])
            value = self._reshape(value, [shape[axis] for axis in axes])
            back = [int(axis) for axis in np.argsort(axes)]
            if back != list(range(len(axes))):
                value = self._emit("Transpose", [value], perm=[0, *(axis + 1 for axis in back)])
        self._emit("Identity", [self._stored(value, spec, self._exponent(name), restored=True)], output=name)

    def _concatenate(self, name: str) -> None:
        parts = sorted(self.parts[name])
        covered = [start for start, _, _ in parts] == [0, *(end for _, end, _ in parts[:-1])]
        if not covered or parts[-1][1] != self.program.tensors[name].channels:
            raise NotTranslatableError(f"{name} is read before all its channels are computed")
        self.values[name] = self._emit("Concat", [value for _, _, value in parts], axis=1)
        del self.parts[name]

    # Layers

    def _layer(self, node: ArrayNode) -> None:
        if not node.policy.inherit and node.policy.policy != Policy.STATIC:
            raise NotTranslatableError(f"layer {node.name} chooses its exponent by its results")
        if node.function not in TRANSLATED:
            raise NotTranslatableError(f"{node.function.key} of layer {node.name} has no operator that is exact")
        kinds = {"gemm": self._products, "max": self._maxima, "sum": self._sums}
        value = kinds[node.kind](node)
        if node.channels == self.program.tensors[node.output].channels:
            self.values[node.output] = value
        else:
            end = node.channel_offset + node.channels
            self.parts.setdefault(node.output, []).append((node.channel_offset, end, value))

    def _scaled(self, node: ArrayNode, bound: Int64Array, e_acc: int) -> tuple[_Scaled, Int64Array]:
        """Constants of the output stage; bound: largest magnitude of each channel's accumulator.

        Returns them with the exponent of each channel before requantization.
        """
        rows = np.zeros(node.channels, np.int64)
        if node.weight_exponents is not None:
            rows = rows + node.weight_exponents
        shift = self.exponents[node.output] - (rows + e_acc)
        bias = self._aligned_bias(node, e_acc)
        limit = min(EXACT_FLOAT32, (1 << (self.config.accumulator_bits - 1)) - 1)
        large = (bound + np.abs(bias) > limit) | (np.abs(shift) > LARGEST_SCALE)
        factor: Float64Array = np.ldexp(1.0, np.where(large, 0, -shift).astype(np.int32))
        scaled_bias: Float64Array = bias.astype(np.float64) * factor
        if large.any():
            scaled_bias[large] = self._settled(node, bound, e_acc, large)[large]
            factor[large] = 0.0
        has_bias = node.bias is not None or bool(large.any())
        return _Scaled(factor, scaled_bias if has_bias else None, bool((shift > 0).any())), rows + e_acc

    def _aligned_bias(self, node: ArrayNode, e_acc: int) -> Int64Array:
        """The bias in units of each channel's accumulator: what the output stage adds to a value that is not zero."""
        if node.bias is None:
            return np.zeros(node.channels, np.int64)
        if node.function_first and node.function != Function.NONE:
            raise NotTranslatableError(f"layer {node.name} adds its bias after its function")
        one = np.ones((1, 1, node.channels), np.int64)
        stage = evaluate(
            one, [e_acc], self.config, row_exponents=node.weight_exponents, bias=node.bias,
            bias_exponent=node.bias_exponent,
        )  # fmt: skip
        if int(stage.status[0]) & (Status.BIAS_SATURATED | Status.ACCUMULATOR_SATURATED):
            raise NotTranslatableError(f"a bias of layer {node.name} leaves the accumulator's range")
        aligned: Int64Array = stage.v[0, 0] - 1
        return aligned

    def _settled(self, node: ArrayNode, bound: Int64Array, e_acc: int, large: BoolArray) -> Int64Array:
        """Mantissas of channels whose bias outweighs their sums: all values between the extremes give the same one.

        Function and requantizer never decrease, so equal results at both ends prove it.
        """
        if node.function == Function.LEAKY_RELU:
            raise NotTranslatableError(f"sums of layer {node.name} may exceed what float32 holds exactly")
        ends = np.stack([-bound, bound])[:, None, :]
        stage = evaluate(
            ends, [e_acc, e_acc], self.config, row_exponents=node.weight_exponents, bias=node.bias,
            bias_exponent=node.bias_exponent, function=node.function, function_argument=node.function_argument,
            function_exponent=node.function_exponent,
        )  # fmt: skip
        exponent = self.exponents[node.output]
        mantissa, _, _ = requantize(stage.v, stage.e3, [exponent, exponent], self.config.format)
        if (mantissa[0, 0] != mantissa[1, 0])[large].any():
            raise NotTranslatableError(f"sums of layer {node.name} may exceed what float32 holds exactly")
        settled: Int64Array = mantissa[0, 0].astype(np.int64)
        return settled

    def _finish(self, node: ArrayNode, value: str, constants: _Scaled, e3: Int64Array) -> str:
        """Function and requantizer of a value that is scaled to the output's unit but not rounded."""
        blocked = node.channels if node.window.output_height * node.window.output_width > 1 else 0
        if node.function == Function.NONE:
            return self._saturate(value, constants.rounds, channels=blocked)
        if node.function == Function.RELU:
            return self._saturate(value, constants.rounds, low=0, channels=blocked)
        if node.function == Function.LEAKY_RELU:
            return self._saturate(self._leaky(node, value, constants.factor), True)
        return self._saturate(self._clip(node, value, constants.factor, e3), constants.rounds, low=0)

    def _clip(self, node: ArrayNode, value: str, factor: Float64Array, e3: Int64Array) -> str:
        """The upper bound, aligned to each channel's exponent by the output stage: what it makes of a large value."""
        if node.function_argument < 0:
            raise NotTranslatableError(f"layer {node.name} clips at a negative bound")
        stage = evaluate(
            np.full((1, 1, node.channels), EXACT_FLOAT32, np.int64), [0], self.config, row_exponents=e3,
            function=Function.CLIP, function_argument=node.function_argument,
            function_exponent=node.function_exponent,
        )  # fmt: skip
        bound = stage.v[0, 0] * factor
        if bound.min() >= self.config.format.mantissa_max:
            return value
        return self._emit("Min", [value, self._per_channel(bound)])

    def _leaky(self, node: ArrayNode, value: str, factor: Float64Array) -> str:
        """Below zero v >> argument, rounded in the accumulator's unit: it is never below v, so a maximum chooses."""
        if not 0 <= node.function_argument <= 30:
            raise NotTranslatableError(f"layer {node.name} shifts negative values too far")
        down = self._per_channel(2.0**-node.function_argument / factor)
        back = self._per_channel(factor)
        small = self._emit("Mul", [self._emit("Round", [self._emit("Mul", [value, down])]), back])
        return self._emit("Max", [value, small])

    def _per_channel(self, values: npt.ArrayLike) -> str:
        flat = np.asarray(values, np.float32)
        return self._constant(flat[0] if (flat == flat[0]).all() else flat.reshape(-1, 1, 1))

    def _products(self, node: ArrayNode) -> str:
        assert node.weights is not None
        source = self._value(node.inputs[0])
        weights = np.asarray(node.weights, np.int64)
        bound = np.abs(weights).reshape(node.channels, -1).sum(axis=1) * -self.config.format.mantissa_min
        constants, e3 = self._scaled(node, bound, self._exponent(node.inputs[0]))
        scaled = weights.transpose(0, 3, 1, 2) * constants.factor.reshape(-1, 1, 1, 1)
        value = self._convolution(node, source, scaled.astype(np.float32), constants.bias)
        return self._finish(node, value, constants, e3)

    def _convolution(self, node: ArrayNode, source: str, weights: Float32Array, bias: Float64Array | None) -> str:
        """weights: (outputs, inputs / groups, kernel_height, kernel_width), scaled."""
        window, spec = node.window, self.program.tensors[node.inputs[0]]
        whole = (window.kernel_height, window.kernel_width) == (spec.height, spec.width)
        single = window.output_height * window.output_width == 1
        unpadded = window.pad_top == window.pad_left == 0 and window.dilation_y == window.dilation_x == 1
        if whole and single and unpadded and node.groups == 1:
            matrix = self._constant(weights.reshape(node.channels, -1))
            extra = [] if bias is None else [self._constant(bias)]
            flat = self._emit("Flatten", [source])
            return self._reshape(self._emit("Gemm", [flat, matrix, *extra], transB=1), (node.channels, 1, 1))
        uniform = node.channels == node.groups and bool((weights == weights[:, :, :1, :1]).all())
        if whole and single and unpadded and uniform:
            total = self._emit("ReduceSum", [source, self._constant([2, 3], np.int64)], keepdims=1)
            scaled = self._emit("Mul", [total, self._per_channel(weights[:, 0, 0, 0])])
            return scaled if bias is None else self._emit("Add", [scaled, self._per_channel(bias)])
        extra = [] if bias is None else [self._constant(bias)]
        return self._emit(
            "Conv", [source, self._constant(weights), *extra], "", group=node.groups, **self._window(node, spec)
        )

    def _window(self, node: ArrayNode, spec: TensorSpec) -> dict[str, list[int]]:
        """ONNX attributes of the window. Padding below and to the right follows from the output's size."""
        window = node.window
        reach = ((window.kernel_height - 1) * window.dilation_y + 1, (window.kernel_width - 1) * window.dilation_x + 1)
        strides, starts = (window.stride_y, window.stride_x), (window.pad_top, window.pad_left)
        sizes, outputs = (spec.height, spec.width), (window.output_height, window.output_width)
        ends = [
            max(0, (output - 1) * stride + span - start - size)
            for output, stride, span, start, size in zip(outputs, strides, reach, starts, sizes, strict=True)
        ]
        kernels = (window.kernel_height, window.kernel_width)
        for output, stride, span, start, size, end, kernel in zip(
            outputs, strides, reach, starts, sizes, ends, kernels, strict=True
        ):
            outside = node.kind == "max" and max(start, end) >= kernel  # ONNX Runtime refuses such pools
            if (start + size + end - span) // stride + 1 != output or outside:
                raise NotTranslatableError(f"layer {node.name} has a window that the operators of ONNX do not describe")
        return {
            "kernel_shape": list(kernels),
            "strides": list(strides),
            "dilations": [window.dilation_y, window.dilation_x],
            "pads": [*starts, *ends],
        }

    def _maxima(self, node: ArrayNode) -> str:
        source = self._value(node.inputs[0])
        attributes = self._window(node, self.program.tensors[node.inputs[0]])
        value = self._emit("MaxPool", [source], "", **attributes)
        return self._plain_stage(node, value, -self.config.format.mantissa_min, self._exponent(node.inputs[0]))

    def _sums(self, node: ArrayNode) -> str:
        exponents = [self._exponent(name) for name in node.inputs]
        e_acc = max(exponents)
        terms = []
        for name, exponent in zip(node.inputs, exponents, strict=True):
            value = self._value(name)
            terms.append(value if exponent == e_acc else self._emit("Round", [self._scale(value, exponent - e_acc)]))
        value = terms[0]
        if len(terms) == 2:
            value = self._emit("Sub" if node.negate_second else "Add", terms)
        return self._plain_stage(node, value, -self.config.format.mantissa_min * len(terms), e_acc)

    def _plain_stage(self, node: ArrayNode, value: str, bound: int, e_acc: int) -> str:
        """The output stage of a layer without weights: scale, function, requantizer."""
        if node.bias is not None or node.weight_exponents is not None:
            raise NotTranslatableError(f"layer {node.name} has parameters that its kind does not use")
        constants, e3 = self._scaled(node, np.full(node.channels, bound, np.int64), e_acc)
        if node.function == Function.NONE and self.exponents[node.output] == e_acc and len(node.inputs) == 1:
            return value  # a selection or a copy in the same unit
        return self._finish(node, self._scale(value, e_acc - self.exponents[node.output]), constants, e3)
