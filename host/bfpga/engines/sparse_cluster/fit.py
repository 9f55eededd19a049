"""Why a sparse cluster cannot compute a layer (docs/engines.md, sections 1, 2 and 6)."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.fit import common_refusals, kernel_refusals
from bfpga.engines.interface.engine import CandidateLayer, ImageShape
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.tiles import strip_fits


def refusals(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    """Reasons against a layer that reads ``spec``, the most telling one first."""
    yield from common_refusals(layer, spec, config)
    numbers, window = config.numbers_of(ClusterNumbers), layer.window
    yield from kernel_refusals(window, spec, numbers.kernel, numbers.kernel)
    if any(gcd(stride, numbers.kernel) != 1 for stride in (window.stride_y, window.stride_x)):
        yield (
            f"its stride {window.stride_y}x{window.stride_x} has a factor in common with the engine's kernel of "
            f"{numbers.kernel}: outputs of a row would lie in one bank"
        )
    if not strip_fits(window, spec, numbers, 1):
        yield (
            f"one row of its output does not fit the units: {numbers.grid_rows}x{numbers.grid_columns} pieces of "
            f"{numbers.accumulator_words} sums and {numbers.memory_words} segments"
        )
