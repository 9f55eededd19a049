"""A picture of the flows' times from transfer-bound to compute-bound layers; needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bfpga.engines.drawing import empty_figure
from bfpga.engines.positions.sampling import SampleFraction
from bfpga.engines.positions.times import FLOWS, FlowTimes, LayerTimes, TimeModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = (11.0, 4.8)
#: Points of a line, and how far beyond the limits of the model it goes to either side.
POINTS, MARGIN = 400, 3.0


def draw_flow_times(layer: LayerTimes, model: TimeModel, sample: SampleFraction) -> Figure:
    """Times of flows 0 to 4 while computing takes ever longer, and how much more than flow 0 they take. FP R36, FP 6.

    layer: one layer, in milliseconds; it and the break-even of keeping wide results are marked. ``ToolError`` without
    matplotlib.
    """
    figure = empty_figure(INCHES)
    read, write, compute = float(layer.read), float(layer.write), float(layer.compute)
    break_even = model.break_even_compute(read, write)
    sweep = _sweep([read, write, compute, float(model.transfer(read, model.wide_ratio * write)), break_even])
    times = model.flow_times(LayerTimes(sweep, read, write), sample.value)
    absolute, relative = figure.subplots(1, 2)
    _draw_lines(absolute, sweep, times, np.ones_like(sweep))
    _draw_lines(relative, sweep, times, np.asarray(times.delayed))
    for axes in (absolute, relative):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_xlabel("computing, ms")
        axes.axvline(compute, color="black", linewidth=1, linestyle=":", label=f"this layer, {compute:g} ms")
        if break_even > 0:
            label = f"keeping wins from {break_even:.3g} ms"
            axes.axvline(break_even, color="grey", linewidth=1, linestyle="--", label=label)
        axes.grid(alpha=0.3)
    absolute.set_title(f"reading {read:g} ms, writing {write:g} ms, {sample} sampled", fontsize="medium")
    absolute.set_ylabel("one layer, ms")
    relative.set_title(_memory(model), fontsize="medium")
    relative.set_ylabel("times flow 0")
    relative.legend(fontsize="small")
    return figure


def _draw_lines(axes: Any, sweep: np.ndarray[Any, Any], times: FlowTimes, unit: np.ndarray[Any, Any]) -> None:
    for number, flow in enumerate(FLOWS[:5]):
        axes.plot(sweep, np.asarray(times.of(flow)) / unit, label=f"{number} {flow.replace('_', ' ')}")


def _sweep(limits: list[float]) -> np.ndarray[Any, Any]:
    """Computing times evenly spaced on a logarithmic axis, around all limits that are above 0."""
    known = [limit for limit in limits if limit > 0] or [1.0]
    return np.geomspace(min(known) / MARGIN, max(known) * MARGIN, POINTS)


def _memory(model: TimeModel) -> str:
    parts = [f"wide results {model.wide_ratio:g} times as large"]
    parts += ["kept on chip"] if model.on_chip else []
    parts += ["reading while writing"] if model.duplex else []
    return ", ".join([*parts, f"{model.launch:g} ms a launch"] if model.launch else parts)
