"""Parts of a report's page about the accelerator: resources, engines, partitions, loops, and what made the report."""

from __future__ import annotations

from bfpga.estimate.hardware import FULL, HardwareFigures, LoopFigures, kinds_of
from bfpga.report import words
from bfpga.report.charts import hardware as charts
from bfpga.report.model import Report
from bfpga.report.page import COUNTED, ESTIMATED, MEASURED, Figure, Section, Table

#: Layers whose pieces are drawn; the others are in the table.
DRAWN_PARTITIONS = 4
NETLIST = "counted in a netlist"


def resources_section(report: Report) -> Section:
    """What the accelerator takes of its board."""
    board = report.accelerator.board
    limits, figures = board.resources, report.hardware
    basis = NETLIST if report.parts_basis == "counted" else report.parts_basis
    # In addition to a model by hand the netlist shows what the code takes.
    counted = figures.total if figures is not None and figures.counted and basis != NETLIST else None
    kinds = kinds_of(limits)
    rows = [(name, *(words.count(getattr(part, kind)) for kind in kinds)) for name, part in report.parts.items()]
    rows.append((board.title, *(words.count(limits[kind]) for kind in kinds)))
    total = report.parts["total"]
    rows.append(("used", *(words.points(getattr(total, kind) / limits[kind], 1) for kind in kinds)))
    if counted is not None:
        rows.append(("netlist of the code", *(words.count(counted.used[kind]) for kind in kinds)))
    chart = charts.resources_chart(report.parts, limits, counted)
    caption = f"Dashed: the whole board, and the {FULL:.0%} up to which designs route reliably."
    if counted is not None:
        caption += " Red: cells of the netlist that `bfpga synthesize` counted, interconnect and DMAs included."
    figure = Figure("resources", f"Of {board.title}", basis, chart, caption)
    table = Table("Parts", basis, ("part", *kinds.values()), rows, frozenset(range(1, 1 + len(kinds))))
    lead = f"{report.accelerator.name} for {board.title} ({board.part}) at {report.accelerator.clock_mhz:g} MHz."
    return Section("resources", "Resources", lead, [figure], [table])


def dispatch_section(report: Report) -> Section:
    """The units that compute each layer."""
    operations = sum(work.operations for work in report.host)
    figure = Figure(
        "dispatch",
        "Shares of the engines",
        COUNTED,
        charts.dispatch_chart(report.layers, operations),
        "A multiply-accumulate counts two operations of the host. Cycles are the kernel's; the host has none.",
    )
    lead = "What the array does not compute is the host's."
    return Section("dispatch", "Engines", lead, [figure], [], report.remarks)


def partition_section(report: Report) -> Section | None:
    """Pieces of maps whose zeros are skipped."""
    if not report.partitions:
        return None
    labels = {layer.name: layer.label for layer in report.layers}
    figures = []
    drawn = [item for item in report.partitions if item.counts.size > 1]
    for number, item in enumerate(drawn[:DRAWN_PARTITIONS]):
        label = labels.get(item.layer, item.layer)
        figures.append(
            Figure(
                f"partition{number}",
                f"{label}: pieces",
                MEASURED,
                charts.partition_chart(item),
                "Dashed: equal size. Solid: equal work"
                + (f", each for {item.sharers} units that take its values in turn" if item.sharers > 1 else "")
                + ". Grey: what is not zero, in all channels.",
                wide=False,
            )
        )
        figures.append(
            Figure(
                f"loads{number}",
                f"{label}: work of each unit",
                MEASURED,
                charts.loads_chart(item),
                "The busiest unit decides how long a channel word takes.",
                wide=False,
            )
        )
    rows = [
        (
            labels.get(item.layer, item.layer),
            f"{_imbalance(item.equal.loads):.2f}",
            f"{_imbalance(item.balanced.loads):.2f}",
            words.count(item.equal.cycles),
            words.count(item.balanced.cycles),
            ("equal work" if item.taken else "equal size")
            + (f", {item.sharers} units a piece" if item.sharers > 1 else ""),
        )
        for item in report.partitions
    ]
    headings = (
        "layer",
        "busiest / mean, equal size",
        "busiest / mean, equal work",
        "cycles, equal size",
        "cycles, equal work",
        "taken",
    )
    table = Table("Before and after", COUNTED, headings, rows, frozenset({1, 2, 3, 4}))
    lead = (
        "Units share a layer's input. Pieces of equal size leave some idle where zeros gather; pieces of equal work "
        "are found by the hardware as it loads. One sample, the first strip of each layer; finding the pieces counts."
    )
    return Section("partition", "Sparse layers: before and after balancing", lead, figures, [table])


def _imbalance(loads: list[int]) -> float:
    """Busiest unit over the mean; 1 without work."""
    return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


def loops_section(figures: HardwareFigures | None) -> Section | None:
    """The kernel's loops as `bfpga synthesize` found them."""
    if figures is None:
        return None
    loops = list(figures.loops)
    headings = ("loop", "at", "II stated", "II", "depth", "slack, ns", "carried, ns", "LUT", "FF", "DSP")
    table = Table(
        "Loops",
        NETLIST if figures.counted else ESTIMATED,
        headings,
        [_loop_row(loop) for loop in loops],
        frozenset(range(2, len(headings))),
    )
    slow = ", ".join(f"{loop.name} {loop.interval} instead of {loop.stated_interval}" for loop in loops if loop.is_slow)
    late = ", ".join(f"{loop.name} by {-loop.slack:.2f} ns" for loop in loops if loop.slack < 0)
    remarks = []
    if slow:
        remarks.append(f"Intervals longer than the cycles above count with: {slow}. The hardware would be slower.")
    if late:
        remarks.append(f"Paths that miss the clock: {late}.")
    lead = (
        f"{figures.part} at {figures.period:.2f} ns, {figures.usable:.2f} ns usable. Kept figures of `bfpga synthesize "
        f"{figures.accelerator}`, for the present sources of the kernel; no vendor's tool was used."
    )
    return Section("loops", "Loops of the kernel", lead, [], [table], remarks)


def _loop_row(loop: LoopFigures) -> tuple[str, ...]:
    return (
        loop.name,
        loop.place,
        str(loop.stated_interval),
        str(loop.interval),
        str(loop.depth),
        f"{loop.slack:.2f}",
        f"{loop.carried:.1f}" if loop.carried else "-",
        *map(words.count, (loop.area.tables, loop.area.ff, loop.area.dsp)),
    )


def environment_section(report: Report) -> Section:
    """What repeats the report."""
    made = report.environment
    program = report.program
    rows = [
        ("accelerator", report.accelerator.name, report.accelerator.digest),
        ("program's accelerator", program.accelerator, program.digest),
    ]
    rows += [(file.role, f"{file.name}, {words.octets(file.octets)}", file.sha256) for file in made.files]
    versions = [*made.versions.items(), ("machine", made.machine), ("system", made.system)]
    tables = [
        Table("Digests (SHA-256)", MEASURED, ("what", "name", "digest"), rows),
        Table("Environment", MEASURED, ("what", "version"), versions),
    ]
    return Section("environment", "Environment and digests", f"Made on {made.created}.", [], tables)
