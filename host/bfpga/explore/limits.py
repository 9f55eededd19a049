"""What of a board an accelerator takes, before anything is compiled for it: the search's one look at resources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from bfpga.accelerator.boards import Board
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import Resources, scaled
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.estimate.hardware import FULL

#: Share of each resource that an explored accelerator may take. Tables above 80 % do not route reliably; blocks are
#: there to be used.
SHARES = {"dsp": 1.0, "bram36": 1.0, "uram": 1.0, "lut": FULL, "ff": 1.0}
#: Columns that an accelerator file may ask for, of either kind.
MOST_COLUMNS = 128


def excess(used: Resources, board: Board) -> float:
    """How far the worst resource is above what may be taken of it, as a share of the board; 0 or less: it fits."""
    taken: dict[str, int] = asdict(used)
    return max(taken[kind] / max(limit, 1) - SHARES[kind] for kind, limit in board.resources.items())


def most_columns(config: KernelConfig, board: Board, cores: int = 1, turns: int = 1) -> int:
    """The most columns in addition to the shift columns, all else equal, that fit so many times; 0 where none does.

    ``turns``: of a row in the output stage.
    """
    extra = config.shift_columns

    def fits(columns: int) -> bool:
        own = -(-(columns + extra) // turns) if turns > 1 else 0
        one = estimate_resources(replace(config, columns=columns + extra, post_columns=own)).total
        return excess(scaled(one, cores), board) <= 0

    return last_that(fits, 1, MOST_COLUMNS) if fits(1) else 0


def last_that(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number up to ``high`` of which ``holds`` is true, for a rule that is true from ``low`` on."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is not above ``limit``."""
    return max(divisor for divisor in range(1, min(number, limit) + 1) if number % divisor == 0)
