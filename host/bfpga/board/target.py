"""Where an overlay runs: a virtual board in this process, this board, or a board behind PYNQ.remote.

All of them are a `pynq.Device`; everything above is the same for all.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from bfpga.board.errors import BoardError
from bfpga.errors import DeviceError

Family = Literal["zynq7", "zynqmp"]

#: How targets are named.
TARGETS = ("virtual", "virtual:remote", "board", "remote:HOST[:PORT]")
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
        """What a virtual board knows of a failure; nothing from a real one."""
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


def open_target(name: str, family: Family) -> BoardTarget:
    """The target of a name, see ``TARGETS``; ``family``: of the overlay, which a virtual board takes on.

    BoardError for an unknown name and for a board that cannot be opened, each with what to do.
    """
    from bfpga.board.local import LocalTarget, VirtualTarget
    from bfpga.board.remote import RemoteTarget, remote_address

    check_target_name(name)
    if name == "virtual":
        return VirtualTarget(family)
    if name == "virtual:remote":
        return RemoteTarget.to_virtual_board(family)
    if name == "board":
        return LocalTarget(family)
    host, port = remote_address(name)
    return RemoteTarget(name, host, port)


def check_target_name(name: str) -> None:
    """Refuse the name of no target (``TARGETS``), and an address of no remote board; BoardError. Nothing is opened."""
    from bfpga.board.remote import remote_address

    if name.startswith("remote:"):
        remote_address(name)
    elif name not in TARGETS:
        raise BoardError(f"target {name!r} is unknown; known are {', '.join(TARGETS)}")


def default_target() -> str:
    """`board` on a PYNQ board, else `virtual`."""
    return "board" if on_board() else "virtual"


def on_board() -> bool:
    """Whether this machine is a PYNQ board: its image says so, or names it in BOARD beside an FPGA manager."""
    return _BOARD_NAME.exists() or (bool(os.environ.get("BOARD")) and FPGA_MANAGER.exists())


def free_all(arrays: list[Any]) -> None:
    """Free buffers, as far as their board still knows them."""
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
