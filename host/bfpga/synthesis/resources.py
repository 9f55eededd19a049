"""What of its board an accelerator takes: the one answer that every command prints and every report judges by.

The cells of its netlist where they have been counted (the ready accelerators' are in the package), else what is fitted
to counted netlists (``engines.kernel.counted_resources``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.engines.interface.resource_units import Resources, scaled
from bfpga.engines.kernel import counted_resources
from bfpga.formats.cache import cache_directory
from bfpga.synthesis.kept import kept_figures, packaged_figures


@dataclass(frozen=True)
class BoardUse:
    """Resources of every part of a kernel, in all of its copies, with interconnect and DMAs.

    ``basis``: what the numbers are, in a word or two; ``origin``: the same in a sentence.
    """

    parts: dict[str, Resources]
    basis: str
    origin: str

    @property
    def total(self) -> Resources:
        """Their sum."""
        return sum(self.parts.values(), Resources())

    @property
    def with_total(self) -> dict[str, Resources]:
        """The parts, and their sum as `total`."""
        return {**self.parts, "total": self.total}


def board_use(accelerator: Accelerator, cache: Path | None = None) -> BoardUse:
    """What an accelerator takes of its board.

    ``cache``: directory of figures that the package has not; None: the package's alone, the same on every machine.
    """
    figures = packaged_figures(accelerator) if cache is None else kept_figures(accelerator, cache)
    if figures is not None and figures.counted:
        parts = {
            name: Resources(a.dsp, math.ceil(a.bram36), a.tables, a.ff, a.uram) for name, a in figures.parts.items()
        }
        return BoardUse(parts, "counted", "counted in the netlist of the code")
    rows, error = len(counted_resources.table()), counted_resources.largest_error()
    origin = (
        f"LUT and FF are fitted to the counted netlists of {rows} configurations, at most {100 * error:.0f} % off "
        f"there; bfpga synthesize {accelerator.name} counts these"
    )
    one = counted_resources.estimate_resources(accelerator.config).parts
    parts = {name: scaled(part, accelerator.cores) for name, part in one.items()}
    return BoardUse(parts, "fitted to counted netlists", origin)


def resources_of(accelerator: Accelerator) -> BoardUse:
    """``board_use`` with figures that `bfpga synthesize` has kept on this machine."""
    return board_use(accelerator, cache_directory("synthesis"))
