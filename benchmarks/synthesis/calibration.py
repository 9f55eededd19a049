"""Loops whose interval, depth and clock a vendor's tool has published, against what `bfpga.synthesis` finds.

    pip install "bfpga[synthesis]"
    python -m benchmarks.synthesis.calibration [--table FILE]

The kernels of kernels/ have the structure of loops in public reports; published.yaml says what the tool reported and
where. Ends with status 1 if fewer than 28 of 30 intervals are equal, or if more than a fifth of the estimated clocks is
further off than 20 % of what was published.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from benchmarks.common.command import command
from benchmarks.common.report import finish, table
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.frontend.kernel import analyse_source
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Schedule

HERE = Path(__file__).parent
#: Share of the intervals that must be equal, and how far an estimated clock may be off as a share of the published one.
EQUAL, TOLERANCE = 28 / 30, 0.2
#: Share of the estimated clocks that must be within the tolerance.
WITHIN = 0.8


@dataclass(frozen=True)
class Published:
    """A loop of a public report. ``depth`` in clocks, ``estimate`` in ns; None where the report does not say."""

    kernel: str
    loop: str
    title: str
    where: str
    part: str
    clock: float
    forwards: bool
    interval: int
    depth: int | None
    estimate: float | None


@dataclass(frozen=True)
class Compared:
    """A published loop beside our schedule of its kernel."""

    published: Published
    schedule: Schedule

    @property
    def estimate(self) -> float:
        """The longest path between two registers, ns."""
        return self.schedule.period - self.schedule.uncertainty - self.schedule.slack

    @property
    def off(self) -> float | None:
        """Distance of the estimate from the published one, as a share of that."""
        published = self.published.estimate
        return None if published is None else self.estimate / published - 1


def published_loops(path: Path = HERE / "published.yaml") -> list[Published]:
    """The loops of the table."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = []
    for entry in content["loops"]:
        source = content["sources"][entry["source"]]
        found.append(
            Published(
                entry["kernel"],
                entry["loop"],
                source["title"],
                entry["where"],
                source["part"],
                float(source["clock"]),
                entry.get("forwards", source["forwards"]),
                entry["interval"],
                entry.get("depth"),
                entry.get("estimate"),
            )
        )
    return found


@cache
def bodies_of(kernel: str) -> dict[str, LoopBody]:
    """The loops of a file of kernels/ by their labels."""
    return {body.name: body for body in analyse_source(HERE / "kernels" / f"{kernel}.cpp").loops}


def compare(published: Published) -> Compared:
    """Schedule the kernel of a published loop for the same part, clock and tool."""
    body = bodies_of(published.kernel)[published.loop]
    return Compared(published, schedule_loop(body, published.part, Clock.default(published.clock), published.forwards))


def rows(compared: Iterable[Compared]) -> list[list[str]]:
    """The table's rows: published against ours."""
    return [
        [
            f"`{each.published.loop}`",
            each.published.where,
            f"{each.published.part.split('-')[0]}, {each.published.clock:g} ns",
            f"{each.published.interval} / {each.schedule.interval}",
            "" if each.published.depth is None else f"{each.published.depth} / {each.schedule.depth}",
            "" if each.published.estimate is None else f"{each.published.estimate:.2f} / {each.estimate:.2f}",
        ]
        for each in compared
    ]


def missed_goals(compared: Sequence[Compared]) -> list[str]:
    """What the calibration does not reach."""
    different = [each.published.loop for each in compared if each.schedule.interval != each.published.interval]
    known = [each for each in compared if each.off is not None]
    far = [each.published.loop for each in known if abs(each.off or 0.0) > TOLERANCE]
    missed = []
    if len(different) > (1 - EQUAL) * len(compared):
        missed.append(f"{len(different)} of {len(compared)} intervals differ: {', '.join(different)}")
    if len(far) > (1 - WITHIN) * len(known):
        missed.append(f"{len(far)} of {len(known)} clocks are off by more than {TOLERANCE:.0%}: {', '.join(far)}")
    return missed


def summary(compared: Sequence[Compared]) -> str:
    """The counts in a sentence."""
    equal = sum(each.schedule.interval == each.published.interval for each in compared)
    deep = [each for each in compared if each.published.depth is not None]
    same = sum(each.schedule.depth == each.published.depth for each in deep)
    near = sum(abs(each.schedule.depth - (each.published.depth or 0)) <= 1 for each in deep)
    known = [each for each in compared if each.off is not None]
    within = sum(abs(each.off or 0.0) <= TOLERANCE for each in known)
    return (
        f"Interval equal in {equal} of {len(compared)} loops; depth equal in {same} of {len(deep)}, within one clock "
        f"in {near}; estimated clock within {TOLERANCE:.0%} in {within} of {len(known)}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = command(__doc__, "--table").parse_args(arguments)
    compared = [compare(published) for published in published_loops()]
    head = ["loop", "published as", "part and clock", "interval", "depth", "clock, ns"]
    text = f"{table(head, rows(compared))}\n\n{summary(compared)}\n"
    return finish(text, options.table, missed_goals(compared))


if __name__ == "__main__":
    sys.exit(main())
