"""What a search found as a page that needs no network: figures, charts and tables."""

from __future__ import annotations

from bfpga.explore.candidate import RESTRICTED
from bfpga.explore.figures import Point
from bfpga.explore.picture import front_chart, loss_chart
from bfpga.explore.results import Row, recommended
from bfpga.explore.search import Exploration
from bfpga.explore.tables import HEADINGS, table_row
from bfpga.report import words
from bfpga.report.page import ESTIMATED, MEASURED, Fact, Figure, Page, Section, Table

#: Columns of ``HEADINGS`` that are numbers.
_NUMERIC = frozenset(range(1, 9)) | {10, 11}
_CLOCK = {"modelled": "good", "missed": "warn"}
FOOTNOTE = (
    "Time, energy and resources are estimates (docs/estimates.md); resources are counted where the package has the "
    "netlist of a ready accelerator. Accuracy is measured on the emulator, which is bit-exact with the "
    "kernel. A clock is modelled where the code was synthesised (--synthesize); no vendor's tool has confirmed one."
)


def page(found: Exploration, front: list[Row]) -> Page:
    """The page of a search. front: its points with the names of their files."""
    task = found.task
    lead = (
        f"{found.trials} trials, {found.refused} of them refused before they were compiled; objective "
        f"{task.goal.objective}, seed {task.seed}"
    )
    tables = [_table("Front", found, [(row.point, row.name) for row in front])]
    if found.ready:
        ready = sorted(found.ready, key=task.goal.first)
        tables.append(_table("Ready accelerators", found, [(point, point.name) for point in ready]))
    sections = [Section("front", "Front", "", _figures(found), tables)]
    facts = _facts(found, front)
    return Page(f"{task.network.name} on {task.board.title}", lead, facts, sections, [FOOTNOTE])


def _figures(found: Exploration) -> list[Figure]:
    if not found.points:
        return []
    caption = (
        "Below and left is better; hover for the accelerator. Unfit: too large, too inexact, or the clock is missed. "
        "What takes four times as long is left out."
    )
    figures = [Figure("front", "Energy against time", ESTIMATED, front_chart(found), caption)]
    if found.task.judge is not None or any(point.figures.loss is not None for point in found.points):
        basis, chart = f"{MEASURED}; {ESTIMATED}", loss_chart(found)
        figures.append(Figure("loss", "Lost accuracy against time", basis, chart, "Below and left is better."))
    return figures


def _facts(found: Exploration, front: list[Row]) -> list[Fact]:
    if not front:
        return [Fact("best point", "none", "nothing fits and keeps the accuracy", "", "warn")]
    goal = found.task.goal
    best = recommended(front, goal)[0]
    figures = best.point.figures
    rate = f"{words.rate(1 / figures.seconds)} a second"
    facts = [
        Fact("time of a sample", words.seconds(figures.seconds), rate, ESTIMATED),
        Fact("one alone", words.seconds(figures.latency), best.name, ESTIMATED),
        Fact("energy of a sample", words.joules(figures.joules), "a model to compare with", ESTIMATED),
    ]
    if figures.loss is not None and figures.accuracy is not None:
        facts.append(Fact("accuracy lost", f"{figures.loss:.2f} points", f"{figures.accuracy:.2f} %", MEASURED))
    if "static_exponents" in best.point.candidate.extras:
        facts.append(Fact("exponents", "static", RESTRICTED, "", "warn"))
    facts.append(Fact("clock", best.point.clock, best.point.missed, "", _CLOCK.get(best.point.clock, "")))
    exact = [point for point in found.ready if (point.figures.loss or 0.0) <= goal.drop]
    if exact:
        first = min(exact, key=goal.first)
        times = goal.time(first.figures) / goal.time(figures)
        facts.append(Fact("against ready ones", f"{times:.2f} x", f"as fast as {first.name}", ESTIMATED))
    return facts


def _table(title: str, found: Exploration, points: list[tuple[Point, str]]) -> Table:
    rows = [table_row(found, point, name) for point, name in points]
    return Table(title, f"{ESTIMATED}; {MEASURED}", HEADINGS, rows, _NUMERIC)
