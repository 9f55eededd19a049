"""Why a zero-skip engine cannot compute a layer (docs/engines.md, sections 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.fit import common_refusals, kernel_refusals
from bfpga.engines.interface.engine import CandidateLayer, ImageShape
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers


def refusals(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    """Reasons against a layer that reads ``spec``, the most telling one first."""
    yield from common_refusals(layer, spec, config)
    numbers, window = config.numbers_of(ZeroSkipNumbers), layer.window
    yield from kernel_refusals(window, spec, numbers.kernel_height, numbers.kernel_width)
    if max(window.stride_y, window.stride_x) > numbers.stride:
        yield f"its stride is {window.stride_y}x{window.stride_x}, the engine's largest is {numbers.stride}"
