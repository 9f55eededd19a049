"""The numbers of the engines that may stand beside the systolic array in a kernel (docs/engines.md).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

LaneMultiplier = Literal["dsp", "dsp_packed", "lut"]
#: Which engine computes a layer.
EngineName = Literal["systolic_array", "zero_skip", "sparse_cluster"]

#: Clocks between two loops of an engine: the pipeline of the first empties before the second uses what it wrote.
ENGINE_DEPTH = 8
#: Clocks between two uses of a sum: memory read, addition, memory write.
DEPENDENCE_LATENCY = 4
#: Widest operands of the engines.
OPERAND_BITS = 16
#: Widths of their sums.
SUM_BITS = (16, 48)


@dataclass(frozen=True)
class ZeroSkipBuild:
    """A zero-skip engine: one coefficient a clock on a row of a tile (ZS 2.2).

    tile_height, tile_width: outputs of the largest tile. lanes: multipliers of a row; rows_parallel: rows of a step.
    kernels_in_flight: output channels of one pass over the input. kernel_height, kernel_width, stride: the largest.
    """

    tile_height: int = 32
    tile_width: int = 32
    lanes: int = 32
    rows_parallel: int = 1
    kernels_in_flight: int = 16
    kernel_height: int = 3
    kernel_width: int = 3
    stride: int = 2
    multiplier: LaneMultiplier = "dsp_packed"
    load_pixels: int = 8

    @property
    def row_banks(self) -> int:
        """Banks of the tile buffer: the rows of a step lie in different ones."""
        return 1 << (self.rows_parallel * self.stride - 1).bit_length()

    @property
    def plane_words(self) -> int:
        """Words of sums of one kernel's tile."""
        return -(-self.tile_height // self.rows_parallel) * -(-self.tile_width // self.lanes)

    @property
    def multipliers(self) -> int:
        return self.lanes * self.rows_parallel

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ZeroSkipBuild:
        return ZeroSkipBuild(**values)


@dataclass(frozen=True)
class ClusterBuild:
    """A sparse cluster: units of ``kernel`` x ``kernel`` multipliers, one non-zero activation each (SC 2.2, variant E).

    grid_rows, grid_columns: pieces of a strip, one a unit. kernels_in_flight: output channels of one pass over the
    input. accumulator_words: words of one kernel's sums in each of the kernel x kernel banks of a unit. memory_words:
    segments that a unit's memory holds of one channel word, in each of its two sets.
    """

    grid_rows: int = 2
    grid_columns: int = 4
    kernel: int = 3
    kernels_in_flight: int = 8
    accumulator_words: int = 128
    memory_words: int = 256
    multiplier: Literal["dsp", "lut"] = "dsp"
    load_pixels: int = 8

    @property
    def units(self) -> int:
        return self.grid_rows * self.grid_columns

    @property
    def lanes(self) -> int:
        """Multipliers of a unit (p): one for each weight of a kernel."""
        return self.kernel * self.kernel

    @property
    def multipliers(self) -> int:
        return self.units * self.lanes

    def grid_words(self, lines: int, kernel: int) -> int:
        """Words of a bank along one axis that the full grid of ``lines`` input lines may touch, wherever it begins."""
        return (lines + kernel - 1 + self.kernel - 2) // self.kernel + 1

    def segments(self, columns: int) -> int:
        """Segments that ``columns`` columns may touch, wherever they begin."""
        return (columns + self.load_pixels - 2) // self.load_pixels + 1

    def piece_fits(self, rows: int, columns: int, kernel_height: int, kernel_width: int) -> bool:
        """Whether a unit holds any piece of this size (SC R55, R155)."""
        words = self.grid_words(rows, kernel_height) * self.grid_words(columns, kernel_width)
        return words <= self.accumulator_words and rows * self.segments(columns) <= self.memory_words

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ClusterBuild:
        return ClusterBuild(**values)
