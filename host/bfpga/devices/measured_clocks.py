"""Clocks that hardware really took, beside the clocks of the schedule that the kernel counts.

`cycles` is counted work: what the schedule needs if every loop reaches its interval and no stream waits, equal on all
devices. `clocks` are measured by a counter beside the kernel. What they differ by beyond the waits of the streams is
unexplained: a loop that misses its interval, or a depth that the schedule does not count.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: Share of the counted clocks that may be unexplained before it is reported.
UNEXPLAINED_SHARE = 0.03
#: Clocks of a start that may be: from the start to the first descriptor, from the last beat to the interrupt.
START_CLOCKS = 32


@dataclass(frozen=True)
class MeasuredClocks:
    """Clocks of kernel starts. ``counted``: those of their schedule; ``waits``: with any stream waiting.

    The waits of single streams may add up to more than ``waits``: two can wait in one clock.
    """

    clocks: int = 0
    counted: int = 0
    waits: int = 0
    input_waits: int = 0
    weight_waits: int = 0
    output_waits: int = 0
    starts: int = 0

    def __add__(self, other: MeasuredClocks) -> MeasuredClocks:
        mine, theirs = asdict(self), asdict(other)
        return MeasuredClocks(**{name: mine[name] + theirs[name] for name in mine})

    def __str__(self) -> str:
        """Clocks, counted work and waits in one line."""
        waits = f"input {self.input_waits:,}, weights {self.weight_waits:,}, output {self.output_waits:,}"
        return (
            f"{self.clocks:,} clocks measured, {self.counted:,} counted by the schedule, {self.waits:,} with a stream "
            f"waiting ({waits})"
        )

    @property
    def unexplained(self) -> int:
        """Clocks that neither the schedule nor a wait accounts for; negative if waits overlap the work."""
        return self.clocks - self.counted - self.waits

    @property
    def tolerance(self) -> int:
        """Clocks that may be unexplained without a warning."""
        return int(UNEXPLAINED_SHARE * self.counted) + START_CLOCKS * self.starts

    @property
    def warning(self) -> str | None:
        """One sentence or two if the measurement contradicts the schedule, else None."""
        if self.counted - self.clocks > self.tolerance:
            return (
                f"the clock counter measured {self.clocks:,} clocks, but the schedule alone has {self.counted:,}: the "
                "counter does not watch the kernel. Build the bitstream again from its accelerator"
            )
        if self.unexplained <= self.tolerance:
            return None
        return (
            f"the hardware took {self.clocks:,} clocks; its schedule has {self.counted:,} and streams waited in "
            f"{self.waits:,}: {self.unexplained:,} are unexplained. Likely a loop of the kernel does not reach its "
            "interval: compare the intervals in the report of C synthesis (docs/build-bitstream.md)"
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers and the warning, for a JSON report."""
        return {**asdict(self), "unexplained": self.unexplained, "warning": self.warning}
