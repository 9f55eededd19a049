"""What every engine beside the systolic array has in numbers; its own are in its room (docs/engines.md).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from typing import ClassVar, Literal

LaneMultiplier = Literal["dsp", "dsp_packed", "lut"]
#: Which engine computes a layer: its name in accelerator files, programs and reports (``engines.registry`` has them).
EngineName = str
#: The engine that every kernel has.
ARRAY: EngineName = "systolic_array"

#: Clocks between two loops of an engine: the pipeline of the first empties before the second uses what it wrote.
ENGINE_DEPTH = 8
#: Clocks between two uses of a sum: memory read, addition, memory write.
DEPENDENCE_LATENCY = 4
#: Widest operands of the engines.
OPERAND_BITS = 16
#: Widths of their sums.
SUM_BITS = (16, 48)


class EngineNumbers:
    """The numbers of an engine beside the array: each engine's are a frozen dataclass of integers and texts.

    kernels_in_flight: output channels of one pass over the input. load_pixels: pixels that reach the engine in a clock.
    """

    engine: ClassVar[EngineName]
    kernels_in_flight: int
    multiplier: LaneMultiplier
    load_pixels: int

    @property
    def multipliers(self) -> int:
        """Products a clock."""
        raise NotImplementedError

    @property
    def least_columns(self) -> int:
        """Columns of the array whose ports of the output stage the engine needs."""
        return 1
