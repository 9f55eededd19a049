"""The nodes of a program: layers with weights in their formats, work of the host, tensors with their exponents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.compiler.chosen_numbers import Numbers
from bfpga.compiler.lower.host import HOST, Stage, host_node, outside_values, stages
from bfpga.compiler.lower.layers import ArrayTensor, Layer
from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.numbers.calibrate import exponent_without_overflow
from bfpga.compiler.numbers.kept_rounding import lost_rounding
from bfpga.compiler.numbers.masks import masked_sums, placed_mask
from bfpga.compiler.numbers.parts import shift_parts
from bfpga.compiler.numbers.policies import PolicyChoice
from bfpga.compiler.numbers.quantize import quantize_layer, scaled_node
from bfpga.compiler.numbers.weight_formats import choose_format
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.measuring import histogram_base, product_base, scaled_base
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, MatMulNode, Node, PolicySpec, TensorSpec
from bfpga.formats.arrays import Float64Array
from bfpga.formats.block_float import mantissa_dtype


class StageNodes(NamedTuple):
    """A stage of the array or of the host, with the range of its nodes."""

    stage: Stage
    first: int
    last: int


@dataclass(frozen=True)
class Nodes:
    """Nodes in the order of their stages, all tensors, static exponents by tensor."""

    nodes: list[Node]
    tensors: dict[str, TensorSpec]
    stages: tuple[StageNodes, ...]
    exponents: dict[str, int]
    notes: tuple[str, ...]

    def of_array(self, first: int = 0, last: int | None = None) -> list[ArrayNode]:
        """Nodes of the array in a range of all nodes."""
        return [node for node in self.nodes[first:last] if isinstance(node, ArrayNode)]


def make_nodes(numbers: Numbers, config: KernelConfig, options: CompileOptions) -> Nodes:
    """Nodes and tensors with formats and exponents. Raises ModelError where weights cannot be quantized."""
    return _NodeMaker(numbers, config, options).make()


class _NodeMaker:
    """Makes the nodes of one network."""

    def __init__(self, numbers: Numbers, config: KernelConfig, options: CompileOptions) -> None:
        self.numbers, self.config, self.options = numbers, config, options
        self.order = stages(numbers.graph, numbers.lowered)
        self.layers = [layer for stage in self.order for layer in stage.layers]
        self.policies = self._policies()
        #: What constant tensors hold where their masks are numbers; exponents that tensors have in any case.
        self.constants: dict[str, Float64Array] = {}
        self.given: dict[str, int] = {}
        self._masks()
        self.notes: list[str] = []

    def make(self) -> Nodes:
        graph, lowered = self.numbers.graph, self.numbers.lowered
        tensors = self._tensors()
        nodes: list[Node] = []
        ranges = []
        work, hosts = count_operations(graph.model) if lowered.host else {}, 0
        for number, stage in enumerate(self.order):
            first = len(nodes)
            if stage.kind == HOST:
                needed = outside_values(graph, lowered, self.order, number)
                nodes.append(host_node(f"host_{hosts}", graph, lowered, stage, needed, work))
                hosts += 1
            else:
                nodes += [self._node(layer) for layer in stage.layers]
            ranges.append(StageNodes(stage, first, len(nodes)))
        exponents = self.policies.exponents
        array = [node for node in nodes if isinstance(node, ArrayNode)]
        notes = *self.notes, *lost_rounding(graph, lowered, array, exponents)
        return Nodes(nodes, tensors, tuple(ranges), exponents, notes)

    def _policies(self) -> PolicyChoice:
        graph, lowered = self.numbers.graph, self.numbers.lowered
        edges = frozenset((*graph.inputs, *graph.outputs))
        summed = {layer.output for layer in self.layers if layer.kind == "sum"}  # additions round all their parts alike
        parts = {name: item.parts for name, item in lowered.tensors.items() if name not in summed}
        histograms = self.numbers.histograms
        return PolicyChoice(self.config, self.options, histograms, self.layers, edges, graph.grids, parts)

    def _masks(self) -> None:
        """Give masked sums their exponents, and their masks numbers."""
        form = self.config.format
        for found in masked_sums(self.numbers.lowered):
            placed = placed_mask(found, self.numbers.seen[found.output], form)
            assert placed is not None, "what has no place is the host's (unfit_masks)"
            self.given |= {layer.output: placed.exponent for layer in found.layers}
            for tensor, constant in zip(found.constants, placed.constants, strict=True):
                self.constants[tensor.name] = constant
                self.given[tensor.name] = placed.constant_exponent

    def _tensors(self) -> dict[str, TensorSpec]:
        scales, made = self.numbers.scales, {layer.output for layer in self.layers}
        # Operands of activation products that come from the array cross the host and get an exponent there too.
        products = {name for layer in self.layers if layer.kind == "matmul" for name in layer.inputs}
        found = {}
        for name, tensor in self.numbers.lowered.tensors.items():
            spec = TensorSpec(name, tensor.height, tensor.width, tensor.channels, None, tensor.onnx_shape)
            order = tensor.order()
            if order is not None:
                spec.axes, spec.split = order.axes, () if order.shape == tensor.onnx_shape else order.shape
            spec.remainder, spec.factor = tensor.remainder, scales.tensors.get(name, 1.0)
            spec.channel_shift = tuple(np.repeat(scales.shifts.get(name, np.zeros(0)), tensor.parts).tolist())
            if tensor.constant is not None:
                self._fill(spec, tensor)
            elif name not in made or name in products:
                spec.input_exponent = self.policies.input_exponent(name)
            found[name] = spec
        return found

    def _fill(self, spec: TensorSpec, tensor: ArrayTensor) -> None:
        """The mantissas of a constant tensor, whose exponent is as small as its largest value lets it be."""
        form = self.config.format
        constant = self.constants.get(tensor.name, tensor.constant)
        values = np.asarray(constant, np.float64).reshape(-1)[tensor.layout]
        exponent = self.given.get(tensor.name, exponent_without_overflow(float(np.abs(values).max()), form))
        rounded = np.clip(np.rint(np.ldexp(values, -exponent)), -form.mantissa_max, form.mantissa_max)
        spec.constant, spec.input_exponent = rounded.astype(mantissa_dtype(form.mantissa_bits)), exponent
        self.policies.exponents[spec.name] = exponent

    def _node(self, layer: Layer) -> Node:
        given = self.given.get(layer.output)
        policy = self.policies.of(layer) if given is None else self.policies.given(layer, given)
        if layer.kind == "matmul":
            batch, rows, inner, columns = layer.product
            first, second = layer.inputs
            product = MatMulNode(
                layer.name, (first, second), layer.output, batch, rows, inner, columns, policy, layer.macs
            )
            policy.base = product_base(inner, self.config)
            return product
        if layer.kind == "scale":
            scaled = scaled_node(layer, self.config, policy)
            policy.base = scaled_base(scaled, self.config)
            return scaled
        return self._quantized(layer, policy)

    def _quantized(self, layer: Layer, policy: PolicySpec) -> ArrayNode:
        shift_parts(layer, self.numbers.lowered.tensors[layer.output].parts, policy.exponent)
        exponent = self.policies.exponents.get(layer.inputs[0])
        method, moments = self.options.weights, self.numbers.moments.get(layer.name)
        options = self.options.layer(layer.name, layer.output)
        choice = choose_format(layer, self.config, options, method, moments)
        node, note = quantize_layer(layer, self.config, policy, exponent, method, choice.weight_format, moments)
        node.policy.base = histogram_base(node, self.config)
        node.weight_choices, node.weight_reason = choice.figures, choice.reason
        if note:
            self.notes.append(note)
        return node
