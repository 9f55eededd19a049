"""A comparison as a page, and as one picture."""

from __future__ import annotations

from bfpga.report import words
from bfpga.report.charts import comparison as charts
from bfpga.report.comparison import HEADINGS, Comparison, Entry, best, rows
from bfpga.report.page import COUNTED, ESTIMATED, MEASURED, SCHEDULED, Fact, Figure, Page, Section, Spec, Table
from bfpga.report.theme import standalone


def page(comparison: Comparison) -> Page:
    """The page of a comparison."""
    entries = comparison.entries
    facts = [
        Fact(question, item.name, _answer(question, item), _basis(question)) for question, item in best(entries).items()
    ]
    sections = [_overview(comparison), _time(comparison), _resources(comparison)]
    title = f"{comparison.model}: {len(entries)} choices side by side"
    samples = f"{words.count(comparison.samples)} samples" if comparison.samples else "no samples: no accuracy"
    return Page(title, f"{', '.join(item.name for item in entries)}; {samples}", facts, sections, [charts.FOOTNOTE])


def picture(comparison: Comparison) -> Spec:
    """All charts of the page in one, as Vega-Lite that needs no page around it."""
    specs = [
        ("latency, estimated", charts.latency_chart(comparison.entries)),
        ("energy of one sample, estimated", charts.energy_chart(comparison.entries)),
        ("resources, estimated", charts.resources_chart(comparison.entries)),
    ]
    if _judged(comparison):
        specs.insert(0, ("accuracy, measured", charts.accuracy_chart(comparison)))
    return standalone(comparison.model, specs)


def _judged(comparison: Comparison) -> bool:
    return any(item.correct is not None for item in comparison.entries)


def _overview(comparison: Comparison) -> Section:
    figures = []
    if _judged(comparison):
        figures = [
            Figure(
                "accuracy",
                "Accuracy, with 95 % intervals",
                MEASURED,
                charts.accuracy_chart(comparison),
                "Intervals that overlap: these samples cannot distinguish the choices.",
                wide=False,
            ),
            Figure(
                "tradeoff",
                "Accuracy against latency",
                f"{MEASURED}; {ESTIMATED}",
                charts.tradeoff_chart(comparison.entries),
                "Up and left is better.",
                wide=False,
            ),
        ]
    table = Table(
        "Side by side",
        f"{MEASURED}; {COUNTED}; {ESTIMATED}",
        HEADINGS,
        rows(comparison),
        frozenset(range(1, len(HEADINGS))),
        charts.TABLE_NOTE,
    )
    remarks = [f"{name}: {reason}" for name, reason in comparison.refused]
    return Section("overview", "Side by side", "", figures, [table], remarks)


def _time(comparison: Comparison) -> Section:
    figures = [
        Figure(
            "cycles",
            "Cycles of one sample",
            f"{COUNTED}; {SCHEDULED}",
            charts.cycles_chart(comparison.entries),
            "Work: every operation by itself. Schedule: as processes overlap it, waits included.",
        ),
        Figure(
            "latency",
            "Latency of one sample",
            ESTIMATED,
            charts.latency_chart(comparison.entries),
            "Array and host, the memory at its board's assumed rate.",
            wide=False,
        ),
        Figure(
            "energy",
            "Energy of one sample",
            ESTIMATED,
            charts.energy_chart(comparison.entries),
            "From public figures of power (estimate/energy.py); nothing was measured.",
            wide=False,
        ),
    ]
    return Section("time", "Time and energy", "", figures)


def _resources(comparison: Comparison) -> Section:
    figure = Figure(
        "resources",
        "Shares of each accelerator's own board",
        ESTIMATED,
        charts.resources_chart(comparison.entries),
        "Dashed: the share up to which designs route.",
    )
    kinds = ("dsp", "bram36", "lut", "ff")
    amounts = [
        (item.name, item.board, f"{item.clock_mhz:g}", *(words.count(item.used[kind]) for kind in kinds))
        for item in comparison.entries
    ]
    headings = ("accelerator", "board", "MHz", "DSP", "BRAM36", "LUT", "FF")
    table = Table("Amounts", ESTIMATED, headings, amounts, frozenset(range(2, 7)))
    return Section("resources", "Resources", "", [figure], [table])


def _answer(question: str, item: Entry) -> str:
    if question == "highest accuracy" and item.correct is not None:
        return f"{words.points(item.correct.value)}, 95 % interval {words.interval(item.correct)}"
    if question == "shortest latency":
        return f"{words.seconds(item.seconds)}, {words.rate(item.images_per_second)} images/s"
    if question == "least energy":
        return f"{words.joules(item.joules)} a sample, {item.watts:.1f} W"
    return f"{words.points(max(item.shares.values()), 0)} of its fullest resource"


def _basis(question: str) -> str:
    return MEASURED if question == "highest accuracy" else ESTIMATED
