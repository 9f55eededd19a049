"""A picture of a partition before and after balancing; needs matplotlib (`pip install 'bfpga[notebooks]'`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bfpga.engines.drawing import empty_figure
from bfpga.engines.kernel.products import NumberArray
from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition, Partition, relative_imbalance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Points of a piece's label at most.
LARGEST_LABEL = 12
INCHES = (10.0, 7.5)


def draw_partition(nonzero: NumberArray, before: BalancedPartition, after: BalancedPartition) -> Figure:
    """Figure with two partitions over the map that they cut, and the loads of both as bars.

    before: usually the equal grid (``PartitionSettings.without_moves``). nonzero: (rows, columns) of the map that was
    cut; counts of several channels are shown as shades. Limits in halo mode are those of outputs; they are drawn in
    proportion. ``ToolError`` without matplotlib.
    """
    figure = empty_figure(INCHES)
    panels = figure.subplot_mosaic([["before", "after"], ["loads", "loads"]], height_ratios=[3, 1])
    for name, result in (("before", before), ("after", after)):
        _draw_map(panels[name], nonzero, result.partition, result.loads, name)
    _draw_loads(panels["loads"], before, after)
    return figure


def _draw_map(axes: Any, nonzero: NumberArray, partition: Partition, loads: tuple[int, ...], title: str) -> None:
    rows, columns = nonzero.shape
    lines = partition.row_limits[-1], partition.column_limits[0][-1]
    axes.imshow(nonzero, cmap="Greys", interpolation="nearest", extent=(0, lines[1], lines[0], 0), aspect="auto")
    axes.set_box_aspect(rows / columns)
    size = min(LARGEST_LABEL, 60 / max(len(partition.row_limits), len(partition.column_limits[0])))
    for load, piece in zip(loads, partition.rectangles(), strict=True):
        x = (piece.column0, piece.column1, piece.column1, piece.column0, piece.column0)
        y = (piece.row0, piece.row0, piece.row1, piece.row1, piece.row0)
        axes.plot(x, y, color="tab:red", linewidth=1.5, clip_on=False)
        label = axes.text((piece.column0 + piece.column1) / 2, (piece.row0 + piece.row1) / 2, f"{load:,}")
        label.set(ha="center", va="center", fontsize=size, color="tab:blue", bbox={"fc": "white", "lw": 0, "pad": 1})
    axes.set_xlim(0, lines[1])
    axes.set_ylim(lines[0], 0)
    axes.set_title(f"{title}, largest / mean {relative_imbalance(loads):.2f}")


def _draw_loads(axes: Any, before: BalancedPartition, after: BalancedPartition) -> None:
    units = np.arange(len(after.loads))
    axes.bar(units - 0.2, before.loads, width=0.4, color="lightgrey", label="before")
    axes.bar(units + 0.2, after.loads, width=0.4, color="tab:blue", label="after")
    axes.axhline(np.mean(after.loads), color="tab:red", linewidth=1, label="mean after")
    axes.set_xticks(units)
    axes.set_xlabel("unit")
    axes.set_ylabel("work")
    axes.legend(ncols=3, fontsize="small")
    threshold = "met" if after.reached else "not reached"
    axes.set_title(f"work of each unit; threshold {threshold}, spread {after.spread:.2f}", fontsize="medium")
