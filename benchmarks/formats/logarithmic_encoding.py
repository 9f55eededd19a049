"""Seconds to encode ten million weights as powers of two and as sums of two of them, the search for the scale included.

    python -m benchmarks.formats.logarithmic_encoding

Ends with 1 if a default format takes more than two seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.common.command import command
from bfpga.formats.logarithmic_encoder import encode
from bfpga.formats.shift_format import ShiftFormat, WeightMode

WEIGHTS = (2000, 5000)
LIMIT_SECONDS = 2.0
RUNS = 3


def seconds_of(fmt: ShiftFormat, mode: WeightMode, per_channel: bool) -> float:
    """Best of three."""
    weights = np.random.default_rng(4).standard_normal(WEIGHTS, np.float32)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        encode(weights, fmt, mode, per_channel=per_channel)
        times.append(time.perf_counter() - start)
    return min(times)


def main(given: Sequence[str] | None = None) -> int:
    command(__doc__).parse_args(given)
    slow = 0
    print(f"{'exponent bits':>13}  {'mode':<8}  {'scales':<8}  seconds")
    for exp_width in (1, 2, 3, 4):
        fmt = ShiftFormat(exp_width=exp_width)
        for mode in WeightMode:
            for per_channel in (False, True):
                seconds = seconds_of(fmt, mode, per_channel)
                slow += seconds > LIMIT_SECONDS and exp_width == ShiftFormat().exp_width
                scales = "channel" if per_channel else "layer"
                print(f"{exp_width:>13}  {mode.name.lower():<8}  {scales:<8}  {seconds:7.2f}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
