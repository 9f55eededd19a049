"""`bfpga.estimate`: what an accelerator takes of its board, what it reaches at most, and what a network takes on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.recipes import chosen_options
from bfpga.contract.program import Program
from bfpga.data import Given, given_samples
from bfpga.errors import ProgramError
from bfpga.estimate.hardware import kinds_of
from bfpga.estimate.roofline import Roofline, estimate_roofline
from bfpga.estimate.sample import SampleEstimate, estimate_sample
from bfpga.explore.figures import compile_for_figures
from bfpga.formats import notebook
from bfpga.synthesis.resources import BoardUse, resources_of


@dataclass(frozen=True, repr=False)
class Estimate:
    """An accelerator on its board; with a network, what one sample takes.

    use: resources of every part, interconnect and DMAs included. roofline: ceilings of array, streams and memory.
    program: the network as it was compiled for these figures; sample: its cycles, seconds, bytes and joules. Both are
    None without a network.
    """

    accelerator: Accelerator
    use: BoardUse
    roofline: Roofline
    program: Program | None = None
    sample: SampleEstimate | None = None

    @property
    def latency(self) -> float | None:
        """Seconds of one sample alone, host included where the board's cores are known; None without a network."""
        return None if self.sample is None else self.sample.latency

    @property
    def images_per_second(self) -> float | None:
        """Of a stream of samples; None without a network."""
        return None if self.sample is None else 1 / self.sample.seconds

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the board's resources that are used, by kind."""
        used, limits = asdict(self.use.total), self.accelerator.board.resources
        return {kind: used[kind] / limit for kind, limit in limits.items()}

    def __repr__(self) -> str:
        names = kinds_of(self.accelerator.board.resources)
        used = ", ".join(f"{names[kind]} {100 * share:.0f} %" for kind, share in self.shares.items())
        reached = f"{self.roofline.gmac_s:.1f} GMAC/s"
        where = self.accelerator.name
        if self.sample is not None and self.program is not None:
            where = f"{notebook.clipped(self.program.name)} on {where}"
            reached = f"{1e3 * self.sample.latency:.3f} ms, {1 / self.sample.seconds:,.0f} images/s"
        return f"Estimate({where}: {reached}; {used})"

    def _repr_html_(self) -> str:
        limits = self.accelerator.board.resources
        parts = {name: asdict(part) for name, part in self.use.with_total.items()}
        rows = [(name, *(f"{part[kind]:,}" for kind in limits)) for name, part in parts.items()]
        rows.append((self.accelerator.board.title, *(f"{limit:,}" for limit in limits.values())))
        names = list(kinds_of(limits).values())
        return notebook.page(
            repr(self),
            notebook.table(["part", *names], rows, names),
            notebook.lines(self.use.origin),
            *self._layers(),
        )

    def _layers(self) -> list[str]:
        if self.sample is None:
            return []
        layers = self.sample.program.layers
        rows = [
            (layer.name, layer.engine, f"{layer.macs:,}", f"{layer.cycles:,}", f"{layer.transfer_cycles:,}",
             layer.limit)
            for layer in layers
        ]  # fmt: skip
        headings = ("layer", "engine", "MACs", "cycles", "transfer cycles", "limit")
        spent = [(layer.name, layer.cycles + layer.transfer_cycles) for layer in layers]
        return [
            notebook.table(headings, rows, headings[2:5]),
            notebook.bars("cycles of one sample, with transfers", spent, "cycles"),
        ]


def estimate(
    accelerator: str | Path | Accelerator,
    model: str | Path | Network | Program | None = None,
    calibration: Given | None = None,
    *,
    options: CompileOptions | str | Path | None = None,
) -> Estimate:
    """Resources and roofline of an accelerator, and with a network its cycles, time and energy; nothing is run.

    model: a network, or a program that was compiled for the accelerator. calibration: samples; without, the zeros
    between layers are not known. options: as such, or a recipe by name or file. ConfigurationError, ModelError or
    DataError for what does not fit; ProgramError for a program of another accelerator.
    """
    described = load_accelerator(accelerator)
    use = resources_of(described)
    program = None if model is None else _program(described, model, calibration, options)
    sample = None if program is None else estimate_sample(described, program, use.total)
    return Estimate(described, use, estimate_roofline(described), program, sample)


def _program(
    accelerator: Accelerator,
    model: str | Path | Network | Program,
    calibration: Given | None,
    options: CompileOptions | str | Path | None,
) -> Program:
    if isinstance(model, Program):
        if model.digest != accelerator.digest:
            raise ProgramError(
                f"program {model.name} was compiled for accelerator {model.accelerator} ({model.digest[:12]}), not for "
                f"{accelerator.name} ({accelerator.digest[:12]})"
            )
        return model
    network = read_network(model)
    samples = None if calibration is None else given_samples(calibration, network.inputs).inputs
    chosen = chosen_options(options)
    return compile_for_figures(network, accelerator, samples, chosen)
