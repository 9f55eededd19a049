"""`bfpga estimate --board`: which ready accelerator of a board is fastest for a network and the zeros that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bfpga.accelerator.boards import Board, load_board
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.api.figures import resources_of
from bfpga.cli import output, work
from bfpga.cli.report_host import rate
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.program import ArrayNode, Program
from bfpga.errors import BfpgaError, ConfigurationError
from bfpga.estimate.program import STREAM
from bfpga.explore.figures import Figures, program_figures
from bfpga.explore.task import zero_weights


@dataclass(frozen=True)
class Offer:
    """An accelerator for the network: its figures and what zeros do there, or why it cannot run the network."""

    accelerator: Accelerator
    why: str
    figures: Figures | None = None

    @property
    def images_per_second(self) -> float:
        return 0.0 if self.figures is None else 1 / self.figures.seconds


@dataclass(frozen=True)
class Zeros:
    """Shares of zeros: of all weights, and of the inputs of layers with weights where samples say them."""

    weights: float
    inputs: float | None


def estimate(board: str, network: Network, samples: Calibration | None, options: CompileOptions) -> dict[str, Any]:
    """Compare the ready accelerators of a board and print what was found; the same as data. Errors: ``compare``."""
    return show(*compare(board, network, samples, options), network)


def compare(
    board: str, network: Network, samples: Calibration | None, options: CompileOptions
) -> tuple[Board, list[Offer], Zeros]:
    """The board, its ready accelerators, the fastest first, and the zeros of the network.

    ConfigurationError for a board without any, and where none can run the network.
    """
    described = load_board(board)
    ready = [one for one in map(load_accelerator, accelerator_names()) if one.board == described]
    if not ready:
        raise ConfigurationError(
            f"no ready accelerator is for {described.title}; bfpga explore MODEL --board {board} searches for some"
        )
    offers, zeros = [], Zeros(zero_weights(network), None)
    for accelerator in ready:
        try:
            program = work.compile_for_estimate(accelerator, network, samples, options)
        except BfpgaError as error:
            offers.append(Offer(accelerator, str(error)))
        else:
            offers.append(_offer(accelerator, program))
            zeros = _with_inputs(zeros, program)
    if all(offer.figures is None for offer in offers):
        raise ConfigurationError(f"no ready accelerator of {described.title} runs the network: {offers[0].why}")
    return described, sorted(offers, key=lambda offer: -offer.images_per_second), zeros


def _zeros_text(program: Program) -> str:
    """What an array does with zeros."""
    config = program.config
    if not config.array.skip_groups(config):
        return "multiplies zeros like other numbers"
    if config.array.stores_blocks:
        return "zero weights take no time"
    known = config.array.stores_entries or any(node.input_density is not None for node in _array_nodes(program))
    unknown = "" if known else "; not known without samples, so none is assumed"
    return f"zero {config.array.zeros} take no time{unknown}"


def _array_nodes(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode)]


def _offer(accelerator: Accelerator, program: Program) -> Offer:
    figures = program_figures(accelerator, program, resources_of(accelerator).total)
    return Offer(accelerator, _zeros_text(program), figures)


def _with_inputs(zeros: Zeros, program: Program) -> Zeros:
    """With the zeros of inputs, where a program's samples counted them: for layers whose array may skip them."""
    known = [node.input_density for node in _array_nodes(program) if node.input_density is not None]
    return Zeros(zeros.weights, 1 - sum(known) / len(known)) if known else zeros


def show(board: Board, offers: Sequence[Offer], zeros: Zeros, network: Network) -> dict[str, Any]:
    """Print the accelerators, the fastest first, and which one to take; the same as data."""
    able = [offer for offer in offers if offer.figures is not None]
    rows = [
        (offer.accelerator.name, f"{offer.accelerator.clock_mhz:g}", round(offer.figures.cycles),
         rate(offer.images_per_second), offer.why)
        for offer in able if offer.figures is not None
    ]  # fmt: skip
    headers = ["accelerator", "MHz", "cycles*", "images/s", "zeros"]
    output.table(f"{network.name} on the ready accelerators of {board.title}", headers, rows)
    output.say(
        f"* of one sample among {STREAM}, by the schedule; images/s at the accelerator's own clock, with the host's "
        "operators after it"
    )
    for offer in offers:
        if offer.figures is None:
            output.say(f"{offer.accelerator.name} cannot run it: {offer.why}")
    output.say(_zero_words(zeros))
    output.say(_advice(able))
    return content(board, offers, zeros, network)


def _zero_words(zeros: Zeros) -> str:
    inputs = "not known without samples (-d)" if zeros.inputs is None else f"{100 * zeros.inputs:.1f} %"
    return f"zeros of the weights: {100 * zeros.weights:.1f} %; of what layers read, a mean of layers: {inputs}"


def _advice(able: Sequence[Offer]) -> str:
    best, others = able[0], able[1:]
    assert best.figures is not None
    text = f"recommended: {best.accelerator.name}, {rate(best.images_per_second)} images/s"
    if others:
        factor = best.images_per_second / others[0].images_per_second
        text += f", {factor:.2f} times as fast as {others[0].accelerator.name}"
    return text


def content(board: Board, offers: Sequence[Offer], zeros: Zeros, network: Network) -> dict[str, Any]:
    """All figures as plain data; accelerators that cannot run the network have a reason and no figures."""
    return {
        "model": network.name,
        "board": board.name,
        "recommended": offers[0].accelerator.name,
        "zero_weights": zeros.weights,
        "zero_inputs": zeros.inputs,
        "accelerators": [
            {
                "accelerator": offer.accelerator.name,
                "clock_mhz": offer.accelerator.clock_mhz,
                "runs": offer.figures is not None,
                "why": offer.why,
                "cycles": None if offer.figures is None else offer.figures.cycles,
                "latency_s": None if offer.figures is None else offer.figures.latency,
                "images_per_second": offer.images_per_second or None,
            }
            for offer in offers
        ],
    }
