"""What every place has where an overlay runs, and what their implementations share.

A virtual board in this process, this board, or a board reached by PYNQ.remote: all of them are a `pynq.Device`, and
everything above is the same for all. ``target_choice`` opens them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from bfpga.errors import DeviceError

Family = Literal["zynq7", "zynqmp"]

#: Shortest time limit of a start in seconds. A virtual board says by itself when nothing can move any more.
MINIMUM_SECONDS = 2.0
#: Linux' file that programs the logic.
FPGA_MANAGER = Path("/sys/class/fpga_manager/fpga0/firmware")

_BOARD_NAME = Path("/proc/device-tree/chosen/pynq_board")


class BoardTarget(Protocol):
    """A place where an overlay runs.

    name: as the user gives it. device: the `pynq.Device`. emulated: kernels run as software, so the bitstream is an
    emulation bitstream. interrupts: whether they can be awaited. minimum_seconds, slowest_rate: shortest
    time limit of a start, and bytes a second that its transfers reach at least.
    """

    name: str
    device: Any
    emulated: bool
    interrupts: bool
    minimum_seconds: float
    slowest_rate: float

    def explain(self, error: BaseException) -> list[str]:
        """A virtual board's explanation of a failure; nothing from a real one."""
        ...

    def stalled(self, error: BaseException) -> bool:
        """Whether a virtual board says that nothing can move any more."""
        ...

    def lost(self, error: BaseException) -> bool:
        """Whether an error means that the board cannot be reached any more."""
        ...

    def reconnect(self) -> None:
        """Make the device usable again after its connection was lost; BoardError if it cannot be reached."""
        ...

    def free(self, arrays: list[Any]) -> None:
        """Free buffers that could not be freed before: a DMA might have used them, or the connection was lost."""
        ...

    def close(self) -> None:
        """Release the device."""
        ...


def on_board() -> bool:
    """Whether this machine is a PYNQ board: its image says so, or names it in BOARD and has an FPGA manager."""
    return _BOARD_NAME.exists() or (bool(os.environ.get("BOARD")) and FPGA_MANAGER.exists())


def free_all(arrays: list[Any]) -> None:
    """Free buffers, as far as their board still has them."""
    for array in arrays:
        with suppress(Exception):  # freed by the board itself when it was started again
            array.freebuffer()


def first_line(error: BaseException) -> str:
    """The first line of an error, or its kind."""
    return (str(error) or type(error).__name__).splitlines()[0]


def describe_failure(error: BaseException) -> str:
    """An error of PYNQ or gRPC in one line."""
    if isinstance(error, DeviceError):
        return str(error)
    details = getattr(error, "details", None)
    text = details() if callable(details) else str(error)
    return f"{text or type(error).__name__}".strip()
