"""What one candidate costs: resources, then cycles of the compiled program, then accuracy on the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.estimate.energy import sample_joules
from bfpga.estimate.host import host_seconds
from bfpga.estimate.program import estimate_program
from bfpga.explore.candidate import Candidate
from bfpga.explore.limits import usage

#: Samples of a start for which throughput is computed: loads of one overlap with the operations of another.
STREAM = 16


@dataclass(frozen=True)
class Figures:
    """One sample on the board, host included: ``seconds`` in a stream of samples, ``latency`` alone, ``joules``.

    cycles: of one sample in the stream, kernel alone. used: of the board's resources. accuracy, loss: percent on the
    samples and points below the float network; None where they were not measured.
    """

    seconds: float
    latency: float
    joules: float
    cycles: float
    used: Mapping[str, int]
    accuracy: float | None = None
    loss: float | None = None


def program_figures(accelerator: Accelerator, program: Program) -> Figures:
    """Time and energy of a compiled program; its accuracy is not measured here.

    The kernel and the host's operators work one after the other. Memory gives the board's assumed rate.
    """
    board, config = accelerator.board, accelerator.systolic
    hertz, together = accelerator.clock_mhz * 1e6, program.side_by_side
    estimated = estimate_program(accelerator, program)
    stream = estimated.cycles.scheduled(STREAM, board.assumed_gb_s * 1e9 / hertz)
    kernel = estimated.seconds if stream is None else stream / STREAM / hertz
    host = host_seconds(program, board.arm_cores) or 0.0
    seconds = (kernel + host) / together
    moved = sum(layer.bytes for layer in estimated.layers) / together
    return Figures(
        seconds=seconds,
        latency=estimated.seconds + host,
        joules=sample_joules(config, board, accelerator.clock_mhz, seconds, moved),
        cycles=kernel * hertz / together,
        used=usage(config),
    )


@dataclass(frozen=True)
class Point:
    """A candidate with its figures. number: of its trial. values: its place in the space.

    excess: how far the worst resource is above what may be taken of it (``limits``). beaten: another point is better
    whatever this one's accuracy, which was not measured then. clock: what a synthesis of its code says of its clock:
    `confirmed`, `unconfirmed` (none was made) or `missed`, with ``missed`` as the reason.
    """

    number: int
    candidate: Candidate
    figures: Figures
    values: Mapping[str, Any] = field(default_factory=dict)
    excess: float = 0.0
    beaten: bool = False
    clock: str = "unconfirmed"
    missed: str = ""

    @property
    def name(self) -> str:
        """What it is called in tables: the ready accelerator, or its trial."""
        return self.candidate.origin or f"trial {self.number}"

    def content(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "trial": self.number,
            "name": self.name,
            "origin": self.candidate.origin,
            "accelerator": self.candidate.described,
            "recipe": self.candidate.recipe,
            "figures": asdict(self.figures),
            "values": dict(self.values),
            "excess": self.excess,
            "beaten": self.beaten,
            "clock": self.clock,
            "missed": self.missed,
        }


def point_of(content: Mapping[str, Any]) -> Point:
    """The point that ``Point.content`` wrote down."""
    candidate = Candidate(content["accelerator"], content["recipe"], content["origin"])
    figures = Figures(**content["figures"])
    kept = {key: content[key] for key in ("values", "excess", "beaten", "clock", "missed")}
    return Point(content["trial"], candidate, figures, **kept)
