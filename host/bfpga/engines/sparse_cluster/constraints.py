"""Constraints of a sparse cluster: its own sizes, and what it asks of the array (docs/engines.md)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.constraints import common_findings
from bfpga.engines.interface.engine import Finding
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers

#: Most units of a cluster.
MOST_UNITS = 32


def findings(config: SystolicConfig) -> Iterator[Finding]:
    """Wrong numbers of the engine."""
    build = config.numbers_of(ClusterNumbers)
    yield from common_findings(config, build)
    if build.units > MOST_UNITS:
        text = f"is {build.grid_rows} x {build.grid_columns}, {build.units} units; at most {MOST_UNITS} are possible"
        yield Finding("grid", text, build.engine)
    if config.columns < build.lanes:
        text = f"is {config.columns}; must be at least {build.lanes}, one for each sum of a sparse_cluster's block"
        yield Finding("columns", text)
    # SC E10 for one channel; the compiler gives a layer to the engine only if the sums of all its channels fit.
    needed = 2 * config.format.mantissa_bits + (build.lanes - 1).bit_length()
    if config.accumulator_bits < needed:
        text = f"is {config.accumulator_bits}; {build.lanes} products of the sparse_cluster's kernel need {needed}"
        yield Finding("accumulator_bits", text)
