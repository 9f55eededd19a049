"""`bfpga.deploy`: an overlay, programs and the board-side package to a board over ssh, and the self-test there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bfpga.api.figures import silent
from bfpga.contract.program import Program
from bfpga.deploy.deployment import Options
from bfpga.deploy.request import Request, example_folder, perform, prepare, report
from bfpga.deploy.secure_shell import Address
from bfpga.errors import DeviceError
from bfpga.runtime import Compiled


def deploy(
    host: str,
    *programs: Compiled,
    overlay: str | None = None,
    directory: str = "/home/xilinx/bfpga",
    user: str = "xilinx",
    identity: str | Path | None = None,
    port: int | None = None,
    target: str = "board",
    repeat: int = 50,
    timeout: float = 900,
    test: bool = True,
    notebooks: bool = True,
    dry_run: bool = False,
    say: Callable[[str], None] = silent,
) -> dict[str, Any]:
    """Bring programs and their overlay to a board, verify them there and run the self-test; its report as plain data.

    programs: as such or by their files; none: LeNet, compiled now. overlay: by name or directory; None: that of the
    first program. identity: file of a private key. target: what is tested, `board` or `virtual`. timeout: seconds of
    the self-test. dry_run: connect to nothing. say: gets what is done and what the board prints.
    DeviceError for a board that cannot be reached, and for a self-test that fails.
    """
    with TemporaryDirectory() as scratch:
        request = Request(
            address=Address(host, user, port, None if identity is None else Path(identity)),
            options=Options(directory, test, target, repeat, timeout),
            overlay=overlay,
            programs=tuple(_file(program, Path(scratch)) for program in programs),
            examples=example_folder(),
            notebooks=notebooks,
        )
        bundle = prepare(request, say, dry_run)
        if dry_run:
            return report(request, bundle)
        content = perform(request, bundle, say, say)
    if not content["passed"]:
        raise DeviceError("the self-test failed; the version before is still in releases on the board")
    return content


def _file(program: Compiled, folder: Path) -> Path:
    """The file of a program, written if it has none."""
    if isinstance(program, Program):
        return program.save(folder / f"{program.name}.bfpga")
    return Path(program)
