"""The cores of a loaded overlay: each is the board of a kernel of its own.

Only loading the overlay resets a kernel, and with it all others. So a core that fails stops moving data and stays out,
while the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bfpga.board.errors import BoardError
from bfpga.board.hardware import BoardHardware
from bfpga.board.kernel import Board, BoardKernel
from bfpga.contract.program import Program
from bfpga.devices.base import Device
from bfpga.devices.streaming_device import StreamingDevice


class BoardOfCores(Board, Protocol):
    """An overlay with several cores."""

    @property
    def cores(self) -> tuple[BoardHardware, ...]:
        """What each of them has; others after ``recover``."""
        ...


class CoreBoard:
    """One core as the board of its kernel; all that is not the core's is the overlay's."""

    def __init__(self, overlay: BoardOfCores, index: int, released: Callable[[], None] = lambda: None) -> None:
        """released: called when the core's kernel was closed."""
        self.connection_lost = False
        self._released = released
        self._overlay, self._index = overlay, index
        self._out = False

    @property
    def hardware(self) -> BoardHardware:
        return self._overlay.cores[self._index]

    @property
    def identification(self) -> int:
        return self._overlay.identification

    @property
    def minimum_seconds(self) -> float:
        return self._overlay.minimum_seconds

    @property
    def slowest_rate(self) -> float:
        return self._overlay.slowest_rate

    def explain(self, error: BaseException) -> list[str]:
        return self._overlay.explain(error)

    def stalled(self, error: BaseException) -> bool:
        return self._overlay.stalled(error)

    def lost(self, error: BaseException) -> bool:
        return self._overlay.lost(error)

    def check_loaded(self) -> None:
        """BoardError too if this core is out of service."""
        if self._out:
            raise BoardError(f"core {self._index} is out of service; load the overlay again")
        self._overlay.check_loaded()

    def recover(self, connection_lost: bool = False) -> str:
        """Stop the core's transfers; it is out of service from now on."""
        self._out = True
        self.connection_lost |= connection_lost
        if not connection_lost:
            self.hardware.reset()
        return f"core {self._index} is out of service until the overlay is loaded again"

    def release(self) -> None:
        """The kernel was closed; its buffers are free for the next one unless they may still be written to."""
        if not self._out:
            self.hardware.pool.reclaim()
        self._released()


class ProgramCores:
    """A program of its own on each of the first cores of an overlay; the overlay is released when all are closed."""

    def __init__(self, overlay: BoardOfCores, programs: Sequence[Program], name: str) -> None:
        """BoardError for more programs than cores."""
        if len(programs) > len(overlay.cores):
            raise BoardError(f"{len(programs)} programs need a core each, and the overlay has {len(overlay.cores)}")
        self._overlay, self._left = overlay, len(programs)
        self.devices = [
            StreamingDevice(program, BoardKernel(CoreBoard(overlay, index, self._one_released)), name)
            for index, program in enumerate(programs)
        ]

    def close(self) -> None:
        """Close all of them."""
        for device in self.devices:
            device.close()

    def _one_released(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._overlay.release()


class OverlayCores:
    """The cores of an overlay as a device of all of them opens and closes them."""

    def __init__(self, overlay: BoardOfCores, program: Program, name: str) -> None:
        self.count = len(overlay.cores)
        self._overlay, self._program, self._name = overlay, program, name
        self._boards: list[CoreBoard] = []

    def open(self, index: int) -> Device:
        """The program on one core, which gets its weights."""
        board = CoreBoard(self._overlay, index)
        self._boards.append(board)
        return StreamingDevice(self._program, BoardKernel(board), self._name)

    def restart(self) -> None:
        """Load the overlay again; BoardError if the board does not come back."""
        lost = any(board.connection_lost for board in self._boards)
        self._boards = []
        self._overlay.recover(lost)

    def release(self) -> None:
        """All cores were closed."""
        self._overlay.release()
