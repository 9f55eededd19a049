"""Ways to choose and to move an exponent that no kernel has yet (BFP 3.2, the optional ones)."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from bfpga.engines.output.exponents import PolicySlot, statistics_lead
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import saturate, shift_round


def window_sums(values: Int64Array, window: int, stride: int = 1) -> tuple[Int64Array, Int64Array]:
    """S1 and S2 of every full sliding window over a series of magnitudes; ``stride`` > 1 samples the series.

    Each new value enters and the one ``window`` samples older leaves. Any window length. BFP R28.
    """
    sampled = np.asarray(values, np.int64)[::stride]
    if len(sampled) < window:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.concatenate(([0], np.cumsum(sampled)))
    second = np.concatenate(([0], np.cumsum(sampled * sampled)))
    return first[window:] - first[:-window], second[window:] - second[:-window]


def sliding_leads(values: Int64Array, window: int, factor: int, unit: int, stride: int = 1) -> list[int | None]:
    """Predicted leading position after every value that fills or moves the sliding window. BFP R27, R28."""
    first, second = window_sums(values, window, stride)
    return [statistics_lead(int(s1), int(s2), window, factor, unit) for s1, s2 in zip(first, second, strict=True)]


def confidence_factor(confidence: float) -> int:
    """policy_factor (4k) of a wanted two-sided confidence: 0.6827 -> 4, 0.9545 -> 8, 0.9973 -> 12, 0.9999 -> 16.

    Only the upper side can overflow, and magnitudes of zero-mean data exceed mean + 3 sigma in 0.92 %. BFP R32.
    """
    return round(4 * NormalDist().inv_cdf((1 + confidence) / 2))


def persistent_underflow(mantissa: IntArray, fmt: BlockFormat, unused: int = 1) -> bool:
    """True if the block leaves more than ``unused`` of its leading mantissa bits unused. BFP R34."""
    return int(np.abs(np.asarray(mantissa, np.int64)).max(initial=0)) < 1 << (fmt.mantissa_bits - 2 - unused)


def adjust(
    mantissa: IntArray, exponent: int, fmt: BlockFormat, step: int, slot: PolicySlot | None = None
) -> tuple[Int64Array, int]:
    """A stored block at exponent + step: mantissas shifted by step (right if positive), the slot's statistics cleared.

    For use after an overflow (step 1) or persistent underflow (step -1), when the accumulators are gone. BFP R34.
    """
    shifted, _ = saturate(shift_round(mantissa, step, fmt.rounding), fmt.mantissa_bits, fmt.saturation)
    if slot is not None:
        slot.clear_window()
        slot.exponent = exponent + step
    return shifted, exponent + step
