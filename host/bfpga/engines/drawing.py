"""Figures without a window; need matplotlib (`pip install 'bfpga[notebooks]'`), which is loaded when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bfpga.errors import ToolError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def empty_figure(inches: tuple[float, float]) -> Figure:
    """A figure to draw on and to save; ``ToolError`` without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolError("matplotlib is missing; `pip install matplotlib` brings it") from None
    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
