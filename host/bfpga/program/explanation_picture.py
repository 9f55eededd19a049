"""A picture of what the dispatcher knew and chose; needs matplotlib (`pip install 'bfpga[notebooks]'`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bfpga.contract.program import ArrayNode, Program
from bfpga.engines.drawing import empty_figure
from bfpga.engines.registry import ENGINES, engine_named
from bfpga.errors import ConfigurationError
from bfpga.program.explanation import ENGINE_WORDS, dispatched, gain, moving_clocks, weight_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours of the zeros of weights and of inputs: those of an engine that skips them.
ZERO_COLOURS = {engine.skips: engine.colour for engine in reversed(ENGINES)}
WIDTH, LAYER_HEIGHT, MARGINS = 11.0, 0.45, 1.8
#: Of the height of a layer the part that its bars fill, and how solid the bars are that were not chosen.
FILLED, PALE = 0.8, 0.3


def draw_engines(program: Program) -> Figure:
    """Figure with the cycles of every layer on every engine, the chosen ones solid, next to the zeros they rest on.

    Clocks are those of one sample with all transfers, on a logarithmic axis. Raises ConfigurationError for a program
    without a choice of engines, ToolError without matplotlib.
    """
    nodes = dispatched(program)
    if not nodes:
        raise ConfigurationError(f"there is nothing to draw: no layer of {program.name} had a choice of engines")
    figure = empty_figure((WIDTH, MARGINS + LAYER_HEIGHT * len(nodes)))
    clocks, zeros = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    _draw_clocks(clocks, program, nodes)
    _draw_zeros(zeros, nodes)
    clocks.set_yticks(range(len(nodes)), [node.name for node in nodes])
    clocks.set_ylim(len(nodes) - 0.5, -0.5)
    figure.suptitle(f"{program.name} on {program.accelerator}\n{gain(program)}", fontsize="medium")
    return figure


def _draw_clocks(axes: Any, program: Program, nodes: list[ArrayNode]) -> None:
    """One bar for each engine that takes a layer."""
    moves, height = moving_clocks(program), FILLED / len(program.config.engines)
    for number, engine in enumerate(program.config.engines):
        bars = [
            (place + (number + 0.5) * height - FILLED / 2, item.cycles + moves[node.name], node.engine == engine)
            for place, node in enumerate(nodes)
            for item in node.engine_choices
            if item.engine == engine and not item.refused
        ]
        places, lengths, chosen = (list(values) for values in zip(*bars, strict=True)) if bars else ([], [], [])
        drawn = axes.barh(places, lengths, height, color=engine_named(engine).colour, label=ENGINE_WORDS[engine])
        for bar, solid in zip(drawn, chosen, strict=True):
            bar.set_alpha(1.0 if solid else PALE)
    axes.set_xscale("log")
    axes.set_xlabel("cycles of one sample (solid: chosen; no bar: the engine does not take the layer)")
    for handle in _legend(axes).get_patches():
        handle.set_alpha(1.0)


def _draw_zeros(axes: Any, nodes: list[ArrayNode]) -> None:
    """Percent of zeros of weights and inputs; no mark where zeros of inputs are not known."""
    places = np.arange(len(nodes))
    weights = [100 * (1 - weight_density(node)) for node in nodes]
    inputs = [np.nan if node.input_density is None else 100 * (1 - node.input_density) for node in nodes]
    axes.plot(weights, places, "s", color=ZERO_COLOURS["weights"], label="weights")
    axes.plot(inputs, places, "o", color=ZERO_COLOURS["inputs"], label="inputs")
    axes.set_xlim(-2, 102)
    axes.set_xlabel("zeros, %")
    axes.grid(axis="x", alpha=PALE)
    _legend(axes)


def _legend(axes: Any) -> Any:
    """One line above the axes, where no data is."""
    return axes.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
