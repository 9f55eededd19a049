"""`bfpga deploy`: an overlay, programs and the board-side package to a board over ssh, and the self-test there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.options import Json

#: Exit code after Ctrl-C, as shells give it.
INTERRUPTED = 130


def deploy(
    host: Annotated[str, typer.Argument(help="Name or address of the board.", show_default=False)],
    overlay: Annotated[
        str | None, typer.Option("--overlay", help="Overlay by name or directory; default: that of the first program.")
    ] = None,
    program: Annotated[
        list[Path] | None,
        typer.Option("--program", help="Program file of `bfpga compile`, repeatable; default: LeNet, compiled now."),
    ] = None,
    directory: Annotated[str, typer.Option(help="Where on the board.")] = "/home/xilinx/bfpga",
    user: Annotated[str, typer.Option(help="User on the board.")] = "xilinx",
    identity: Annotated[Path | None, typer.Option(help="File of a private key.", metavar="FILE")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the ssh server.", min=1, max=65535)] = None,
    target: Annotated[
        str, typer.Option(help="What is tested: `board`, or `virtual` on any machine that has pynq.")
    ] = "board",
    repeat: Annotated[int, typer.Option(min=1, max=100000, help="Runs that the self-test times.")] = 50,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds the self-test may take.")] = 900,
    test: Annotated[bool, typer.Option("--test/--no-test", help="Run the self-test.")] = True,
    notebooks: Annotated[bool, typer.Option("--notebooks/--no-notebooks", help="Bring the notebooks.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied; connect to nothing.")] = False,
    json: Json = None,
) -> None:
    """Bring an overlay and programs to a board, verify them there and run the self-test.

    The new version appears next to the old one and replaces it in one step. Passwords are asked for on a terminal only;
    without one a key is needed (ssh-copy-id). Exit code 1: the self-test failed; 2: the deployment did.

    \b
    Examples:
      bfpga deploy pynq --overlay pynq_z2_dense
      bfpga deploy 192.168.2.99 --program lenet.bfpga --json report.json
    """
    from bfpga.deploy.deployment import Options
    from bfpga.deploy.request import Request, describe, example_folder, perform, prepare, report
    from bfpga.deploy.secure_shell import Address

    output.check_target(json)
    request = Request(
        address=Address(host, user, port, identity),
        options=Options(directory, test, target, repeat, timeout),
        overlay=overlay,
        programs=tuple(program or ()),
        examples=example_folder(),
        notebooks=notebooks,
    )
    bundle = prepare(request, output.note, dry_run)
    if dry_run:
        for line in describe(request, bundle):
            output.say(line)
        output.write_json(json, report(request, bundle))
        return
    try:
        content = perform(request, bundle, output.say, show)
    except KeyboardInterrupt:
        output.note("bfpga deploy: interrupted; the version on the board is as it was, or the new one is complete")
        raise typer.Exit(INTERRUPTED) from None
    output.write_json(json, content)
    if not content["passed"]:
        output.note("bfpga deploy: the self-test failed; the version before is still in releases on the board")
        raise typer.Exit(1)


def show(text: str) -> None:
    """Pass on what the board prints."""
    sys.stdout.write(text)
    sys.stdout.flush()
