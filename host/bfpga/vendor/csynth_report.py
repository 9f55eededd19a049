"""The report of C synthesis (`csynth.xml`) as data: what each loop, the clock and the size of a kernel became.

Read are the reports of Vivado HLS (2018.3 seen) and Vitis HLS (2021.1 to 2023.2 seen): root `profile`, loops as
elements named after their labels, nested as the loops are. From 2020.2 on `ModuleInformation` lists every function;
before, the file holds the top function alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bfpga.errors import DataError
from bfpga.formats.files import read_file

#: Reports of large designs have some megabytes.
LARGEST_FILE = 1 << 28
#: What an element of a loop has and other elements of a report do not.
_LOOP_FIELDS = ("TripCount", "PipelineII", "IterationLatency", "Latency")
#: Resources by our name -> the names that versions of the tool give them.
_RESOURCES = {"lut": ("LUT",), "ff": ("FF",), "dsp": ("DSP", "DSP48E"), "bram18": ("BRAM_18K",), "uram": ("URAM",)}
#: What the tool appends to the label of a loop that it has copied.
_COPY = re.compile(r"\.\d+$")


@dataclass(frozen=True)
class ReportedLoop:
    """A loop as it was scheduled. ``module``: the function it is in; ``path``: the loops around it, outermost first.

    ``interval``: clocks from one iteration to the next, None where the loop is not pipelined. ``depth``: clocks of one
    iteration. ``trip_count``: least and most iterations. None where the tool does not know.
    """

    name: str
    module: str
    path: tuple[str, ...]
    interval: int | None
    depth: int | None
    trip_count: tuple[int, int] | None

    @property
    def label(self) -> str:
        """The label without the number that the tool gives to copies of one loop."""
        return _COPY.sub("", self.name)

    def has_label(self, label: str) -> bool:
        """Whether this is the loop of a label in the source; nests that were flattened join their labels with `_`."""
        return self.label == label or self.label.endswith(f"_{label}")


@dataclass(frozen=True)
class ReportedClock:
    """Nanoseconds: the period that was asked for, the margin the tool keeps, the longest path as it estimates it."""

    target_ns: float
    uncertainty_ns: float
    estimated_ns: float

    @property
    def slack_ns(self) -> float:
        """What the estimate leaves of the period without the margin."""
        return self.target_ns - self.uncertainty_ns - self.estimated_ns


@dataclass(frozen=True)
class CsynthReport:
    """What C synthesis reports. ``used``, ``available``: lut, ff, dsp, bram18, uram, as far as they are named."""

    version: str
    part: str
    top: str
    clock: ReportedClock
    loops: tuple[ReportedLoop, ...]
    used: Mapping[str, int]
    available: Mapping[str, int]

    def loops_of(self, label: str) -> list[ReportedLoop]:
        """All loops of a label in the source: one for each copy that the tool has made."""
        return [loop for loop in self.loops if loop.has_label(label)]


def read_csynth_report(path: str | Path) -> CsynthReport:
    """The report in a file; DataError with its path and one reason if it is none or is not complete."""
    path = Path(path)
    try:
        root = ElementTree.fromstring(read_file(path, LARGEST_FILE))
    except OSError as error:
        raise DataError(f"{path}: cannot read the report of C synthesis: {error.strerror or error}") from None
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not a whole report of C synthesis: {error}; was the file cut short?") from None
    if root.tag != "profile":
        raise DataError(f"{path}: not a report of C synthesis: its root is `{root.tag}`, not `profile`")
    return _Reader(path, root).report()


class _Reader:
    def __init__(self, path: Path, root: ElementTree.Element) -> None:
        self._path = path
        self._root = root

    def report(self) -> CsynthReport:
        assigned = "UserAssignments"
        top = self._text(f"{assigned}/TopModelName")
        estimated = "PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod"
        clock = ReportedClock(
            self._number(f"{assigned}/TargetClockPeriod"),
            self._number(f"{assigned}/ClockUncertainty", 0.0),
            self._number(estimated),
        )
        return CsynthReport(
            self._text("ReportVersion/Version", ""),
            self._text(f"{assigned}/Part", ""),
            top,
            clock,
            tuple(self._loops(top)),
            self._resources("AreaEstimates/Resources"),
            self._resources("AreaEstimates/AvailableResources"),
        )

    def _loops(self, top: str) -> Iterator[ReportedLoop]:
        """Every loop once: those of the top function are in two places where the file lists its functions."""
        modules = self._root.findall("ModuleInformation/Module")
        named = [((module.findtext("Name") or "").strip(), module) for module in modules]
        for name, module in named or [(top, self._root)]:
            summary = module.find("PerformanceEstimates/SummaryOfLoopLatency")
            if summary is not None:
                yield from self._below(summary, name, ())

    def _below(self, element: ElementTree.Element, module: str, path: tuple[str, ...]) -> Iterator[ReportedLoop]:
        for child in element:
            if not any(child.find(name) is not None for name in _LOOP_FIELDS):
                continue
            name = (child.findtext("Name") or child.tag).strip()
            yield ReportedLoop(
                name,
                module,
                path,
                self._count(child, "PipelineII"),
                self._count(child, "PipelineDepth") or self._count(child, "IterationLatency"),
                self._range(child, "TripCount"),
            )
            yield from self._below(child, module, (*path, name))

    def _count(self, loop: ElementTree.Element, name: str) -> int | None:
        """A whole number of a loop, the largest where a range is given; None where the tool says `undef` or nothing."""
        found = self._range(loop, name)
        return None if found is None else found[1]

    @staticmethod
    def _range(loop: ElementTree.Element, name: str) -> tuple[int, int] | None:
        element = loop.find(name)
        if element is None:
            return None
        inside = element.find("range")
        texts = [element.text] * 2 if inside is None else [inside.findtext("min"), inside.findtext("max")]
        numbers = [(text or "").strip() for text in texts]
        return (int(numbers[0]), int(numbers[1])) if all(text.isdecimal() for text in numbers) else None

    def _resources(self, place: str) -> dict[str, int]:
        found = {}
        for name, tags in _RESOURCES.items():
            texts = [(self._root.findtext(f"{place}/{tag}") or "").strip() for tag in tags]
            number = next((text for text in texts if text.isdecimal()), None)
            if number is not None:
                found[name] = int(number)
        return found

    def _text(self, place: str, default: str | None = None) -> str:
        text = (self._root.findtext(place) or "").strip()
        if not text and default is None:
            raise DataError(f"{self._path}: the report of C synthesis has no {place}: it is not complete")
        return text or str(default)

    def _number(self, place: str, default: float | None = None) -> float:
        text = self._text(place, None if default is None else str(default))
        try:
            return float(text)
        except ValueError:
            raise DataError(f"{self._path}: {place} of the report of C synthesis is {text!r}, not a number") from None
