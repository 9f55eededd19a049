"""Clocks that hardware really took, and those that it should take.

`cycles` is counted work, equal on all devices. A kernel does several pieces of work at once: what it needs is the
schedule (docs/kernel.md), if every loop reaches its interval and memory keeps up. `clocks` are measured by a counter
outside the kernel. What they differ by is unexplained: a loop that misses its interval, or a depth that the schedule
does not count. Waits of streams explain nothing but the begin of a start, as other processes work meanwhile.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import add
from typing import Any

#: Share of the expected clocks that may be unexplained before it is reported.
UNEXPLAINED_SHARE = 0.03
#: Clocks of a start that may be: from the start to the first descriptor, from the last beat to the interrupt.
START_CLOCKS = 32
#: Clocks that the streams of a kernel may wait at the begin of a start: the host launches the DMAs then.
BEGIN_WAITS = 128


@dataclass(frozen=True)
class MeasuredClocks:
    """Clocks of kernel starts. ``counted``: their work; ``waits``: with any stream waiting.

    ``scheduled``: clocks of their schedule, if no stream waits; 0 until it is known. The waits of single streams may
    add up to more than ``waits``: two can wait in one clock.
    """

    clocks: int = 0
    counted: int = 0
    waits: int = 0
    input_waits: int = 0
    weight_waits: int = 0
    output_waits: int = 0
    starts: int = 0
    scheduled: int = 0

    def __add__(self, other: MeasuredClocks) -> MeasuredClocks:
        return MeasuredClocks(*map(add, vars(self).values(), vars(other).values()))

    def __str__(self) -> str:
        """Clocks, counted work and waits in one line."""
        waits = f"input {self.input_waits:,}, weights {self.weight_waits:,}, output {self.output_waits:,}"
        expected = f"{self.scheduled:,} of the schedule for {self.counted:,} of work"
        return f"{self.clocks:,} clocks measured, {expected}, {self.waits:,} with a stream waiting ({waits})"

    @property
    def explained(self) -> int:
        """Clocks that waits account for."""
        return min(self.waits, BEGIN_WAITS * self.starts)

    @property
    def unexplained(self) -> int:
        """Clocks that neither the schedule nor a wait accounts for; negative if waits overlap the work."""
        return self.clocks - self.scheduled - self.explained

    @property
    def tolerance(self) -> int:
        """Clocks that may be unexplained without a warning."""
        return int(UNEXPLAINED_SHARE * self.scheduled) + START_CLOCKS * self.starts

    @property
    def warning(self) -> str | None:
        """One sentence or two if the measurement contradicts the schedule, else None."""
        # The schedule is a model, which hardware may beat by a little.
        if self.clocks < self.scheduled // 2:
            return (
                f"the clock counter measured {self.clocks:,} clocks, but the schedule alone has {self.scheduled:,}: "
                "the counter does not watch the kernel. Build the bitstream again from its accelerator"
            )
        if self.unexplained <= self.tolerance:
            return None
        memory = "memory does not keep up, or " if self.explained < self.waits else ""
        return (
            f"the hardware took {self.clocks:,} clocks; its schedule has {self.scheduled:,} and streams waited in "
            f"{self.waits:,}: {self.unexplained:,} are unexplained. Likely {memory}a loop of the kernel does not reach "
            "its interval: compare the intervals in the report of C synthesis (docs/build-bitstream.md)"
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers and the warning, for a JSON report."""
        return {**asdict(self), "unexplained": self.unexplained, "warning": self.warning}
