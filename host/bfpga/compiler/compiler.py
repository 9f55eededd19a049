"""The compiler: one call from an ONNX file to a program for one accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.dispatch.input_zeros import measure_zeros
from bfpga.compiler.dispatch.two_arrays import deal_arrays
from bfpga.compiler.lower.expand import expand
from bfpga.compiler.lower.host import ARRAY, HOST, Stage, host_node, outside_values, stages
from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.lower.lowering import lower
from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.lower.recurrent import unroll
from bfpga.compiler.lower.recurrent_time import time_of_steps, time_of_whole
from bfpga.compiler.numbers.averages import fold_averages, inner, stored_scales, unfit_averages
from bfpga.compiler.numbers.bias_correction import correct_biases
from bfpga.compiler.numbers.calibrate import ChannelHistograms, Grouping, Histogram, samples_of
from bfpga.compiler.numbers.channel_factors import fill_channels
from bfpga.compiler.numbers.cheap_parts import with_cheap_parts
from bfpga.compiler.numbers.equalize import equalize
from bfpga.compiler.numbers.kept_rounding import lost_rounding
from bfpga.compiler.numbers.measurements import Measurements, measure
from bfpga.compiler.numbers.parts import moments_of_parts, shift_parts, with_parts
from bfpga.compiler.numbers.policies import PolicyChoice
from bfpga.compiler.numbers.quantize import quantize_layer, scaled_node
from bfpga.compiler.numbers.remainders import with_remainders
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.tensor_factors import fill_mantissas, free_families, takes_factors
from bfpga.compiler.numbers.weight_formats import check_formats, choose_format
from bfpga.compiler.numbers.wide_limits import with_limits
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.schedule.compressed_maps import compress, measured_shares
from bfpga.compiler.schedule.fitting import misfits
from bfpga.compiler.schedule.folded_inputs import fold_inputs
from bfpga.compiler.schedule.matmul import matmul_reserve, matmul_step
from bfpga.compiler.schedule.measuring import histogram_base, product_base, scaled_base
from bfpga.compiler.schedule.overlap import ahead
from bfpga.compiler.schedule.plan_choice import Plans, choose_plan
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import factor_reserve, setup_launch
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import (
    ArrayNode,
    HostNode,
    HostStep,
    LaunchStep,
    MatMulNode,
    Node,
    Program,
    Step,
    TensorSpec,
    own_weights,
    values_read,
)
from bfpga.engines.array.tap_reuse import choose_tap_reuse
from bfpga.errors import ConfigurationError, ModelError
from bfpga.formats.arrays import Float64Array, IntArray
from bfpga.program.layout import together

#: Why operators whose results several layers give stay on the host without samples.
UNCALIBRATED = "its parts need one exponent, which only calibration samples can give"

Progress = Callable[[str], None]
Calibration = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]


def compile_network(
    network: str | Path | Network,
    accelerator: Accelerator,
    calibration: Calibration | None = None,
    options: CompileOptions | None = None,
    progress: Progress | None = None,
    items: int = 1,
) -> Program:
    """Compile a network (an ONNX file, or one that was read) for an accelerator.

    calibration: float samples (samples, ...) in the layout of the network's input, or a dictionary of them by input
    name; without them every layer measures its own range (policy ``max``). items: of a batch that is one sample of the
    program, so that they share its exponents (networks of fully connected layers; their input becomes (items, K)).
    Raises ModelError, DataError or ConfigurationError.
    """
    say = progress or (lambda text: None)
    options, config = options or CompileOptions(), accelerator.systolic
    check_formats(config, options)
    count = options.side_by_side
    _check_side_by_side(count, calibration, items)
    say("read the network")
    network = read_network(network)
    # Shift units hold few weights: what an average loses there goes to a neighbour that multiplies.
    graph = network.graph(max(count, items), "linear" in config.weight_formats, config.skips_weights)
    say("lower the layers")
    graph, lowered, notes = lower_steps(graph, accelerator, calibration is not None, options)
    if not lowered.layers:
        lowered.notes.append("no operator of this network runs on the array")
    widened = with_remainders(lowered, graph.inputs, config, options)
    lowered = lowered if misfits(widened, config) else widened
    builder = _Builder(graph, lowered, config, options)
    if calibration is not None:
        say("measure the ranges")
        samples = samples_of(graph, _grouped(calibration, count) if count > 1 else calibration)
        grouping = Grouping(count, _items(calibration)) if count > 1 else None
        with _named(network.path):
            builder.measured = measure(graph, lowered, config, options, samples, grouping)
    say("choose formats and pack the weights")
    builder.choose_numbers()
    builder.part_values()
    builder.limit_values()
    with _named(network.path):
        builder.add_nodes()
    builder.notes += lost_rounding(builder.graph, builder.lowered, builder.array_nodes(), builder.exponents)
    builder.correct_biases()
    inputs = builder.sampled_inputs()
    fold_inputs(builder.nodes, builder.tensors, graph.inputs, config)
    measure_zeros(builder.array_nodes(), builder.tensors, config, inputs)
    shares = measured_shares(inputs, builder.tensors, config)
    say("schedule the kernel starts")
    setup, steps = builder.schedule()
    compress([item for step in steps if isinstance(step, LaunchStep) for item in step.operations], shares)
    return Program(
        network.name, accelerator.name, accelerator.digest, config, accelerator.clock_mhz, builder.tensors,
        builder.nodes, setup, steps, {name: graph.shapes[name] for name in graph.inputs},
        {name: graph.shapes[name] for name in graph.outputs}, [*network.notes, *notes, *lowered.notes, *builder.notes],
        count,
        builder.choices,
    )  # fmt: skip


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Messages about the network's values name its file."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error.__cause__


def _check_side_by_side(count: int, calibration: Calibration | None, items: int) -> None:
    """Whether ``count`` samples can travel together, as far as it does not depend on the network."""
    if count > 1 and calibration is None:
        raise ConfigurationError("samples side by side need static exponents, and those need calibration samples")
    if count > 1 and items > 1:
        raise ConfigurationError("samples side by side cannot be items of a batch too; choose one of them")


def _items(calibration: Calibration) -> int:
    """The user's samples."""
    arrays = calibration.values() if isinstance(calibration, Mapping) else [calibration]
    return min(len(array) for array in arrays)


def _grouped(calibration: Calibration, count: int) -> Calibration:
    if isinstance(calibration, Mapping):
        return {name: together(value, count) for name, value in calibration.items()}
    return together(calibration, count)


def lower_steps(
    graph: Graph, accelerator: Accelerator, calibrated: bool, options: CompileOptions
) -> tuple[Graph, Lowered, list[str]]:
    """Lower the network with recurrent operators step by step, but whole where the host has less to do so; notes."""
    config, cores = accelerator.systolic, accelerator.board.arm_cores
    steps, notes = (graph, []) if options.recurrent == "host" else unroll(graph)
    result = lower_expanded(steps, config, calibrated, options)
    if steps is graph or cores is None or options.recurrent == "array":
        return *result, notes
    split, whole = time_of_steps(graph, *result, cores), time_of_whole(graph, cores)
    if split <= whole:
        return *result, notes
    note = (
        f"recurrent operators run whole on the host, which takes about {1e3 * whole:.1f} ms; "
        f"what the array would leave of their steps takes {1e3 * split:.1f} ms there (recipe: recurrent)"
    )
    return *lower_expanded(graph, config, calibrated, options), [*notes, note]


def lower_expanded(
    graph: Graph, config: SystolicConfig, calibrated: bool, options: CompileOptions
) -> tuple[Graph, Lowered]:
    """Lower the network with operators written in parts wherever the array computes all of these; with that graph."""
    kept: set[str] = set()
    while True:
        expanded = expand(graph, config, kept)
        lowered = lower_fitting(expanded.graph, config, calibrated, options)
        torn = expanded.torn(lowered.host)
        if not torn:
            return expanded.graph, lowered
        kept |= torn


def _shared(lowered: Lowered) -> dict[str, str]:
    """Operators that several layers compute together, each with the reason why they need calibration samples."""
    parts = Counter(layer.output for layer in lowered.layers)
    return {layer.operators[0].name: UNCALIBRATED for layer in lowered.layers if parts[layer.output] > 1}


def _has_phases(operator: Operator) -> bool:
    """Whether an operator is a transposed convolution of several layers, on the array along rows or not."""
    return operator.type == "ConvTranspose" and max(operator.attributes.get("strides", [1])) > 1


def lower_fitting(graph: Graph, config: SystolicConfig, calibrated: bool, options: CompileOptions) -> Lowered:
    """Lower the network; operators whose layers do not fit the array, in size or in their weights, stay on the host."""
    blocked: dict[str, str] = {}
    if not calibrated:
        joining = [operator for operator in graph.operators if operator.type == "Concat"]
        blocked = {operator.name: UNCALIBRATED for operator in joining if operator.outputs[0] not in graph.grids}
        blocked.update((operator.name, UNCALIBRATED) for operator in graph.operators if _has_phases(operator))
    while True:
        lowered = lower(graph, config, frozenset(blocked))
        unfit = {**misfits(lowered, config), **unfit_averages(lowered, graph.outputs, config, options)}
        if not calibrated:
            unfit.update(_shared(lowered))
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
    #: Of the calibration samples; None without any.
    measured: Measurements | None = None
    histograms: dict[str, Histogram] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)
    #: The binary logarithm of what channels of tensors are stored times, and of that with the factors of averages and
    #: of whole tensors.
    shifts: dict[str, Float64Array] = field(default_factory=dict)
    scales: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    #: What tensors are stored times as a whole, beside that.
    factors: dict[str, float] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ranges: list[tuple[Stage, int, int]] = field(default_factory=list)
    #: Static exponents of tensors.
    exponents: dict[str, int] = field(default_factory=dict)
    #: What count registers tell of most samples.
    choices: int = 0

    def array_nodes(self) -> list[ArrayNode]:
        return [node for node in self.nodes if isinstance(node, ArrayNode)]

    def choose_numbers(self) -> None:
        """What channels are stored times, which the layers' weights take up, and what samples tell of that."""
        measured = self.measured
        if measured is not None and measured.ranges is not None:
            shifts = equalize(self.lowered, measured.ranges, self.config.format)
            self.shifts = {name: np.asarray(shift, np.float64) for name, shift in shifts.items()}
        averages = fold_averages(self.lowered, self.graph.outputs, self.config, self.options)
        self.scales = stored_scales(self.shifts, averages)
        if measured is not None:
            self.fill_mantissas(measured.histograms)
            self.histograms = measured.histograms_by_name(self.scales)
            if measured.moments is not None:
                self.moments = measured.moments.moments(self.scales)

    def fill_mantissas(self, histograms: ChannelHistograms) -> None:
        """Factors of channels and of whole tensors, which enter the scales of the channels too."""
        outputs, options = self.graph.outputs, self.options
        if not options.fill_mantissas or not takes_factors(self.config):
            return
        if options.equalize:
            families = free_families(self.lowered, outputs, options)
            found = fill_channels(self.lowered, families, histograms, self.scales, self.config.format)
            for name, factors in found.items():
                self.shifts[name] = self.shifts.get(name, np.zeros(len(factors))) + factors
                self.scales[name] = self.scales.get(name, np.zeros(len(factors))) + factors
        self.factors = fill_mantissas(self.lowered, outputs, histograms, self.scales, self.config, options)
        for name, factor in self.factors.items():
            self.scales[name] = self.scales.get(name, np.zeros(self.lowered.tensors[name].channels)) + np.log2(factor)

    def part_values(self) -> None:
        """Results and weights in the parts that the options ask for; what samples tell is of the values themselves.

        Raises ConfigurationError if they cannot be, or if a layer does not fit the array with them.
        """
        fixed, options = {}, self.options
        if self.measured is not None:
            options, notes = with_cheap_parts(self.lowered, self.graph, self.config, options)
            self.notes += notes
        for name, tensor in self.lowered.tensors.items():
            whole = options.layers.get(name) == self.options.layers.get(name)
            if whole and not inner(name, self.lowered, self.graph.outputs):
                fixed[name] = f"{name} leaves the array"
            elif tensor.remainder:
                fixed[name] = f"{name} has channels for its remainders"
        before = {layer.name: layer for layer in self.lowered.layers}
        self.lowered = with_parts(self.lowered, fixed, options, self.measured is not None)
        for name, reason in misfits(self.lowered, self.config).items():
            raise ConfigurationError(f"{name} does not fit the array with values in parts: {reason}")
        for layer in self.lowered.layers:
            if layer.name in self.moments:
                self.moments[layer.name] = moments_of_parts(self.moments[layer.name], before[layer.name], layer)

    def limit_values(self) -> None:
        """Limits of quantizers where mantissas reach further, by passes of their own."""
        before = self.graph.grids
        self.lowered, grids = with_limits(self.lowered, before, self.histograms, self.config)
        limited = {name for name, grid in before.items() if grid.saturates and not grids[name].saturates}
        self.histograms = {name: item for name, item in self.histograms.items() if name not in limited}
        self.graph = replace(self.graph, grids=grids, consumers={})

    def add_nodes(self) -> None:
        """Nodes in the order of their stages, with formats."""
        order = stages(self.graph, self.lowered)
        layers = [layer for stage in order for layer in stage.layers]
        edges = frozenset((*self.graph.inputs, *self.graph.outputs))
        summed = {layer.output for layer in layers if layer.kind == "sum"}  # additions round all their parts alike
        parts = {name: item.parts for name, item in self.lowered.tensors.items() if name not in summed}
        choice = PolicyChoice(self.config, self.options, self.histograms, layers, edges, self.graph.grids, parts)
        made = {layer.output for layer in layers}
        for name, tensor in self.lowered.tensors.items():
            axes = tensor.axes()
            spec = TensorSpec(name, tensor.height, tensor.width, tensor.channels, None, tensor.onnx_shape, axes or ())
            spec.remainder, spec.factor = tensor.remainder, self.factors.get(name, 1.0)
            spec.channel_shift = tuple(np.repeat(self.shifts.get(name, np.zeros(0)), tensor.parts).tolist())
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
            for name in layer.inputs if layer.kind == "matmul" else ():
                self.tensors[name].input_exponent = choice.input_exponent(name)

    def _node(self, layer: Layer, policies: PolicyChoice) -> Node:
        policy = policies.of(layer)
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
        shift_parts(layer, self.lowered.tensors[layer.output].parts, policy.exponent)
        exponent = policies.exponents.get(layer.inputs[0])
        method, moments = self.options.weights, self.moments.get(layer.name)
        options = self.options.layer(layer.name, layer.output)
        choice = choose_format(layer, self.config, options, method, moments)
        node, note = quantize_layer(layer, self.config, policy, exponent, method, choice.weight_format, moments)
        node.policy.base = histogram_base(node, self.config)
        node.weight_choices, node.weight_reason = choice.figures, choice.reason
        if note:
            self.notes.append(note)
        return node

    def _reserve(self) -> tuple[int, int]:
        """Weight words and parameter rows that products of activations need."""
        products = matmul_reserve([node for node in self.nodes if isinstance(node, MatMulNode)], self.config)
        factors = factor_reserve(self.array_nodes(), self.config)
        return max(products[0], factors[0]), max(products[1], factors[1])

    def _stage_nodes(self, first: int, last: int) -> list[ArrayNode]:
        return [node for node in self.nodes[first:last] if isinstance(node, ArrayNode)]

    def correct_biases(self) -> None:
        """Take the mean error of rounded weights out of the biases."""
        measured = self.measured
        if measured is not None and measured.means is not None:
            corrected = {layer.name for layer in measured.products}
            layers = [layer for layer in self.lowered.layers if layer.name in corrected]
            correct_biases(layers, self.array_nodes(), self.config, measured.means, self.scales)

    def sampled_inputs(self) -> dict[str, IntArray]:
        """Mantissas of samples by tensor, as far as their zeros decide on clocks."""
        if self.measured is None or self.measured.inputs is None:
            return {}
        found = self.measured.inputs.mantissas(self.scales, self.exponents, self.config.format)
        tensors = self.lowered.tensors
        return {name: np.repeat(mantissas, tensors[name].parts, axis=3) for name, mantissas in found.items()}

    def schedule(self) -> tuple[LaunchStep, list[Step]]:
        """Setup and steps of the program; fills the tiles of the array nodes."""
        array = self.array_nodes()
        choose_tap_reuse(array, self.tensors, self.config)
        plans = choose_plan(array, self.config, self._reserve(), self._trial_starts)
        steps: list[Step] = []
        for stage, first, last in self.ranges:
            if stage.kind == HOST:
                steps.append(HostStep(first))
            elif stage.kind == ARRAY:
                steps += self._starts(self._stage_nodes(first, last), first, plans)
            else:
                for index in range(first, last):
                    node = self.nodes[index]
                    assert isinstance(node, MatMulNode)
                    steps.append(matmul_step(index, node, self.config, plans))
        launches = [step for step in steps if isinstance(step, LaunchStep)]
        self.choices = deal_arrays(launches, array, self.tensors, self.config, self.options)
        if len(launches) == 1 and not any(map(own_weights, self.nodes)):
            launches[0].ahead = ahead(launches[0].operations, self.config)
        return setup_launch(array, plans, self.config), steps

    def _starts(self, nodes: list[ArrayNode], first: int, plans: Plans) -> list[LaunchStep]:
        """Kernel starts of a stage that begins with node ``first``; fills the tiles of its nodes, given as they are."""
        leaving = self._leaving(self._stage_nodes(first, first + len(nodes)))
        begun = {node.output for node in self._stage_nodes(0, first)}
        return Scheduler(self.config, self.tensors, nodes, plans, leaving, begun).run()

    def _trial_starts(self, plans: Plans) -> list[LaunchStep]:
        """Kernel starts of all stages with weights in these places; the nodes stay as they are."""
        stages = [(first, self._stage_nodes(first, last)) for stage, first, last in self.ranges if stage.kind == ARRAY]
        copies = [(first, [node.unscheduled() for node in nodes]) for first, nodes in stages]
        return [start for first, nodes in copies for start in self._starts(nodes, first, plans)]

    def _leaving(self, nodes: list[ArrayNode]) -> set[str]:
        """Tensors that the stage gives and somebody outside it reads."""
        inside = {id(node) for node in nodes}
        read = set(self.graph.outputs)
        for node in self.nodes:
            if id(node) not in inside:
                read |= set(values_read(node))
        return {node.output for node in nodes} & read
