"""`bfpga overlay`: the files of an overlay without a build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator
from bfpga.formats.files import refuse_input


def overlay(
    accelerator: Annotated[
        str | None,
        typer.Argument(
            help="Name of a ready accelerator or a YAML file.", show_default=False, autocompletion=complete_accelerator
        ),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--output", "-o", help="Directory of overlays; each is a folder in it.", metavar="DIR")
    ] = Path("overlays"),
    every: Annotated[bool, typer.Option("--all", help="Every ready accelerator.")] = False,
    discard_bitstream: Annotated[
        bool, typer.Option("--discard-bitstream", help="Replace an overlay that was built.")
    ] = False,
) -> None:
    """Write the overlay of an accelerator: manifest and hardware handoff, for the virtual board.

    A real board needs a bitstream too, which `bfpga build` makes.

    \b
    Examples:
      bfpga overlay my_accelerator.yaml -o build/overlays
      bfpga overlay --all
    """
    from bfpga.accelerator.loader import accelerator_files, accelerator_names, load_accelerator
    from bfpga.vendor.manifest import MANIFEST_NAME
    from bfpga.vendor.overlay_files import write_overlay

    if every == (accelerator is not None):
        raise typer.BadParameter("give one accelerator, or --all")
    for described in [
        load_accelerator(name) for name in (accelerator_names() if accelerator is None else [accelerator])
    ]:
        target = directory / described.name
        refuse_input(target / MANIFEST_NAME, accelerator_files(described.path))
        manifest = write_overlay(described, target, discard_bitstream=discard_bitstream)
        output.say(f"overlay of {described.name} ({described.digest[:12]}) in {target}: {manifest.handoff.name}")
