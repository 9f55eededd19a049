"""The dispatcher: which engine computes which layer (SC R10-R15, ZS R53 and 6.6; docs/dispatch.md).

It runs once, when a network is compiled. Every decision and the figures it rests on are kept in the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bfpga.compiler.dispatch.engine_clocks import EngineClocks
from bfpga.compiler.numbers.sampled_inputs import ZeroCount, count_zeros
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import ARRAY, EngineName
from bfpga.contract.program import ArrayNode, EngineFigures, TensorSpec
from bfpga.engines.registry import depends_on_inputs, engine_named
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import IntArray

#: A layer's cycles depend on which others share the weight memory with it: figures are taken again until they agree.
ROUNDS = 4


@dataclass(frozen=True)
class Decision:
    """The engine of a layer and why."""

    engine: EngineName
    reason: str


def check_engines(config: SystolicConfig, options: CompileOptions) -> None:
    """ConfigurationError if the network or a layer asks for an engine that the accelerator does not have."""
    asked = {"": options.engine, **{f"layer {name}: ": options.layer(name).engine for name in options.layers}}
    for place, wanted in asked.items():
        if wanted != "auto" and wanted not in config.engines:
            raise ConfigurationError(
                f"{place}the accelerator has no engine {wanted}; it has {' and '.join(config.engines)} "
                "(`bfpga accelerators` lists which have others)"
            )


def format_options(options: LayerOptions, config: SystolicConfig) -> LayerOptions:
    """Options of a layer's weight format: another engine than the array takes linear weights."""
    beside = options.engine not in ("auto", ARRAY)
    if beside and options.formats == "auto" and "linear" in config.weight_formats:
        return replace(options, formats="linear")
    return options


def choose_engines(
    stages: Sequence[Sequence[ArrayNode]],
    tensors: dict[str, TensorSpec],
    config: SystolicConfig,
    options: CompileOptions,
    reserved: tuple[int, int] = (0, 0),
    inputs: Mapping[str, IntArray] | None = None,
) -> None:
    """Give every matrix layer its engine, with the figures of all engines and the reason.

    stages: nodes that are scheduled together; reserved: weight words and parameter rows that products of activations
    need; inputs: mantissas (samples, height, width, channels) of calibration samples by tensor, None without samples.
    Raises ConfigurationError for a layer that asks for an engine that cannot take it, and for a network that asks for
    an engine that can take none of its layers.
    """
    nodes = [node for stage in stages for node in stage]
    _check_layers(nodes, tensors, config, options)
    if len(config.engines) == 1:
        return
    inputs = inputs or {}
    counts = {name: count_zeros(values) for name, values in inputs.items()}
    layers = [node for node in nodes if node.kind == "gemm" and not node.factors]
    for node in layers:
        if node.inputs[0] in counts:
            node.input_density = counts[node.inputs[0]].density
    clocks = EngineClocks(config, tensors, stages, reserved, inputs)
    for _ in range(ROUNDS):
        before = [node.engine for node in layers]
        for node in layers:
            node.engine_choices = engine_figures(node, tensors[node.inputs[0]], config, clocks)
        for node in layers:
            wanted = options.layer(node.name, node.output)
            decision = decide(node.engine_choices, wanted, counts.get(node.inputs[0]))
            node.engine, node.engine_reason = decision.engine, decision.reason
        if [node.engine for node in layers] == before:
            break
        clocks.settle()
    _check_network(layers, options)


def engine_figures(
    node: ArrayNode, spec: TensorSpec, config: SystolicConfig, clocks: EngineClocks
) -> list[EngineFigures]:
    """Clocks of a layer on every engine of the accelerator, or why the engine does not take it. spec: its input."""
    result = []
    for engine in config.engines:
        refused = engine_named(engine).refusal(node, spec, config)
        result.append(EngineFigures(engine, 0 if refused else clocks.cycles(node, engine), refused))
    return result


def decide(figures: Sequence[EngineFigures], options: LayerOptions, zeros: ZeroCount | None) -> Decision:
    """The engine of a layer by its options (SC R11-R13). zeros: of its input, None where nothing was counted.

    Of equal cycles the array's count as fewer, then those of the engines in their order.
    """
    if options.engine != "auto":
        refused = next(item.refused for item in figures if item.engine == options.engine)
        if not refused:
            return Decision(options.engine, "asked for")
        return Decision(ARRAY, f"{options.engine} was asked for, but {refused}")
    takers = [item for item in figures if not item.refused]
    if zeros is None:
        known = [item for item in takers if not depends_on_inputs(item.engine)]
        remark = "" if len(known) == len(takers) else "; zeros of its input are not known"
        return _fewest(known, "", remark)
    kind = class_of(zeros, options)
    share = f"{zeros.percent:.0f} % zeros, "
    if kind == "cost":
        return _fewest(takers, f"{share}between the limits: " if options.dispatch == "band" else "")
    why = share + kind
    skipping = [item for item in takers if depends_on_inputs(item.engine)]
    if kind == "sparse" and skipping:
        return Decision(min(skipping, key=lambda item: item.cycles).engine, why)
    remark = ", but no engine for them takes it" if kind == "sparse" else ""
    return _fewest([item for item in takers if not depends_on_inputs(item.engine)], f"{why}{remark}: ")


def class_of(zeros: ZeroCount, options: LayerOptions) -> Literal["dense", "sparse", "cost"]:
    """Whether an input is dense or sparse by the rule of the options; ``cost``: cycles decide (SC R11-R13)."""
    if options.dispatch == "majority":
        return "sparse" if 2 * zeros.zeros >= zeros.elements else "dense"
    if options.dispatch == "band":
        if zeros.percent >= options.band_sparse:
            return "sparse"
        return "dense" if zeros.percent <= options.band_dense else "cost"
    return "cost"


def _fewest(figures: Sequence[EngineFigures], before: str, behind: str = "") -> Decision:
    """The engine with the fewest cycles; the first of equal ones."""
    best = min(figures, key=lambda item: item.cycles)
    same = [item.engine for item in figures if item.cycles == best.cycles and item is not best]
    if len(figures) == 1:
        reason = "no other engine takes it" if not before and not behind else "no other engine is left"
    else:
        reason = f"as few cycles as {' and '.join(same)}" if same else "fewest cycles"
    return Decision(best.engine, before + reason + behind)


def _check_layers(
    nodes: Sequence[ArrayNode], tensors: dict[str, TensorSpec], config: SystolicConfig, options: CompileOptions
) -> None:
    """ConfigurationError for engines that are asked of single layers and cannot take them."""
    known = {name: node for node in nodes for name in (node.output, node.name)}
    for name, values in options.layers.items():
        engine = options.layer(name).engine
        if "engine" not in values or engine == "auto" or engine == ARRAY:
            continue
        if name not in known:
            listed = ", ".join(node.name for node in nodes)
            raise ConfigurationError(f"layer {name}: no layer of this name runs on an engine; there are {listed}")
        node = known[name]
        refused = engine_named(engine).refusal(node, tensors[node.inputs[0]], config)
        if refused:
            raise ConfigurationError(f"layer {name}: {engine} cannot compute it: {refused}")


def _check_network(layers: Sequence[ArrayNode], options: CompileOptions) -> None:
    """ConfigurationError if the network asks for an engine and every layer that it leaves to it is refused."""
    asking = [node for node in layers if options.layer(node.name, node.output).engine == options.engine]
    if options.engine in ("auto", ARRAY) or (layers and not asking):
        return
    reasons: dict[str, list[str]] = {}
    for node in asking:
        refused = next(item.refused for item in node.engine_choices if item.engine == options.engine)
        if not refused:
            return
        reasons.setdefault(refused, []).append(node.name)
    listed = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    raise ConfigurationError(
        f"{options.engine} can compute no layer of this network"
        f" ({listed or 'there is no convolution and no fully connected layer'}); engine auto chooses for each layer"
    )
