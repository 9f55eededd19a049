"""How many lanes a unit of the sparse cluster should have, and how many weights meet in a round (SC R68, R71, 6.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from bfpga.errors import ConfigurationError

#: Densities are shares such as 0.6; their nearest fraction with a small divisor is what was meant.
_LARGEST_DIVISOR = 1_000_000


@dataclass(frozen=True)
class LaneSizes:
    """Numbers of lanes that suit a layer (R68), each at least 1.

    tile_cells: no micro-tile needs two rounds a weight. tile_values: the expected non-zeros of a micro-tile.
    kernel_cells: variant E meets every weight in one round. kernel_weights: it meets the expected non-zero weights.
    """

    tile_cells: int
    tile_values: int
    kernel_cells: int
    kernel_weights: int


def lane_sizes(
    kernel: tuple[int, int], tile: tuple[int, int], value_density: float, weight_density: float = 1.0
) -> LaneSizes:
    """Lanes for kernels and micro-tiles of (rows, columns) and shares of non-zeros; R68.

    ``ConfigurationError`` for sides below 1 or densities outside 0 to 1.
    """
    if min(*kernel, *tile) < 1:
        raise ConfigurationError(f"sizing of lanes: kernel {kernel} and tile {tile}; sides of 1 or more are needed")
    kernel_cells, tile_cells = kernel[0] * kernel[1], tile[0] * tile[1]
    return LaneSizes(
        tile_cells=tile_cells,
        tile_values=expected_count(tile_cells, value_density),
        kernel_cells=kernel_cells,
        kernel_weights=expected_count(kernel_cells, weight_density),
    )


def expected_count(cells: int, density: float) -> int:
    """ceil(density * cells), 1 at least: 60 % of a 3 x 3 kernel are 6 (R68)."""
    if not 0 <= density <= 1:
        raise ConfigurationError(f"sizing of lanes: the density is {density}; a share from 0 to 1 is needed")
    return max(1, math.ceil(Fraction(density).limit_denominator(_LARGEST_DIVISOR) * cells))


def weights_in_round(lanes: int, values: int, cap: int | None = None, *, aligned: bool = True) -> int:
    """Distinct weights that a round of packed pairs may hold (R71).

    lanes: p. values: non-zeros of the micro-tile, q >= 1. aligned: the round begins with a weight's first value, then
    there are ceil(p / q); one that begins anywhere touches ceil((p - 1) / q) + 1 at worst. cap: w, None for no cap.
    """
    if min(lanes, values, cap or 1) < 1:
        raise ConfigurationError(
            f"weights of a round: {lanes} lanes, {values} values and cap {cap}; 1 or more are needed"
        )
    found = -(-lanes // values) if aligned else -(-(lanes - 1) // values) + 1
    return found if cap is None else min(found, cap)
