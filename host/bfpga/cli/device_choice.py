"""The device that `bfpga run` is asked for: one, or several boards that share the samples."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from bfpga import runtime
from bfpga.board.target_choice import VIRTUAL_RTL
from bfpga.contract.program import Program
from bfpga.devices.base import Device
from bfpga.errors import ConfigurationError
from bfpga.runtime import Progress
from bfpga.scale.choice import check_choice, open_workers


def device_name(device: str, boards: int | None) -> str:
    """The device, so many times; ConfigurationError unless it is a virtual board."""
    if boards is None:
        return device
    if device not in ("virtual", VIRTUAL_RTL):
        raise ConfigurationError(
            "--boards is for --device virtual; other boards are named one by one: --device remote:HOST1,remote:HOST2"
        )
    return ",".join([device] * boards)


@dataclass(frozen=True)
class DeviceChoice:
    """A device by its name; for several boards the seconds that each may take, and the scheduler that has them."""

    name: str
    board_seconds: float = 120.0
    scheduler: str | None = None

    @property
    def several(self) -> bool:
        """Whether these are boards that share samples."""
        return "," in self.name

    def check(self) -> None:
        """ConfigurationError for a scheduler without several boards, ToolError without Dask for these."""
        if self.several:
            check_choice(None if self.scheduler else 1, self.scheduler)
        elif self.scheduler:
            raise ConfigurationError("--scheduler is for several boards: --device remote:HOST1,remote:HOST2")

    def open(self, program: Program, undo: ExitStack) -> Device:
        """The device; what else it needs is released with ``undo``."""
        if not self.several:
            return runtime.open_device(self.name, program)
        from bfpga.board.many.pool import BoardPool
        from bfpga.scale.cluster import Cluster

        names = self.name.split(",")
        cluster = undo.enter_context(open_workers(None if self.scheduler else len(names), self.scheduler))
        assert isinstance(cluster, Cluster)
        return BoardPool(program, names, cluster, seconds=self.board_seconds)


def attach_progress(device: Device, show: Progress | None) -> None:
    """Show the progress of several boards."""
    if getattr(device, "spreads", False):
        device.progress = show  # type: ignore[attr-defined]
