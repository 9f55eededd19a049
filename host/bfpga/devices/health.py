"""What became of one of several boards that shared samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class BoardHealth:
    """One board. samples, parts: that it answered; seconds: that it took for them.

    failures: the first line of each error, oldest first; failed self-tests included. taken_out, returned: how often it
    was taken out of service and came back. in_service: whether it is now.
    """

    name: str
    samples: int = 0
    parts: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    taken_out: int = 0
    returned: int = 0
    in_service: bool = False

    @property
    def samples_per_second(self) -> float:
        """Throughput while it was at work; 0 if it never was."""
        return self.samples / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """All of it for a JSON report."""
        return {**asdict(self), "samples_per_second": self.samples_per_second}
