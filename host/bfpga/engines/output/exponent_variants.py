"""Ways to choose an exponent that exist in emulation and on the host only (BFP 3.2, the optional ones).

Pure functions: a compiler may use them to find a static exponent, an experiment to judge a policy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bfpga.engines.output.exponents import PolicySlot, format_exponent, statistics_lead
from bfpga.formats.block_float import FloatArray, decode, encode, float_lead, requantize_block
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import Int64Array, IntArray, saturate, shift_round


def known_range_exponent(bound: float, fmt: BlockFormat) -> int:
    """Exponent for results known to stay within +-bound: 1 gives -14 at 16 bits, 255 gives -7. BFP R25."""
    lead = int(float_lead(abs(bound), fmt.log)) if bound else None
    return format_exponent(lead, fmt)[0]


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


def lookup_exponent(limits: Sequence[float], exponents: Sequence[int], value: float) -> int:
    """Exponent of the class of ``value`` (a layer's number, a mean, a maximum): ``limits`` ascend between the classes.

    exponents has one entry more than limits. BFP R30.
    """
    return exponents[bisect_right(limits, value)]


def confidence_factor(confidence: float) -> int:
    """policy_factor (4k) of a wanted two-sided confidence: 0.6827 -> 4, 0.9545 -> 8, 0.9973 -> 12, 0.9999 -> 16.

    Only the upper side can overflow, and magnitudes of zero-mean data exceed mean + 3 sigma in 0.92 %. BFP R32.
    """
    return round(4 * NormalDist().inv_cdf((1 + confidence) / 2))


def worst_case_exponent(
    weights: IntArray, weight_exponents: npt.ArrayLike, largest_input: int, input_exponent: int, fmt: BlockFormat
) -> int:
    """Exponent at which no product of (rows, ...) weights with inputs of |mantissa| <= largest_input overflows.

    The bound is sum |w| * largest_input of every row; results use few of their bits. BFP R35.
    """
    sums = np.abs(np.asarray(weights, np.int64)).reshape(len(weights), -1).sum(axis=1)
    bounds = requantize_block(sums * largest_input, np.asarray(weight_exponents) + input_exponent, fmt)
    # Rounding may carry the bound itself out of the mantissa.
    return min(int(bounds.exponent) + (bounds.overflow > 0), fmt.exponent_max)


def mean_error(x: FloatArray, mantissa: IntArray, exponent: int) -> float:
    """Mean of |mantissa * 2**exponent - x| over a block. BFP R33."""
    return float(np.abs(decode(mantissa, exponent, np.float64) - x).mean())


def error_step(x: FloatArray, exponent: int, fmt: BlockFormat, limit: float) -> int:
    """The exponent, moved by one step to where the mean error falls, only if the error exceeds ``limit``. BFP R33."""

    def error(candidate: int) -> float:
        return mean_error(x, encode(x, fmt, exponents=candidate).mantissa, candidate)

    if error(exponent) <= limit:
        return exponent
    candidates = [e for e in (exponent, exponent - 1, exponent + 1) if fmt.exponent_min <= e <= fmt.exponent_max]
    return min(candidates, key=error)


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
