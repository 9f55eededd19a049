"""Whether samples are what a program was calibrated with: raw bytes for a network of 0..1 lose accuracy silently."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Program
from bfpga.devices.values import HostArray

#: A typical sample may reach so many times as far as those of the calibration; its exponents are chosen for up to 2.
FAR = 4.0
#: All samples together use less than this share of the calibrated range: 0..1 in the place of bytes.
NARROW = 1 / 64


def range_warning(program: Program, inputs: Mapping[str, HostArray]) -> str:
    """What is given, what was calibrated, and what to do, for the first input that is far outside; else nothing.

    inputs: (samples, ...) by name, one sample at least. A single outlier is no reason: layers count what saturates.
    """
    for name, values in inputs.items():
        limits = program.input_ranges.get(name)
        if limits is None or not len(values) or not np.size(values):
            continue
        flat = np.asarray(values).reshape(len(values), -1)
        low, high = flat.min(axis=1).astype(np.float64), flat.max(axis=1).astype(np.float64)
        if _is_far(np.maximum(np.abs(low), np.abs(high)), max(map(abs, limits))):
            return _words(name, float(low.min()), float(high.max()), limits[0], limits[1])
    return ""


def _is_far(reached: npt.NDArray[np.float64], calibrated: float) -> bool:
    """reached: largest magnitude of each sample."""
    if not calibrated:
        return False
    return float(np.median(reached)) > FAR * calibrated or 0 < float(reached.max()) < NARROW * calibrated


def _words(name: str, low: float, high: float, calibrated_low: float, calibrated_high: float) -> str:
    text = (
        f"input {name!r} gets values of {low:g} to {high:g}, and the program was calibrated with {calibrated_low:g} to "
        f"{calibrated_high:g}: the results lose accuracy. Prepare the samples as those of the calibration were, "
        "(x - offset) * scale; an NPZ file holds them as x_offset and x_scale"
    )
    if low == high or calibrated_low == calibrated_high:
        return text
    scale = (calibrated_high - calibrated_low) / (high - low)
    return f"{text}. Offset {low - calibrated_low / scale:.4g} and scale {scale:.4g} would give the calibrated range"
