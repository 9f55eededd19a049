"""Constraints of a zero-skip engine: its own sizes, and what it asks of the array (docs/engines.md)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.constraints import common_findings
from bfpga.engines.interface.engine import Finding
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers

#: Most banks of a tile buffer.
MOST_ROW_BANKS = 64


def findings(config: SystolicConfig) -> Iterator[Finding]:
    """Wrong numbers of the engine."""
    build = config.numbers_of(ZeroSkipNumbers)
    yield from common_findings(config, build)
    if build.lanes < config.columns:
        text = f"is {build.lanes}; must be at least the systolic_array's {config.columns} columns, which take its sums"
        yield Finding("lanes", text, build.engine)
    if build.rows_parallel > build.tile_height:
        text = f"is {build.rows_parallel}; must be at most the {build.tile_height} rows of a tile"
        yield Finding("rows_parallel", text, build.engine)
    if build.row_banks > MOST_ROW_BANKS:
        limit = MOST_ROW_BANKS // build.stride
        text = f"is {build.rows_parallel}; with a stride of {build.stride} at most {limit} rows are read at once"
        yield Finding("rows_parallel", text, build.engine)
