"""What a synthesis found out about an accelerator: intervals, clocks and sizes of its loops.

``bfpga synthesize`` finds it, ``estimate`` prints it. The figures of an IP belong to its sources, by their digest:
another kernel's figures are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from bfpga.engines.kernel.counted_resources import SHELL_PART, STREAMS

#: Share of a resource that a routed design may use, interconnect and DMAs included. Beyond it, a small change no longer
#: routes, or misses its timing.
ROUTED_LIMITS = {"lut": 0.8, "ff": 0.8, "bram36": 0.92, "uram": 0.92, "dsp": 1.0}
FULL = ROUTED_LIMITS["lut"]

#: Kinds of resources in words.
KINDS = {"dsp": "DSP", "bram36": "BRAM36", "uram": "URAM", "lut": "LUT", "ff": "FF"}


def kinds_of(limits: Mapping[str, int]) -> dict[str, str]:
    """The kinds that a board has, in words. limits: its resources."""
    return {kind: title for kind, title in KINDS.items() if kind in limits}


@dataclass(frozen=True)
class Area:
    """Cells of a device: look-up tables that compute and that store, flip-flops, DSP blocks, memory blocks."""

    lut: int = 0
    lut_memory: int = 0
    ff: int = 0
    dsp: int = 0
    bram18: int = 0
    uram: int = 0

    def __add__(self, other: Area) -> Area:
        return Area(*(one + two for one, two in zip(asdict(self).values(), asdict(other).values(), strict=True)))

    def times(self, copies: int) -> Area:
        """The cells of so many copies."""
        return Area(*(copies * one for one in asdict(self).values()))

    @property
    def tables(self) -> int:
        """Look-up tables, whatever they do."""
        return self.lut + self.lut_memory

    @property
    def used(self) -> dict[str, float]:
        """What is taken of each resource that a board states."""
        return {"dsp": self.dsp, "bram36": self.bram36, "uram": self.uram, "lut": self.tables, "ff": self.ff}

    @property
    def bram36(self) -> float:
        """Blocks of 36 Kbit; a half is one of 18 Kbit."""
        return self.bram18 / 2


@dataclass(frozen=True)
class IntervalLimit:
    """Why a loop's interval is no smaller. ``lines``: file:line around the recurrence; ``delay``: ns around it."""

    reason: str
    interval: int
    subject: str
    delay: float
    distance: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class LoopFigures:
    """A pipelined loop as hardware.

    ``interval``: of its schedule; ``slack``: ns that the worst path leaves at the clock; ``carried``: ns of the longest
    recurrence at interval 1 in the mapped netlist, 0 where it was not mapped; ``carried_by``: its registers; ``path``:
    ns of the mapped netlist's longest path between two registers. ``limits``: what makes it slower than it states.
    ``parts``: functions of the loop with how often they are there and the cells of all of them. ``ip``: the IP that it
    belongs to.
    """

    name: str
    place: str
    stated_interval: int
    interval: int
    depth: int
    slack: float
    worst: tuple[str, ...]
    operations: int
    register_bits: int
    limits: tuple[IntervalLimit, ...]
    area: Area = field(default_factory=Area)
    carried: float = 0.0
    carried_by: tuple[str, ...] = ()
    parts: tuple[tuple[str, int, Area], ...] = ()
    path: float = 0.0
    ip: str = ""

    @property
    def is_slow(self) -> bool:
        """Whether the interval is longer than the stated one."""
        return self.interval > self.stated_interval

    @property
    def title(self) -> str:
        """Name and place."""
        return f"{self.name} ({self.place})"


@dataclass(frozen=True)
class WholePath:
    """The longest path between two registers of an IP that was mapped in one piece: ns, and what the registers hold."""

    delay: float = 0.0
    begin: str = ""
    end: str = ""


@dataclass(frozen=True)
class IpFigures:
    """An IP of a kernel. ``area``: all of it, mapped in one piece, if ``is_whole``; else its loops, each by itself,
    with its memories, and nothing of what stands between the loops.

    ``path``: ns of the longest path between two registers, ``between`` them in words; of its mapped loops alone where
    that of the whole IP is not known.
    """

    name: str
    area: Area
    is_whole: bool
    loops: Area
    path: float
    between: str = ""


@dataclass(frozen=True)
class HardwareFigures:
    """All loops of an accelerator's kernel, its memories, and the shell around the kernel.

    ``sources``: digest of the sources of each IP; ``period`` and ``usable``: ns of the clock, and of it for logic.
    ``memories``: of all IPs, by ``memories_of``; ``streams``: the FIFOs between the IPs. ``wholes``: cells of IPs that
    were mapped in one piece, with all that they have; ``whole_paths``: their longest paths. ``cores``: copies of the
    kernel; ``infrastructure`` is of all.
    """

    accelerator: str
    part: str
    sources: dict[str, str]
    period: float
    usable: float
    loops: tuple[LoopFigures, ...]
    memories: Area = field(default_factory=Area)
    infrastructure: Area = field(default_factory=Area)
    counted: bool = False
    memories_of: dict[str, Area] = field(default_factory=dict)
    streams: Area = field(default_factory=Area)
    wholes: dict[str, Area] = field(default_factory=dict)
    cores: int = 1
    whole_paths: dict[str, WholePath] = field(default_factory=dict)

    @property
    def kernel(self) -> Area:
        """Cells of one kernel's IPs, and of the streams between them."""
        alone = [loop.area for loop in self.loops if loop.ip not in self.memories_of]
        beside = Area() if self.memories_of else self.memories
        return sum((ip.area for ip in self.ips), sum(alone, beside + self.streams))

    @property
    def parts(self) -> dict[str, Area]:
        """Cells of every IP, of the streams between them, in all copies, and of the shell around the kernels."""
        return {
            **{ip.name: ip.area.times(self.cores) for ip in self.ips},
            STREAMS: self.streams.times(self.cores),
            SHELL_PART: self.infrastructure,
        }

    @property
    def ips(self) -> tuple[IpFigures, ...]:
        """The IPs of a kernel that has several, each with what belongs to it."""
        return tuple(self._ip(name, memories) for name, memories in self.memories_of.items() if name)

    def _ip(self, name: str, memories: Area) -> IpFigures:
        own = [loop for loop in self.loops if loop.ip == name]
        loops, whole = sum((loop.area for loop in own), Area()), self.wholes.get(name)
        area = loops + memories if whole is None else whole
        path = self.whole_paths.get(name)
        if path is not None:
            between = f"from `{path.begin}` to `{path.end}`"
            return IpFigures(name, area, whole is not None, loops, path.delay, between)
        slowest = max(own, key=lambda loop: loop.path, default=None)
        delay, between = (slowest.path, f"in {slowest.title}") if slowest is not None else (0.0, "")
        return IpFigures(name, area, whole is not None, loops, delay, between)

    @property
    def total(self) -> Area:
        """Cells of the kernels, interconnect and DMAs."""
        return self.kernel.times(self.cores) + self.infrastructure


def findings(figures: HardwareFigures, resources: dict[str, int]) -> list[str]:
    """What keeps an accelerator from its board, a sentence each.

    ``resources``: what the board has (dsp, bram36, lut, ff, and uram where it has some).
    """
    found = []
    for loop in figures.loops:
        if loop.is_slow:
            found.append(_interval_finding(loop))
        if loop.slack < 0:
            worst = ", ".join(loop.worst[-3:])
            found.append(f"{loop.title}: the worst path misses the clock by {-loop.slack:.2f} ns, through {worst}")
    for ip in figures.ips:
        if ip.path > figures.period:
            found.append(f"{ip.name}: the longest path takes {ip.path:.2f} ns of {figures.period:.2f}, {ip.between}")
    if figures.counted:
        for kind, limit in resources.items():
            amount, most = figures.total.used[kind], ROUTED_LIMITS[kind]
            if amount > most * limit:
                share = 100 * amount / limit
                found.append(f"{kind.upper()}: {amount:,.0f} of {limit:,} ({share:.0f} %), above {100 * most:.0f} %")
    return found


def _interval_finding(loop: LoopFigures) -> str:
    binding = max(loop.limits, key=lambda limit: limit.interval, default=None)
    text = f"{loop.title}: interval {loop.interval}, stated {loop.stated_interval}"
    if binding is None or binding.interval <= loop.stated_interval:
        return f"{text}; no schedule at a shorter interval was found"
    around = " -> ".join(binding.lines)
    if binding.reason == "ports":
        return f"{text}; {binding.subject} is accessed more often in an iteration than it has ports: {around}"
    distance = "from one iteration to the next" if binding.distance == 1 else f"over {binding.distance} iterations"
    return f"{text}; {binding.subject}: {binding.delay:.1f} ns {distance}: {around}"
