"""What the quantizers of a network say of its values: their range and the step between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

#: Quantizers with fewer values than these are kept exactly.
FEW_VALUES = 64
#: Operators whose result has the values of their input, apart from their order.
SAME_VALUES = (
    "Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze", "Dropout", "DepthToSpace",
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """The values that a quantizer leaves: multiples of ``step`` between ``low`` and ``high`` (0 is one of them).

    rounds: whether it is this value's own rounding that makes them so, and the network needs it. saturates: whether
    nothing in the float network limits it, so that mantissas have to.
    """

    step: float
    low: float
    high: float
    rounds: bool = False
    saturates: bool = False

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def power(self) -> int | None:
        """The binary logarithm of the step, where that is a power of two."""
        mantissa, exponent = np.frexp(self.step)
        return int(exponent) - 1 if mantissa == 0.5 else None

    @property
    def few(self) -> bool:
        """Whether its values are few: a network is trained with their rounding, which must be kept."""
        return self.high - self.low < (FEW_VALUES - 0.5) * self.step

    def with_other(self, other: Grid) -> Grid:
        """The grid of values of both kinds."""
        step, low, high = min(self.step, other.step), min(self.low, other.low), max(self.high, other.high)
        return Grid(step, low, high, self.rounds or other.rounds, self.saturates or other.saturates)


#: Grids by the name of the value.
Grids = Mapping[str, Grid]


def rounded(grids: Grids) -> set[str]:
    """Names of the values whose rounding or limits the network needs where they are written."""
    return {name for name, grid in grids.items() if grid.rounds or grid.saturates}
