"""A virtual remote board: serves the protocol of PYNQ.remote, so that PYNQ's own client takes it for a board.

`python -m bfpga.board.virtual.remote_server --family zynqmp` is a board for programs of this machine or of others.
"""

from __future__ import annotations

import argparse
import importlib
import ipaddress
import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from bfpga.board.remote_token import TOKEN_VARIABLE
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.kernel_model import KernelFactory
from bfpga.board.virtual.pynq_internals import BOARD_NAMES, MACHINES, import_pynq
from bfpga.errors import DeviceError

#: Port that PYNQ's client uses unless it is given another.
PYNQ_PORT = 7967
_THREADS = 4
#: Random bytes of a token.
TOKEN_BYTES = 24
#: Seconds that calls under way may take to end when the server stops.
_STOP_SECONDS = 5.0


class RemoteBoardServer:
    """Serves one board from its creation to `stop`; a context manager.

    port: 0 for a free one; ``port`` says which. host: address to listen on. kernels: as for `virtual_device`. token:
    what clients must carry; without one whoever reaches the port may do all that the board can.
    DeviceError if PYNQ is too old or the port is taken.
    """

    def __init__(
        self,
        board: VirtualBoard,
        name: str | None = None,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        kernels: KernelFactory | None = None,
        token: str = "",
    ) -> None:
        self.board = board
        self.host = host
        self.token = token
        self._grpc, services = _services()
        self._checks = [services.TokenCheck(token)] if token else []
        family = board.family
        self._services = services.BoardServices(board, name or BOARD_NAMES[family], MACHINES[family], kernels)
        self._server: Any = None
        self._stopped: list[Any] = []
        self.port = port
        self.resume()

    def __enter__(self) -> RemoteBoardServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and give back the buffers of all clients."""
        self.drop_connections()
        self._services.buffers.close()

    def drop_connections(self) -> None:
        """Pull the network cable: the port closes and calls under way are aborted; the board keeps its state."""
        if self._server is not None:
            self._server.stop(grace=None).wait(_STOP_SECONDS)
            # gRPC 1.64 frees what its threads still use when a server that aborted calls goes while another one runs.
            self._stopped.append(self._server)
            self._server = None

    def resume(self) -> None:
        """Plug the network cable in again, on the same port."""
        if self._server is not None:
            return
        # A port belongs to one board: without this option a second server would silently share it.
        options = [("grpc.so_reuseport", 0)]
        server = self._grpc.server(ThreadPoolExecutor(_THREADS), options=options, interceptors=self._checks)
        self._services.register(server)
        try:
            port = server.add_insecure_port(f"{self.host}:{self.port}")
        except RuntimeError:
            port = 0
        if not port:
            raise DeviceError(f"cannot listen on {self.host}:{self.port}: the port is taken, or not allowed")
        server.start()
        self.port, self._server = port, server


def _services() -> tuple[Any, Any]:
    """gRPC and the services; DeviceError if the installed PYNQ does not have the protocol."""
    pynq = import_pynq()
    try:
        services = importlib.import_module("bfpga.board.virtual.remote_services")
        return importlib.import_module("grpc"), services
    except ImportError as error:
        raise DeviceError(
            f"a remote board needs PYNQ 3.1 or newer and gRPC; this is PYNQ {pynq.__version__} ({error}): "
            "pip install 'pynq>=3.1,<5'"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a board until the process is interrupted or terminated; 2 and one message for what a user can mend."""
    options = _parser().parse_args(arguments)
    stopped = threading.Event()
    try:
        board = VirtualBoard(options.family)
        token = "" if options.open else os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(TOKEN_BYTES)
        with RemoteBoardServer(board, options.name, options.port, host=options.host, token=token) as server:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stopped.set())
            if not is_loopback(server.host):
                print(f"warning: {exposure(server.host, token)}", file=sys.stderr, flush=True)
            print(f"virtual {options.family} board serves PYNQ.remote on {server.host}:{server.port}", flush=True)
            print(f"clients need {TOKEN_VARIABLE}={token}" if token else "clients need no token", flush=True)
            stopped.wait()
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def exposure(host: str, token: str) -> str:
    """What a user should know who serves other machines."""
    risk = "whoever reads the network sees the token" if token else "whoever reaches the port programs the board"
    return f"{host} is not this machine alone, and PYNQ.remote is not encrypted: {risk}; better is a tunnel, ssh -L"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bfpga.board.virtual.remote_server",
        description="A virtual board that serves PYNQ.remote. Reach it with bfpga's target `remote:HOST:PORT`, or with "
        "PYNQ's own RemoteDevice (--open). Clients need the token that is printed, or the one of $BFPGA_TOKEN.",
        epilog="example: python -m bfpga.board.virtual.remote_server --family zynqmp --port 7967",
    )
    parser.add_argument("--family", choices=sorted(MACHINES), default="zynqmp", help="processing system (zynqmp)")
    parser.add_argument("--name", help="board name that the client is given (Pynq-Z2 or ZCU104)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
    parser.add_argument(
        "--open", action="store_true", help="ask for no token: for programs with PYNQ's own client, which carries none"
    )
    parser.add_argument("--port", type=_port, default=PYNQ_PORT, help=f"port, 0 for a free one ({PYNQ_PORT})")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
