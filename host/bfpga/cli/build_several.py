"""What `bfpga build` does with its orders: one build after the other here, or each on a worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bfpga.cli import build_report as shown
from bfpga.cli import output, work
from bfpga.cli.options import ScaleOptions
from bfpga.errors import ConfigurationError
from bfpga.vendor.bitstream.diagnosis import duration
from bfpga.vendor.bitstream.farm import BuildOrder, Built, build_all, end_leftovers
from bfpga.vendor.bitstream.pipeline import check_stages, run_build


def check(orders: Sequence[BuildOrder]) -> None:
    """ConfigurationError for stages that there are not, and for two builds of one name: their overlays are one."""
    check_stages(orders[0].until, orders[0].redo_from)
    names = [order.accelerator.name for order in orders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"two accelerators have the name {twice!r}; their overlays would be one")


def build_here(orders: Sequence[BuildOrder], dry_run: bool, json: Path | None) -> int:
    """One build after the other, each with its stages as they run; the exit code."""
    contents, codes = [], []
    for order in orders:
        build = order.build()
        for note in build.tools.notes(order.accelerator.board):
            output.note(f"note: {note}")
        with shown.interruptible(), shown.reporting() as reporter:
            report = run_build(build, reporter, order.until, order.redo_from)
        contents.append(shown.content(build, report))
        _write(json, contents, len(orders) > 1)
        if dry_run:
            shown.show_plan(build)
        else:
            shown.show_outcome(build, report)
        codes.append(shown.exit_code(report))
    return _worst(codes)


def build_on_workers(orders: Sequence[BuildOrder], scale: ScaleOptions, json: Path | None) -> int:
    """Builds side by side, each shown when it and those before it have ended; the exit code."""
    found: list[Built] = []
    with shown.interruptible():
        try:
            with work.opened_workers(scale) as workers, output.progress("building") as show:
                for built in build_all(workers, orders, show):
                    found.append(built)
                    _show(built)
                    _write(json, [shown.content(item.build, item.report) for item in found], len(orders) > 1)
        finally:
            if scale.workers is not None:  # a worker that was ended leaves its tools running
                for said in end_leftovers([order.settings.directory for order in orders[len(found) :]]):
                    output.note(f"note: {said}")
    return _worst([shown.exit_code(built.report) for built in found])


def _show(built: Built) -> None:
    for note in (*built.build.tools.notes(built.build.design.accelerator.board), *built.notes):
        output.note(f"note: {note}")
    shown.show_outcome(built.build, built.report)
    seconds = sum(item.seconds for item in built.report.outcomes if item.status == "done")
    output.note(f"{built.build.design.accelerator.name}: {built.report.failed_stage or 'done'}, {duration(seconds)}")


def _write(json: Path | None, contents: list[dict[str, Any]], several: bool) -> None:
    """The results so far; of several builds as a list."""
    output.write_json(json, {"builds": contents} if several else contents[0])


def _worst(codes: Sequence[int]) -> int:
    return next((code for code in (shown.FAILED, shown.NO_TOOLS) if code in codes), shown.DONE)
