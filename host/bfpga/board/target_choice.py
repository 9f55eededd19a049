"""Opens the target of a name: a virtual board in this process, this board, or a board reached by PYNQ.remote."""

from __future__ import annotations

from bfpga.board.errors import BoardError
from bfpga.board.local import LocalTarget, VirtualTarget
from bfpga.board.remote import RemoteTarget, remote_address
from bfpga.board.target import BoardTarget, Family, on_board

#: A virtual board whose kernel is the simulated Verilog.
VIRTUAL_RTL = "virtual:rtl"
#: How targets are named.
TARGETS = ("virtual", VIRTUAL_RTL, "virtual:remote", "board", "remote:HOST[:PORT]")


def open_target(name: str, family: Family) -> BoardTarget:
    """The target of a name, see ``TARGETS``; ``family``: of the overlay, which a virtual board takes on.

    BoardError for an unknown name and for a board that cannot be opened, each with what to do.
    """
    check_target_name(name)
    if name == "virtual":
        return VirtualTarget(family)
    if name == VIRTUAL_RTL:
        from bfpga.board.virtual.rtl_kernel import rtl_kernel

        return VirtualTarget(family, kernels=rtl_kernel, name=name)
    if name == "virtual:remote":
        return RemoteTarget.to_virtual_board(family)
    if name == "board":
        return LocalTarget(family)
    host, port = remote_address(name)
    return RemoteTarget(name, host, port)


def check_target_name(name: str) -> None:
    """Refuse the name of no target (``TARGETS``), and an address of no remote board; BoardError. Nothing is opened."""
    if name.startswith("remote:"):
        remote_address(name)
    elif name not in TARGETS:
        raise BoardError(f"target {name!r} is unknown; known are {', '.join(TARGETS)}")


def default_target() -> str:
    """`board` on a PYNQ board, else `virtual`."""
    return "board" if on_board() else "virtual"
