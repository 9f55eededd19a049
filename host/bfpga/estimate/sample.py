"""Time, bytes and energy of a sample on a board, host included: what every command that weighs choices asks for."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.engines.interface.resource_units import Resources
from bfpga.estimate.cores import Limit, shared_rate
from bfpga.estimate.energy import board_watts, sample_joules
from bfpga.estimate.host import host_seconds, time_in_stream
from bfpga.estimate.program import ProgramEstimate, estimate_program


@dataclass(frozen=True)
class SampleEstimate:
    """A program on an accelerator with the host's operators; resident weights are loaded.

    ``latency``: seconds of one sample alone, or of ``together`` that are computed side by side: the host works before
    and after the kernel. ``stream``: seconds of the kernel for a sample in a stream of them, ``seconds`` the same with
    the host, which works beside it (``program/stream_time.py``). ``includes_host``: whether the
    board's cores are known. ``moved``: bytes of a sample between memory and kernel. ``used``: resources of the design.
    ``limit``: what limits the rate of several cores, which share the samples of a stream.
    """

    accelerator: Accelerator
    program: ProgramEstimate
    used: Resources
    latency: float
    stream: float
    seconds: float
    includes_host: bool
    moved: float
    together: int
    limit: Limit = "cores"

    @property
    def watts(self) -> float:
        """Watts of the device."""
        return board_watts(self.used, self.accelerator.board, self.accelerator.clock_mhz)

    def joules(self, seconds: float) -> float:
        """Joules of a sample whose share of the time is ``seconds``."""
        return sample_joules(self.used, self.accelerator.board, self.accelerator.clock_mhz, seconds, self.moved)

    def joules_alone(self, latency: float | None = None) -> float:
        """Joules of a sample of one start by itself. latency: seconds of the start, where they are known otherwise."""
        return self.joules((self.latency if latency is None else latency) / self.together)


def estimate_sample(accelerator: Accelerator, program: Program, used: Resources) -> SampleEstimate:
    """The estimate of a compiled program. used: what the design takes (``synthesis.resources``).

    Memory gives the board's assumed rate.
    """
    together = program.side_by_side
    estimate = estimate_program(accelerator, program)
    host = host_seconds(program, accelerator.board.arm_cores)
    moved = sum(layer.bytes for layer in estimate.layers)
    shared = shared_rate(accelerator, program, time_in_stream(program, estimate, accelerator.board.arm_cores), moved)
    return SampleEstimate(
        accelerator=accelerator,
        program=estimate,
        used=used,
        latency=estimate.seconds + (host or 0.0),
        stream=shared.kernel / together,
        seconds=shared.seconds / together,
        includes_host=host is not None,
        moved=moved / together,
        together=together,
        limit=shared.limit,
    )
