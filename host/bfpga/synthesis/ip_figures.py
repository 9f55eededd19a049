"""Figures of a kernel's IPs, each with the sources that they belong to, and the file that holds them.

A file has a line with the name of the accelerator, one for each IP and, below it, one for each of its loops, as JSON
without what is at its default. Places are `file@token`: the lines on which the tokens stand change with comments, the
figures do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from bfpga.accelerator.loader import Accelerator
from bfpga.engines.interface.fifos import stream_cells
from bfpga.engines.interface.shell import SHELL
from bfpga.estimate.hardware import Area, HardwareFigures, LoopFigures, WholePath
from bfpga.formats.files import read_file, replace_file
from bfpga.synthesis.meaning import line_place, source_name, token_place

_LARGEST = 1 << 24


@dataclass(frozen=True)
class IpRecord:
    """What was found out about an IP. ``sources``: digest of what it was compiled from; ``whole``: cells of all of it,
    mapped in one piece, with its longest ``path``; None if only its loops have been counted."""

    name: str
    sources: str
    memories: Area = field(default_factory=Area)
    loops: tuple[LoopFigures, ...] = ()
    whole: Area | None = None
    path: WholePath | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of it has been counted and timed."""
        return self.whole is not None and self.path is not None


_LOOP = TypeAdapter(LoopFigures)
_IP = TypeAdapter(IpRecord)


def ip_records(figures: HardwareFigures) -> dict[str, IpRecord]:
    """The IPs of a kernel by their names."""
    records = {}
    for name, sources in figures.sources.items():
        own = tuple(loop for loop in figures.loops if loop.ip == name)
        whole, path = figures.wholes.get(name), figures.whole_paths.get(name)
        records[name] = IpRecord(name, sources, figures.memories_of[name], own, whole, path)
    return records


def kernel_figures(accelerator: Accelerator, ips: Mapping[str, IpRecord], counted: bool = True) -> HardwareFigures:
    """Figures of a kernel from those of its IPs, in their order, with what stands beside them."""
    period = 1000 / accelerator.clock_mhz
    lut, stored, ff, halves = stream_cells(accelerator.config)
    return HardwareFigures(
        accelerator=accelerator.name,
        part=accelerator.board.part,
        sources={name: ip.sources for name, ip in ips.items()},
        period=period,
        usable=period - period * accelerator.wire_percent("") / 100,
        loops=tuple(replace(loop, ip=name) for name, ip in ips.items() for loop in ip.loops),
        memories=sum((ip.memories for ip in ips.values()), Area()),
        infrastructure=Area(lut=SHELL.lut, ff=SHELL.ff, bram18=2 * SHELL.bram36).times(accelerator.cores),
        cores=accelerator.cores,
        counted=counted,
        memories_of={name: ip.memories for name, ip in ips.items()},
        streams=Area(lut=lut, lut_memory=stored, ff=ff, bram18=halves),
        wholes={name: ip.whole for name, ip in ips.items() if ip.whole is not None},
        whole_paths={name: ip.path for name, ip in ips.items() if ip.path is not None},
    )


def write_records(accelerator: str, ips: Mapping[str, IpRecord], sources: Mapping[str, str], path: Path) -> None:
    """Keep the figures of an accelerator's IPs; the file appears whole or not at all. ``sources``: path -> text."""
    lines: list[dict[str, Any]] = [{"accelerator": accelerator}]
    named = {source_name(file): text for file, text in sources.items()}
    for ip in ips.values():
        lines.append(_IP.dump_python(ip, exclude={"loops"}, exclude_defaults=True))
        for loop in ip.loops:
            kept = _with_places(loop, lambda place: token_place(place, named))
            lines.append(_LOOP.dump_python(kept, exclude={"ip"}, exclude_defaults=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def read_records(path: Path, sources: Mapping[str, str]) -> dict[str, IpRecord]:
    """The figures that a file holds, by IP; none if there is no such file or it is damaged."""
    named = {source_name(file): text for file, text in sources.items()}
    found: dict[str, IpRecord] = {}
    try:
        for line in read_file(path, _LARGEST).decode().splitlines()[1:]:
            content = json.loads(line)
            if "sources" in content:
                ip = _IP.validate_python(content)
            else:
                loop = _with_places(_LOOP.validate_python(content), lambda place: line_place(place, named))
                ip = replace(ip, loops=(*ip.loops, replace(loop, ip=ip.name)))
            found[ip.name] = ip
    except (OSError, ValueError, TypeError, NameError):
        return {}
    return found


def _with_places(loop: LoopFigures, changed: Callable[[str], str]) -> LoopFigures:
    """A loop with all its places changed."""
    limits = (replace(limit, lines=tuple(map(changed, limit.lines))) for limit in loop.limits)
    worst = tuple(map(changed, loop.worst))
    return replace(loop, place=changed(loop.place), worst=worst, limits=tuple(limits))
