"""Accelerators and recipes side by side for one network: typed figures, the same as a page, a picture and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.estimate.sample import estimate_sample
from bfpga.formats import notebook
from bfpga.report import words
from bfpga.report.accuracy import Accuracy, Share
from bfpga.synthesis.resources import resources_of


@dataclass(frozen=True)
class Entry:
    """A network on one accelerator with one recipe; one sample, resident weights already loaded.

    work: counted cycles with transfers; schedule: with all that overlaps. seconds: of
    array and host (estimated; of the array alone where ``includes_host`` is false). used, limits: the accelerator's
    resources and the board's. watts, joules: estimated. accuracy: None without samples.
    """

    accelerator: str
    recipe: str | None
    board: str
    clock_mhz: float
    work: int
    computing: int
    schedule: int
    utilization: float
    seconds: float
    includes_host: bool
    side_by_side: int
    used: dict[str, int]
    limits: dict[str, int]
    watts: float
    joules: float
    accuracy: Accuracy | None

    @property
    def name(self) -> str:
        """The accelerator, and the recipe if there is one."""
        return self.accelerator if self.recipe is None else f"{self.accelerator}, {self.recipe}"

    @property
    def correct(self) -> Share | None:
        """Samples whose largest output has the label's index; None without labels."""
        return None if self.accuracy is None else self.accuracy.correct

    @property
    def images_per_second(self) -> float:
        """Samples one after the other."""
        return self.side_by_side / self.seconds if self.seconds else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Resources as shares of the board's."""
        return {kind: self.used[kind] / limit for kind, limit in self.limits.items()}


@dataclass(frozen=True, repr=False)
class Comparison:
    """All pairs of accelerator and recipe that were asked for. refused: (name, reason) of those that do not work."""

    model: str
    samples: int
    entries: list[Entry]
    refused: list[tuple[str, str]]
    reference: Share | None = None
    reference_name: str = "float"

    def __repr__(self) -> str:
        fastest = min(self.entries, key=lambda item: item.seconds)
        said = [f"{len(self.entries)} choices" if len(self.entries) > 1 else "1 choice"]
        said += [f"{len(self.refused)} refused"] if self.refused else []
        said += [f"fastest {notebook.clipped(fastest.name)} {words.seconds(fastest.seconds)}"]
        right = best(self.entries).get("highest accuracy")
        if right is not None and right.correct is not None:
            said.append(f"highest accuracy {notebook.clipped(right.name)} {words.points(right.correct.value)}")
        return f"Comparison({notebook.clipped(self.model)}: {', '.join(said)})"

    def _repr_html_(self) -> str:
        latencies = [(item.name, 1e6 * item.seconds) for item in self.entries]
        return notebook.page(
            repr(self),
            notebook.table(HEADINGS, rows(self), HEADINGS[1:]),
            notebook.bars("latency of one sample (estimated)", latencies, "µs"),
            notebook.lines(*(f"{name}: {reason}" for name, reason in self.refused)),
        )


def entry(accelerator: Accelerator, recipe: str | None, program: Program, accuracy: Accuracy | None) -> Entry:
    """The figures of a compiled network."""
    board = accelerator.board
    total = resources_of(accelerator).total
    found = estimate_sample(accelerator, program, total)
    cycles = found.program.cycles
    return Entry(
        accelerator=accelerator.name,
        recipe=recipe,
        board=board.title,
        clock_mhz=accelerator.clock_mhz,
        work=cycles.dma_inclusive,
        computing=cycles.compute_bound,
        schedule=cycles.schedule,
        utilization=cycles.utilization,
        seconds=found.latency,
        includes_host=found.includes_host,
        side_by_side=program.side_by_side,
        used={kind: getattr(total, kind) for kind in board.resources},
        limits=dict(board.resources),
        watts=found.watts,
        joules=found.joules_alone(),
        accuracy=accuracy,
    )


def content(comparison: Comparison) -> dict[str, Any]:
    """The same for machines."""
    return {
        "model": comparison.model,
        "samples": comparison.samples,
        "reference": _share(comparison.reference),
        "entries": [_entry_content(item) for item in comparison.entries],
        "refused": [{"name": name, "reason": reason} for name, reason in comparison.refused],
    }


def _entry_content(item: Entry) -> dict[str, Any]:
    accuracy = item.accuracy
    return {
        "name": item.name,
        "accelerator": item.accelerator,
        "recipe": item.recipe,
        "board": item.board,
        "clock_mhz": item.clock_mhz,
        "accuracy": _share(item.correct),
        "agreement": _share(None if accuracy is None else accuracy.agreement),
        "cosine": None if accuracy is None else accuracy.cosine,
        "cycles_total": item.work,
        "cycles_compute": item.computing,
        "cycles_schedule": item.schedule,
        "utilization": item.utilization,
        "latency_s": item.seconds,
        "latency_includes_host": item.includes_host,
        "images_per_second": item.images_per_second,
        "resources": item.used,
        "board_resources": item.limits,
        "watts_estimated": item.watts,
        "joules_estimated": item.joules,
    }


def _share(share: Share | None) -> dict[str, Any] | None:
    if share is None:
        return None
    low, high = share.interval
    return {"value": share.value, "low": low, "high": high, "hits": share.hits, "samples": share.of}


#: Headings of ``rows``; resources are shares of each accelerator's own board.
HEADINGS = ("accelerator", "accuracy", "95 % interval", "as float", "work", "schedule", "latency", "images/s", "energy",
            "DSP", "BRAM36", "LUT", "FF")  # fmt: skip


#: What a table shows where a figure is missing.
NONE = "-"


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row of ``HEADINGS`` for each entry."""
    return [_row(item) for item in comparison.entries]


def _row(item: Entry) -> tuple[str, ...]:
    right = item.correct
    agreement = None if item.accuracy is None else item.accuracy.agreement
    return (
        item.name,
        NONE if right is None else words.points(right.value),
        NONE if right is None else words.interval(right),
        NONE if agreement is None else words.points(agreement.value, 1),
        words.count(item.work),
        words.count(item.schedule),
        words.seconds(item.seconds) + ("" if item.includes_host else " *"),
        words.rate(item.images_per_second),
        words.joules(item.joules),
        *(words.points(item.shares[kind], 0) for kind in ("dsp", "bram36", "lut", "ff")),
    )


def best(entries: Sequence[Entry]) -> dict[str, Entry]:
    """The entry that each question is answered by, by question; nothing of a single entry."""
    if len(entries) < 2:
        return {}
    found = {
        "shortest latency": min(entries, key=lambda item: item.seconds),
        "least energy": min(entries, key=lambda item: item.joules),
        "smallest share of its board": min(entries, key=lambda item: max(item.shares.values())),
    }
    judged = [item for item in entries if item.correct is not None]
    if judged:
        found["highest accuracy"] = max(
            judged, key=lambda item: (item.correct.value if item.correct else 0.0, -item.seconds)
        )
    return found
