"""The weights of an array in plain integers: what a word on the weight stream means to a layer.

Written from docs/systolic-array.md, section 2, and from the sentences of the shift multiplier's specification
(`shift_cases.reference_values`); no table of the product is used.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from shift_cases import reference_values

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.formats.shift_format import ShiftFormat


def word_bits(fmt: ShiftFormat) -> int:
    """Two fields: exponent, sign if there is one, flag if it means zero."""
    return 2 * (fmt.exp_width + fmt.weight_signed + (fmt.zero_code == "flag"))


def weight_bits(config: KernelConfig) -> int:
    """Bits of a weight in memory: the widest of what the columns of an array multiply with."""
    linear = 4 if config.multiplier == "dsp_quad" else config.format.mantissa_bits
    widths = [] if config.multiplier == "shift" else [linear]
    if config.shift is not None:
        widths.append(word_bits(config.shift))
    return max(widths)


def weight_container(config: KernelConfig) -> int:
    """Bits of a weight on the stream: the next power of two, at least four."""
    return next(bits for bits in (4, 8, 16, 32) if bits >= weight_bits(config))


def weight_beats(config: KernelConfig) -> int:
    """Beats of a weight word of rows x lanes weights; the last one is padded."""
    return -(-config.rows * config.lanes * weight_container(config) // config.weight_stream_bits)


@functools.cache
def word_values(fmt: ShiftFormat, word: int) -> tuple[int, int, int]:
    """Two-hot weight, power-of-two weight of field 2, power-of-two weight of field 1."""
    two_hot, (second, first) = reference_values(fmt, word)
    return two_hot, second, first


@dataclass(frozen=True)
class WeightKind:
    """What the flags of a GEMM and the array say about its weights."""

    config: KernelConfig
    two_hot: bool
    power_of_two: bool

    @property
    def columns(self) -> int:
        """Columns that work: shift columns beside columns of DSP blocks cannot multiply with any integer."""
        linear = self.config.shift_columns > 0 and not self.two_hot
        return self.config.columns - self.config.shift_columns if linear else self.config.columns

    @property
    def rows(self) -> int:
        """Output channels of a pass."""
        return self.config.rows * (2 if self.power_of_two else 1)

    def row(self, word: list[list[int]], r: int) -> list[int]:
        """Weights of output channel r of a pass, in the lanes."""
        cells, fmt = word[r % self.config.rows], self.config.shift
        if fmt is None or (self.config.multiplier != "shift" and not self.two_hot):
            return cells
        which = 1 + r // self.config.rows if self.power_of_two else 0
        return [word_values(fmt, cell % (1 << word_bits(fmt)))[which] for cell in cells]


def weight_kind(d: Descriptor, config: KernelConfig) -> WeightKind:
    """Only a GEMM has weights; all columns work in the other operations."""
    product = d.operation == Operation.GEMM
    flags = Flag(d.flags)
    return WeightKind(config, not product or bool(flags & Flag.TWO_HOT), product and bool(flags & Flag.POWER_OF_TWO))
