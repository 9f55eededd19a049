"""The rate of several cores: so many times one core's, until the memory or the host is the limit.

All cores share one memory, at the rate that the board's file assumes. The operators left to the host take one ARM core,
as they do for one core of the overlay (``estimate.host``), and cannot overlap with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.program.learning import learns
from bfpga.program.stream_time import StreamTime

Limit = Literal["cores", "memory", "host"]


@dataclass(frozen=True)
class SharedRate:
    """Seconds of a start among many on all cores, array alone and with the host, and what limits the latter."""

    kernel: float
    seconds: float
    limit: Limit


def cores_used(accelerator: Accelerator, program: Program) -> int:
    """Cores that share the samples of a program: one where samples depend on those before."""
    return 1 if learns(program) else accelerator.cores


def shared_rate(accelerator: Accelerator, program: Program, time: StreamTime, moved: float) -> SharedRate:
    """The rate on all cores of an accelerator.

    time: of a start in a stream on one core, with the host's operators for it. moved: bytes of a start between memory
    and kernel.
    """
    count = cores_used(accelerator, program)
    if count == 1:
        return SharedRate(time.array, time.seconds, "cores")
    memory = moved / (accelerator.board.assumed_gb_s * 1e9)
    bounds: dict[Limit, float] = {"cores": time.seconds / count, "memory": memory, "host": time.host}
    limit = max(bounds, key=lambda name: bounds[name])
    return SharedRate(max(time.array / count, memory), bounds[limit], limit)
