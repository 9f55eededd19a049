"""The loops of a rendered kernel that state an interval: `#pragma HLS PIPELINE II=...` below a labelled loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_LABEL = re.compile(r"\s*(?P<label>[A-Za-z_]\w*):\s*$")
_LOOP = re.compile(r"\s*(for|while|do)\b")
_PIPELINE = re.compile(r"\s*#\s*pragma\s+HLS\s+PIPELINE\b(?P<options>.*)", re.IGNORECASE)
_INTERVAL = re.compile(r"\bII\s*=\s*(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class StatedLoop:
    """A labelled loop and the interval that its pragma states. ``file``: in the project; ``line``: of the label."""

    label: str
    interval: int
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.label} ({self.file}:{self.line})"


def stated_loops(sources: Mapping[str, str]) -> list[StatedLoop]:
    """All such loops of a project's C++: path -> text, in the order of the paths."""
    return [
        loop
        for path, text in sorted(sources.items())
        if path.endswith((".hpp", ".cpp"))
        for loop in _loops(path, text)
    ]


@lru_cache(maxsize=1024)
def _loops(path: str, text: str) -> tuple[StatedLoop, ...]:
    """The loops of one file; a build asks for those of every header once for each IP that includes it."""
    return tuple(_loops_of_lines(path, text.splitlines()))


def _loops_of_lines(path: str, lines: Sequence[str]) -> Iterator[StatedLoop]:
    for number, line in enumerate(lines):
        match = _LABEL.match(line)
        if match is None or number + 1 == len(lines) or not _LOOP.match(lines[number + 1]):
            continue
        interval = _interval(_pragmas(lines[number + 1 :]))
        if interval is not None:
            yield StatedLoop(match["label"], interval, path, number + 1)


def _pragmas(lines: Sequence[str]) -> Iterator[str]:
    """The pragmas directly below the head of the loop that begins with the first line."""
    inside = False
    for line in lines:
        if inside and line.lstrip().startswith("#"):
            yield line
        elif inside and line.strip() and not line.lstrip().startswith("//"):
            return
        inside = inside or line.partition("//")[0].rstrip().endswith("{")


def _interval(pragmas: Iterable[str]) -> int | None:
    """What a PIPELINE states; without `II=` it is 1 (UG1399, pragma HLS pipeline)."""
    for pragma in pragmas:
        match = _PIPELINE.match(pragma)
        if match and not re.search(r"\boff\b", match["options"], re.IGNORECASE):
            number = _INTERVAL.search(match["options"])
            return int(number[1]) if number else 1
    return None
