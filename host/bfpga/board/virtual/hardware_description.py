"""A hardware handoff (.hwh) as data: what a board has to know of a design, without any import of pynq.

Read are the files that Vivado writes (2019.2 to 2025.x, EDWVERSION 1.2) and those rendered from an accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Name of the processing system's IP, by family.
PROCESSING_SYSTEM_IP = {"processing_system7": "zynq7", "zynq_ultra_ps_e": "zynqmp"}


@dataclass(frozen=True)
class Instance:
    """A cell. ``name``: its path in the hierarchy, as in `overlay.ip_dict` (`video/axi_vdma`)."""

    name: str
    vlnv: str
    parameters: Mapping[str, str]

    @property
    def ip(self) -> str:
        """Name of the IP without vendor, library and version."""
        return self.vlnv.split(":")[2]


@dataclass(frozen=True)
class RegisterEntry:
    """A register of an address block; ``access`` as in the file, empty where it does not say."""

    name: str
    offset: int
    bits: int
    access: str


@dataclass(frozen=True)
class AddressRange:
    """Addresses that a master sees. ``usage``: register or memory; ``registers`` may be unknown."""

    master: str
    master_interface: str
    instance: str
    interface: str
    base: int
    size: int
    usage: str
    registers: tuple[RegisterEntry, ...] = ()


@dataclass(frozen=True)
class StreamLink:
    """An AXI4-Stream link, source to sink.

    through: pass-through cells on the way. beat_bytes: width at the source. buffer_bytes: depth of data FIFOs.
    sink_bytes: width at the sink, 0 where the file is silent.
    """

    source: str
    source_port: str
    sink: str
    sink_port: str
    through: tuple[str, ...]
    beat_bytes: int
    buffer_bytes: int
    sink_bytes: int = 0

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as `cell/port`."""
        return f"{self.source}/{self.source_port}", f"{self.sink}/{self.sink_port}"


@dataclass(frozen=True)
class InterruptInput:
    """An input of an interrupt controller and the pin that drives it."""

    controller: str
    index: int
    source: str
    pin: str


@dataclass(frozen=True)
class InterruptLine:
    """An interrupt line of the processor (its number in the GIC) and the pin that drives it."""

    number: int
    source: str
    pin: str


@dataclass(frozen=True)
class PlClock:
    """A clock of the programmable logic. ``source``: the PLL as the file names it; divisors 0 where it is silent."""

    index: int
    enabled: bool
    frequency_mhz: float
    divisor0: int
    divisor1: int
    source: str


@dataclass(frozen=True)
class HardwareDescription:
    """A design. ``ranges``: what the processor sees; ``master_ranges``: what bus masters of the logic see.

    ``clock_counters``: the clock counters by name, each with the kernel that it watches.
    """

    name: str
    vivado: str
    family: str
    processing_system: str
    instances: Mapping[str, Instance]
    clocks: tuple[PlClock, ...]
    ranges: tuple[AddressRange, ...]
    master_ranges: tuple[AddressRange, ...]
    streams: tuple[StreamLink, ...]
    interrupt_inputs: tuple[InterruptInput, ...]
    interrupt_lines: tuple[InterruptLine, ...]
    clock_counters: Mapping[str, str] = field(default_factory=dict)

    def range_of(self, instance: str) -> AddressRange | None:
        """Where the processor finds an instance; the first of several ranges."""
        return next((r for r in self.ranges if r.instance == instance), None)

    def memory_of(self, instance: str, interface: str) -> tuple[int, int] | None:
        """First address and size of what a bus master reaches; None where the file does not say."""
        ranges = [
            (r.base, r.base + r.size)
            for r in self.master_ranges
            if (r.master, r.master_interface) == (instance, interface) and r.usage == "memory"
        ]
        if not ranges:
            return None
        base = min(first for first, _ in ranges)
        return base, max(end for _, end in ranges) - base
