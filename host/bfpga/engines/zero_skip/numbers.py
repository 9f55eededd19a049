"""The numbers of a zero-skip engine (ZS 2.2).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bfpga.contract.engine_numbers import EngineName, EngineNumbers, LaneMultiplier


@dataclass(frozen=True)
class ZeroSkipNumbers(EngineNumbers):
    """A zero-skip engine: one coefficient a clock on a row of a tile (ZS 2.2).

    tile_height, tile_width: outputs of the largest tile. lanes: multipliers of a row; rows_parallel: rows of a step.
    kernels_in_flight: output channels of one pass over the input. kernel_height, kernel_width, stride: the largest.
    """

    engine: ClassVar[EngineName] = "zero_skip"

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
