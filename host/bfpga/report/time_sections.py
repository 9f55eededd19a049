"""Parts of a report's page about time: the roofline, where cycles go, the timeline, and what memories hold when."""

from __future__ import annotations

from bfpga.report import words
from bfpga.report.charts import performance as charts
from bfpga.report.model import LayerFigures, Report
from bfpga.report.page import COUNTED, ESTIMATED, SCHEDULED, Figure, Section, Table


def time_section(report: Report) -> Section:
    """The roofline, where cycles go, and all layers as a table."""
    roofline, cycles = report.roofline, report.estimate.cycles
    spent: dict[str, int] = {}
    for layer in report.layers:
        for name, share in layer.estimate.limits.items():
            spent[name] = spent.get(name, 0) + share
    whole = sum(spent.values()) or 1
    spent_rows = [
        (name, words.count(share), words.points(share / whole, 1))
        for name, share in sorted(spent.items(), key=lambda item: -item[1])
        if share
    ]
    figures = [
        Figure(
            "roofline",
            "Roofline",
            ESTIMATED,
            charts.roofline_chart(roofline, report.layers),
            "Lines: what the memory (at its assumed rate) and the weight stream feed, up to the array's peak. Points: "
            f"layers with products, as large as their time. The array gives {roofline.gmac_s:.1f} GMAC/s at most; "
            f"streamed weights keep it busy from {roofline.ridge_macs_per_byte:.0f} MAC/byte on. Work: a layer's "
            "products over its own time with transfers.",
        ),
        Figure(
            "limits",
            "Where cycles go",
            COUNTED,
            charts.limits_chart(report.layers),
            "Work of one sample: each operation by itself.",
        ),
    ]
    tables = [
        Table(
            "Cycles by what they are spent on", COUNTED, ("spent on", "cycles", "share"), spent_rows, frozenset({1, 2})
        ),
        Table(
            "Layers",
            COUNTED,
            ("layer", "engine", "MACs", "cycles", "transfer cycles", "bytes", "utilization", "most cycles go to"),
            [_layer_row(report, layer) for layer in report.layers],
            frozenset({2, 3, 4, 5, 6}),
            folded=True,
        ),
    ]
    lead = (
        f"Work of one sample: {words.count(cycles.compute_bound)} cycles computing, "
        f"{words.count(cycles.dma_inclusive)} with transfers"
    )
    lead += f"; schedule, overlapped: {words.count(cycles.schedule)} cycles."
    if report.measured is not None:
        lead += f" This run: {report.measured}."
    remarks = [report.measured.warning] if report.measured is not None and report.measured.warning else []
    return Section("time", "Where time goes", lead, figures, tables, remarks)


def _layer_row(report: Report, layer: LayerFigures) -> tuple[str, ...]:
    estimate, peak = layer.estimate, report.roofline.macs_per_clock
    on_array = layer.name in report.estimate.cycles.tile_clocks and estimate.cycles
    busy = words.points(estimate.tile_clocks / (estimate.cycles * peak), 1) if on_array else "-"
    return (
        layer.name,
        layer.engine,
        words.count(estimate.macs),
        words.count(estimate.cycles),
        words.count(estimate.transfer_cycles),
        words.count(estimate.bytes),
        busy,
        estimate.limit,
    )


def timeline_section(report: Report) -> Section:
    """When what runs."""
    clock, timeline = report.accelerator.clock_mhz, report.timeline
    labels = {layer.name: layer.label for layer in report.layers}
    moving = "Drag moves, Shift and wheel zoom, a double click shows all again."
    figures = [
        Figure(
            "timeline",
            "The schedule of one sample",
            SCHEDULED,
            charts.timeline_chart(timeline, clock, labels),
            f"Colours distinguish layers. {moving}",
        ),
    ]
    if report.overlap is not None:
        each = report.overlap.cycles / report.overlap.samples
        figures.append(
            Figure(
                "overlap",
                f"{report.overlap.samples} samples in one start",
                SCHEDULED,
                charts.timeline_chart(report.overlap, clock, labels),
                f"{words.count(each)} cycles a sample: loads of one sample run while another computes.",
            )
        )
    if report.cores is not None:
        each = report.cores.cycles / report.cores.samples
        figures.append(
            Figure(
                "cores",
                f"{report.cores.samples} starts on {report.accelerator.cores} cores",
                ESTIMATED,
                charts.timeline_chart(report.cores, clock, labels),
                f"{words.count(each)} cycles a start: whichever core is free takes the next one. All else is of one.",
            )
        )
    busy = [
        (lane, words.count(cycles), words.points(cycles / timeline.cycles if timeline.cycles else 0, 1))
        for lane, cycles in timeline.busy.items()
    ]
    tables = [Table("Busy", SCHEDULED, ("what", "cycles", "of the whole time"), busy, frozenset({1, 2}))]
    if report.host:
        tables.append(
            Table(
                "Left to the host",
                ESTIMATED,
                ("node", "operators", "operations", "node here, measured", "on the board, estimated"),
                [
                    (
                        work.name,
                        work.operators,
                        words.count(work.operations),
                        "" if work.seconds is None else words.seconds(work.seconds),
                        "-" if work.board_seconds is None else words.seconds(work.board_seconds),
                    )
                    for work in report.host
                ],
                frozenset({2, 3, 4}),
            )
        )
    lead = (
        f"{words.count(timeline.cycles)} cycles = {words.seconds(timeline.cycles / (1e6 * clock))}, the board's memory "
        f"giving its assumed {report.accelerator.board.assumed_gb_s:g} GB/s; the host's part is an estimate for one of "
        "the board's cores."
    )
    return Section("timeline", "Timeline", lead, figures, tables)


def memory_section(report: Report) -> Section:
    """Tensors in the activation memories."""
    memory = report.memory
    lead = (
        f"{memory.banks} banks of {words.count(memory.words)} words, {words.octets(memory.octets)}; at most "
        f"{words.points(memory.highest / memory.words, 1)} of them hold values that are still needed."
    )
    figure = Figure(
        "memory",
        "Activation memory over time",
        SCHEDULED,
        charts.memory_chart(memory, report.accelerator.clock_mhz, report.timeline.cycles),
        "A rectangle is a tensor (or a strip of it): the words that hold it, from its first write to its last read.",
    )
    return Section("memory", "Memory", lead, [figure])
