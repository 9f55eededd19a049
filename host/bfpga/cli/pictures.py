"""Pictures that commands write: PNG, PDF or SVG, completely or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bfpga.cli import output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")


def check_picture(path: Path | None) -> None:
    """Refuse a file that cannot be written or is no picture, before work is spent on it."""
    output.check_target(path)
    if path is not None and path.suffix.lower() not in SUFFIXES:
        wanted = ", ".join(SUFFIXES)
        raise OSError(errno.EINVAL, f"is no picture that can be written; its name must end with {wanted}", str(path))


def write_picture(path: Path, figure: Figure) -> None:
    """Write the figure in the format of the name's ending, and say so."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        figure.savefig(temporary, format=path.suffix[1:].lower())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    output.say(f"picture in {path}")
