"""Faults for tests of drivers: each shows up in the model as it would on a board.

A fault waits until it matches; then it takes effect once (or, ``sticky``, every time) and is listed in ``fired``.
``after``: how many matching occasions pass unharmed first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from bfpga.errors import DeviceError

Channel: TypeAlias = Literal["mm2s", "s2mm"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What all faults share."""

    after: int = 0
    sticky: bool = False

    def __post_init__(self) -> None:
        """DeviceError for numbers that mean nothing."""
        for name in ("after", "at_byte", "byte", "beats", "after_bytes"):
            if getattr(self, name, 0) < 0:
                raise DeviceError(f"{type(self).__name__}: {name} is {getattr(self, name)}; it cannot be negative")
        for name in ("interval", "clocks_a_beat"):
            if not 1 <= getattr(self, name, 1) < float("inf"):
                raise DeviceError(f"{type(self).__name__}: {name} is {getattr(self, name)}; it must be 1 or more")
        if not 0 <= getattr(self, "bit", 0) <= 7:
            raise DeviceError(f"{type(self).__name__}: bit is {getattr(self, 'bit', 0)}; a byte has bits 0 to 7")


@dataclass(frozen=True, kw_only=True)
class DmaError(Fault):
    """The memory side of a DMA answers with an error when a transfer has moved ``at_byte`` bytes.

    Without so many bytes it happens at the end of the transfer. ``kind``: the bit of DMASR that it sets.
    """

    dma: str
    channel: Channel
    kind: Literal["internal", "slave", "decode"]
    at_byte: int = 0


@dataclass(frozen=True, kw_only=True)
class CorruptedTransfer(Fault):
    """A bit of DDR flips: before an MM2S transfer reads it, after an S2MM transfer wrote it.

    ``byte`` counts from the start address; beyond the transfer it wraps round.
    """

    dma: str
    channel: Channel
    byte: int = 0
    bit: int = 0


@dataclass(frozen=True, kw_only=True)
class CorruptedMemory(Fault):
    """A bit of DDR at ``physical`` flips between the processor's flush and the next read by a DMA."""

    physical: int
    bit: int = 0


@dataclass(frozen=True, kw_only=True)
class LostFlush(Fault):
    """One dirty cache line is not written back by a flush.

    The line at ``physical``, or the first dirty one of the next flush.
    """

    physical: int | None = None


@dataclass(frozen=True, kw_only=True)
class ShortPacket(Fault):
    """The next packet of a stream ends ``beats`` early; the rest is lost. At least one beat remains.

    ``stream``: either end of the link as `cell/port`, here and below.
    """

    stream: str
    beats: int = 1


@dataclass(frozen=True, kw_only=True)
class MissingLast(Fault):
    """The next TLAST of a stream is lost."""

    stream: str


@dataclass(frozen=True, kw_only=True)
class StuckStream(Fault):
    """A stream accepts ``after_bytes`` more bytes and then none until it is reset."""

    stream: str
    after_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class KernelNeverDone(Fault):
    """A start that never ends: ap_done is withheld (`end`), or the kernel does not begin (`start`)."""

    kernel: str
    stage: Literal["start", "end"] = "end"


@dataclass(frozen=True, kw_only=True)
class DroppedInterrupt(Fault):
    """The interrupt controller misses a rising edge of ``source`` (`cell/pin`) until that falls again."""

    source: str


@dataclass(frozen=True, kw_only=True)
class WrongClock(Fault):
    """The next setting of a clock of the logic lands at ``divisor_change`` off in its first divider."""

    clock: int = 0
    divisor_change: int = 1


@dataclass(frozen=True, kw_only=True)
class SlowKernel(Fault):
    """The next start takes ``interval`` clocks for each clock of its schedule: loops that miss their interval.

    Values and the register `cycles` are as ever; only the clock counter shows it.
    """

    kernel: str
    interval: float = 2.0


@dataclass(frozen=True, kw_only=True)
class SlowStream(Fault):
    """A stream moves a beat in ``clocks_a_beat`` clocks in the next start; the clock counter shows the waits."""

    stream: str
    clocks_a_beat: float = 4.0


F = TypeVar("F", bound=Fault)


@dataclass
class _Armed:
    fault: Fault
    skip: int


class Faults:
    """The faults of one board. ``validate`` raises for a fault that names what the board does not have."""

    def __init__(self, validate: Callable[[Fault], None] | None = None) -> None:
        self._validate = validate
        self._armed: list[_Armed] = []
        self._fired: list[Fault] = []

    @property
    def pending(self) -> tuple[Fault, ...]:
        """Faults that wait for their occasion, in the order of injection."""
        return tuple(armed.fault for armed in self._armed)

    @property
    def fired(self) -> tuple[Fault, ...]:
        """Faults that took effect, oldest first."""
        return tuple(self._fired)

    def inject(self, *faults: Fault) -> None:
        """Let faults wait for their occasion; DeviceError if one names an unknown cell or stream."""
        for fault in faults:
            if self._validate:
                self._validate(fault)
        self._armed += [_Armed(fault, fault.after) for fault in faults]

    def clear(self) -> None:
        """Forget all faults, waiting and fired. What has taken effect already stays (a reset ends it)."""
        self._armed.clear()
        self._fired.clear()

    def take(self, kind: type[F], matches: Callable[[F], bool]) -> F | None:
        """The occasion for faults of a kind: the first that matches takes effect now."""
        for armed in self._armed:
            fault = armed.fault
            if not isinstance(fault, kind) or not matches(fault):
                continue
            if armed.skip > 0:
                armed.skip -= 1
                continue
            if not fault.sticky:
                self._armed.remove(armed)
            self._fired.append(fault)
            return fault
        return None
