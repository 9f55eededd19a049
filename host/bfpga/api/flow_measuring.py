"""Which flow finds the exponent of each layer fastest, measured on a device layer by layer (FP R33, R34).

Two programs of a network differ in the flows of their layers. Both run some samples, a start for each layer; clocks are
those of the kernel's registers. The faster flow of each layer, or of each type of operation, makes a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bfpga import runtime
from bfpga.accelerator.loader import Accelerator
from bfpga.api.jobs import provide_overlay
from bfpga.compiler.options import CompileOptions, position_rule
from bfpga.compiler.read.network import Network
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.flows import bears_samples
from bfpga.contract.program import ArrayNode, Program
from bfpga.data import InputSamples
from bfpga.devices.layer_kernels import EmulatedLayers, KernelLayers, LayerMachine, LayerRun
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.positions.choice import FlowChooser, Grouping, PositionLayer
from bfpga.errors import ConfigurationError, DeviceError
from bfpga.program.flow_listing import kept_places, measured_nodes

#: Flows of a kernel that can be compared.
Way = Literal["two_pass", "two_pass_sampled", "keep", "keep_sampled"]


@dataclass(frozen=True)
class MeasuredFlows:
    """What was measured, and what follows from it.

    options: of the network with the chosen flows; program: compiled with them. chosen: clocks of each measured layer
    in the iteration after the measured ones, which ran this program.
    """

    chooser: FlowChooser
    options: CompileOptions
    program: Program
    chosen: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """For machines; ``layers`` have the form that `bfpga research position-choice` reads."""
        return {
            "by": self.chooser.by,
            "choices": self.chooser.choices(),
            "chosen_clocks": dict(self.chosen),
            "layers": [self._layer(layer) for layer in self.chooser.layers],
        }

    def _layer(self, layer: PositionLayer) -> dict[str, Any]:
        content: dict[str, Any] = {"name": layer.name, "operation": layer.operation}
        if not layer.updates_position:
            return {**content, "updates_position": False}
        return {**content, "clocks": self.chooser.clocks(layer.name)}


@dataclass
class FlowTask:
    """A network, an accelerator and samples, compiled with other flows again and again."""

    network: Network
    accelerator: Accelerator
    samples: InputSamples
    calibration: Mapping[str, Any] | None
    options: CompileOptions
    candidates: tuple[Way, Way] = field(init=False)

    def __post_init__(self) -> None:
        """``dynamic`` with the rule that was asked for; flows of single layers are what is looked for."""
        layers = {name: _without_flow(values) for name, values in self.options.layers.items()}
        self.candidates = candidates(self.options, self.accelerator.config)
        self.options = replace(self.options, policy="dynamic", flow=self.candidates[0], layers=layers)

    def with_flows(self, flows: Mapping[str, Way]) -> CompileOptions:
        """The options with flows of single layers; all others have the first candidate."""
        layers = {name: dict(values) for name, values in self.options.layers.items()}
        for name, flow in flows.items():
            layers[name] = {**layers.get(name, {}), "flow": flow}
        return replace(self.options, layers=layers)

    def compiled(self, options: CompileOptions) -> Program:
        return runtime.compile(self.network, self.accelerator, self.calibration, options)

    def programs(self) -> dict[Way, Program]:
        """A program for each candidate; layers that cannot keep have the first one in both. FP R33."""
        first, second = self.candidates
        tried = self.compiled(replace(self.options, flow="auto"))
        able: dict[str, Way] = {node.name: second for node in measured_nodes(tried) if second in node.flow_clocks}
        if not able:
            raise ConfigurationError(
                f"{self.accelerator.name}: no layer of {self.network.path.name} has a choice, because none keeps its "
                "accumulators; choose an accelerator with wide_words, such as pynq_z2_flows"
            )
        keeping = self.compiled(self.with_flows(able))
        moved = {name for name, place in kept_places(keeping).items() if place == "host"}
        if moved:  # two starts and a transfer by the host: what a layer's start takes says nothing of it
            keeping = self.compiled(self.with_flows({name: able[name] for name in able if name not in moved}))
        return {first: self.compiled(self.options), second: keeping}


def candidates(options: CompileOptions, config: KernelConfig) -> tuple[Way, Way]:
    """The flows that are compared, the one that wins a tie first: with samples under a rule that bears them."""
    sampled = bears_samples(position_rule(options.rule, config))
    return ("two_pass_sampled", "keep_sampled") if sampled else ("two_pass", "keep")


def measure_flows(
    task: FlowTask, device: str = "emulator", iterations: int = 8, by: Grouping = "layer"
) -> MeasuredFlows:
    """Run both flows ``iterations`` times on a device, then the faster one of each layer once. FP R33, R34.

    A sample an iteration; the samples start over where there are fewer. DeviceError if a device cannot be opened, or if
    exponents differ between flows; ProgramError for a network whose layers cannot be started one by one;
    ConfigurationError where no layer has a choice.
    """
    if "," in device:
        raise _several(device)
    programs = task.programs()
    provide_overlay(programs[task.candidates[0]], task.accelerator, device)
    chooser = FlowChooser(position_layers(programs, task.candidates), iterations, by, task.candidates)
    with closing(LayerStarter(device, programs[task.candidates[0]])) as starter:
        for iteration in range(iterations):
            sample = _sample(task.samples, iteration)
            found = {flow: starter.run(program, sample) for flow, program in programs.items()}
            _check_exponents(found)
            _record(chooser, programs, found)
            chooser.finish_iteration()
        flows: dict[str, Way] = {
            layer.name: task.candidates[1]
            for layer in chooser.layers
            if layer.updates_position and chooser.flows(layer.name) == task.candidates[1:]
        }
        options = task.with_flows(flows)
        program = task.compiled(options)
        runs = starter.run(program, _sample(task.samples, iterations))
    chosen = {node.name: runs[node.name].taken for node in measured_nodes(program)}
    return MeasuredFlows(chooser, options, program, chosen)


class LayerStarter:
    """A device whose kernel runs layer after layer of one program, then of another one."""

    def __init__(self, device: str, program: Program) -> None:
        self._opened = runtime.open_device(device, program)
        if not (device == "emulator" or isinstance(self._opened, StreamingDevice)):
            self._opened.close()
            raise _several(device)

    def run(self, program: Program, sample: Mapping[str, Any]) -> dict[str, LayerRun]:
        """The layers of a program for one sample (1, ...), its resident weights loaded before."""
        machine = self._machine(program)
        values = Values(program, check_inputs(program, sample))
        machine.begin({name: values.on_array(name) for name in program.inputs})
        nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
        return {node.name: machine.run(index) for index, node in enumerate(nodes)}

    def _machine(self, program: Program) -> LayerMachine:
        if isinstance(self._opened, StreamingDevice):
            return KernelLayers(program, self._opened.kernel)
        return EmulatedLayers(program)

    def close(self) -> None:
        """Release the device."""
        self._opened.close()


def _several(device: str) -> DeviceError:
    return DeviceError(f"device {device}: layers are started one by one on a single kernel; name one board")


def position_layers(programs: Mapping[Way, Program], candidates: tuple[Way, Way]) -> list[PositionLayer]:
    """The layers as the choice sees them; those without one have types of their own, so they decide for no other."""
    second = programs[candidates[1]]
    flows = {node.name: node.policy.flow for node in measured_nodes(second)}
    layers = []
    for node in second.nodes:
        if isinstance(node, ArrayNode) and (node.policy.inherit or node.name in flows):
            alone = flows.get(node.name) == candidates[0]
            kind = operation_type(node) + (", keeps nothing" if alone else "")
            layers.append(PositionLayer(node.name, kind, not node.policy.inherit))
    return layers


def operation_type(node: ArrayNode) -> str:
    """The type of a layer's operation: what R34 groups."""
    if node.kind != "gemm":
        return {"max": "maximum", "sum": "sum"}.get(node.kind, node.kind)
    if node.uniform_weights:
        return "average"
    if node.groups > 1:
        return "grouped convolution"
    whole = node.window.output_height == node.window.output_width == 1
    return "fully connected" if whole else "convolution"


def _without_flow(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "flow"}


def _sample(samples: InputSamples, iteration: int) -> dict[str, Any]:
    number = iteration % len(samples)
    return {name: values[number : number + 1] for name, values in samples.inputs.items()}


def _check_exponents(found: Mapping[Way, Mapping[str, LayerRun]]) -> None:
    """DeviceError if flows of the same sample found different exponents: one of them did not compute what it says."""
    (first, runs), (second, others) = found.items()
    for name, run in runs.items():
        if others[name].exponent != run.exponent:
            raise DeviceError(
                f"layer {name}: exponent {run.exponent} by flow {first}, {others[name].exponent} by {second}; they "
                "must be equal, because both look at the same results"
            )


def _record(
    chooser: FlowChooser, programs: Mapping[Way, Program], found: Mapping[Way, Mapping[str, LayerRun]]
) -> None:
    """Give the chooser the clocks of each flow that a layer ran."""
    for flow, program in programs.items():
        for node in measured_nodes(program):
            if node.policy.flow == flow:
                chooser.record(node.name, flow, found[flow][node.name].taken)
