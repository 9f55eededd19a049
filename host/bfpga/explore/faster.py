"""The ready accelerator of the same board that is faster for a network, by the same estimate, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.errors import BfpgaError
from bfpga.estimate.advice import TIE, kinds_text
from bfpga.estimate.sample import SampleEstimate, estimate_sample
from bfpga.explore.figures import compile_for_figures
from bfpga.explore.limits import excess
from bfpga.program.host import host_nodes, kinds_of
from bfpga.scale.work import Progress
from bfpga.synthesis.resources import resources_of

#: Of a gain, the share that says where it comes from.
MOST = 0.5
#: What each kind of zeros is called.
ZEROS = {"weights": "zeros of weights", "activations": "zeros of activations"}


@dataclass(frozen=True)
class Tried:
    """A network on an accelerator."""

    accelerator: Accelerator
    program: Program
    sample: SampleEstimate

    @property
    def images_per_second(self) -> float:
        """Of a stream of samples, the host included."""
        return 1 / self.sample.seconds

    @property
    def host(self) -> float:
        """Seconds that the host adds to those of the kernel for a sample in a stream."""
        return self.sample.seconds - self.sample.stream


@dataclass(frozen=True)
class Faster:
    """A faster accelerator, images a second there, and why."""

    accelerator: str
    images_per_second: float
    why: str

    @property
    def text(self) -> str:
        return f"{self.accelerator} is faster: {self.images_per_second:,.0f} images/s (estimated), {self.why}"


def tried(accelerator: Accelerator, program: Program) -> Tried:
    """The estimate of a program that was compiled for the accelerator."""
    return Tried(accelerator, program, estimate_sample(accelerator, program, resources_of(accelerator).total))


def rivals(accelerator: Accelerator) -> list[Accelerator]:
    """Ready accelerators that may take the place of another one without asking more of the user.

    They are of its board and fit it as they should, have mantissas and weights as fine, and are no demonstrators.
    """
    config, found = accelerator.config, []
    for name in accelerator_names():
        other = load_accelerator(name)
        linear = "linear" in other.config.weight_formats or "linear" not in config.weight_formats
        as_fine = linear and other.config.format.mantissa_bits >= config.format.mantissa_bits
        if other.demonstrator or other.board != accelerator.board or other.digest == accelerator.digest:
            continue
        if as_fine and excess(resources_of(other).total, other.board) <= 0:
            found.append(other)
    return found


def find_faster(
    own: Tried,
    others: Sequence[Accelerator],
    network: Network,
    calibration: Calibration | None,
    options: CompileOptions,
    progress: Progress | None = None,
) -> Faster | None:
    """The fastest of the others, if it is more than ``TIE`` faster; others that cannot run the network are none.

    calibration, options: those of ``own``. None too where nothing says what the board's cores take.
    """
    best = own
    for index, accelerator in enumerate(others):
        try:
            one = tried(accelerator, compile_for_figures(network, accelerator, calibration, options))
        except BfpgaError:
            continue
        finally:
            if progress is not None:
                progress(index + 1, len(others))
        if one.sample.seconds < best.sample.seconds:
            best = one
    known = own.sample.includes_host and best.sample.includes_host
    if not known or best.images_per_second <= (1 + TIE) * own.images_per_second:
        return None
    return Faster(best.accelerator.name, best.images_per_second, why(own, best))


def why(own: Tried, best: Tried) -> str:
    """Where most of the gain comes from: the host, zeros, multipliers, the memories, or else the array's form."""
    gain = own.sample.seconds - best.sample.seconds
    if own.host - best.host > MOST * gain:
        return f"{kinds_text(kinds_of(host_nodes(own.program)) - kinds_of(host_nodes(best.program)))} stay on the chip"
    mine, other = own.accelerator, best.accelerator
    zeros = other.config.array.zeros
    if zeros in ZEROS and mine.config.array.zeros != zeros:
        return f"{ZEROS[zeros]} take no time there"
    if best.sample.moved < MOST * own.sample.moved:
        return f"{best.sample.moved:,.0f} bytes of a sample cross its streams instead of {own.sample.moved:,.0f}"
    if other.config.macs_per_clock * other.clock_mhz > mine.config.macs_per_clock * mine.clock_mhz:
        return f"{other.config.macs_per_clock:,} multiply-accumulates a clock instead of {mine.config.macs_per_clock:,}"
    return "its array has a form that these layers fill better"
