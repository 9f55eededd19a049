"""What a board's failure looks like to a user: one exception with everything that was read from the hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bfpga.errors import DeviceError


@dataclass(frozen=True)
class BoardDiagnosis:
    """The state of a board at the moment of a failure.

    what: one sentence. cause, remedy: the likely cause and what to try. hardware: one line for each DMA channel and for
    the kernel. explanation: what a virtual board sees and a real one would hide. aftermath: how the device was left.
    """

    what: str
    cause: str
    remedy: str
    hardware: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()
    aftermath: str = ""

    def text(self) -> str:
        """All of it, a fact a line."""
        lines = [self.what, f"likely cause: {self.cause}", f"try: {self.remedy}"]
        lines += [f"  {line}" for line in self.hardware]
        lines += [f"  virtual board: {line}" for line in self.explanation]
        return "\n".join(lines + ([self.aftermath] if self.aftermath else []))


class BoardError(DeviceError):
    """A board that cannot be opened, is not what the manifest says, or failed in a run.

    After an error in a run the device is clean again, but the kernel has lost weights and policies: whoever loaded
    them loads them again before the next start.
    """

    def __init__(self, message: str | BoardDiagnosis) -> None:
        self.diagnosis = message if isinstance(message, BoardDiagnosis) else None
        super().__init__(message.text() if isinstance(message, BoardDiagnosis) else message)


@dataclass(frozen=True)
class Difference:
    """One thing of an overlay that is not as its manifest says."""

    what: str
    expected: str
    found: str
    cause: str = ""


@dataclass
class Differences:
    """All of them, so that a user mends an overlay once."""

    found: list[Difference] = field(default_factory=list)

    def compare(self, what: str, expected: object, found: object, cause: str = "") -> None:
        """Note a difference; integers above a byte are shown as addresses."""
        if expected != found:
            self.found.append(Difference(what, _shown(expected), _shown(found), cause))

    def add(self, what: str, expected: object, found: object, cause: str = "") -> None:
        """Note a difference that was found by other means than equality."""
        self.found.append(Difference(what, _shown(expected), _shown(found), cause))

    def error(self, title: str) -> BoardError:
        """One error with every difference."""
        causes: Sequence[str] = list(dict.fromkeys(d.cause for d in self.found if d.cause))
        lines = [title, *(f"  {d.what}: expected {d.expected}, found {d.found}" for d in self.found)]
        return BoardError("\n".join(lines + [f"likely cause: {cause}" for cause in causes]))


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 255:
        return f"{value:#x}"
    return "nothing" if value is None else str(value)
