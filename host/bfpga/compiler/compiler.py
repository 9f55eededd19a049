"""The compiler: one call from an ONNX file to a program for one accelerator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from bfpga.compiler.dispatch.choice import check_engines, choose_engines, format_options
from bfpga.compiler.dispatch.engine_clocks import measure_strips
from bfpga.compiler.lower.host import ARRAY, HOST, Stage, host_node, outside_values, stages
from bfpga.compiler.lower.layers import IndexArray, Layer, Lowered
from bfpga.compiler.lower.lowering import lower
from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.numbers.averages import fold_averages, stored_scales, unfit_averages
from bfpga.compiler.numbers.bias_correction import correct_biases
from bfpga.compiler.numbers.calibrate import Histogram, measure, samples_of
from bfpga.compiler.numbers.equalize import element_scale, equalize
from bfpga.compiler.numbers.input_moments import input_moments
from bfpga.compiler.numbers.policies import PolicyChoice
from bfpga.compiler.numbers.quantize import quantize_layer
from bfpga.compiler.numbers.sampled_inputs import sampled_inputs
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.weight_formats import check_formats, choose_format
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.importer import Graph, import_model
from bfpga.compiler.schedule.fitting import misfits
from bfpga.compiler.schedule.matmul import matmul_reserve, matmul_step
from bfpga.compiler.schedule.measuring import histogram_base, product_base
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import plan_weights, setup_launch
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import (
    ArrayNode,
    HostNode,
    HostStep,
    IntArray,
    LaunchStep,
    MatMulNode,
    Node,
    Program,
    Step,
    TensorSpec,
)
from bfpga.errors import ConfigurationError
from bfpga.program.layout import together

Progress = Callable[[str], None]
Calibration = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]


def compile_network(
    model_path: str | Path,
    accelerator_name: str,
    digest: str,
    config: SystolicConfig,
    clock_mhz: float,
    calibration: Calibration | None = None,
    options: CompileOptions | None = None,
    progress: Progress | None = None,
    items: int = 1,
) -> Program:
    """Compile an ONNX network for an accelerator.

    calibration: float samples (samples, ...) in the layout of the network's input, or a dictionary of them by input
    name; without them every layer measures its own range (policy ``max``). digest: of the accelerator's description;
    a program runs only where it agrees. items: of a batch that is one sample of the program, so that they share its
    exponents (networks of fully connected layers; their input becomes (items, K)). Raises ModelError, DataError or
    ConfigurationError.
    """
    say = progress or (lambda text: None)
    options = options or CompileOptions()
    check_formats(config, options)
    check_engines(config, options)
    say("read the network")
    count = options.side_by_side
    if count > 1 and calibration is None:
        raise ConfigurationError("samples side by side need static exponents, and those need calibration samples")
    if count > 1 and items > 1:
        raise ConfigurationError("samples side by side cannot be items of a batch too; choose one of them")
    graph = import_model(model_path, max(count, items))
    say("lower the layers")
    lowered = lower_fitting(graph, config, calibration is not None, options)
    if not lowered.layers:
        lowered.notes.append("no operator of this network runs on the array")
    if count > 1 and calibration is not None:
        calibration = _grouped(calibration, count)
    samples = None if calibration is None else samples_of(graph, calibration)
    histograms: dict[str, Histogram] = {}
    shifts: dict[str, IndexArray] = {}
    moments: dict[str, Moments] = {}
    if samples is not None and options.equalize:
        shifts = equalize(graph, lowered, config.format, samples)
    stored = stored_scales(shifts, fold_averages(lowered, graph.outputs, config, options))
    if samples is not None:
        say("measure the ranges")
        scales = {name: element_scale(lowered.tensors[name], scale) for name, scale in stored.items()}
        histograms = measure(graph, samples, list(lowered.tensors), scales)
        if options.compensation and len(config.weight_formats) > 1:
            products = [layer for layer in lowered.layers if layer.kind == "gemm" and not layer.uniform_weights]
            moments = input_moments(graph, lowered, products, samples, stored)
    say("choose formats and pack the weights")
    builder = _Builder(graph, lowered, config, options, histograms, shifts, moments)
    builder.add_nodes()
    if options.bias_correction and samples is not None:
        correct_biases(graph, lowered, builder.array_nodes(), config, samples, stored)
    if len(config.engines) > 1:
        say("choose the engines")
    inputs = {}
    if len(config.engines) > 1 and samples is not None and options.count_zeros:
        names = [node.inputs[0] for node in builder.array_nodes() if node.kind == "gemm"]
        inputs = sampled_inputs(graph, lowered, names, samples, stored, builder.exponents, config.format)
    builder.choose_engines(inputs)
    say("schedule the kernel starts")
    setup, steps = builder.schedule()
    measure_strips(steps, builder.array_nodes(), builder.tensors, config, inputs)
    return Program(
        Path(model_path).stem, accelerator_name, digest, config, clock_mhz, builder.tensors, builder.nodes,
        setup, steps, {name: graph.shapes[name] for name in graph.inputs},
        {name: graph.shapes[name] for name in graph.outputs}, [*lowered.notes, *builder.notes], count,
    )


def _grouped(calibration: Calibration, count: int) -> Calibration:
    if isinstance(calibration, Mapping):
        return {name: together(value, count) for name, value in calibration.items()}
    return together(calibration, count)


def lower_fitting(graph: Graph, config: SystolicConfig, calibrated: bool, options: CompileOptions) -> Lowered:
    """Lower the network; operators whose layers do not fit the array, in size or in their weights, stay on the host."""
    blocked: dict[str, str] = {}
    if not calibrated:
        reason = "its parts need one exponent, which only calibration samples can give"
        blocked = {operator.name: reason for operator in graph.operators if operator.type == "Concat"}
    while True:
        lowered = lower(graph, config, frozenset(blocked))
        unfit = {**misfits(lowered, config), **unfit_averages(lowered, graph.outputs, config, options)}
        found = {name: reason for name, reason in unfit.items() if name not in blocked}
        if not found:
            break
        blocked.update(found)
    lowered.notes += [f"{name} runs on the host: {reason}" for name, reason in blocked.items()]
    return lowered


@dataclass
class _Builder:
    """Nodes and steps of one program."""

    graph: Graph
    lowered: Lowered
    config: SystolicConfig
    options: CompileOptions
    histograms: dict[str, Histogram]
    shifts: dict[str, IndexArray]
    moments: dict[str, Moments]
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ranges: list[tuple[Stage, int, int]] = field(default_factory=list)
    #: Static exponents of tensors.
    exponents: dict[str, int] = field(default_factory=dict)

    def array_nodes(self) -> list[ArrayNode]:
        return [node for node in self.nodes if isinstance(node, ArrayNode)]

    def add_nodes(self) -> None:
        """Nodes in the order of their stages, with formats."""
        order = stages(self.graph, self.lowered)
        layers = [layer for stage in order for layer in stage.layers]
        edges = frozenset((*self.graph.inputs, *self.graph.outputs))
        choice = PolicyChoice(
            self.config, self.options, self.histograms, layers, edges
        )
        made = {layer.output for layer in layers}
        for name, tensor in self.lowered.tensors.items():
            axes = tensor.axes()
            spec = TensorSpec(name, tensor.height, tensor.width, tensor.channels, None, tensor.onnx_shape, axes or ())
            spec.channel_shift = tuple(int(shift) for shift in self.shifts.get(name, ()))
            if name not in made:
                spec.input_exponent = choice.input_exponent(name)
            self.tensors[name] = spec
        self._operands_of_products(layers, choice)
        work = count_operations(self.graph.model) if self.lowered.host else {}
        for number, stage in enumerate(order):
            first = len(self.nodes)
            hosts = sum(isinstance(node, HostNode) for node in self.nodes)
            if stage.kind == HOST:
                needed = outside_values(self.graph, self.lowered, order, number)
                self.nodes.append(host_node(f"host_{hosts}", self.graph, self.lowered, stage, needed, work))
            else:
                self.nodes += [self._node(layer, choice) for layer in stage.layers]
            self.ranges.append((stage, first, len(self.nodes)))
        self.exponents = choice.exponents

    def _operands_of_products(self, layers: list[Layer], choice: PolicyChoice) -> None:
        """Operands of activation products that come from the array cross the host and get an exponent there too."""
        for layer in layers:
            if layer.kind == "matmul":
                for name in layer.inputs:
                    self.tensors[name].input_exponent = choice.input_exponent(name)

    def _node(self, layer: Layer, policies: PolicyChoice) -> Node:
        policy = policies.of(layer)
        if layer.kind == "matmul":
            batch, rows, inner, columns = layer.product
            first, second = layer.inputs
            product = MatMulNode(
                layer.name, (first, second), layer.output, batch, rows, inner, columns, policy, layer.macs
            )
            policy.base = product_base(product, self.config)
            return product
        exponent = policies.exponents.get(layer.inputs[0])
        method, moments = self.options.weights, self.moments.get(layer.name)
        options = self.options.layer(layer.name, layer.output)
        choice = choose_format(layer, self.config, format_options(options, self.config), method, moments)
        node, note = quantize_layer(layer, self.config, policy, exponent, method, choice.weight_format, moments)
        node.policy.base = histogram_base(node, self.config)
        node.weight_choices, node.weight_reason = choice.figures, choice.reason
        if note:
            self.notes.append(note)
        return node

    def _reserve(self) -> tuple[int, int]:
        """Weight words and parameter rows that products of activations need."""
        return matmul_reserve([node for node in self.nodes if isinstance(node, MatMulNode)], self.config)

    def _stage_nodes(self, first: int, last: int) -> list[ArrayNode]:
        return [node for node in self.nodes[first:last] if isinstance(node, ArrayNode)]

    def choose_engines(self, inputs: Mapping[str, IntArray]) -> None:
        """Give every array node its engine. inputs: mantissas of samples by tensor."""
        stages = [self._stage_nodes(first, last) for _, first, last in self.ranges]
        choose_engines(stages, self.tensors, self.config, self.options, self._reserve(), inputs)

    def schedule(self) -> tuple[LaunchStep, list[Step]]:
        """Setup and steps of the program; fills the tiles of the array nodes."""
        array = self.array_nodes()
        plans = plan_weights(array, self.config, self._reserve())
        steps: list[Step] = []
        for stage, first, last in self.ranges:
            if stage.kind == HOST:
                steps.append(HostStep(first))
            elif stage.kind == ARRAY:
                nodes = self._stage_nodes(first, last)
                leaving = self._leaving(nodes)
                steps += Scheduler(self.config, self.tensors, nodes, plans, leaving).run()
            else:
                for index in range(first, last):
                    node = self.nodes[index]
                    assert isinstance(node, MatMulNode)
                    steps.append(matmul_step(index, node, self.config, plans))
        return setup_launch(array, plans, self.config), steps

    def _leaving(self, nodes: list[ArrayNode]) -> set[str]:
        """Tensors that the stage gives and somebody outside it reads."""
        inside = {id(node) for node in nodes}
        read = set(self.graph.outputs)
        for node in self.nodes:
            if id(node) not in inside:
                read |= set(node.inputs)
        return {node.output for node in nodes} & read
