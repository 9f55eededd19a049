"""Clocks of a start of many samples on a kernel of processes, from the schedule of a few."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import KernelOperation
from bfpga.engines.array.order import in_stream
from bfpga.program.schedule import schedule

#: Samples whose schedule is followed from event to event; every further one takes what one of the second half takes.
FOLLOWED_SAMPLES = 8


def start_clocks(
    config: SystolicConfig, operations: Sequence[KernelOperation], samples: int = 1, ahead: int = 0
) -> int:
    """Clocks of one start if no stream is waited for. ahead: as for ``SampleRow``.

    ValueError for a kernel of one loop.
    """
    followed = min(samples, FOLLOWED_SAMPLES)
    clocks = schedule(config, in_stream(operations, followed, ahead)).clocks
    if followed == samples:
        return clocks
    half = schedule(config, in_stream(operations, followed // 2, ahead)).clocks
    return clocks + math.ceil((samples - followed) * (clocks - half) / (followed - followed // 2))
