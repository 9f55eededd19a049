"""The partition of a network: operators that become layers of the array, and those that stay on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import replace
from types import MappingProxyType

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.lower.expand import expand
from bfpga.compiler.lower.largest_places import with_places_of_scores
from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.lower.lowering import lower
from bfpga.compiler.lower.recurrent import unroll, with_batch_first
from bfpga.compiler.lower.recurrent_time import time_of_steps, time_of_whole
from bfpga.compiler.lower.sample_constants import with_sample_constants
from bfpga.compiler.lower.side_by_side import side_by_side
from bfpga.compiler.numbers.averages import unfit_averages
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.grids import Grids
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.schedule.fitting import oversized_layers
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import unpacked

NOTHING: Mapping[str, str] = MappingProxyType({})
#: Why operators whose results several layers give stay on the host without samples.
UNCALIBRATED = "its parts need one exponent, which only calibration samples can give"


def lower_steps(
    graph: Graph, accelerator: Accelerator, calibrated: bool, options: CompileOptions, together: int = 1,
    refused: Mapping[str, str] = NOTHING, kept: Set[str] = frozenset(),
) -> tuple[Graph, Lowered, list[str]]:  # fmt: skip
    """Lower the network with recurrent operators step by step, but whole where the host has less to do so; notes.

    together: samples that are computed side by side, which only operators step by step can. refused: operators that
    the host keeps, each with the reason. kept: those that are not written in parts. ModelError for a network that
    cannot take samples side by side.
    """
    config, cores = accelerator.config, accelerator.board.arm_cores
    if together > 1:
        beside, notes = in_steps_side_by_side(graph, together, options)
        return *lower_expanded(beside, config, calibrated, options, refused, kept), notes
    graph, steps, notes = _in_steps(graph, options)
    result = lower_expanded(steps, config, calibrated, options, refused, kept)
    if steps is graph or cores is None or options.recurrent == "array":
        return *result, notes
    split, whole = time_of_steps(graph, *result, cores), time_of_whole(graph, cores)
    if split <= whole:
        return *result, notes
    note = (
        f"recurrent operators run whole on the host, which takes about {1e3 * whole:.1f} ms; "
        f"what the array would leave of their steps takes {1e3 * split:.1f} ms there (recipe: recurrent)"
    )
    return *lower_expanded(graph, config, calibrated, options, refused, kept), [*notes, note]


def in_steps_side_by_side(graph: Graph, count: int, options: CompileOptions) -> tuple[Graph, list[str]]:
    """The network on ``count`` samples at once, step by step, and notes. ModelError if it cannot take them so."""
    _, steps, notes = _in_steps(graph, options)
    return side_by_side(steps, count), notes


def _in_steps(graph: Graph, options: CompileOptions) -> tuple[Graph, Graph, list[str]]:
    """The network with its samples first, the same with recurrent operators step by step, and notes."""
    whole, places = with_places_of_scores(with_batch_first(graph))
    steps, found = (whole, []) if options.recurrent == "host" else unroll(whole)
    return whole, steps, [*places, *found]


def lower_expanded(
    graph: Graph, config: KernelConfig, calibrated: bool, options: CompileOptions,
    refused: Mapping[str, str] = NOTHING, kept: Set[str] = frozenset(),
) -> tuple[Graph, Lowered]:  # fmt: skip
    """Lower the network with operators written in parts wherever the array computes all of these; with that graph.

    kept: those that are not written in parts.
    """
    while True:
        expanded = expand(graph, config, kept)
        written = with_sample_constants(expanded.graph)
        lowered = lower_fitting(written, config, calibrated, options, refused)
        carried = [operator for layer in lowered.layers if layer.kind == "matmul" for operator in layer.operators]
        split = expanded.split_operators([*lowered.host, *carried])
        if not split:
            leaving = tuple(unpacked(written.outputs, lowered.joined))
            return replace(written, outputs=leaving, consumers={}), lowered
        kept |= split


def _shared(lowered: Lowered, grids: Grids) -> dict[str, str]:
    """Operators that several layers compute together, each with the reason why they need calibration samples.

    grids: of quantizers, which give exponents too.
    """
    parts = Counter(layer.output for layer in lowered.layers if layer.output not in grids)
    parts.update(name for name, tensor in lowered.tensors.items() if tensor.mask is not None)
    return {layer.operators[0].name: UNCALIBRATED for layer in lowered.layers if parts[layer.output] > 1}


def _has_phases(operator: Operator) -> bool:
    """Whether an operator is a transposed convolution of several layers, on the array along rows or not."""
    return operator.type == "ConvTranspose" and max(operator.attributes.get("strides", [1])) > 1


def lower_fitting(
    graph: Graph, config: KernelConfig, calibrated: bool, options: CompileOptions,
    refused: Mapping[str, str] = NOTHING,
) -> Lowered:  # fmt: skip
    """Lower the network; operators whose layers do not fit the array, in size or in their weights, stay on the host."""
    blocked = dict(refused)
    # Heads give one tensor together: without samples products of two matrices have an exponent each, and pass the host.
    usable = config if calibrated else replace(config, operand_weights=False)
    if not calibrated:
        joining = [operator for operator in graph.operators if operator.type == "Concat"]
        blocked |= {operator.name: UNCALIBRATED for operator in joining if operator.outputs[0] not in graph.grids}
        blocked.update((operator.name, UNCALIBRATED) for operator in graph.operators if _has_phases(operator))
    while True:
        lowered = lower(graph, usable, frozenset(blocked))
        unfit = {**oversized_layers(lowered, config), **unfit_averages(lowered, graph.outputs, config, options)}
        if not calibrated:
            unfit.update(_shared(lowered, graph.grids))
        found = {name: reason for name, reason in unfit.items() if name not in blocked}
        if not found:
            break
        blocked.update(found)
    lowered.notes += [f"{name} runs on the host: {reason}" for name, reason in blocked.items()]
    return lowered
