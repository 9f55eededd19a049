"""Constraints of the engines beside the array: their own sizes, and what they ask of the array (docs/engines.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS, ClusterBuild, EngineName, ZeroSkipBuild


class Finding(NamedTuple):
    """A wrong number: the key it belongs to, what would be right, and whose section has the key."""

    key: str
    text: str
    engine: EngineName = "systolic_array"


#: Most banks of a tile buffer, and most units of a cluster.
MOST_ROW_BANKS, MOST_UNITS = 64, 32


def engine_findings(config: SystolicConfig) -> list[Finding]:
    """Every constraint of several engines that ``config`` violates; empty for an array alone."""
    findings: list[Finding] = []
    if config.zero_skip is not None:
        findings += zero_skip_findings(config, config.zero_skip)
    if config.sparse_cluster is not None:
        findings += cluster_findings(config, config.sparse_cluster)
    if findings or len(config.engines) == 1:
        return findings
    return list(array_findings(config))


def array_findings(config: SystolicConfig) -> Iterator[Finding]:
    """What every other engine asks of the array, whose number format and weights it shares."""
    names = " and ".join(config.engines[1:])
    bits, (least, most) = config.accumulator_bits, SUM_BITS
    if config.format.mantissa_bits > OPERAND_BITS:
        text = (
            f"has mantissas of {config.format.mantissa_bits} bits; beside {names} at most {OPERAND_BITS} are possible"
        )
        yield Finding("format", text)
    if not least <= bits <= most:
        yield Finding("accumulator_bits", f"is {bits}; must be {least}..{most} beside {names}")
    if config.multiplier == "shift":
        text = f"is shift, whose weights are not linear; {names} beside it takes no others: must be dsp or dsp_packed"
        yield Finding("multiplier", text)


def zero_skip_findings(config: SystolicConfig, build: ZeroSkipBuild) -> Iterator[Finding]:
    yield from common_findings(config, "zero_skip", build)
    if build.lanes < config.columns:
        text = f"is {build.lanes}; must be at least the systolic_array's {config.columns} columns, which take its sums"
        yield Finding("lanes", text, "zero_skip")
    if build.rows_parallel > build.tile_height:
        text = f"is {build.rows_parallel}; must be at most the {build.tile_height} rows of a tile"
        yield Finding("rows_parallel", text, "zero_skip")
    if build.row_banks > MOST_ROW_BANKS:
        limit = MOST_ROW_BANKS // build.stride
        text = f"is {build.rows_parallel}; with a stride of {build.stride} at most {limit} rows are read at once"
        yield Finding("rows_parallel", text, "zero_skip")


def cluster_findings(config: SystolicConfig, build: ClusterBuild) -> Iterator[Finding]:
    yield from common_findings(config, "sparse_cluster", build)
    if build.units > MOST_UNITS:
        text = f"is {build.grid_rows} x {build.grid_columns}, {build.units} units; at most {MOST_UNITS} are possible"
        yield Finding("grid", text, "sparse_cluster")
    if config.columns < build.lanes:
        text = f"is {config.columns}; must be at least {build.lanes}, one for each sum of a sparse_cluster's block"
        yield Finding("columns", text)
    # SC E10 for one channel; the compiler gives a layer to the engine only if the sums of all its channels fit.
    needed = 2 * config.format.mantissa_bits + (build.lanes - 1).bit_length()
    if config.accumulator_bits < needed:
        text = f"is {config.accumulator_bits}; {build.lanes} products of the sparse_cluster's kernel need {needed}"
        yield Finding("accumulator_bits", text)


def common_findings(
    config: SystolicConfig, engine: EngineName, build: ZeroSkipBuild | ClusterBuild
) -> Iterator[Finding]:
    """Kernels leave in words of the array's lanes; two 8-bit products share a DSP block."""
    if build.kernels_in_flight % config.lanes:
        text = f"is {build.kernels_in_flight}; must be a multiple of the systolic_array's lanes = {config.lanes}"
        yield Finding("kernels_in_flight", text, engine)
    if build.multiplier == "dsp_packed" and config.format.mantissa_bits > 8:
        bits = config.format.mantissa_bits
        text = f"is dsp_packed, which needs mantissas of 8 bits or less, not {bits}; must be dsp"
        yield Finding("multiplier", text, engine)
