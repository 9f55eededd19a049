"""Pictures that commands write: PNG, PDF or SVG, completely or not at all."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import TYPE_CHECKING

from bfpga.cli import output
from bfpga.formats.files import replace_file

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
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:].lower())
    replace_file(path, picture.getvalue())
    output.say(f"picture in {path}")
