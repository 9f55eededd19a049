"""Where an overlay runs: a virtual board in this process, this board, or a board behind PYNQ.remote.

All of them are a `pynq.Device`; everything above this module is the same for all.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from bfpga.devices.board_errors import BoardError
from bfpga.errors import DeviceError

if TYPE_CHECKING:
    from bfpga.devices.virtual.board import VirtualBoard

Family = Literal["zynq7", "zynqmp"]

#: How targets are named.
TARGETS = ("virtual", "virtual:remote", "board", "remote:HOST[:PORT]")
#: Shortest time limit of a start in seconds. A virtual board says by itself when nothing can move any more.
MINIMUM_SECONDS = 2.0
#: Seconds after which a call to a remote board is given up; programming and large buffers take longest.
REMOTE_SECONDS = 60.0
#: Seconds in which a remote board must accept a connection.
CONNECT_SECONDS = 5.0
#: Port of PYNQ.remote.
REMOTE_PORT = 7967

#: How the server of a virtual board begins the text of a wait without end.
_STALL = "BoardStall: "
_BOARD_NAME = Path("/proc/device-tree/chosen/pynq_board")
_FPGA_MANAGER = Path("/sys/class/fpga_manager/fpga0/firmware")


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
    if name == "virtual":
        return VirtualTarget(family)
    if name == "virtual:remote":
        return RemoteTarget.to_virtual_board(family)
    if name == "board":
        return LocalTarget(family)
    if name.startswith("remote:"):
        host, port = remote_address(name)
        return RemoteTarget(name, host, port)
    raise BoardError(f"target {name!r} is unknown; known are {', '.join(TARGETS)}")


def default_target() -> str:
    """`board` on a PYNQ board, else `virtual`."""
    return "board" if on_board() else "virtual"


def on_board() -> bool:
    """Whether this machine is a PYNQ board: its image says so, or names it in BOARD beside an FPGA manager."""
    return _BOARD_NAME.exists() or (bool(os.environ.get("BOARD")) and _FPGA_MANAGER.exists())


def remote_address(name: str) -> tuple[str, int]:
    """Host and port of `remote:HOST[:PORT]`; BoardError if it is not of that form."""
    host, _, port = name.removeprefix("remote:").partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise BoardError(f"target {name!r} names no board; write remote:HOST or remote:HOST:PORT")
    return host, int(port) if port else REMOTE_PORT


class VirtualTarget:
    """A virtual board in this process; a new one unless given. ``board`` is open to tests, which inject faults."""

    emulated = True
    interrupts = True
    minimum_seconds = MINIMUM_SECONDS
    slowest_rate = 50e6

    def __init__(self, family: Family, board: VirtualBoard | None = None) -> None:
        from bfpga.devices.virtual.pynq_device import virtual_device

        self.name = "virtual"
        self.device: Any = virtual_device(family, board)
        self.board = self.device.board

    def explain(self, error: BaseException) -> list[str]:
        return list(self.board.explain())

    def stalled(self, error: BaseException) -> bool:
        from bfpga.devices.virtual.board import BoardStall

        return isinstance(error, BoardStall)

    def lost(self, error: BaseException) -> bool:
        return False

    def reconnect(self) -> None:
        """The board is in this process."""

    def free(self, arrays: list[Any]) -> None:
        _free_all(arrays)

    def close(self) -> None:
        self.device.close()


class LocalTarget:
    """The board this program runs on. BoardError says what is missing: board, root, XRT or PYNQ."""

    emulated = False
    interrupts = True
    minimum_seconds = MINIMUM_SECONDS
    slowest_rate = 50e6

    def __init__(self, family: Family) -> None:
        self.name = "board"
        if not _FPGA_MANAGER.exists() and not on_board():
            raise BoardError(
                "this machine is no PYNQ board; use the target remote:HOST for a board in the network, or virtual"
            )
        if os.geteuid() != 0:
            raise BoardError(
                "programming the logic needs root; start with `sudo -E` after `source /etc/profile.d/pynq_venv.sh`"
            )
        pynq = _import_on_board()
        self.device = self._active(pynq)
        _check_family(self.device, family)
        _forget_stale_metadata(pynq)

    @staticmethod
    def _active(pynq: Any) -> Any:
        try:
            return pynq.Device.active_device
        except RuntimeError as error:
            raise BoardError(
                f"PYNQ finds no device ({error}); its XRT environment is not set. "
                "Run `source /etc/profile.d/xrt_setup.sh` (it sets XILINX_XRT), then start with `sudo -E`"
            ) from None

    def explain(self, error: BaseException) -> list[str]:
        return []

    def stalled(self, error: BaseException) -> bool:
        return False

    def lost(self, error: BaseException) -> bool:
        return False

    def reconnect(self) -> None:
        """The board is this machine."""

    def free(self, arrays: list[Any]) -> None:
        _free_all(arrays)

    def close(self) -> None:
        """PYNQ keeps the device."""


class RemoteTarget:
    """A board behind PYNQ.remote, through PYNQ's own client. Every call to it ends after ``REMOTE_SECONDS``."""

    emulated = False
    interrupts = False
    minimum_seconds = MINIMUM_SECONDS
    slowest_rate = 2e6

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name = name
        self.server: Any = None
        self._address = host, port
        self._release = ExitStack()
        self.device: Any = None
        self.reconnect()
        # A virtual board's server says so; it takes emulation bitstreams.
        self.emulated = _is_virtual(self.device)

    @classmethod
    def to_virtual_board(cls, family: Family, board: VirtualBoard | None = None) -> RemoteTarget:
        """A server with a virtual board in this process, reached like a board in the network."""
        from bfpga.devices.virtual.board import VirtualBoard
        from bfpga.devices.virtual.remote_server import RemoteBoardServer

        with ExitStack() as undo:
            server = undo.enter_context(RemoteBoardServer(board or VirtualBoard(family)))
            target = cls("virtual:remote", server.host, server.port)
            target._release = undo.pop_all()
            target.server = server
        return target

    @property
    def board(self) -> Any:
        """The virtual board behind the server of this process."""
        return self.server.board

    def explain(self, error: BaseException) -> list[str]:
        if self.server is not None:
            return list(self.board.explain())
        return [describe_failure(error).removeprefix(_STALL)] if self.stalled(error) else []

    def stalled(self, error: BaseException) -> bool:
        return self.emulated and isinstance(error, Exception) and describe_failure(error).startswith(_STALL)

    def lost(self, error: BaseException) -> bool:
        return lost_connection(error)

    def reconnect(self) -> None:
        host, port = self._address
        self._disconnect()
        self.device = _connect(host, port)

    def free(self, arrays: list[Any]) -> None:
        for array in arrays:  # they know the board by the connection they were made with
            array.stub = self.device._stub["buffer"]
        _free_all(arrays)

    def close(self) -> None:
        self._disconnect()
        self._release.close()

    def _disconnect(self) -> None:
        if self.device is not None:
            with suppress(Exception):  # the connection may be gone already
                self.device.client.channel.close()


def lost_connection(error: BaseException) -> bool:
    """Whether gRPC says that the other side is gone or does not answer in time."""
    grpc = sys.modules.get("grpc")
    if grpc is None:
        return False
    if isinstance(error, ValueError) and "closed channel" in str(error):
        return True
    if not isinstance(error, grpc.RpcError):
        return False
    code = error.code() if callable(getattr(error, "code", None)) else None
    gone = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
    return code in gone


def _import_on_board() -> Any:
    """PYNQ with the environment as it is; BoardError if it is missing or does not load."""
    try:
        return import_module("pynq")
    except ImportError as error:
        raise BoardError(
            f"PYNQ does not load ({error}); on a board run `source /etc/profile.d/pynq_venv.sh`, then `sudo -E`"
        ) from None


def _import_off_board() -> Any:
    from bfpga.devices.virtual.pynq_internals import import_pynq

    return import_pynq()


def _connect(host: str, port: int) -> Any:
    """PYNQ's client of a remote board, as PYNQ's active device."""
    pynq = _import_off_board()
    try:
        remote = import_module("pynq.pl_server.remote_device")
    except ImportError as error:
        raise BoardError(
            f"PYNQ {pynq.__version__} has no remote device ({error}); remote boards need PYNQ 3.1 or newer and gRPC"
        ) from None
    try:
        # PYNQ's client says neither that a name is unknown nor that a port is closed.
        socket.create_connection((host, port), CONNECT_SECONDS).close()
        device = remote.RemoteDevice(0, host, port)
    except Exception as error:
        raise BoardError(
            f"no board answers at {host}:{port} ({type(error).__name__}: {_first_line(error)}); check the address, and "
            "that pynq-remote runs on the board"
        ) from error
    _limit_calls(device)
    pynq.Device.active_device = device
    return device


def _limit_calls(device: Any) -> None:
    """Give every call of PYNQ's client a time limit: it sets none, and a board that is gone would be awaited for ever.

    The client's stubs are made again on the same channel, with an interceptor of gRPC between.
    """
    grpc = import_module("grpc")

    class TimeLimit(
        grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc, name-defined]
        grpc.UnaryStreamClientInterceptor,  # type: ignore[misc, name-defined]
        grpc.StreamUnaryClientInterceptor,  # type: ignore[misc, name-defined]
    ):
        """Adds a time limit to calls without one."""

        def intercept_unary_unary(self, proceed: Callable[..., Any], details: Any, request: Any) -> Any:
            return proceed(_limited(grpc, details), request)

        def intercept_unary_stream(self, proceed: Callable[..., Any], details: Any, request: Any) -> Any:
            return proceed(_limited(grpc, details), request)

        def intercept_stream_unary(self, proceed: Callable[..., Any], details: Any, requests: Any) -> Any:
            return proceed(_limited(grpc, details), requests)

    channel = grpc.intercept_channel(device.client.channel, TimeLimit())
    device._stub.update({name: type(stub)(channel) for name, stub in device._stub.items()})


def _limited(grpc: Any, details: Any) -> Any:
    """Call details with a time limit."""

    class Details(grpc.ClientCallDetails):  # type: ignore[misc]
        """The details that gRPC gave, apart from the limit."""

        method = details.method
        timeout = REMOTE_SECONDS if details.timeout is None else details.timeout
        metadata = details.metadata
        credentials = details.credentials
        wait_for_ready = getattr(details, "wait_for_ready", None)
        compression = getattr(details, "compression", None)

    return Details()


def _is_virtual(device: Any) -> bool:
    """Whether a remote board is a virtual one: its kernel's version says so."""
    with suppress(Exception):  # a board that hides the file is a real one
        return b"(virtual board)" in device.read_file("/proc/version")
    return False


def _check_family(device: Any, family: Family) -> None:
    machines = {"zynq7": "armv7l", "zynqmp": "aarch64"}
    machine = getattr(device, "arch", None) or os.uname().machine
    if machine != machines[family]:
        raise BoardError(
            f"the overlay is for a {family} board ({machines[family]}); this one is {machine}. Load an overlay of an "
            "accelerator for this board"
        )


def _forget_stale_metadata(pynq: Any) -> None:
    """PYNQ 3.0 serves an older description of a file that was built again under its name."""
    if pynq.__version__.startswith("3.0"):
        with suppress(Exception):  # nothing was kept
            pynq.PL.reset()


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _free_all(arrays: list[Any]) -> None:
    for array in arrays:
        with suppress(Exception):  # freed by the board itself when it was started again
            array.freebuffer()


def describe_failure(error: BaseException) -> str:
    """An error of PYNQ or gRPC in one line."""
    if isinstance(error, DeviceError):
        return str(error)
    details = getattr(error, "details", None)
    text = details() if callable(details) else str(error)
    return f"{text or type(error).__name__}".strip()
