"""Clocks of a start of many samples, from the schedule of a few."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.predicates import runs
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.order import SampleRow, in_stream
from bfpga.program.schedule import schedule

#: Samples whose schedule is followed from event to event; every further one takes what one of the second half takes.
FOLLOWED_SAMPLES = 8


def start_clocks(
    config: KernelConfig,
    operations: Sequence[KernelOperation],
    samples: int = 1,
    ahead: int = 0,
    choices: Sequence[int] = (),
) -> int:
    """Clocks of one start if no stream is waited for. ahead: as for ``SampleRow``.

    choices: of each sample, what count registers report, where operations are skipped by them; all samples are followed
    then.
    """
    if choices:
        sent = [(operations[index], choices[sample]) for index, sample in SampleRow.of(operations, ahead).sent(samples)]
        skipped = [not runs(operation.descriptor, reported) for operation, reported in sent]
        return schedule(config, [operation for operation, _ in sent], skipped=skipped).clocks
    followed = min(samples, FOLLOWED_SAMPLES)
    clocks = schedule(config, in_stream(operations, followed, ahead)).clocks
    if followed == samples:
        return clocks
    half = schedule(config, in_stream(operations, followed // 2, ahead)).clocks
    return clocks + math.ceil((samples - followed) * (clocks - half) / (followed - followed // 2))
