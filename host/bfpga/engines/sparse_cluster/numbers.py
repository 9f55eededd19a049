"""The numbers of a sparse cluster (SC 2.2, variant E).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bfpga.contract.engine_numbers import EngineName, EngineNumbers


@dataclass(frozen=True)
class ClusterNumbers(EngineNumbers):
    """A sparse cluster: units of ``kernel`` x ``kernel`` multipliers, one non-zero activation each (SC 2.2, variant E).

    grid_rows, grid_columns: pieces of a strip, one a unit. kernels_in_flight: output channels of one pass over the
    input. accumulator_words: words of one kernel's sums in each of the kernel x kernel banks of a unit. memory_words:
    segments that a unit's memory holds of one channel word, in each of its two sets.
    """

    engine: ClassVar[EngineName] = "sparse_cluster"

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

    @property
    def least_columns(self) -> int:
        """One port for each sum of a block of outputs."""
        return self.lanes

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
