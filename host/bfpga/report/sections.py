"""A report as a page: which figures and tables it has, with what each number is."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.estimate.hardware import FULL
from bfpga.report import words
from bfpga.report.accuracy_sections import accuracy_section, layers_section
from bfpga.report.hardware_sections import (
    dispatch_section,
    environment_section,
    loops_section,
    partition_section,
    resources_section,
)
from bfpga.report.histograms import histograms_section
from bfpga.report.model import Report
from bfpga.report.page import COUNTED, ESTIMATED, MEASURED, SCHEDULED, Fact, Page
from bfpga.report.time_sections import memory_section, time_section, timeline_section


def report_page(report: Report) -> Page:
    """The page of a report."""
    board = report.accelerator.board
    sections = [
        accuracy_section(report),
        layers_section(report),
        histograms_section(report),
        time_section(report),
        timeline_section(report),
        memory_section(report),
        resources_section(report),
        dispatch_section(report),
        partition_section(report),
        loops_section(report.hardware),
        environment_section(report),
    ]
    return Page(
        f"{report.model} on {report.accelerator.name}",
        f"{board.title} at {report.accelerator.clock_mhz:g} MHz, {report.device}, {words.count(report.samples)} "
        f"samples, {report.environment.created}",
        list(facts(report)),
        [section for section in sections if section is not None],
        [
            "Work: cycles of every operation by itself, counted by the model that emulator, C simulation and boards "
            "agree with. Schedule: the same operations as processes overlap them, from an event model. Estimated: from "
            "assumed rates or a model of the device. Measured: on the samples, or on the machine that is named.",
        ],
    )


def facts(report: Report) -> Iterator[Fact]:
    """The numbers that are looked for first."""
    found, reference = report.accuracy.correct, report.accuracy.reference_correct
    if found is not None:
        yield Fact("accuracy", words.points(found.value), f"95 % interval {words.interval(found)}", MEASURED)
    if found is not None and reference is not None:
        change = 100 * (found.value - reference.value)
        lost = max(reference.interval[0], 0) > found.value
        note = f"{report.accuracy.reference} {words.points(reference.value)}"
        yield Fact(
            "against " + report.accuracy.reference, f"{change:+.2f} points", note, MEASURED, "warn" if lost else ""
        )
    elif report.accuracy.agreement is not None:
        yield Fact(
            "same largest output",
            words.points(report.accuracy.agreement.value),
            f"as {report.accuracy.reference}",
            MEASURED,
        )
    where = "array and host" if report.host and report.latency_includes_host else "the array alone"
    yield Fact("latency", words.seconds(report.latency_s), f"{where}, one sample", ESTIMATED)
    yield Fact("throughput", f"{words.rate(report.images_per_second)} /s", "one sample after the other", ESTIMATED)
    note = f"one sample, at {report.watts:.1f} W of the device"
    yield Fact("energy", words.joules(report.joules), note, ESTIMATED)
    cycles = report.estimate.cycles
    yield Fact("cycles", words.count(cycles.schedule), "schedule of one sample", SCHEDULED)
    yield Fact(
        "utilization",
        words.points(cycles.utilization, 1),
        f"of {report.roofline.macs_per_clock} MAC/cycle while it computes",
        COUNTED,
    )
    total, limits = report.parts["total"], report.accelerator.board.resources
    kind, share = max(((kind, getattr(total, kind) / limit) for kind, limit in limits.items()), key=lambda x: x[1])
    yield Fact(
        "fullest resource", words.points(share, 1), kind.upper(), report.parts_basis, "warn" if share > FULL else ""
    )
