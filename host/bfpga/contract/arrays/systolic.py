"""The systolic array: ``columns`` x ``rows`` dot tiles of ``lanes`` products a cycle each (BFP 3.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from bfpga.contract.arrays.base import Array, Kernel, WidthOrNone, operands, parameters, weight_words
from bfpga.contract.process_stream import ARRAY, AWAITED_PASSES, LONGEST_PIPELINE, SHALLOW, ProcessStream


@dataclass(frozen=True)
class SystolicArray(Array):
    """``hop_columns``: columns that share a copy of the weights; 0: all of them."""

    kind: ClassVar[str] = "systolic"
    engine: ClassVar[str] = "bfpga.engines.systolic.engine"
    header: ClassVar[str] = "systolic/array.hpp"
    simulation: ClassVar[tuple[str, str]] = ("systolic/multiplying.hpp", "SystolicMultiplying")
    may_reuse_taps: ClassVar[bool] = True

    hop_columns: WidthOrNone = 0

    def operand_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """With tap reuse a beat says which columns have neighbours."""
        flags = kernel.columns + 1 if kernel.tap_reuse else 0
        yield operands(kernel, flags)

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """The parameters of a pass leave with its weights, before there are sums that need them: its last weights must
        not wait for its parameters, nor for those of sums that are on their way through the blocks of columns."""
        yield weight_words(kernel, "weight_words", ARRAY)
        blocks = -(-kernel.columns // self.weight_copy_columns(kernel))
        yield parameters(kernel, kernel.accumulator_rows + blocks, LONGEST_PIPELINE)

    def result_words(self, kernel: Kernel) -> int:
        return max(SHALLOW, AWAITED_PASSES * kernel.pass_words)

    def weight_copy_columns(self, kernel: Kernel) -> int:
        return self.hop_columns or kernel.columns
