"""Commands on a board through the system's OpenSSH client: its keys, its configuration, its known hosts."""

from __future__ import annotations

import codecs
import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO

from bfpga.errors import DeviceError, ToolError

#: Seconds until a host that does not answer is given up.
CONNECT_SECONDS = 10
#: What ssh ends with when the connection itself fails.
CONNECTION_FAILED = 255


@dataclass(frozen=True)
class Address:
    """Where a board is and who logs in. ``identity``: file of a private key; None for those ssh finds itself."""

    host: str
    user: str = "xilinx"
    port: int | None = None
    identity: Path | None = None

    def __post_init__(self) -> None:
        for what, value in (("host", self.host), ("user", self.user)):
            if not re.fullmatch(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*", value):
                raise DeviceError(f"{value!r} is no {what}; give a name or an address such as 192.168.2.99")
        if self.port is not None and not 0 < self.port < 65536:
            raise DeviceError(f"port {self.port} does not exist; ports are 1 to 65535")
        if self.identity is not None and not self.identity.is_file():
            raise DeviceError(f"{self.identity}: there is no such key file")

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"

    def by_hand(self, program: str) -> str:
        """How a user calls an OpenSSH program for this address."""
        return f"{program} {f'-p {self.port} ' if self.port is not None else ''}{self}"


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    status: int
    output: str
    errors: str


class SecureShell:
    """A connection to a board; a context manager.

    ``interactive``: ssh and sudo may ask on the terminal; one login then serves all commands. Otherwise nothing is ever
    asked: what would need an answer fails.
    """

    def __init__(self, address: Address, interactive: bool | None = None) -> None:
        if shutil.which("ssh") is None:
            raise ToolError("ssh was not found: install OpenSSH's client (Debian, Ubuntu: apt install openssh-client)")
        self.address = address
        self.interactive = sys.stdin.isatty() and sys.stderr.isatty() if interactive is None else interactive
        self._sockets: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> SecureShell:
        if self.interactive:
            self._log_in()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sockets is not None:
            command = self._command(["-O", "exit"])
            subprocess.run(command, capture_output=True, check=False, timeout=CONNECT_SECONDS)
            self._sockets.cleanup()
            self._sockets = None

    def _log_in(self) -> None:
        """Open the connection that later commands share, in the background: a password is asked once."""
        self._sockets = tempfile.TemporaryDirectory(prefix="bfpga-ssh-")
        with tempfile.TemporaryFile() as errors:
            # The background process keeps its standard error open: a pipe would never end.
            command = self._command(["-f", "-N", "-M"])
            result = subprocess.run(command, stdout=errors, stderr=errors, check=False, timeout=120)
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        if result.returncode:
            self._sockets.cleanup()
            self._sockets = None
            raise DeviceError(explain(self.address, text))

    def _command(self, options: Sequence[str], remote: str | None = None) -> list[str]:
        command = ["ssh", "-o", f"ConnectTimeout={CONNECT_SECONDS}", "-o", "ServerAliveInterval=15"]
        command += ["-o", "ServerAliveCountMax=4"]
        if not self.interactive:
            command += ["-o", "BatchMode=yes"]
        if self._sockets is not None:
            command += ["-o", f"ControlPath={self._sockets.name}/socket"]
        if self.address.port is not None:
            command += ["-p", str(self.address.port)]
        if self.address.identity is not None:
            command += ["-i", str(self.address.identity)]
        command += [*options, "-l", self.address.user, "--", self.address.host]
        return command if remote is None else [*command, remote]

    def run(self, command: str, content: bytes = b"", seconds: float = 60) -> Answer:
        """Run a command with ``content`` as its standard input.

        DeviceError if the connection fails or the command takes longer than ``seconds``; other ends are the caller's.
        """
        try:
            result = subprocess.run(
                self._command([], command), input=content, capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(f"{self.address} did not finish a command within {seconds:g} s") from None
        errors = result.stderr.decode(errors="replace")
        if result.returncode == CONNECTION_FAILED:
            raise DeviceError(explain(self.address, errors))
        return Answer(result.returncode, result.stdout.decode(errors="replace"), errors)

    def stream(self, command: str, show: Callable[[str], None], seconds: float) -> int:
        """Run a command and show what it prints while it runs; its exit status. DeviceError as in ``run``.

        With a terminal the command gets one too, so that sudo can ask for a password.
        """
        process = subprocess.Popen(
            # A terminal's end is worth no line; errors still are.
            self._command(["-tt", "-o", "LogLevel=ERROR"] if self.interactive else [], command),
            stdin=None if self.interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            assert process.stdout is not None
            text = _follow(process.stdout, show, monotonic() + seconds)
            status = process.wait(timeout=CONNECT_SECONDS)
        except (subprocess.TimeoutExpired, TimeoutError):
            raise DeviceError(f"{self.address} did not finish within {seconds:g} s; the board may hang") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if status == CONNECTION_FAILED:
            raise DeviceError(explain(self.address, text))
        return status


def _follow(stream: IO[bytes], show: Callable[[str], None], deadline: float) -> str:
    """Hand on what a pipe gives, prompts without a line end included; TimeoutError at the deadline. The last lines."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    last = ""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            left = deadline - monotonic()
            if left <= 0 or not selector.select(left):
                raise TimeoutError
            data = os.read(stream.fileno(), 1 << 16)
            text = decoder.decode(data, final=not data)
            if text:
                show(text)
                last = (last + text)[-4000:]
            if not data:
                return last


#: What ssh says, and what it means here.
REASONS = (
    (r"Could not resolve hostname",
     "the name is unknown in this network; try the board's address (192.168.2.99 on a direct cable, `pynq` in a "
     "network with name service)"),
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key has changed, as after writing a new SD card; if that is so, forget the old one: "
     "ssh-keygen -R {host}"),
    (r"Host key verification failed", "its host key is unknown; log in once by hand and confirm it: {ssh}"),
    (r"Permission denied",
     "it refused the login; copy your key there with `{ssh_copy_id}`, name a key with --identity, or run from "
     "a terminal to be asked for the password"),
    (r"Connection refused", "nothing listens on that port; the board may still boot, or has no ssh server running"),
    (r"timed out|No route to host|Network is unreachable|Host is down",
     "it does not answer; check power, cable and address"),
    (r"Connection (closed|reset)|Broken pipe|not responding|client_loop", "the connection was lost"),
)  # fmt: skip


def explain(address: Address, text: str) -> str:
    """One sentence about a connection that failed, followed by ssh's own words."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("@", "Warning:"))]
    said = lines[-1] if lines else "ssh gave no reason"
    for pattern, reason in REASONS:
        if re.search(pattern, text):
            calls = {"ssh": address.by_hand("ssh"), "ssh_copy_id": address.by_hand("ssh-copy-id")}
            return f"{address}: {reason.format(host=address.host, **calls)} ({said})"
    return f"{address}: ssh failed: {said}"
