"""Boards reached by PYNQ.remote, through PYNQ's own client, which sets no time limits; here every call has one."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bfpga.board.errors import BoardError
from bfpga.board.remote_token import TOKEN_VARIABLE, TOKEN_WANTED, carrying, changed, interceptor
from bfpga.board.target import MINIMUM_SECONDS, Family, describe_failure, first_line, free_all

if TYPE_CHECKING:
    from bfpga.board.virtual.board import VirtualBoard

#: Seconds after which a call to a remote board is given up; programming and large buffers take longest.
REMOTE_SECONDS = 60.0
#: Seconds in which a remote board must accept a connection.
CONNECT_SECONDS = 5.0
#: Port of PYNQ.remote.
REMOTE_PORT = 7967
#: How the server of a virtual board begins the text of a wait without end.
_STALL = "BoardStall: "


def remote_address(name: str) -> tuple[str, int]:
    """Host and port of `remote:HOST[:PORT]`; BoardError if it is not of that form."""
    host, _, port = name.removeprefix("remote:").partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise BoardError(f"target {name!r} names no board; write remote:HOST or remote:HOST:PORT")
    return host, int(port) if port else REMOTE_PORT


class RemoteTarget:
    """A board reached by PYNQ.remote, through PYNQ's own client. Every call to it ends after ``REMOTE_SECONDS``."""

    emulated = False
    interrupts = False
    minimum_seconds = MINIMUM_SECONDS
    slowest_rate = 2e6

    def __init__(self, name: str, host: str, port: int, token: str | None = None) -> None:
        self.name = name
        self._token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
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
        from bfpga.board.virtual.board import VirtualBoard
        from bfpga.board.virtual.remote_server import RemoteBoardServer

        with ExitStack() as undo:
            token = secrets.token_urlsafe()
            server = undo.enter_context(RemoteBoardServer(board or VirtualBoard(family), token=token))
            target = cls("virtual:remote", server.host, server.port, token)
            target._release = undo.pop_all()
            target.server = server
        return target

    @property
    def board(self) -> Any:
        """The virtual board that the server of this process offers."""
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
        self.device = _connect(host, port, self._token)

    def free(self, arrays: list[Any]) -> None:
        for array in arrays:  # they know the board by the connection they were made with
            array.stub = self.device._stub["buffer"]
        free_all(arrays)

    def close(self) -> None:
        self._disconnect()
        self._release.close()

    def _disconnect(self) -> None:
        if self.device is not None:
            with suppress(Exception):  # the connection may be gone already
                self.device.client.channel.close()


def lost_connection(error: BaseException) -> bool:
    """Whether gRPC says that a call did not reach the board, was not answered in time or was not understood."""
    grpc = sys.modules.get("grpc")
    if grpc is None:
        return False
    closed = isinstance(error, ValueError) and "closed channel" in str(error)
    return closed or isinstance(error, grpc.RpcError)


def _connect(host: str, port: int, token: str) -> Any:
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
        with carrying(token, remote):
            device = remote.RemoteDevice(0, host, port)
    except Exception as error:
        if TOKEN_WANTED in str(error):
            raise BoardError(f"{host}:{port}: {TOKEN_WANTED}") from None
        raise BoardError(
            f"no board answers at {host}:{port} ({type(error).__name__}: {first_line(error)}); check the address, and "
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

    def limited(details: Any) -> Any:
        return changed(grpc, details, timeout=REMOTE_SECONDS if details.timeout is None else details.timeout)

    channel = grpc.intercept_channel(device.client.channel, interceptor(grpc, limited))
    device._stub.update({name: type(stub)(channel) for name, stub in device._stub.items()})


def _import_off_board() -> Any:
    from bfpga.board.virtual.pynq_internals import import_pynq

    return import_pynq()


def _is_virtual(device: Any) -> bool:
    """Whether a remote board is a virtual one: its kernel's version says so."""
    with suppress(Exception):  # a board that hides the file is a real one
        return b"(virtual board)" in device.read_file("/proc/version")
    return False
