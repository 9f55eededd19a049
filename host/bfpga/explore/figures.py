"""What one candidate costs: resources, then cycles of the compiled program, then accuracy on the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.compiler import Calibration, compile_network
from bfpga.compiler.noise import noise_inputs, without_samples
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.engines.interface.resource_units import Resources
from bfpga.estimate.sample import SampleEstimate, estimate_sample
from bfpga.explore.candidate import Candidate


@dataclass(frozen=True)
class Figures:
    """One sample on the board, host included: ``seconds`` in a stream of samples, ``latency`` alone, ``joules``.

    cycles: of one sample in the stream, kernel alone. used: of the board's resources; of a ready accelerator as its
    netlist was counted, where the package has that. accuracy, loss: percent on the samples and points below the float
    network; None where they were not measured. spread: points, the standard deviation of the loss on other samples.
    """

    seconds: float
    latency: float
    joules: float
    cycles: float
    used: Mapping[str, int]
    accuracy: float | None = None
    loss: float | None = None
    spread: float = 0.0


def compile_for_figures(
    network: Network, accelerator: Accelerator, calibration: Calibration | None, options: CompileOptions
) -> Program:
    """Compile for figures; without samples with noise, so that the schedule is that of a calibrated network.

    Nothing is known of the layers' sums then, so ``auto`` chooses formats by the error of the weights alone; and
    nothing of the zeros between layers, so the sparse cluster computes what is asked of it only, at the cycles of
    inputs without a zero. ModelError, DataError or ConfigurationError where that is not possible.
    """
    if calibration is not None:
        return compile_network(network, accelerator, calibration, options)
    return compile_network(network, accelerator, noise_inputs(network, accelerator.config), without_samples(options))


def program_figures(accelerator: Accelerator, program: Program, used: Resources) -> Figures:
    """Time and energy of a compiled program; its accuracy is not measured here. used: what the design takes."""
    return sample_figures(estimate_sample(accelerator, program, used))


def sample_figures(found: SampleEstimate) -> Figures:
    """The figures of an estimate."""
    return Figures(
        seconds=found.seconds,
        latency=found.latency,
        joules=found.joules(found.seconds),
        cycles=found.stream * found.accelerator.clock_mhz * 1e6,
        used=asdict(found.used),
    )


@dataclass(frozen=True)
class Point:
    """A candidate with its figures. number: of its trial. values: its place in the space.

    excess: how far the worst resource is above what may be taken of it (``limits``). beaten: another point is better
    whatever this one's accuracy, which was not measured then. clock: what a synthesis of its code says of its clock:
    `modelled`, `not modelled` (none was made) or `missed`, with ``missed`` as the reason (``explore.modelled_clock``).
    """

    number: int
    candidate: Candidate
    figures: Figures
    values: Mapping[str, Any] = field(default_factory=dict)
    excess: float = 0.0
    beaten: bool = False
    clock: str = "not modelled"
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
