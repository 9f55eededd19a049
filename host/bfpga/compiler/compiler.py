"""The compiler: one call from an ONNX file to a program for one accelerator.

Each stage hands a frozen record to the next one: partition, numbers, nodes, starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.chosen_numbers import Numbers, choose_numbers
from bfpga.compiler.dispatch.input_zeros import measure_zeros
from bfpga.compiler.layer_names import without_effect
from bfpga.compiler.lower.batched_parts import with_parts_apart, with_parts_in_samples
from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.lower.left_products import left_products, with_left_products
from bfpga.compiler.nodes import Nodes, make_nodes
from bfpga.compiler.numbers.bias_correction import correct_biases
from bfpga.compiler.numbers.calibrate import Grouping, samples_of
from bfpga.compiler.numbers.masks import masked_by_inputs, unfit_masks
from bfpga.compiler.numbers.measurements import Measurements, measure
from bfpga.compiler.numbers.remainders import with_remainders
from bfpga.compiler.numbers.row_noise import coarse_rows
from bfpga.compiler.numbers.weight_formats import check_formats
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.partition import lower_steps
from bfpga.compiler.read.finer_sums import finer_sums
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.mantissa_limits import with_mantissa_limits
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.residual_adds import with_residual_adds
from bfpga.compiler.schedule.compressed_maps import compress, measured_shares
from bfpga.compiler.schedule.fitting import oversized_layers
from bfpga.compiler.schedule.folded_inputs import fold_inputs
from bfpga.compiler.schedule.unfit_parts import Part, UnfitPartError
from bfpga.compiler.starts import schedule_starts
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import HostNode, Program
from bfpga.errors import ConfigurationError, ModelError
from bfpga.formats.arrays import IntArray
from bfpga.program.cycles import program_cycles
from bfpga.program.layout import together
from bfpga.program.stream_time import stream_time

_LOG = logging.getLogger(__name__)
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

    def say(text: str) -> None:
        _LOG.info(text)
        if progress is not None:
            progress(text)

    options, config = options or CompileOptions(), accelerator.config
    check_formats(config, options)
    count = options.side_by_side
    _check_side_by_side(count, calibration, items)
    say("read the network")
    network = read_network(network)
    # Shift units hold few weights: what an average loses there goes to an adjacent layer that multiplies.
    read = network.graph("linear" in config.weight_formats, config.array.stores_entries)
    read = finer_sums(with_mantissa_limits(read, config.format), config.format)
    task = _Task(network, read, accelerator, calibration, options, max(count, items), say)
    return _cheapest([each.program() for each in task.ways()], accelerator)


def _cheapest(programs: Sequence[Program], accelerator: Accelerator) -> Program:
    """The program whose samples take the least time, the host's operators included; of several the first.

    Each sample has a call of its own of these operators, as one that comes alone.
    """
    cores = accelerator.board.arm_cores
    if len(programs) == 1 or cores is None:
        return programs[0]

    def alone(node: HostNode, together: int) -> float:
        return cores.node_seconds(node)

    def seconds(program: Program) -> float:
        return stream_time(program, program_cycles(program), accelerator.bytes_per_clock, alone).seconds

    return min(programs, key=seconds)


def _without(accelerator: Accelerator, part: Part) -> Accelerator:
    """The accelerator as if its kernel lacked a part."""
    config = accelerator.config
    lacking = {
        "operand_weights": replace(config, operand_weights=False),
        "row_columns": replace(config, row_columns=0),
        "residual_adds": replace(config, residual_adds=False),
    }
    return replace(accelerator, config=lacking[part])


@dataclass(frozen=True)
class _Task:
    """A network that was read, and what it is compiled with. together: samples that are computed side by side."""

    network: Network
    read: Graph
    accelerator: Accelerator
    calibration: Calibration | None
    options: CompileOptions
    together: int
    say: Callable[[str], None]
    #: Operators that are not written in parts.
    kept: Set[str] = frozenset()

    def ways(self) -> list[_Task]:
        """The task, and other ways to the same results: constants that multiply from the left, parts of samples in the
        samples."""
        if not self.accelerator.config.operand_weights or self.calibration is None:
            return [self]
        result = [self]
        turned = with_left_products(self.read)
        if kept := left_products(turned):
            result.append(replace(self, read=turned, kept=kept))
        parted = with_parts_in_samples(self.read)
        if parted is not self.read:
            result.append(replace(self, read=with_parts_apart(parted)))
        return result

    def program(self) -> Program:
        """The program, without parts of the kernel whose layers the memories do not hold."""
        usable, notes = self.accelerator, list(self.network.notes)
        while True:
            try:
                return self.compiled(usable, notes)
            except UnfitPartError as error:
                notes.append(f"{error}: compiled as without {error.part}")
                usable = _without(usable, error.part)

    def compiled(self, usable: Accelerator, notes: list[str]) -> Program:
        """The program. usable: the accelerator with the parts that layers may be placed on."""
        network, accelerator, options, config = self.network, self.accelerator, self.options, self.accelerator.config
        self.say("lower the layers")
        graph, lowered, found = self._lowered(usable, {})
        measured: Measurements | None = None
        ranges: dict[str, tuple[float, ...]] = {}
        if self.calibration is not None:
            self.say("measure the ranges")
            count = options.side_by_side
            samples = samples_of(graph, _grouped(self.calibration, count) if count > 1 else self.calibration)
            ranges = {name: (float(values.min()), float(values.max())) for name, values in samples.items()}
            measured = self._measured(graph, lowered, samples)
            unfit = masked_by_inputs(lowered, measured.histograms)
            if measured.maxima is not None:
                unfit |= unfit_masks(
                    lowered, measured.histograms, measured.maxima, config.format, options.exponents
                )
            if measured.rows is not None:
                unfit |= coarse_rows(lowered, measured.rows, measured.histograms, config)
            if unfit:
                graph, lowered, found = self._lowered(usable, unfit)
                measured = self._measured(graph, lowered, samples)
        found = found + without_effect(options.layers, lowered, graph, network)
        self.say("choose formats and pack the weights")
        numbers = choose_numbers(graph, lowered, config, options, measured)
        with _named(network.path):
            nodes = make_nodes(numbers, config, options)
        shares = _measure_nodes(nodes, numbers, config, measured)
        nodes = with_residual_adds(nodes, numbers.graph, usable.config)
        self.say("schedule the kernel starts")
        starts = schedule_starts(nodes, graph.outputs, config, options)
        compress([item for launch in starts.launches for item in launch.operations], shares)
        return Program(
            network.name, accelerator.name, accelerator.digest, config, accelerator.clock_mhz, nodes.tensors,
            nodes.nodes, starts.setup, starts.steps, {name: graph.shapes[name] for name in graph.inputs},
            {name: graph.shapes[name] for name in self.read.outputs},
            [*notes, *found, *lowered.notes, *numbers.notes, *nodes.notes], options.side_by_side, starts.choices,
            ranges, lowered.joined,
        )  # fmt: skip

    def _lowered(self, usable: Accelerator, refused: Mapping[str, str]) -> tuple[Graph, Lowered, list[str]]:
        """Layers, with remainders of input images where there is room for them; notes. refused: for the host."""
        calibrated, config = self.calibration is not None, self.accelerator.config
        with _named(self.network.path):
            graph, lowered, notes = lower_steps(self.read, usable, calibrated, self.options, self.together, refused,
                                               self.kept)  # fmt: skip
        if not lowered.layers:
            lowered.notes.append("no operator of this network runs on the array")
        widened = with_remainders(lowered, graph.inputs, config, self.options)
        return graph, lowered if oversized_layers(widened, config) else widened, notes

    def _measured(self, graph: Graph, lowered: Lowered, samples: Mapping[str, npt.NDArray[Any]]) -> Measurements:
        count = self.options.side_by_side
        assert self.calibration is not None
        grouping = Grouping(count, _items(self.calibration)) if count > 1 else None
        with _named(self.network.path):
            return measure(graph, lowered, self.accelerator.config, self.options, samples, grouping)


def _measure_nodes(
    nodes: Nodes, numbers: Numbers, config: KernelConfig, measured: Measurements | None
) -> dict[str, float]:
    """What samples say of the nodes: mean errors go into biases, zeros into clocks; shares of compressed maps."""
    array, scales = nodes.of_array(), numbers.scales.channels
    if measured is not None and measured.means is not None:
        corrected = {layer.name for layer in measured.products}
        layers = [layer for layer in numbers.lowered.layers if layer.name in corrected]
        correct_biases(layers, array, config, measured.means, scales)
    inputs = _sampled_inputs(numbers, nodes.exponents, config, measured)
    fold_inputs(nodes.nodes, nodes.tensors, numbers.graph.inputs, config)
    measure_zeros(array, nodes.tensors, config, inputs)
    return measured_shares(inputs, nodes.tensors, config)


def _sampled_inputs(
    numbers: Numbers, exponents: Mapping[str, int], config: KernelConfig, measured: Measurements | None
) -> dict[str, IntArray]:
    """Mantissas of samples by tensor, as far as their zeros decide on clocks."""
    if measured is None or measured.inputs is None:
        return {}
    found = measured.inputs.mantissas(numbers.scales.channels, exponents, config.format)
    tensors = numbers.lowered.tensors
    return {name: np.repeat(mantissas, tensors[name].parts, axis=3) for name, mantissas in found.items()}


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Messages about the network's values name its file."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error.__cause__


def _check_side_by_side(count: int, calibration: Calibration | None, items: int) -> None:
    """Whether ``count`` samples can be processed together, as far as it does not depend on the network."""
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
